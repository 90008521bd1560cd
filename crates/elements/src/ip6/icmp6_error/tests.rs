use super::super::testing::{a, both, checksum_holds, icmp6, ip6};
use engine::packet::anno::PacketType;
use engine::packet::{Batch, Packet};
use testkit::Bench;
use wire::Ipv6;

const HOST: &str = "2001:db8::1";
const FAR: &str = "2001:db8:9::9";

fn error(arguments: &str) -> String {
    format!("e :: ICMP6Error({arguments}, RATE 0) -> out :: Collect")
}

#[test]
fn every_type_and_code_is_written_with_a_right_checksum() {
    for (arguments, head) in [
        ("unreachable", [1, 0, 0]),
        ("unreachable, prohibited", [1, 1, 0]),
        ("unreachable, scope", [1, 2, 0]),
        ("unreachable, address", [1, 3, 0]),
        ("unreachable, port", [1, 4, 0]),
        ("unreachable, policy", [1, 5, 0]),
        ("1, 6", [1, 6, 0]),
        ("packettoobig, MTU 1280", [2, 0, 1280]),
        ("timeexceeded, transit", [3, 0, 0]),
        ("timeexceeded, reassembly", [3, 1, 0]),
        ("parameterproblem, field, POINTER 7", [4, 0, 7]),
        ("parameterproblem, nextheader, POINTER 6", [4, 1, 6]),
        ("paramprob, chain", [4, 3, 0]),
    ] {
        both(&error(&format!("2001:db8::ff, {arguments}")), |bench| {
            let packet = ip6(HOST, FAR, 17, 9, b"12345678");
            bench.push("e", &[&packet]);
            let out = bench.take_packets("out").remove(0);
            let answer = &out.bytes;
            let ip = Ipv6::new_checked(answer).unwrap();
            assert_eq!((ip.src(), ip.dst()), (a("2001:db8::ff"), a(HOST)));
            assert_eq!((ip.next_header(), ip.hop_limit()), (58, 64));
            assert_eq!(out.anno.dst6(), a(HOST).octets());
            assert!(checksum_holds(answer), "{arguments}");
            let rest = u32::from_be_bytes([answer[44], answer[45], answer[46], answer[47]]);
            assert_eq!([u32::from(answer[40]), u32::from(answer[41]), rest], head);
            assert_eq!(answer[48..], packet);
        });
    }
}

#[test]
fn the_answer_is_no_longer_than_1280_bytes() {
    both(&error("2001:db8::ff, timeexceeded"), |bench| {
        for len in [0, 1, 1191, 1192, 1193, 1400, 2000] {
            let packet = ip6(HOST, FAR, 17, 1, &vec![7; len]);
            bench.push("e", &[&packet]);
            let out = bench.take("out").remove(0);
            assert_eq!(out.len(), (48 + packet.len()).min(1280));
            assert!(checksum_holds(&out));
        }
    });
}

#[test]
fn no_error_is_sent_about_errors_and_redirects() {
    both(&error("2001:db8::ff, timeexceeded"), |bench| {
        for kind in [0, 1, 2, 3, 4, 127, 137] {
            bench.push("e", &[icmp6(HOST, FAR, &[kind, 0, 0, 0, 0, 0, 0, 0])]);
        }
        assert_eq!(bench.drops("e", "about_error"), 7);
        // After extension headers, without a type byte, and in a later fragment.
        let hidden = [60, 0, 1, 4, 0, 0, 0, 0, 58, 0, 1, 4, 0, 0, 0, 0, 1, 0, 0, 0];
        bench.push("e", &[ip6(HOST, FAR, 60, 1, &hidden)]);
        bench.push("e", &[ip6(HOST, FAR, 58, 1, b"")]);
        let later = [58, 0, 0, 8, 0, 0, 0, 1, 128, 0, 0, 0];
        bench.push("e", &[ip6(HOST, FAR, 44, 1, &later)]);
        assert_eq!(bench.drops("e", "about_error"), 10);
        for kind in [128, 129, 135, 143] {
            bench.push("e", &[icmp6(HOST, FAR, &[kind, 0, 0, 0, 0, 0, 0, 0])]);
        }
        assert_eq!(bench.take("out").len(), 4);
    });
}

#[test]
fn no_error_goes_to_what_is_not_one_host() {
    both(
        &error("2001:db8::ff, unreachable, BADADDRS 2001:db8::"),
        |bench| {
            for source in ["::", "::1", "ff02::1", "2001:db8::", "2001:db8::ff"] {
                bench.push("e", &[ip6(source, FAR, 17, 64, b"")]);
            }
            assert_eq!(bench.drops("e", "bad_source"), 5);
        },
    );
}

fn push_as(bench: &mut Bench, bytes: &[u8], kind: PacketType) {
    let mut packet = Packet::from_bytes(bytes).unwrap();
    packet.anno_mut().packet_type = kind;
    let mut batch = Batch::new();
    batch.push(packet);
    bench.push_packets("e", 0, batch);
}

#[test]
fn packets_to_groups_are_answered_by_packet_too_big_only() {
    let to_group = ip6(HOST, "ff0e::1", 17, 64, b"");
    let to_one = ip6(HOST, FAR, 17, 64, b"");
    for (arguments, answers) in [
        ("2001:db8::ff, unreachable", 0),
        ("2001:db8::ff, timeexceeded", 0),
        ("2001:db8::ff, parameterproblem", 0),
        ("2001:db8::ff, parameterproblem, option", 0),
        ("2001:db8::ff, packettoobig, MTU 1400", 3),
    ] {
        both(&error(arguments), |bench| {
            bench.push("e", &[&to_group]);
            push_as(bench, &to_one, PacketType::Multicast);
            push_as(bench, &to_one, PacketType::Broadcast);
            assert_eq!(bench.take("out").len(), answers, "{arguments}");
            assert_eq!(bench.drops("e", "multicast"), 3 - answers as u64);
        });
    }
}

#[test]
fn an_option_that_asks_for_it_is_answered_even_to_a_group() {
    let text = "h :: IP6HopByHop -> Discard; h[1] -> e :: ICMP6Error(2001:db8::ff,
        parameterproblem) -> out :: Collect";
    both(text, |bench| {
        let option = |kind| ip6(HOST, "ff0e::1", 0, 64, &[59, 0, kind, 4, 0, 0, 0, 0]);
        bench.push("h", &[option(0x9e)]);
        assert_eq!(bench.take("out")[0][40..42], [4, 2]);
        bench.push("h", &[option(0xde)]);
        assert!(bench.take("out").is_empty());
    });
}

#[test]
fn the_source_is_the_address_asked_or_one_of_the_sources_scope() {
    let text = error("2001:db8::ff fe80::ff 2001:db8:2::ff, unreachable, port");
    both(&text, |bench| {
        for (src, dst, expected, fix) in [
            (HOST, FAR, "2001:db8::ff", true),
            (HOST, "2001:db8:2::ff", "2001:db8:2::ff", false),
            (HOST, "fe80::ff", "fe80::ff", false),
            ("fe80::1", FAR, "fe80::ff", true),
        ] {
            bench.push("e", &[ip6(src, dst, 17, 64, b"")]);
            let out = bench.take_packets("out").remove(0);
            let source = Ipv6::new_checked(&out.bytes).unwrap().src();
            assert_eq!((source, out.anno.fix_ip_src()), (a(expected), fix));
        }
    });
}

#[test]
fn the_rate_is_limited_and_recovers() {
    let text = "e :: ICMP6Error(2001:db8::ff, unreachable, RATE 10, BURST 3) -> out :: Collect";
    both(text, |bench| {
        bench.push("e", &vec![ip6(HOST, FAR, 17, 64, b""); 10]);
        assert_eq!(bench.take("out").len(), 3);
        assert_eq!(bench.drops("e", "rate_limited"), 7);
        bench.advance(std::time::Duration::from_millis(100));
        bench.push("e", &vec![ip6(HOST, FAR, 17, 64, b""); 10]);
        assert_eq!(bench.take("out").len(), 1);
        assert_eq!(bench.read("e.count"), "4");
    });
}

#[test]
fn wrong_arguments_are_told() {
    for (arguments, said) in [
        ("2001:db8::1, timeexceeded, port", "CODE is of another TYPE"),
        ("2001:db8::1, packettoobig", "MTU must be 1280 or more"),
        (
            "2001:db8::1, packettoobig, MTU 1000",
            "MTU must be 1280 or more",
        ),
        ("2001:db8::1, 200", "number from 1 to 4"),
        ("10.0.0.1, unreachable", "not `10.0.0.1`"),
    ] {
        let text = format!("Idle -> ICMP6Error({arguments}) -> Discard");
        let errors = testkit::errors(crate::CLASSES, &text);
        assert!(errors.contains(said), "{errors}");
    }
}
