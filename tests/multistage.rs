//! A balancer as a whole router: packets of both directions, and frames of any bytes on all its ports. Nothing
//! panics, no buffer is lost, and the packet accounts balance.

use control::balancer::generate;
use control::file;
use engine::graph::Walker;
use router_tests::{Feeder, Whole, conf, every_length, features};
use std::path::Path;
use std::time::Duration;
use testkit::{Rng, arp_reply, arp_request, ip4, recorded_inputs};
use wire::Ipv4;

/// Devices in the order of their names.
const LAN: usize = 0;
const WAN: usize = 1;
const BACK: usize = 2;

const R1: &str = "02:00:00:00:0b:01";
const R2: &str = "02:00:00:00:0b:02";
const HOST: &str = "02:00:00:00:0a:09";
const OUTSIDE: &str = "02:00:00:00:0a:19";

/// The Click text of conf/balancer.toml, with `more` in `[balancer]`; its boxes have the addresses above.
fn text(more: &str) -> String {
    let file = std::fs::read_to_string(conf("balancer.toml")).expect("it is there");
    let file = file.replace("02:00:00:00:00:0", "02:00:00:00:0b:0");
    let file = file.replace("[balancer]\n", &format!("[balancer]\n{more}"));
    let parsed = file::parse("balancer.toml", &file, Path::new("."));
    let of = parsed.balancer.as_ref();
    generate::text(of.unwrap_or_else(|| panic!("{}", parsed.text())))
}

/// An Ethernet address as text.
fn ether(bytes: &[u8]) -> String {
    let octets: Vec<String> = bytes.iter().map(|octet| format!("{octet:02x}")).collect();
    octets.join(":")
}

/// The router's address on the port `lan`, as given to a host.
fn lan_address(router: &mut Whole) -> String {
    give(router, LAN, arp_request(HOST, "10.0.1.9", "10.0.1.1"));
    ether(&sent(router, LAN)[0][6..12])
}

/// Frames sent by a device, without probes.
fn sent(router: &mut Whole, device: usize) -> Vec<Vec<u8>> {
    let mut frames = router.sent(device);
    frames.retain(|frame| {
        frame.get(36..38) != Some(&3785u16.to_be_bytes()[..]) || frame[12..14] != [8, 0]
    });
    frames
}

fn give(router: &mut Whole, device: usize, frame: Vec<u8>) {
    router.receive(device, [&*frame]);
    router.settle();
}

/// Returns the probes sent to a box, as routers do.
fn forward_probes(router: &mut Whole, of: &str) {
    for mut frame in router.sent(BACK) {
        if frame.get(36..38) == Some(&3785u16.to_be_bytes()[..]) && ether(&frame[..6]) == of {
            frame.copy_within(6..12, 0);
            Ipv4::new_unchecked(&mut frame[14..]).dec_ttl();
            router.receive(BACK, [&*frame]);
        }
    }
    router.settle();
}

#[test]
fn a_packet_goes_to_a_box_and_comes_out_by_the_port_of_its_next_hop() {
    for walker in [Walker::Sweep, Walker::Strict] {
        let mut router = Whole::new(&text(""), &[], walker);
        let front = lan_address(&mut router);
        let packet = ip4()
            .ether(HOST, &front)
            .src("10.0.1.9")
            .dst("10.0.2.9")
            .udp(5, 7)
            .bytes();
        give(&mut router, LAN, packet.clone());
        let left = sent(&mut router, BACK).remove(0);
        assert!(left[..5] == [2, 0, 0, 0, 0x0b] && left[6..] == packet[6..]);
        // The box asks for the next hop; the balancer asks outside, and passes the answer on.
        give(&mut router, BACK, arp_request(R1, "10.0.2.1", "10.0.2.9"));
        let asked = sent(&mut router, WAN).remove(0);
        assert_eq!(asked[28..32], [10, 0, 2, 1]);
        let own = ether(&asked[6..12]);
        give(
            &mut router,
            WAN,
            arp_reply(OUTSIDE, "10.0.2.9", own, "10.0.2.1"),
        );
        assert_eq!(
            sent(&mut router, BACK),
            [arp_reply(OUTSIDE, "10.0.2.9", R1, "10.0.2.1")]
        );
        let mut routed = ip4()
            .ether(R1, OUTSIDE)
            .src("10.0.1.9")
            .dst("10.0.2.9")
            .udp(5, 7)
            .bytes();
        give(&mut router, BACK, routed.clone());
        routed[6..12].copy_from_slice(&asked[6..12]);
        assert_eq!(sent(&mut router, WAN), [routed]);
        assert!(sent(&mut router, LAN).is_empty());
        router.check();
    }
}

/// A switch whose entry of a box has expired floods frames for it.
#[test]
fn a_frame_for_a_box_that_the_switch_floods_leaves_by_no_front_port() {
    let mut router = Whole::new(&text(""), &[], Walker::Sweep);
    let of = |ether| ip4().ether(OUTSIDE, ether).src("10.0.1.9").dst("10.0.2.9");
    give(&mut router, BACK, of(R2).udp(5, 7).bytes());
    for device in [LAN, WAN, BACK] {
        assert!(sent(&mut router, device).is_empty(), "{device}");
    }
    // Frames for an unknown station leave by all front ports.
    give(&mut router, BACK, of("02:00:00:00:0a:77").udp(5, 7).bytes());
    assert_eq!(
        (sent(&mut router, LAN).len(), sent(&mut router, WAN).len()),
        (1, 1)
    );
    router.check();
}

#[test]
fn a_box_that_does_not_forward_gets_no_packets() {
    let mut router = Whole::new(&text(""), &[], Walker::Sweep);
    let front = lan_address(&mut router);
    // Only probes of r2 are returned.
    for _ in 0..12 {
        router.advance(Duration::from_millis(10));
        forward_probes(&mut router, R2);
    }
    for n in 0..100u16 {
        let packet = ip4()
            .ether(HOST, &front)
            .src("10.0.1.9")
            .dst("10.0.2.9")
            .udp(n, 7)
            .bytes();
        give(&mut router, LAN, packet);
    }
    let left = sent(&mut router, BACK);
    assert_eq!(left.len(), 100);
    assert!(left.iter().all(|frame| frame[5] == 2), "r1 is down");
    let shown = router.handler("lb.journal", "");
    assert!(
        shown.contains("r1 down silent") && !shown.contains("r2 down"),
        "{shown}"
    );
    router.check();
}

/// Frames with the addresses of the router's ports and of stations that it knows.
fn addressed(frame: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if frame.len() >= 12 && frame[0] & 1 == 0 {
        let stations = [
            [2, 0, 0, 0, 0, 1],
            [2, 0, 0, 0, 0, 2],
            [2, 0, 0, 0, 0, 3],
            [2, 0, 0, 0, 0x0a, 9],
        ];
        let station: &[u8; 6] = rng.pick(&stations);
        frame[..6].copy_from_slice(station);
        if rng.one_in(3) {
            let boxes = [[2, 0, 0, 0, 0x0b, 1], [2, 0, 0, 0, 0x0b, 2]];
            let of: &[u8; 6] = rng.pick(&boxes);
            frame[6..12].copy_from_slice(of);
        }
    }
    frame
}

/// Feeds frames in all variants that `each` makes of one, and checks the packet accounts.
fn feed(frames: &[Vec<u8>], more: &str, mut each: impl FnMut(&[u8], &mut Feeder)) {
    for walker in [Walker::Sweep, Walker::Strict] {
        let mut rng = Rng::seed(21);
        let before = engine::packet::pool::balance();
        let mut feeder = Feeder::new(Whole::new(&text(more), &[], walker));
        frames
            .iter()
            .for_each(|frame| each(&addressed(frame, &mut rng), &mut feeder));
        feeder.finish(before, |router, _| {
            assert!(router.injected() > 0 && router.sent_so_far() > 0);
        });
    }
}

#[test]
fn frames_of_all_features_cut_at_every_length_leave_the_books_balanced() {
    let frames: Vec<Vec<u8>> = features()
        .into_iter()
        .flat_map(|(_, frames)| frames)
        .collect();
    for more in [
        "",
        "algorithm = \"round-robin\"\n",
        "key = \"flow\"\nhealth = \"arp\"\n",
    ] {
        feed(&frames, more, every_length);
    }
}

#[test]
fn shared_data_in_both_directions_are_all_accounted_for() {
    let captures = recorded_inputs::captures("pcap/features.tar.zst");
    let frames: Vec<Vec<u8>> = captures
        .into_iter()
        .flat_map(|(_, frames)| frames)
        .collect();
    feed(&frames, "", |frame, feeder| feeder.feed(frame));
}

#[test]
fn random_frames_are_all_accounted_for() {
    let mut rng = Rng::seed(22);
    let noise = (0..4_000).map(|_| {
        let n = rng.below(200);
        rng.bytes(n)
    });
    let frames: Vec<Vec<u8>> = noise.chain(testkit::traffic::mix(6, 10_000)).collect();
    feed(&frames, "", |frame, feeder| feeder.feed(frame));
}
