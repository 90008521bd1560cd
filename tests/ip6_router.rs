//! The IPv6 half of `conf/ip-router.click`: requirements of RFC 8200, 4443, 4861 and 4291 on a router.

use router_tests::{Links, Seen, dropped, on_both, strip};
use std::net::Ipv6Addr;
use std::time::Duration;
use testkit::{Build, ip6, nd_solicit};
use wire::{EtherAddr, Icmp6, Ipv6, Nd, addr, checksum, icmp6, nd, proto};

const HOST: &str = "fd00:1::2";
const FAR: &str = "fd00:2::2";
const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// A UDP packet from the host on port 0 to the one on port 1.
fn across() -> Build {
    let build = ip6().src(HOST).dst(FAR).udp(1000, 2000);
    build.payload_len(20)
}

fn ping(src: &str, dst: &str) -> Build {
    ip6()
        .src(src)
        .dst(dst)
        .icmp_echo(7, 1)
        .payload(b"are you there?")
}

/// An answer of the router: the port it left by, its header and its ICMPv6 message.
struct Answer {
    port: usize,
    src: String,
    dst: String,
    hops: u8,
    kind: u8,
    code: u8,
    rest: u32,
    quoted: Vec<u8>,
}

/// The only packet seen, an ICMPv6 message with a right checksum.
#[track_caller]
fn answer(seen: &[Seen]) -> Answer {
    assert_eq!(seen.len(), 1, "{seen:?}");
    let ip = Ipv6::new_checked(&seen[0].packet[..]).expect("a sound header");
    assert_eq!(ip.next_header(), proto::ICMP6);
    assert_eq!(ip.total_len(), seen[0].packet.len());
    assert!(checksum::is_valid(
        ip.pseudo(proto::ICMP6, ip.payload_len()) + checksum::sum(ip.payload())
    ));
    let icmp = Icmp6::new_checked(ip.payload()).expect("a sound message");
    Answer {
        port: seen[0].port,
        src: ip.src().to_string(),
        dst: ip.dst().to_string(),
        hops: ip.hop_limit(),
        kind: icmp.kind(),
        code: icmp.code(),
        rest: icmp.rest(),
        quoted: icmp.payload().to_vec(),
    }
}

/// The only packet seen, an error about `about` to the host on port 0: type, code, second word.
#[track_caller]
fn error(seen: &[Seen], about: &[u8]) -> (u8, u8, u32) {
    let answer = answer(seen);
    assert_eq!((answer.port, answer.dst.as_str()), (0, HOST));
    assert!(seen[0].packet.len() <= 1280);
    let len = answer.quoted.len();
    assert_eq!(answer.quoted[8..], about[8..len], "it quotes the packet");
    (answer.kind, answer.code, answer.rest)
}

#[test]
fn every_hop_limit_above_one_crosses_with_one_less_and_others_come_back() {
    on_both(&[], |links| {
        for hops in 0..=255 {
            let packet = across().ttl(hops).bytes();
            let seen = links.send(0, &packet);
            if hops > 1 {
                assert_eq!((seen.len(), seen[0].port), (1, 1));
                assert_eq!(seen[0].packet, across().ttl(hops - 1).bytes());
            } else {
                assert_eq!(error(&seen, &packet), (3, 0, 0));
                assert_eq!(answer(&seen).src, "fd00:1::1", "the near address");
            }
        }
    });
}

#[test]
fn a_packet_too_big_comes_back_with_the_next_links_mtu_and_is_never_cut() {
    on_both(&[("MTU1", "1400")], |links| {
        for (len, crosses) in [(1352, true), (1353, false), (1452, false)] {
            let packet = across().payload_len(len).bytes();
            let seen = links.send(0, &packet);
            if crosses {
                assert_eq!((seen[0].port, seen[0].packet.len()), (1, 1400));
            } else {
                assert_eq!(error(&seen, &packet), (2, 0, 1400));
            }
        }
        // In the other direction the link has a large MTU.
        let back = ip6().src(FAR).dst(HOST).udp(1, 2).payload_len(1452).bytes();
        assert_eq!(links.send(1, &back)[0].port, 0);
        // A packet to a group causes no error, except one that was too big.
        assert!(links.send(0, &across().dst("ff0e::1").bytes()).is_empty());
    });
}

#[test]
fn all_addresses_and_groups_of_the_router_answer_pings() {
    on_both(&[], |links| {
        for (src, dst, from) in [
            (HOST, "fd00:1::1", "fd00:1::1"),
            (HOST, "fd00:2::1", "fd00:2::1"),
            (HOST, "fd00:1::", "fd00:1::"),
            (HOST, "ff02::1", "fd00:1::1"),
            (HOST, "ff02::2", "fd00:1::1"),
            (HOST, "ff05::2", "fd00:1::1"),
            (HOST, "ff02::1:ff00:1", "fd00:1::1"),
            ("fe80::10", "fe80::1", "fe80::1"),
            ("fe80::10", "ff02::1", "fe80::1"),
            ("fe80::10", "fd00:1::1", "fd00:1::1"),
        ] {
            let seen = links.send(0, &ping(src, dst).bytes());
            assert_eq!(seen.len(), 1, "{src} {dst} {:?}", links.drops());
            let reply = answer(&seen);
            let said = (reply.port, reply.kind, reply.rest, reply.hops);
            assert_eq!(said, (0, 129, 0x7_0001, 64), "{src} {dst}");
            assert_eq!((reply.src.as_str(), reply.dst.as_str()), (from, src));
            assert_eq!(reply.quoted, b"are you there?");
        }
        // Also after extension headers.
        let hidden = ping(HOST, "fd00:1::1").dest_opts(&[1, 4, 0, 0, 0, 0]);
        assert_eq!(answer(&links.send(0, &hidden.bytes())).kind, 129);
    });
}

#[test]
fn long_pings_are_put_together_and_answered_in_pieces_that_pass_every_link() {
    on_both(&[], |links| {
        let request = ping(HOST, "fd00:2::1").payload_len(1700);
        let pieces = request.fragments(1280);
        assert!(pieces.len() > 1);
        let seen = links.send_all(0, &pieces);
        assert_eq!(seen.len(), 2);
        assert!(seen.iter().all(|s| s.packet.len() <= 1280));
        let lengths: usize = seen.iter().map(|s| s.packet.len() - 48).sum();
        assert_eq!(lengths, 1708);
        // A single fragment: after a minute the router reports the timeout.
        assert!(links.send(0, &pieces[0]).is_empty());
        let late = links.wait(Duration::from_secs(61));
        assert_eq!(error(&late, &pieces[0]), (3, 1, 0));
    });
}

#[test]
fn neighbours_that_look_for_the_router_are_told_and_learnt() {
    on_both(&[], |links| {
        let mac = EtherAddr([2, 0, 0, 0, 9, 9]);
        for (host, target) in [("fd00:1::9", "fd00:1::1"), ("fe80::99", "fe80::1")] {
            let seen = links.send_frames(0, &[nd_solicit(mac, host, target)]);
            let told = answer(&seen);
            assert_eq!((seen[0].to, told.port, told.hops), (mac, 0, 255));
            assert_eq!((told.kind, told.src.as_str()), (136, target));
            let nd = Nd::new_checked(&seen[0].packet[40..]).expect("sound options");
            assert_eq!(nd.flags(), nd::ROUTER | nd::SOLICITED | nd::OVERRIDE);
            assert_eq!(nd.target_ether(), Some(EtherAddr(ROUTER)));
        }
        // A packet to the sender then needs no neighbour solicitation.
        let to_it = ip6().src(FAR).dst("fd00:1::9").udp(1, 2);
        assert_eq!(links.send(1, &to_it.bytes())[0].to, mac);
        // An address of the other interface is not answered here.
        let wrong = nd_solicit(mac, "fd00:1::9", "fd00:2::1");
        assert!(links.send_frames(0, &[wrong]).is_empty());
        assert_eq!(dropped(links, "not_mine"), 1);
    });
}

#[test]
fn a_host_that_tests_its_address_hears_that_it_is_the_routers() {
    on_both(&[], |links| {
        let target: Ipv6Addr = "fe80::1".parse().expect("an address");
        let message = &nd::solicit(target, EtherAddr::ZERO)[..24];
        let question = ip6().src("::").dst(addr::solicited_node(target)).ttl(255);
        let question = question.icmp(135, 0, 0).payload(&message[icmp6::LEN..]);
        let seen = links.send(0, &question.bytes());
        let told = answer(&seen);
        assert_eq!((told.kind, told.dst.as_str()), (136, "ff02::1"));
        assert_eq!(seen[0].to, EtherAddr([0x33, 0x33, 0, 0, 0, 1]));
    });
}

#[test]
fn a_neighbour_that_does_not_answer_is_an_unreachable_address() {
    on_both(&[], |links| {
        let packet = across().dst("fd00:2::77").bytes();
        assert!(links.send(0, &packet).is_empty());
        let seen = links.wait(Duration::from_secs(5));
        assert_eq!(error(&seen, &packet), (1, 3, 0));
    });
}

#[test]
fn unroutable_packets_are_answered_and_link_local_gateways_work() {
    on_both(&[], |links| {
        let packet = across().dst("2001:db8::1").bytes();
        assert_eq!(error(&links.send(0, &packet), &packet), (1, 0, 0));
        links.handler("rt6.add", "2001:db8::/32 fe80::11 2");
        let seen = links.send(0, &packet);
        assert_eq!((seen[0].port, seen[0].to), (1, Links::mac(1)));
        links.handler("rt6.remove", "2001:db8::/32");
        assert_eq!(error(&links.send(0, &packet), &packet), (1, 0, 0));
    });
}

#[test]
fn scopes_are_kept() {
    on_both(&[], |links| {
        // From a link-local address to a destination off the link: the error's source is the link-local address.
        let beyond = ip6().src("fe80::10").dst(FAR).udp(1, 2).bytes();
        let said = answer(&links.send(0, &beyond));
        assert_eq!((said.port, said.kind, said.code), (0, 1, 2));
        assert_eq!(
            (said.src.as_str(), said.dst.as_str()),
            ("fe80::1", "fe80::10")
        );
        for (src, dst, name) in [
            (HOST, "fe80::11", "link_local"),
            (HOST, "ff02::99", "multicast"),
            (HOST, "ff0e::1", "multicast"),
            ("::", FAR, "bad_source"),
            ("::1", FAR, "bad_source"),
            ("ff02::1", FAR, "bad_source"),
            ("fd00:2::1", FAR, "bad_source"),
            (HOST, "::1", "bad_destination"),
            (HOST, "::", "bad_destination"),
        ] {
            let before = dropped(links, name);
            let packet = ip6().src(src).dst(dst).udp(1, 2).bytes();
            assert!(links.send(0, &packet).is_empty(), "{src} {dst}");
            assert_eq!(dropped(links, name), before + 1, "{src} {dst}");
        }
    });
}

#[test]
fn link_layer_multicast_is_not_forwarded() {
    on_both(&[], |links| {
        let frame = across().ether(Links::mac(0), "33:33:00:00:00:01").bytes();
        assert!(links.send_frames(0, &[frame]).is_empty());
        assert_eq!(dropped(links, "not_to_router"), 1);
    });
}

#[test]
fn options_on_the_way_are_examined_as_their_bits_say() {
    on_both(&[], |links| {
        let with = |kind: u8| across().hop_by_hop(&[kind, 4, 0, 0, 0, 0]).bytes();
        assert_eq!(
            links.send(0, &with(0x1e))[0].port,
            1,
            "unknown, to be skipped"
        );
        assert!(links.send(0, &with(0x5e)).is_empty(), "to be dropped");
        for kind in [0x9e, 0xde] {
            let packet = with(kind);
            assert_eq!(error(&links.send(0, &packet), &packet), (4, 2, 42));
        }
        // A router alert of another protocol is forwarded.
        let alert = across().hop_by_hop(&[5, 2, 0, 0, 1, 0]).bytes();
        assert_eq!(links.send(0, &alert)[0].port, 1);
        // Routing headers are ignored in packets that pass, but processed in packets to the router itself.
        let passing = across().routing(0, 1).bytes();
        assert_eq!(links.send(0, &passing)[0].port, 1);
        let to_us = across().dst("fd00:1::1").routing(0, 1).bytes();
        assert_eq!(error(&links.send(0, &to_us), &to_us), (4, 0, 42));
    });
}

#[test]
fn unsupported_protocols_are_reported_to_the_source() {
    on_both(&[], |links| {
        let udp = across().dst("fd00:1::1").bytes();
        assert_eq!(error(&links.send(0, &udp), &udp), (1, 4, 0));
        let tcp = ip6().src(HOST).dst("fd00:2::1").tcp(1, 2).bytes();
        assert_eq!(error(&links.send(0, &tcp), &tcp), (4, 1, 6));
    });
}

#[test]
fn errors_are_not_answered_with_errors() {
    on_both(&[], |links| {
        for (kind, code) in [(1, 0), (2, 0), (3, 0), (4, 1), (137, 0)] {
            let about = across().bytes();
            let late = ip6().src(HOST).dst(FAR).ttl(1).icmp(kind, code, 0);
            assert!(links.send(0, &late.payload(&about).bytes()).is_empty());
        }
        assert_eq!(dropped(links, "about_error"), 5);
    });
}

#[test]
fn a_host_is_told_of_its_neighbour_on_the_same_link() {
    on_both(&[], |links| {
        let mac = EtherAddr([2, 0, 0, 0, 9, 9]);
        let hello = nd_solicit(mac, "fd00:1::9", "fd00:1::1");
        links.send_frames(0, &[hello]);
        let packet = across().dst("fd00:1::9").bytes();
        let seen = links.send(0, &packet);
        let (forwarded, told): (Vec<Seen>, Vec<Seen>) = seen
            .into_iter()
            .partition(|s| s.packet[40] != icmp6::REDIRECT);
        assert_eq!((forwarded.len(), forwarded[0].to), (1, mac));
        let said = answer(&told);
        assert_eq!((said.src.as_str(), said.dst.as_str()), ("fe80::1", HOST));
        assert_eq!((said.hops, told[0].to), (255, Links::mac(0)));
        let message = &told[0].packet[40..];
        assert_eq!(
            message[8..24],
            message[24..40],
            "the target is the destination"
        );
        assert_eq!(message[40..48], [2, 1, 2, 0, 0, 0, 9, 9]);
    });
}

#[test]
fn fragments_cross_unchanged() {
    on_both(&[], |links| {
        let pieces = across().payload_len(1700).fragments(1280);
        let seen = links.send_all(0, &pieces);
        assert_eq!(seen.len(), pieces.len());
        for (seen, mut piece) in seen.into_iter().zip(pieces) {
            piece[7] -= 1;
            assert_eq!((seen.port, seen.packet), (1, piece));
        }
    });
}

#[test]
fn the_router_asks_for_neighbours_by_their_group_with_its_link_local_address() {
    on_both(&[], |links| {
        links.router.receive(
            0,
            [&across().ether(Links::mac(0), EtherAddr(ROUTER)).bytes()[..]],
        );
        links.router.settle();
        let question = links.router.sent(1).remove(0);
        assert_eq!(question[..6], [0x33, 0x33, 0xff, 0, 0, 2]);
        let packet = strip(&question);
        let ip = Ipv6::new_checked(&packet[..]).expect("a sound header");
        let asked: Ipv6Addr = FAR.parse().expect("an address");
        assert_eq!(ip.src().to_string(), "fe80::1");
        assert_eq!(
            (ip.dst(), ip.hop_limit()),
            (addr::solicited_node(asked), 255)
        );
        let nd = Nd::new_checked(ip.payload()).expect("a sound message");
        assert_eq!((nd.kind(), nd.target()), (135, Some(asked)));
        assert_eq!(nd.source_ether(), Some(EtherAddr(ROUTER)));
    });
}

#[test]
fn a_flood_of_destinations_leaves_the_router_at_work() {
    on_both(&[], |links| {
        for n in 0..20_000u32 {
            let dst = format!("fd00:2::{:x}:{:x}", n >> 8, n & 0xff | 0x100);
            links.router.receive(
                0,
                [&across()
                    .dst(dst)
                    .ether(Links::mac(0), EtherAddr(ROUTER))
                    .bytes()[..]],
            );
            if n % 500 == 0 {
                links.router.settle();
                links.router.sent(1);
            }
        }
        links.router.settle();
        links.router.sent(1);
        let held = links.router.books().held();
        assert!(held <= 2048, "{held}");
        // Solicitations for the flooding network are limited, those for others are not (one may share its slot).
        let goes_on = (1..5).any(|n| {
            let other = across().src(format!("2001:db8:{n}::77"));
            let seen = links.send(0, &other.clone().bytes());
            seen.iter()
                .any(|s| s.packet == other.clone().ttl(63).bytes())
        });
        assert!(goes_on);
    });
}
