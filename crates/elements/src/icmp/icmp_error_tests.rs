use crate::ip4::tests::{edited, ip, make, with_options};
use engine::packet::anno::PacketType;
use engine::packet::{Batch, Packet};
use std::time::Duration;
use testkit::Bench;
use wire::ipv4::{DF, MF};
use wire::ipv4_options::{LSRR, RR, SSRR};
use wire::{Icmp, Ipv4, icmp, proto};

const HOST: [u8; 4] = [192, 0, 2, 1];
const PEER: [u8; 4] = [198, 51, 100, 7];

fn bench(configuration: &str) -> Bench {
    let text = format!(
        "p :: Paint(2) -> c :: CheckIPHeader -> e :: ICMPError({configuration}) -> out :: Collect"
    );
    Bench::new(crate::CLASSES, &text)
}

/// The message about a packet, checked as any host would.
fn message(configuration: &str, packet: &[u8]) -> Vec<u8> {
    let mut bench = bench(configuration);
    bench.push("p", &[packet]);
    assert_eq!(bench.all_drops(), []);
    let out = bench.take("out").remove(0);
    let ip = Ipv4::new_checked(&out).unwrap();
    assert!(ip.verify_checksum());
    assert_eq!((ip.protocol(), ip.total_len()), (proto::ICMP, out.len()));
    assert!(Icmp::new_checked(ip.payload()).unwrap().verify_checksum());
    out
}

/// The name under which a packet is dropped without a message.
fn refused(configuration: &str, packet: &[u8]) -> String {
    let mut bench = bench(configuration);
    bench.push("p", &[packet]);
    assert!(bench.take("out").is_empty());
    bench.all_drops().remove(0).1
}

#[test]
fn the_message_is_the_golden_one() {
    let packet = edited(ip(HOST, PEER, b"12345678"), |ip| ip.set_tos(0xb9));
    let mut out = message("10.0.0.1, timeexceeded", &packet);
    out[4..6].fill(0); // identification: random
    out[10..12].fill(0); // and so is the checksum over it
    let header = [
        0x45, 0xd8, 0, 56, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 1, 192, 0, 2, 1,
    ];
    assert_eq!(out[..20], header);
    assert_eq!((out[20], out[21], &out[24..28]), (11, 0, &[0; 4][..]));
    assert_eq!(out[28..], packet);
}

#[test]
fn annotations_are_those_of_a_new_packet() {
    let mut bench = bench("10.0.0.1, timeexceeded");
    bench.push("p", &[ip(HOST, PEER, b"")]);
    let anno = bench.take_packets("out").remove(0).anno;
    assert_eq!((anno.dst4(), anno.paint), (HOST, 0));
    assert!(anno.fix_ip_src());
    for keyword in ["USE_FIX_ANNO", "SET_FIX_ANNO"] {
        let mut bench = self::bench(&format!("10.0.0.1, timeexceeded, {keyword} false"));
        bench.push("p", &[ip(HOST, PEER, b"")]);
        assert!(!bench.take_packets("out")[0].anno.fix_ip_src());
    }
}

#[test]
fn as_much_of_the_packet_comes_back_as_fits_into_576_bytes() {
    for len in [0, 8, 507, 528, 529, 1400] {
        let packet = ip(HOST, PEER, &vec![7; len]);
        let out = message("10.0.0.1, unreachable, host", &packet);
        assert_eq!(out.len(), (28 + packet.len()).min(576));
        assert_eq!(out[28..], packet[..out.len() - 28]);
    }
    let out = message("10.0.0.1, unreachable, MTU 128", &ip(HOST, PEER, &[7; 400]));
    assert_eq!(out.len(), 128);
}

#[test]
fn types_and_codes_have_names() {
    for (named, kind, code) in [
        ("unreachable", 3, 0),
        ("unreachable, port", 3, 3),
        ("unreachable, srcroutefail", 3, 5),
        ("timeexceeded, reassembly", 11, 1),
        ("parameterproblem, length", 12, 2),
        ("redirect, host", 5, 1),
        ("sourcequench", 4, 0),
        ("3, 13", 3, 13),
    ] {
        let out = message(&format!("10.0.0.1, {named}"), &ip(HOST, PEER, b""));
        assert_eq!((out[20], out[21]), (kind, code), "{named}");
    }
    for (wrong, said) in [
        ("10.0.0.1, unreachible", "names are unreachable"),
        ("10.0.0.1, timeexceeded, port", "transit, reassembly"),
        ("10.0.0.1, unreachable, MTU 60", "MTU must lie between 128"),
        ("10.0.0.1", "required argument TYPE is missing"),
    ] {
        let text = format!("Idle -> ICMPError({wrong}) -> Discard");
        let errors = testkit::errors(crate::CLASSES, &text);
        assert!(errors.contains(said), "{errors}");
    }
}

#[test]
fn the_second_word_depends_on_the_type() {
    let packet = edited(ip(HOST, PEER, b""), |ip| ip.set_fragment_word(DF));
    let out = message("10.0.0.1, unreachable, needfrag, PMTU 1400", &packet);
    assert_eq!(out[24..28], [0, 0, 0x05, 0x78]);
    let text = "c :: CheckIPHeader -> SetIPAddress(192.0.2.254)
        -> ICMPError(10.0.0.1, redirect, host) -> out :: Collect";
    let mut redirect = Bench::new(crate::CLASSES, text);
    redirect.push("c", &[&packet]);
    assert_eq!(redirect.take("out")[0][24..28], [192, 0, 2, 254]);
    let text = "c :: CheckIPHeader -> g :: IPGWOptions(10.0.0.1) -> Discard;
        g[1] -> ICMPError(10.0.0.1, parameterproblem) -> out :: Collect";
    let mut problem = Bench::new(crate::CLASSES, text);
    problem.push("c", &[with_options(&[1, 1, RR, 3, 3, 0], b"")]);
    assert_eq!(problem.take("out")[0][24..28], [24, 0, 0, 0]);
}

#[test]
fn a_truncated_packet_is_quoted_as_far_as_it_is_there() {
    let text = "c :: CheckIPHeader -> Discard;
        c[2] -> ICMPError(10.0.0.1, parameterproblem) -> out :: Collect";
    let mut bench = Bench::new(crate::CLASSES, text);
    let packet = ip(HOST, PEER, b"12345678");
    bench.push("c", &[&packet[..25]]);
    let out = &bench.take("out")[0];
    assert_eq!(out[24..28], [2, 0, 0, 0], "the total length");
    assert_eq!(out[28..], packet[..25]);
}

#[test]
fn there_is_no_message_about_error_messages() {
    let icmp = |kind: u8| {
        edited(ip(HOST, PEER, &[kind, 0, 0, 0, 0, 0, 0, 0]), |ip| {
            ip.set_protocol(proto::ICMP);
        })
    };
    for kind in 0..=255 {
        if [3, 4, 5, 11, 12].contains(&kind) {
            assert_eq!(
                refused("10.0.0.1, timeexceeded", &icmp(kind)),
                "about_error"
            );
        } else {
            message("10.0.0.1, timeexceeded", &icmp(kind));
        }
    }
    let empty = edited(ip(HOST, PEER, &[]), |ip| ip.set_protocol(proto::ICMP));
    assert_eq!(refused("10.0.0.1, timeexceeded", &empty), "about_error");
}

#[test]
fn only_the_first_fragment_gets_a_message() {
    let fragment = |word| edited(ip(HOST, PEER, &[0; 8]), |ip| ip.set_fragment_word(word));
    message("10.0.0.1, timeexceeded", &fragment(MF));
    for word in [1, MF | 1, 0x1fff] {
        assert_eq!(
            refused("10.0.0.1, timeexceeded", &fragment(word)),
            "fragment"
        );
    }
}

#[test]
fn there_is_no_message_to_or_about_anything_but_a_host() {
    let configuration =
        "10.0.0.1, timeexceeded, INTERFACES 10.0.0.1/24 10.0.1.1/25, BADADDRS 9.9.9.9";
    for bad in [
        [0, 0, 0, 0],
        [0, 0, 0, 9],
        [127, 0, 0, 1],
        [224, 0, 0, 1],
        [239, 1, 1, 1],
        [240, 0, 0, 1],
        [255, 255, 255, 255],
        [10, 0, 0, 255],
        [10, 0, 1, 127],
        [9, 9, 9, 9],
    ] {
        assert_eq!(refused(configuration, &ip(bad, PEER, b"")), "bad_source");
    }
    for group in [
        [224, 0, 0, 1],
        [255, 255, 255, 255],
        [240, 0, 0, 1],
        [10, 0, 0, 255],
        [9, 9, 9, 9],
    ] {
        assert_eq!(refused(configuration, &ip(HOST, group, b"")), "group");
    }
    message(configuration, &ip(HOST, [10, 0, 1, 255], b""));
}

#[test]
fn no_error_answers_a_link_layer_multicast_frame() {
    for (packet_type, drops) in [
        (PacketType::Host, 0),
        (PacketType::Broadcast, 1),
        (PacketType::Multicast, 1),
    ] {
        let mut bench = bench("10.0.0.1, timeexceeded");
        let mut packet = Packet::from_bytes(&ip(HOST, PEER, b"")).unwrap();
        packet.anno_mut().packet_type = packet_type;
        bench.push_packets("p", 0, Batch::from_iter([packet]));
        assert_eq!(bench.drops("e", "link_group"), drops);
    }
}

#[test]
fn redirects_go_only_to_neighbours_of_the_better_router() {
    let outcome = |src, gateway: &str, options: &[u8]| {
        let text = format!(
            "c :: CheckIPHeader -> SetIPAddress({gateway})
             -> e :: ICMPError(10.0.0.1, redirect, host, INTERFACES 10.0.0.1/24 10.0.1.1/24)
             -> out :: Collect"
        );
        let mut bench = Bench::new(crate::CLASSES, &text);
        bench.push("c", &[make(src, PEER, options, b"")]);
        bench.all_drops().pop().map(|d| d.1)
    };
    let refused = Some("no_redirect".to_owned());
    assert_eq!(outcome([10, 0, 0, 9], "10.0.0.254", &[]), None);
    assert_eq!(outcome([10, 0, 1, 9], "10.0.0.254", &[]), refused);
    assert_eq!(outcome(HOST, "10.0.0.254", &[]), refused);
    for route in [LSRR, SSRR] {
        let options = [route, 7, 8, 1, 1, 1, 1];
        assert_eq!(outcome([10, 0, 0, 9], "10.0.0.254", &options), refused);
    }
}

#[test]
fn a_travelled_source_route_is_reversed() {
    let options = [LSRR, 11, 12, 1, 1, 1, 1, 3, 3, 3, 3];
    let packet = make(HOST, PEER, &options, b"data");
    let out = message("10.0.0.1, unreachable, host", &packet);
    let ip = Ipv4::new_checked(&out).unwrap();
    assert_eq!(ip.dst().octets(), [3, 3, 3, 3]);
    assert_eq!(ip.header_len(), 32);
    assert_eq!(out[20..31], [LSRR, 11, 4, 1, 1, 1, 1, 192, 0, 2, 1]);
    assert_eq!(Icmp::new_checked(ip.payload()).unwrap().payload(), packet);
    let longest = make(HOST, PEER, &options, &[0; 1000]);
    assert_eq!(message("10.0.0.1, unreachable, host", &longest).len(), 576);
}

#[test]
fn messages_are_limited_per_second_and_in_bursts() {
    let mut bench = bench("10.0.0.1, timeexceeded, RATE 10, BURST 5");
    let packets = vec![ip(HOST, PEER, b""); 8];
    bench.push("p", &packets);
    assert_eq!(bench.take("out").len(), 5);
    assert_eq!(bench.drops("e", "rate_limited"), 3);
    bench.advance(Duration::from_millis(200));
    bench.push("p", &packets);
    assert_eq!(bench.take("out").len(), 2);
    let mut unlimited = self::bench("10.0.0.1, timeexceeded, RATE 0");
    unlimited.push("p", &vec![ip(HOST, PEER, b""); 3000]);
    assert_eq!(unlimited.take("out").len(), 3000);
}

/// The expected values are Click's results for the same packets.
#[test]
fn clicks_driver_makes_messages_as_click_does() {
    let text = "c :: CheckIPHeader -> ICMPError(9.9.9.9, unreachable, host) -> out :: Collect";
    let mut bench = Bench::click(crate::CLASSES, text);
    let route = |pointer: u8| [LSRR, 11, pointer, 5, 5, 5, 5, 6, 6, 6, 6, 0];
    let source_routed = |pointer| make(HOST, PEER, &route(pointer), b"data");
    bench.push(
        "c",
        &[
            ip(HOST, PEER, b"data"),
            source_routed(4),
            source_routed(8),
            source_routed(12),
        ],
    );
    let headers = bench.take("out").into_iter().map(|message| {
        let ip = Ipv4::new_checked(&message).unwrap();
        assert_eq!((ip.ttl(), ip.tos(), ip.dst().octets()), (200, 0, HOST));
        (ip.ident(), ip.header()[20..].to_vec())
    });
    let expected = [
        (1, vec![]),
        (2, vec![LSRR, 3, 4, 0]),
        (3, vec![LSRR, 7, 4, 5, 5, 5, 5, 0]),
        (4, vec![LSRR, 11, 4, 6, 6, 6, 6, 5, 5, 5, 5, 0]),
    ];
    assert_eq!(headers.collect::<Vec<_>>(), expected);
}

#[test]
fn clicks_driver_limits_only_what_its_file_limits() {
    let text =
        "c :: CheckIPHeader -> t :: Tee -> ICMPError(10.0.0.1, timeexceeded) -> out :: Collect;
        t[1] -> l :: ICMPError(10.0.0.1, timeexceeded, RATE 1, BURST 2) -> out2 :: Collect";
    let mut bench = Bench::click(crate::CLASSES, text);
    for _ in 0..100 {
        bench.push("c", &[ip(HOST, PEER, b"data")]);
    }
    assert_eq!(
        (bench.take("out").len(), bench.take("out2").len()),
        (100, 2)
    );
}

#[test]
fn elements_without_their_own_limit_share_the_routers_limit() {
    let text = "p :: CheckIPHeader -> e :: ICMPError(10.0.0.1, timeexceeded) -> out :: Collect;
        q :: CheckIPHeader -> f :: ICMPError(10.0.0.1, unreachable) -> out;
        r :: CheckIP6Header -> g :: ICMP6Error(fd00::1, unreachable) -> out;
        s :: CheckIPHeader -> h :: ICMPError(10.0.0.1, unreachable, BURST 7) -> out";
    let mut bench = Bench::new(crate::CLASSES, text);
    let six = crate::ip6::testing::ip6("fd00::2", "fd00::3", 17, 64, &[0; 8]);
    bench.push("p", &vec![ip(HOST, PEER, b""); 30]);
    bench.push("q", &vec![ip(HOST, PEER, b""); 15]);
    bench.push("r", &vec![six; 15]);
    bench.push("s", &vec![ip(HOST, PEER, b""); 15]);
    let lost = ["e", "f", "g", "h"].map(|name| bench.drops(name, "rate_limited"));
    // The last five of the 50 are for all hosts; then a host with few errors has a share of the reserve.
    assert_eq!(lost, [0, 0, 0, 8]);
    assert_eq!(bench.read("g.rate"), "1000 50 router");
    assert_eq!(bench.read("h.rate"), "1000 7 own");
    bench.write("g.rate", "10 2");
    assert_eq!(bench.read("e.rate"), "10 2 router");
    assert_eq!(bench.read("h.rate"), "1000 7 own");
    bench.advance(Duration::from_secs(9));
    bench.push("q", &vec![ip(HOST, PEER, b""); 5]);
    assert_eq!(bench.drops("f", "rate_limited"), 2);
    assert!(bench.try_write("g.rate", "ten").is_err());
    // A reload neither fills the bucket nor resets the rate, not even for new elements.
    bench
        .reload(&format!(
            "{text}; t :: CheckIPHeader -> i :: ICMPError(10.0.0.1, unreachable) -> out"
        ))
        .unwrap();
    bench.push("t", &[ip(HOST, PEER, b"")]);
    assert_eq!(bench.drops("i", "rate_limited"), 1);
}

#[test]
fn a_host_that_makes_many_errors_keeps_no_errors_from_others() {
    let text = "p :: CheckIPHeader -> e :: ICMPError(10.0.0.1, timeexceeded) -> out :: Collect";
    let mut bench = Bench::new(crate::CLASSES, text);
    let (flood, other) = (ip(HOST, PEER, b""), ip(PEER, HOST, b""));
    let mut told = [0; 2];
    for tick in 0..100 {
        bench.push("p", &vec![flood.clone(); 100]);
        told[0] += bench.take("out").len();
        if tick % 10 == 0 {
            bench.push("p", std::slice::from_ref(&other));
            told[1] += bench.take("out").len();
        }
        bench.advance(Duration::from_millis(10));
    }
    assert_eq!(told[1], 10);
    assert!((1_000..=1_070).contains(&told[0]), "{told:?}");
}

#[test]
fn a_packet_without_headroom_is_moved() {
    let mut bench = bench("10.0.0.1, timeexceeded");
    let mut packet = Packet::from_bytes(&ip(HOST, PEER, b"data")).unwrap();
    assert!(packet.realign(3));
    bench.push_packets("p", 0, Batch::from_iter([packet]));
    let out = bench.take("out").remove(0);
    assert_eq!(out[28..], ip(HOST, PEER, b"data"));
    assert!(Ipv4::new_checked(&out).unwrap().verify_checksum());
    assert_eq!(icmp::TIME_EXCEEDED, out[20]);
}

#[test]
fn a_change_of_configuration_does_not_fill_the_bucket() {
    let configuration = "10.0.0.1, timeexceeded, RATE 1, BURST 2";
    let mut bench = bench(configuration);
    bench.push("p", &vec![ip(HOST, PEER, b""); 2]);
    assert_eq!(bench.take("out").len(), 2);
    let text = "p :: Paint(2) -> c :: CheckIPHeader
        -> e :: ICMPError(10.0.0.1, unreachable, RATE 1, BURST 2) -> out :: Collect";
    bench.reload(text).unwrap();
    bench.push("p", &[ip(HOST, PEER, b"")]);
    assert_eq!(bench.drops("e", "rate_limited"), 1);
}
