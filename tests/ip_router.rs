//! `conf/ip-router.click` as a whole: packets in, packets out, and every drop has a name.

use engine::graph::Walker;
use router_tests::{Links, Seen, dropped, on_both};
use std::collections::BTreeMap;
use std::time::Duration;
use testkit::{Build, ip4, ip6};
use wire::ipv4_options::{LSRR, RR, SSRR, TS};
use wire::{EtherAddr, Icmp, Icmp6, Ipv4, Ipv6, icmp6};

/// A UDP packet from the host on port 0 to the one on port 1.
fn across() -> Build {
    ip4()
        .src("10.0.1.2")
        .dst("10.0.2.2")
        .udp(1000, 2000)
        .payload_len(20)
}

fn across6() -> Build {
    ip6()
        .src("fd00:1::2")
        .dst("fd00:2::2")
        .udp(1000, 2000)
        .payload_len(20)
}

/// The ICMP message that is the only answer, sent back by port 0: type, code, second word, source.
#[track_caller]
fn error(seen: &[Seen], about: &[u8]) -> (u8, u8, u32, String) {
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!((seen[0].port, seen[0].to), (0, Links::mac(0)));
    let ip = Ipv4::new_checked(&seen[0].packet[..]).expect("a sound header");
    assert!(ip.verify_checksum());
    assert_eq!(ip.dst().to_string(), "10.0.1.2");
    assert_eq!(ip.tos() & 0xe0, 0xc0, "precedence 6");
    let icmp = Icmp::new_checked(ip.payload()).expect("a sound message");
    assert!(icmp.verify_checksum());
    let quoted = icmp.payload();
    assert_eq!(quoted[12..20], about[12..20], "it quotes the packet");
    (icmp.kind(), icmp.code(), icmp.rest(), ip.src().to_string())
}

#[track_caller]
fn error6(seen: &[Seen]) -> (u8, u8, u32, String) {
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!((seen[0].port, seen[0].to), (0, Links::mac(0)));
    let ip = Ipv6::new_checked(&seen[0].packet[..]).expect("a sound header");
    assert_eq!(ip.dst().to_string(), "fd00:1::2");
    let message = &seen[0].packet[40..];
    let icmp = Icmp6::new_checked(message).expect("a sound message");
    (icmp.kind(), icmp.code(), icmp.rest(), ip.src().to_string())
}

#[test]
fn packets_cross_both_ways_with_one_hop_less() {
    on_both(&[], |links| {
        let out = links.send(0, &across().bytes());
        assert_eq!(out.len(), 1);
        assert_eq!((out[0].port, out[0].to), (1, Links::mac(1)));
        assert_eq!(out[0].packet, across().ttl(63).bytes());
        let back = ip4().src("10.0.2.2").dst("10.0.1.2").tcp(80, 1000);
        let out = links.send(1, &back.clone().bytes());
        assert_eq!((out[0].port, &out[0].packet), (0, &back.ttl(63).bytes()));
        // Only the answers of the hosts that were looked for.
        let drops: u64 = links.drops().values().sum();
        assert_eq!(drops, dropped(links, "learned"));

        let out = links.send(0, &across6().bytes());
        assert_eq!(out.len(), 1);
        assert_eq!((out[0].port, out[0].to), (1, Links::mac(1)));
        assert_eq!(out[0].packet, across6().ttl(63).bytes());
    });
}

#[test]
fn padding_of_the_link_does_not_cross() {
    on_both(&[], |links| {
        let mut short = ip4().src("10.0.1.2").dst("10.0.2.2").udp(1, 2).bytes();
        let sound = short.len();
        short.resize(46, 0xee);
        assert_eq!(links.send(0, &short)[0].packet.len(), sound);
    });
}

#[test]
fn every_address_of_the_router_answers_pings_from_either_side() {
    on_both(&[], |links| {
        for target in ["10.0.1.1", "10.0.2.1"] {
            let ping = ip4().src("10.0.1.2").dst(target).icmp_echo(7, 9);
            let out = links.send(0, &ping.payload_len(100).bytes());
            assert_eq!((out.len(), out[0].port), (1, 0));
            let ip = Ipv4::new_checked(&out[0].packet[..]).unwrap();
            assert_eq!(ip.src().to_string(), target);
            let icmp = Icmp::new_checked(ip.payload()).unwrap();
            assert!(icmp.verify_checksum());
            assert_eq!((icmp.kind(), icmp.ident(), icmp.seq()), (0, 7, 9));
        }
        for (target, source) in [
            ("fd00:1::1", "fd00:1::2"),
            ("fe80::1", "fe80::10"),
            ("fe80::1", "fd00:1::2"),
        ] {
            let ping = ip6().src(source).dst(target).icmp_echo(7, 9);
            let out = links.send(0, &ping.bytes());
            assert_eq!((out.len(), out[0].port), (1, 0), "{target}: {out:?}");
            let ip = Ipv6::new_checked(&out[0].packet[..]).unwrap();
            assert_eq!(ip.dst().to_string(), source);
            assert_eq!(ip.src().to_string(), target);
            assert_eq!(out[0].packet[40], icmp6::ECHO_REPLY);
        }
    });
}

#[test]
fn fragmented_pings_are_put_together_and_answered_in_fragments() {
    on_both(&[("MTU0", "1280")], |links| {
        let ping = ip4().src("10.0.1.2").dst("10.0.2.1").icmp_echo(7, 9);
        let fragments = ping.payload_len(1700).ident(5).fragments(800);
        let out = links.send_all(0, &fragments);
        assert_eq!(out.len(), 2, "{out:?}");
        let mut payload = Vec::new();
        for Seen { packet, .. } in &out {
            let ip = Ipv4::new_checked(&packet[..]).unwrap();
            assert!(ip.verify_checksum() && packet.len() <= 1280);
            assert_eq!(ip.fragment_offset(), payload.len());
            payload.extend(ip.payload());
        }
        assert_eq!(payload.len(), 1708);
        assert!(Icmp::new_checked(&payload).unwrap().verify_checksum());
    });
}

#[test]
fn a_lost_fragment_is_reported_when_time_is_over() {
    on_both(&[], |links| {
        let ping = ip4().src("10.0.1.2").dst("10.0.1.1").icmp_echo(7, 9);
        let fragments = ping.payload_len(1000).ident(5).fragments(800);
        assert!(links.send(0, &fragments[0]).is_empty());
        assert_eq!(links.router.books().held(), 1);
        let late = links.wait(Duration::from_secs(61));
        assert_eq!(error(&late, &fragments[0]).0, 11);
        assert_eq!(error(&late, &fragments[0]).1, 1);
    });
}

#[test]
fn traceroute_names_the_router_by_its_near_address() {
    on_both(&[], |links| {
        for ttl in [0, 1] {
            let probe = across().ttl(ttl).bytes();
            let out = links.send(0, &probe);
            assert_eq!(error(&out, &probe), (11, 0, 0, "10.0.1.1".into()));
            let out = links.send(0, &across6().ttl(ttl).bytes());
            assert_eq!(error6(&out), (3, 0, 0, "fd00:1::1".into()));
        }
        let last = links.send(0, &across().ttl(2).bytes());
        assert_eq!(last[0].port, 1, "the host itself answers the last probe");
    });
}

#[test]
fn packets_that_nobody_takes_come_back_as_unreachable() {
    on_both(&[], |links| {
        let nowhere = across().dst("203.0.113.1").bytes();
        let out = links.send(0, &nowhere);
        assert_eq!(error(&out, &nowhere), (3, 0, 0, "10.0.1.1".into()));
        for (packet, code) in [
            (across().dst("10.0.2.1").bytes(), 3),
            (across().dst("10.0.1.1").tcp(1, 2).bytes(), 2),
            (across().dst("10.0.1.1").proto(99).bytes(), 2),
        ] {
            let out = links.send(0, &packet);
            assert_eq!(error(&out, &packet).1, code);
        }
        let out = links.send(0, &across6().dst("2001:db8::1").bytes());
        assert_eq!(error6(&out), (1, 0, 0, "fd00:1::1".into()));
        let out = links.send(0, &across6().dst("fd00:1::1").bytes());
        assert_eq!(error6(&out).1, 4, "port unreachable");
    });
}

#[test]
fn a_host_that_does_not_answer_is_unreachable() {
    on_both(&[], |links| {
        let lost = across().dst("10.0.2.77").bytes();
        assert!(links.send(0, &lost).is_empty());
        let out = links.wait(Duration::from_secs(10));
        assert_eq!(error(&out, &lost), (3, 1, 0, "10.0.1.1".into()));
        assert!(
            links
                .send(0, &across6().dst("fd00:2::77").bytes())
                .is_empty()
        );
        let out = links.wait(Duration::from_secs(10));
        assert_eq!(error6(&out), (1, 3, 0, "fd00:1::1".into()));
    });
}

#[test]
fn long_packets_are_cut_or_come_back_with_the_mtu() {
    on_both(&[("MTU1", "1280")], |links| {
        let long = across().payload_len(1400);
        let out = links.send(0, &long.clone().bytes());
        assert_eq!(out.len(), 2);
        assert!(out.iter().all(|s| s.port == 1 && s.packet.len() <= 1280));
        let stubborn = long.df().bytes();
        let out = links.send(0, &stubborn);
        assert_eq!(error(&out, &stubborn), (3, 4, 1280, "10.0.1.1".into()));
        let out = links.send(0, &across6().payload_len(1300).bytes());
        assert_eq!(error6(&out), (2, 0, 1280, "fd00:1::1".into()));
    });
}

#[test]
fn a_host_with_a_better_router_on_its_link_is_told() {
    on_both(&[], |links| {
        links.join4(0, [10, 0, 1, 9].into(), EtherAddr([2, 0, 0, 0, 9, 9]));
        links.handler("rt4.add", "203.0.113.0/24 10.0.1.9 1");
        let packet = across().dst("203.0.113.7").bytes();
        let out = links.send(0, &packet);
        let (told, sent): (Vec<_>, _) = out.into_iter().partition(|s| s.to == Links::mac(0));
        assert_eq!(
            error(&told, &packet),
            (5, 1, 0x0a00_0109, "10.0.1.1".into())
        );
        assert_eq!(sent.len(), 1, "and the packet goes on");
        // Its source is on another network: no redirect.
        let foreign = across().src("192.0.2.1").dst("203.0.113.7").bytes();
        let out = links.send(0, &foreign);
        assert_eq!(out.len(), 1);
        assert_eq!(dropped(links, "no_redirect"), 1);
    });
}

#[test]
fn routes_come_and_go_by_handler() {
    on_both(&[], |links| {
        let packet = across().dst("203.0.113.7").bytes();
        links.handler("rt4.add", "203.0.113.0/24 10.0.2.2 2");
        assert_eq!(links.send(0, &packet)[0].port, 1);
        links.handler("rt4.remove", "203.0.113.0/24");
        assert_eq!(links.send(0, &packet)[0].port, 0, "unreachable");
        let packet = across6().dst("2001:db8::7").bytes();
        links.handler("rt6.add", "2001:db8::/32 fd00:2::2 2");
        assert_eq!(links.send(0, &packet)[0].port, 1);
    });
}

#[test]
fn broadcasts_and_groups_are_not_forwarded_and_not_answered() {
    on_both(&[], |links| {
        for group in ["10.0.2.255", "10.0.2.0", "255.255.255.255", "224.0.0.9"] {
            for packet in [
                across().dst(group).bytes(),
                across().dst(group).icmp_echo(1, 1).bytes(),
                across().dst(group).ttl(1).bytes(),
            ] {
                assert!(links.send(0, &packet).is_empty(), "{group}");
            }
        }
        // A unicast packet in a broadcast frame.
        let to_all = [&[0xff; 6], &Links::mac(0).0[..], &[8, 0], &across().bytes()].concat();
        assert!(links.send_frames(0, &[to_all]).is_empty());
        let mut group6 = across6()
            .dst("ff0e::1")
            .ether(Links::mac(0), "33:33:00:00:00:01");
        assert!(links.send_frames(0, &[group6.bytes()]).is_empty());
        group6 = group6.ttl(1);
        assert!(links.send_frames(0, &[group6.bytes()]).is_empty());
    });
}

#[test]
fn martians_end_at_the_door() {
    on_both(&[], |links| {
        for source in [
            "0.0.0.0",
            "127.0.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "10.0.1.255",
        ] {
            assert!(links.send(0, &across().src(source).bytes()).is_empty());
        }
        assert_eq!(dropped(links, "bad_source"), 5);
        for destination in ["127.0.0.1", "0.0.0.0", "240.0.0.1"] {
            assert!(links.send(0, &across().dst(destination).bytes()).is_empty());
        }
        assert_eq!(dropped(links, "bad_destination"), 3);
    });
}

#[test]
fn errors_are_not_answered_with_errors() {
    on_both(&[], |links| {
        let error = across().icmp(11, 0, 0).ttl(1).payload(across().bytes());
        assert!(links.send(0, &error.bytes()).is_empty());
        let later = ip4()
            .src("10.0.1.2")
            .dst("10.0.2.2")
            .ttl(1)
            .fragment(800, true);
        assert!(links.send(0, &later.payload_len(8).bytes()).is_empty());
        let error6 = across6().icmp(3, 0, 0).ttl(1).payload(across6().bytes());
        assert!(links.send(0, &error6.bytes()).is_empty());
    });
}

#[test]
fn a_cut_packet_comes_back_with_a_pointer_to_its_length() {
    on_both(&[], |links| {
        let packet = across().bytes();
        let out = links.send(0, &packet[..packet.len() - 4]);
        let (kind, code, rest, _) = error(&out, &packet);
        assert_eq!((kind, code, rest), (12, 0, 2 << 24));
    });
}

#[test]
fn options_are_filled_in_on_the_way() {
    on_both(&[], |links| {
        let packet = across().options(&[RR, 7, 4, 0, 0, 0, 0]).bytes();
        let out = links.send(0, &packet);
        assert_eq!(out[0].packet[20..27], [RR, 7, 8, 10, 0, 2, 1]);
        let stamped = across().options(&[TS, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        let out = links.send(0, &stamped.bytes());
        assert_eq!(out[0].packet[20..28], [TS, 12, 13, 1, 10, 0, 2, 1]);
        let broken = across().options(&[RR, 40, 4]).bytes();
        let out = links.send(0, &broken);
        assert_eq!(error(&out, &broken).2, 21 << 24);
    });
}

#[test]
fn source_routes_lead_over_the_router() {
    on_both(&[("SOURCE_ROUTES", "true")], |links| {
        for kind in [LSRR, SSRR] {
            let packet = across()
                .dst("10.0.1.1")
                .options(&[kind, 7, 4, 10, 0, 2, 2])
                .bytes();
            let out = links.send(0, &packet);
            assert_eq!(out[0].port, 1);
            let ip = Ipv4::new_checked(&out[0].packet[..]).unwrap();
            assert!(ip.verify_checksum());
            assert_eq!(ip.dst().to_string(), "10.0.2.2");
            assert_eq!(out[0].packet[20..27], [kind, 7, 8, 10, 0, 2, 1]);
        }
        let strict = across()
            .dst("10.0.1.1")
            .options(&[SSRR, 7, 4, 192, 0, 2, 2])
            .bytes();
        let out = links.send(0, &strict);
        assert_eq!(error(&out, &strict).1, 5, "source route failed");
    });
    // Only if a setting enables it.
    on_both(&[], |links| {
        let through = across().options(&[LSRR, 7, 4, 10, 0, 9, 9]).bytes();
        let out = links.send(0, &through);
        assert_eq!(error(&out, &through).1, 5);
    });
}

#[test]
fn a_source_routed_ping_comes_back_the_way_it_came() {
    on_both(&[("SOURCE_ROUTES", "true")], |links| {
        let ping = ip4()
            .src("10.0.1.2")
            .dst("10.0.2.1")
            .options(&[LSRR, 7, 8, 10, 0, 1, 99])
            .icmp_echo(1, 2);
        links.join4(0, [10, 0, 1, 99].into(), EtherAddr([2, 0, 0, 0, 9, 9]));
        let out = links.send(0, &ping.bytes());
        let ip = Ipv4::new_checked(&out[0].packet[..]).unwrap();
        assert_eq!(ip.dst().to_string(), "10.0.1.99");
        assert_eq!(out[0].packet[20..27], [LSRR, 7, 4, 10, 0, 1, 2]);
    });
}

#[test]
fn fragments_cross_as_they_are() {
    on_both(&[], |links| {
        let fragments = across().payload_len(1200).ident(77).fragments(400);
        let expected = across().payload_len(1200).ident(77).ttl(63).fragments(400);
        let out = links.send_all(0, &fragments);
        let packets: Vec<_> = out.into_iter().map(|s| s.packet).collect();
        assert_eq!(packets, expected);
    });
}

#[test]
fn errors_are_limited_and_what_is_not_sent_is_counted() {
    on_both(&[], |links| {
        let packets = vec![across().ttl(1).bytes(); 200];
        let out = links.send_all(0, &packets);
        // 50 for all hosts, and of the 100 with the reserve an eighth for each host.
        assert_eq!(
            out.len(),
            50 + 12,
            "one burst, and the host's part of the reserve"
        );
        assert_eq!(dropped(links, "rate_limited"), 138);
    });
}

/// Follows the instructions in the file's own comment, as a newcomer would.
#[test]
fn a_third_interface_is_the_one_line_that_the_file_says() {
    let text = router_tests::router_text();
    let line = text
        .lines()
        .find_map(|line| Some(line.strip_prefix("//")?.trim()).filter(|l| l.contains("i2 :: ")))
        .expect("the file says how");
    let added = line.replace("eth2", "mem:2");
    assert_ne!(added, line);
    let mut links = Links::of(&format!("{text}{added}\n"), Walker::Sweep, &[]);
    // Attached networks of both families.
    links.send(0, &across().dst("10.0.3.9").bytes());
    let asked = links.router.sent(2);
    assert_eq!(asked[0][38..42], [10, 0, 3, 9], "who has 10.0.3.9?");
    links.send(0, &across6().dst("fd00:3::9").bytes());
    assert_eq!(links.router.sent(2).len(), 1);
    for (table, network) in [("rt4", "10.0.3.0/24"), ("rt6", "fd00:3::/64")] {
        let routes = links.handler(&format!("{table}.table"), "");
        let route = routes.lines().find(|line| line.starts_with(network));
        assert!(route.is_some_and(|line| line.ends_with('4')), "{routes}");
    }
    // The router answers for its new addresses, also to requests from other links.
    let answer = links.send(0, &across().dst("10.0.3.1").icmp_echo(1, 1).bytes());
    assert_eq!(answer.len(), 1, "a ping of the new address");
    assert_eq!(answer[0].packet[12..16], [10, 0, 3, 1]);
    let answer = links.send(0, &across6().dst("fd00:3::1").icmp_echo(1, 1).bytes());
    assert_eq!(answer.len(), 1, "the same of IPv6");
    // No host may use its addresses as source; the rest of the list applies there, too.
    assert!(links.send(0, &across().src("10.0.3.1").bytes()).is_empty());
    // A broadcast of the new network is not forwarded.
    assert!(
        links
            .send(0, &across().dst("10.0.3.255").bytes())
            .is_empty()
    );
    assert!(links.router.sent(2).is_empty());
}

/// Packets from a crowded link that leave by the router: by port, addresses and protocol, in order.
fn traffic(walker: Walker) -> BTreeMap<(usize, Vec<u8>), Vec<Vec<u8>>> {
    let definitions = [
        ("IP0", "10.0.255.254"),
        ("LEN0", "16"),
        ("IP6_0", "2001:db8:1::1:1"),
        ("LEN6_0", "48"),
        ("MTU1", "1300"),
        ("IP1", "192.168.2.1"),
    ];
    let mut links = Links::new(walker, &definitions);
    links.crowded = true;
    links.join4(1, [192, 168, 2, 2].into(), Links::mac(1));
    links.handler("rt4.add", "198.18.0.0/15 192.168.2.2 2");
    links.handler("rt6.add", "2001:db8:2::/48 fd00:2::2 2");
    let mut frames = testkit::traffic::mix(3, 4000);
    for frame in frames.iter_mut().filter(|f| f[0] & 1 == 0) {
        frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    }
    let mut flows = BTreeMap::<_, Vec<_>>::new();
    for burst in frames.chunks(64) {
        let mut seen = links.send_frames(0, burst);
        seen.extend(links.wait(Duration::from_millis(200)));
        for Seen { port, packet, .. } in seen {
            let flow = match packet[0] >> 4 {
                4 => [&packet[9..10], &packet[12..20]].concat(),
                _ => [&packet[6..7], &packet[8..40]].concat(),
            };
            flows.entry((port, flow)).or_default().push(plain(packet));
        }
    }
    links.router.books().check();
    // Errors of the router itself about several packets form no flow: their order is not guaranteed.
    for (_, packets) in flows.iter_mut().filter(|((port, _), _)| *port == 0) {
        packets.sort();
    }
    flows
}

/// A packet without the random parts of router-made packets: identification, and its checksum.
fn plain(mut packet: Vec<u8>) -> Vec<u8> {
    if packet[0] >> 4 == 4 && packet[12..16] == [10, 0, 255, 254] {
        packet[4..6].fill(0);
        packet[10..12].fill(0);
    }
    packet
}

#[test]
fn both_walkers_send_the_same_packets_of_every_flow() {
    let (sweep, strict) = (traffic(Walker::Sweep), traffic(Walker::Strict));
    let packets: usize = sweep.values().map(Vec::len).sum();
    assert!(packets > 3500, "only {packets} packets left");
    assert!(sweep.keys().any(|(port, _)| *port == 0), "errors come back");
    assert_eq!(sweep.len(), strict.len());
    for (flow, packets) in &sweep {
        assert!(strict.get(flow) == Some(packets), "they differ in {flow:?}");
    }
}
