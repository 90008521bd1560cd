//! Super-frames: carried whole where all classes on the path carry them, segmented before those that do not. The
//! frames on the wire are the same as after segmentation on arrival.

use engine::graph::Walker;
use engine::packet::super_frame::{Shape, TCP_CSUM};
use engine::packet::{Batch, Packet};
use router_tests::{Whole, router_text};
use testkit::{Build, ip4, ip6};
use wire::checksum;

const SEGMENT: u16 = 1000;

/// Packet from a host behind port 0 to one behind port 1.
fn across(version: u8) -> Build {
    match version {
        4 => ip4().src("10.0.1.2").dst("10.0.2.2"),
        _ => ip6().src("fd00:1::2").dst("fd00:2::2"),
    }
}

/// A super-frame to the router in the form of Linux: TCP's checksum covers only the pseudo-header.
fn super_frame(packet: Build, payload: usize) -> Vec<u8> {
    let packet = packet.tcp(1, 2).tcp_flags(0x10).payload_len(payload);
    let mut frame = packet
        .ether("02:00:00:00:09:09", "02:00:00:00:00:01")
        .bytes();
    let shape = Shape::of_frame(&frame, frame.len()).expect("it is plain TCP");
    let (head, tcp) = frame.split_at_mut(shape.transport);
    let addresses = if shape.v6 {
        &head[22..54]
    } else {
        &head[26..34]
    };
    let sum = checksum::fold(checksum::sum(addresses) + 6 + tcp.len() as u64);
    tcp[TCP_CSUM..TCP_CSUM + 2].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// A router whose ports carry super-frames, or do not.
fn router(text: &str, carry: bool) -> Whole {
    Whole::with_ports(text, &[], Walker::Sweep, |ports| {
        for name in ["eth0", "eth1"] {
            ports.far(name).carry_super_frames(carry);
        }
    })
}

/// The project's router, with known neighbours.
fn ip_router(carry: bool) -> Whole {
    let mut router = router(&router_text(), carry);
    for (path, value) in [
        ("i1/arp.insert", "10.0.2.2 02:00:00:00:01:01"),
        ("i1/nd6.insert", "fd00:2::2 02:00:00:00:01:01"),
    ] {
        router.handler(path, value);
    }
    router
}

fn send(router: &mut Whole, frame: &[u8], segment: u16) -> [Vec<Vec<u8>>; 2] {
    router.receive_super_frame(0, frame, segment);
    router.settle();
    [router.sent(0), router.sent(1)]
}

/// The segments that arrive when this super-frame is sent to a router without super-frames.
fn cut_on_arrival(text: &str, frame: &[u8], segment: u16) -> [Vec<Vec<u8>>; 2] {
    let mut router = router(text, false);
    send(&mut router, frame, segment)
}

#[test]
fn the_ip_router_carries_them_whole() {
    for version in [4, 6] {
        let mut router = ip_router(true);
        let came = super_frame(across(version), 5500);
        let [back, out] = send(&mut router, &came, SEGMENT);
        assert_eq!((back.len(), out.len()), (0, 1));
        let out = &out[0];
        assert_eq!(out.len(), came.len());
        assert_eq!(out[..6], [2, 0, 0, 0, 1, 1]);
        let (hops, rest) = if version == 4 { (22, 26) } else { (21, 22) };
        assert_eq!(out[hops], came[hops] - 1);
        assert_eq!(out[rest..], came[rest..], "behind it nothing changes");
        router.check();
    }
}

#[test]
fn port_without_super_frames_gets_segments() {
    for version in [4, 6] {
        let frame = super_frame(across(version), 5500);
        let mut whole = ip_router(true);
        whole.far(1).carry_super_frames(false);
        let mut cut = ip_router(false);
        let wanted = send(&mut cut, &frame, SEGMENT);
        assert_eq!(wanted[1].len(), 6);
        assert!(send(&mut whole, &frame, SEGMENT) == wanted);
    }
}

/// The router's messages about each segment are the same, whether it was segmented on arrival or before the element
/// that answers.
#[test]
fn messages_are_about_segments() {
    let cases = [
        ("TTL", across(4).ttl(1), SEGMENT, 8),
        ("hop limit", across(6).ttl(1), SEGMENT, 8),
        (
            "no route",
            ip4().src("10.0.1.2").dst("192.0.2.1"),
            SEGMENT,
            8,
        ),
        ("too long", across(4).df(), 1600, 5),
        ("too long", across(6), 1600, 5),
        ("fragments", across(4), 1600, 10),
        ("a redirect", across(4).dst("10.0.1.9"), SEGMENT, 16),
    ];
    for (what, packet, segment, frames) in cases {
        let frame = super_frame(packet, 8000);
        let (mut whole, mut cut) = (ip_router(true), ip_router(false));
        for router in [&mut whole, &mut cut] {
            router.handler("i0/arp.insert", "10.0.1.2 02:00:00:00:09:09");
            router.handler("i0/arp.insert", "10.0.1.9 02:00:00:00:09:0a");
            router.handler("i0/nd6.insert", "fd00:1::2 02:00:00:00:09:09");
        }
        // All frames are equal when none stays whole, though messages may come earlier.
        for port in [0, 1] {
            whole.far(port).carry_super_frames(false);
        }
        let [wanted, got] = [&mut cut, &mut whole].map(|router| {
            let mut sent = send(router, &frame, segment).concat();
            sent.sort();
            sent
        });
        assert_eq!(wanted.len(), frames, "{what}");
        assert!(got == wanted, "{what}");
        whole.check();
    }
}

#[test]
fn super_frames_wait_for_a_neighbour_as_segments() {
    for version in [4, 6] {
        let mut router = router(&router_text(), true);
        let frame = super_frame(across(version), 5500);
        let [_, asked] = send(&mut router, &frame, SEGMENT);
        assert_eq!(asked.len(), 1);
        router.check();
        let (path, address) = if version == 4 {
            ("i1/arp.insert", "10.0.2.2")
        } else {
            ("i1/nd6.insert", "fd00:2::2")
        };
        router.handler(path, &format!("{address} 02:00:00:00:01:01"));
        router.settle();
        let again = send(&mut router, &frame, SEGMENT)[1]
            .iter()
            .map(Vec::len)
            .collect::<Vec<_>>();
        assert_eq!(
            again.len(),
            7,
            "six segments that waited, and a super-frame"
        );
        assert_eq!(again[6], frame.len());
        router.check();
    }
}

#[test]
fn other_classes_get_segments() {
    let frame = super_frame(across(4), 5500);
    let ways = [
        ("Counter", 6),
        ("Counter -> Paint(1)", 6),
        ("Paint(1) -> Counter -> Strip(14) -> Unstrip(14)", 6),
        ("Strip(34) -> Unstrip(34)", 6),
        // By the length of the IP packet, which only the last segment has.
        ("c :: Classifier(16/021c)", 1),
        (
            "t :: Tee -> Paint(1) -> [0] r :: RoundRobinSwitch; t[1] -> Discard; r",
            6,
        ),
    ];
    for (way, frames) in ways {
        let text = format!(
            "FromDevice(eth0, PROMISC true) -> Null -> s :: PaintSwitch -> {way} -> ToDevice(eth1); s[1] -> \
                ToDevice(eth0);"
        );
        let mut router = router(&text, true);
        let wanted = cut_on_arrival(&text, &frame, SEGMENT);
        assert_eq!(wanted[1].len(), frames, "{way}");
        assert!(send(&mut router, &frame, SEGMENT) == wanted, "{way}");
        router.check();
    }
}

/// Elements that hold packets, and a port that does not take them at once, over a reload to one without super-frames.
#[test]
fn a_reload_leaves_no_super_frame_behind() {
    let carries = "FromDevice(eth0) -> Null -> out :: ToDevice(eth1);";
    let cuts = "FromDevice(eth0) -> Counter -> out :: ToDevice(eth1);";
    let mut router = router(carries, true);
    router.far(1).limit(8192, 0);
    let frame = super_frame(across(4), 5500);
    assert_eq!(send(&mut router, &frame, SEGMENT)[1].len(), 0);
    let mut router = router.reload(cuts, &[]);
    router.far(1).limit(8192, usize::MAX);
    router.advance(std::time::Duration::from_millis(1));
    assert_eq!(router.sent(1).len(), 6);
    assert_eq!(send(&mut router, &frame, SEGMENT)[1].len(), 6);
}

#[test]
fn unsegmentable_super_frame_is_dropped_by_name() {
    let text = "FromDevice(eth0) -> n :: Null -> s :: PaintSwitch -> c :: Counter -> Discard; s[1] -> ToDevice(eth1);";
    let mut router = router(text, true);
    let mut packet = Packet::from_bytes(&super_frame(across(4), 300)).expect("it fits");
    packet.anno_mut().tail = 200; // but no header is marked
    router.push("n", Batch::from(vec![packet]));
    let drops = router.check().drops();
    assert!(drops.contains(&("c no_segment".to_owned(), 1)), "{drops:?}");
    assert!(send(&mut router, &super_frame(across(4), 3000), SEGMENT)[1].is_empty());
    assert_eq!(router.handler("c.count", ""), "3");
    router.check();
}
