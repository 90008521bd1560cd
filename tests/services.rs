//! The services of `conf/services`: each is a router, in all directions, for IPv4 and IPv6, with its classification,
//! its routes and its order.

use engine::graph::Walker;
use router_tests::conf;
use router_tests::services::{
    Net, PORTS, ROUTER, SERVICES, Sent, Service, host4, host6, mac, own4, own6,
};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;
use testkit::{Build, arp_reply, arp_request, ip4, ip6, nd_solicit};
use wire::{Icmp, Icmp6, Ipv4, Ipv6};

const GUARANTEE: &str = "RATE 640kbps BURST 3000 PACKET 300 DELAY 50ms";
/// Packets of each flow.
const PACKETS: usize = 5;

/// Runs a test on all services and both walkers, and closes the books.
fn each(definitions: &[(&str, &str)], test: impl Fn(&mut Net)) {
    for service in &SERVICES {
        for walker in [Walker::Sweep, Walker::Strict] {
            let mut net = Net::new(service, definitions, walker);
            test(&mut net);
            net.router.check();
        }
    }
}

/// A packet of each IP version from the host at a port to the host at another.
fn across(from: usize, to: usize) -> [Build; 2] {
    let four = ip4().src(host4(from)).dst(host4(to));
    let six = ip6().src(host6(from)).dst(host6(to));
    [four, six].map(|packet| packet.tos(46 << 2).udp(1, 9).payload([7; 72]))
}

/// The only packet that was sent.
#[track_caller]
fn only(mut sent: Vec<Sent>, service: &Service) -> Sent {
    assert_eq!(sent.len(), 1, "{}: {sent:?}", service.name);
    sent.remove(0)
}

/// Type, code and source of the ICMP or ICMPv6 message that is the only answer to the host at port 0.
#[track_caller]
fn message(net: &Net, sent: Vec<Sent>) -> (u8, u8, IpAddr) {
    let sent = only(sent, net.service);
    assert_eq!((sent.port, sent.to, sent.label), (0, mac(0), None));
    assert_eq!(sent.state.is_some(), net.service.has_state());
    let packet = &sent.packet[..];
    if packet[0] >> 4 == 6 {
        let ip = Ipv6::new_checked(packet).expect("a sound header");
        assert_eq!(ip.dst(), host6(0));
        let icmp = Icmp6::new_checked(&packet[40..]).expect("a sound message");
        return (icmp.kind(), icmp.code(), ip.src().into());
    }
    let ip = Ipv4::new_checked(packet).expect("a sound header");
    assert!(ip.verify_checksum());
    assert_eq!(ip.dst(), host4(0));
    let icmp = Icmp::new_checked(ip.payload()).expect("a sound message");
    assert!(icmp.verify_checksum());
    (icmp.kind(), icmp.code(), ip.src().into())
}

#[test]
fn neighbours_are_answered_and_asked() {
    each(&[], |net| {
        for port in 0..PORTS {
            let asked = arp_request(mac(port), host4(port), own4(port));
            net.router.receive(port, [&asked[..]]);
            let solicited = nd_solicit(mac(port), host6(port), own6(port));
            net.router.receive(port, [&solicited[..]]);
            net.router.advance(Duration::from_millis(1));
            let sent = net.frames();
            assert_eq!(sent.len(), 2, "{}: {sent:?}", net.service.name);
            let reply = arp_reply(ROUTER, own4(port), mac(port), host4(port));
            assert!(sent.contains(&(port, reply)));
            let advert = &sent
                .iter()
                .find(|(_, f)| f[12..14] == [0x86, 0xdd])
                .expect("ND")
                .1;
            assert_eq!(advert[..6], mac(port).0);
            assert_eq!(
                (advert[54], &advert[62..78]),
                (136, &own6(port).octets()[..])
            );
        }
    });
    each(&[], |net| {
        for to in 0..PORTS {
            let from = (to + 1) % PORTS;
            for packet in across(from, to) {
                assert_eq!(net.send(from, &packet.bytes()).len(), 1);
            }
            let asked = arp_request(ROUTER, own4(to), host4(to));
            assert!(net.asked.contains(&(to, asked)), "{}", net.service.name);
            let solicits = |(port, frame): &(usize, Vec<u8>)| {
                *port == to
                    && frame[54..].first() == Some(&135)
                    && frame[62..78] == host6(to).octets()
            };
            assert!(
                net.asked
                    .iter()
                    .any(|asked| asked.1.len() > 78 && solicits(asked))
            );
        }
    });
}

#[test]
fn packets_go_between_all_ports_and_lose_one_hop() {
    each(&[], |net| {
        for (from, to) in [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)] {
            for packet in across(from, to) {
                let sent = only(net.send(from, &packet.bytes()), net.service);
                assert_eq!((sent.port, sent.to, sent.label), (to, mac(to), None));
                assert_eq!(sent.packet, packet.clone().ttl(63).bytes());
                assert_eq!(sent.state.is_some(), net.service.has_state());
                let Some(labels) = net.service.labels else {
                    continue;
                };
                let frame = net.service.frame(to, &packet.bytes(), 0);
                let sent = only(net.receive(from, &[frame]), net.service);
                assert_eq!((sent.port, sent.to), (to, mac(to)));
                // A swapped label counts the hop; a popped one hands its count and its class on.
                match labels[to].1 {
                    Some(label) => {
                        assert_eq!(sent.label, Some((label, 5, 63)));
                        assert_eq!(sent.packet, packet.bytes());
                    }
                    None => {
                        assert_eq!((sent.label, sent.packet), (None, packet.ttl(63).bytes()));
                    }
                }
            }
        }
    });
}

#[test]
fn routes_with_gateways_come_by_handler() {
    each(&[], |net| {
        let (rt4, rt6) = match net.service.labels {
            Some(_) => ("rt4", "rt6"),
            None => ("next", "next6"),
        };
        net.router
            .handler(&format!("{rt4}.add"), "198.51.100.0/24 10.1.0.1 1");
        net.router
            .handler(&format!("{rt6}.add"), "2001:db8::/32 fd00:1::1 1");
        for packet in [
            across(0, 1)[0].clone().dst("198.51.100.7"),
            across(0, 1)[1].clone().dst("2001:db8::7"),
        ] {
            let sent = only(net.send(0, &packet.bytes()), net.service);
            assert_eq!((sent.port, sent.to), (1, mac(1)));
            assert_eq!(sent.packet, packet.ttl(63).bytes());
        }
    });
}

#[test]
fn flows_are_classified_and_keep_their_deadlines_in_every_direction() {
    each(&[], |net| {
        let service = net.service;
        let flows: Vec<_> = (0..PORTS)
            .flat_map(|to| service.flows((to + PORTS - 1) % PORTS, to))
            .collect();
        for (table, flow) in &flows {
            let wants = if service.sorts() { GUARANTEE } else { "" };
            let answer = net
                .router
                .handler(&format!("{table}.add"), &format!("{flow} {wants}"));
            assert_eq!(answer.starts_with("reserved"), service.sorts(), "{answer}");
        }
        for to in 0..PORTS {
            let from = (to + PORTS - 1) % PORTS;
            let packets = across(from, to).map(|packet| packet.bytes());
            let both = packets.iter().cycle().take(2 * PACKETS);
            let mut frames: Vec<_> = both
                .map(|packet| service.frame(to, packet, 7_000_000))
                .collect();
            // Some have a priority tag (802.1Q, 6.9).
            let tagged = frames.iter_mut().take(PACKETS);
            tagged.for_each(|frame| _ = frame.splice(12..12, [0x81, 0, 0xe0, 0]));
            let sent = net.receive(from, &frames);
            assert_eq!(sent.len(), 2 * PACKETS, "{} {to}", service.name);
            for sent in &sent {
                assert_eq!((sent.port, sent.to), (to, mac(to)));
                if let Some(state) = sent.state {
                    // 3 ms and a hop, and what this router may take more, 1.15 ms.
                    assert_eq!(state.hop, 7_000_000);
                    assert!(state.lead > 0 && state.lead < 11_200_000, "{}", state.lead);
                }
            }
        }
        let packets = if service.name.starts_with("match") {
            PACKETS
        } else {
            2 * PACKETS
        };
        let tables: BTreeSet<_> = flows.iter().map(|(table, _)| table).collect();
        for table in tables {
            let shown = net.router.handler(&format!("{table}.flows"), "");
            assert!(shown.lines().count() > 0);
            for line in shown.lines() {
                assert!(
                    line.contains(&format!("packets {packets} ")),
                    "{}: {line}",
                    service.name
                );
            }
        }
    });
}

#[test]
fn packets_with_deadlines_overtake_others_only_where_packets_are_sorted() {
    for service in &SERVICES {
        // One packet of 114 bytes each 912 microseconds.
        let slow: &[_] = if service.sorts() {
            &[("LINK", "1Mbps")]
        } else {
            &[]
        };
        let mut net = Net::new(service, slow, Walker::Sweep);
        let flows = (0..PORTS).flat_map(|to| service.flows((to + PORTS - 1) % PORTS, to));
        for (table, flow) in flows {
            let wants = if service.sorts() {
                "RATE 64kbps BURST 1200 PACKET 300"
            } else {
                ""
            };
            net.router
                .handler(&format!("{table}.add"), &format!("{flow} {wants}"));
        }
        for to in 0..PORTS {
            let from = (to + PORTS - 1) % PORTS;
            // Neighbours are known, and the shapers have nothing saved up.
            for packet in across(from, to) {
                net.send(from, &packet.tos(0).udp(3, 3).bytes());
            }
            net.wait(Duration::from_millis(500));
            let other = across(from, to)[0].clone().tos(0).udp(2, 2).bytes();
            let flow = across(from, to)[0].bytes();
            // Labels keep no order with packets that have none.
            let other = if service.sorts() {
                service.ip_frame(&other, 0)
            } else {
                service.frame(to, &other, 0)
            };
            let mut frames = vec![other; 30];
            frames.push(service.frame(to, &flow, 7_000_000));
            let sent = net.receive(from, &frames);
            let sent = [sent, net.wait(Duration::from_millis(500))].concat();
            assert_eq!(sent.len(), 31, "{}", service.name);
            let place = sent.iter().position(|sent| sent.packet[22..24] == [0, 9]);
            let place = place.expect("the flow's packet");
            if service.sorts() {
                assert!(place < 15, "{} {to}: {place}", service.name);
            } else {
                assert_eq!(place, 30, "{} {to}", service.name);
            }
        }
        net.router.check();
    }
}

#[test]
fn a_packet_at_its_last_hop_gives_time_exceeded() {
    each(&[], |net| {
        let [four, six] = across(0, 1).map(|packet| packet.ttl(1).bytes());
        let sent = net.send(0, &four);
        assert_eq!(message(net, sent), (11, 0, own4(0).into()));
        let sent = net.send(0, &six);
        assert_eq!(message(net, sent), (3, 0, own6(0).into()));
        if net.service.labels.is_none() {
            return;
        }
        for (packet, expected) in [(four, (11, own4(0).into())), (six, (3, own6(0).into()))] {
            let mut frame = net.service.frame(1, &packet, 0);
            let ttl = frame.len() - packet.len() - 1;
            frame[ttl] = 1;
            let sent = net.receive(0, &[frame]);
            let (kind, code, from) = message(net, sent);
            assert_eq!(((kind, from), code), (expected, 0), "{}", net.service.name);
        }
    });
}

#[test]
fn a_packet_to_nowhere_gives_unreachable() {
    each(&[], |net| {
        let [four, six] = across(0, 1);
        let sent = net.send(0, &four.clone().dst("203.0.113.1").bytes());
        assert_eq!(message(net, sent), (3, 0, own4(0).into()));
        let sent = net.send(0, &six.clone().dst("2001:db8::1").bytes());
        assert_eq!(message(net, sent), (1, 0, own6(0).into()));
        // Hosts that do not answer.
        assert!(
            net.send(0, &four.clone().dst("10.1.0.77").bytes())
                .is_empty()
        );
        let sent = net.wait(Duration::from_secs(10));
        assert_eq!(message(net, sent), (3, 1, own4(0).into()));
        assert!(
            net.send(0, &six.clone().dst("fd00:1::77").bytes())
                .is_empty()
        );
        let sent = net.wait(Duration::from_secs(10));
        assert_eq!(message(net, sent), (1, 3, own6(0).into()));
        // The router itself has no such port.
        let sent = net.send(0, &four.dst(own4(1)).bytes());
        assert_eq!(message(net, sent).1, 3);
        let sent = net.send(0, &six.dst(own6(1)).bytes());
        assert_eq!(message(net, sent).1, 4);
    });
}

#[test]
fn a_packet_too_long_for_its_link_gives_the_mtu() {
    for service in &SERVICES {
        let mtu = if service.has_state() { "MTU" } else { "MTU1" };
        let mut net = Net::new(service, &[(mtu, "1280")], Walker::Sweep);
        let [four, six] = across(0, 1).map(|packet| packet.payload_len(1300));
        assert_eq!(net.send(0, &four.bytes()).len(), 2, "fragments");
        let sent = net.send(0, &four.df().bytes());
        let mtu = sent.first().map(|sent| sent.packet[26..28].to_vec());
        assert_eq!(message(&net, sent), (3, 4, own4(0).into()));
        assert_eq!(mtu, Some(1280_u16.to_be_bytes().to_vec()));
        let sent = net.send(0, &six.bytes());
        assert_eq!(message(&net, sent), (2, 0, own6(0).into()));
        net.router.check();
    }
}

#[test]
fn all_addresses_of_the_router_answer_pings() {
    each(&[], |net| {
        for port in 0..PORTS {
            let ping = ip4().src(host4(0)).dst(own4(port)).icmp_echo(7, 9);
            let sent = net.send(0, &ping.bytes());
            assert_eq!(message(net, sent), (0, 0, own4(port).into()));
            let ping = ip6().src(host6(0)).dst(own6(port)).icmp_echo(7, 9);
            let sent = net.send(0, &ping.bytes());
            assert_eq!(message(net, sent), (129, 0, own6(port).into()));
        }
    });
}

#[test]
fn frames_of_other_protocols_and_to_other_stations_are_dropped_by_name() {
    each(&[], |net| {
        let packet = across(0, 1)[0].bytes();
        let mut other = net.service.ip_frame(&packet, 0);
        other[5] = 9;
        let mut strange = net.service.ip_frame(&packet, 0);
        strange[12..14].copy_from_slice(&[0x88, 0xcc]);
        let unknown = net.service.labels.map(|_| {
            let mut frame = net.service.frame(1, &packet, 0);
            let label = frame.len() - packet.len() - 4;
            frame[label] = 0xff;
            frame
        });
        let frames: Vec<_> = [other, strange]
            .into_iter()
            .chain(unknown.clone())
            .collect();
        assert!(net.receive(0, &frames).is_empty(), "{}", net.service.name);
        let books = net.router.check();
        let drops = books.drops();
        let named = |name: &str| -> u64 {
            let of = drops.iter().filter(|(of, _)| of.ends_with(name));
            of.map(|(_, n)| n).sum()
        };
        let strange = named(" no_match") + books.ended_at("Discard");
        let found = (named(" other"), strange, named(" no_label"));
        let labels = u64::from(unknown.is_some());
        assert_eq!(found, (1, 1, labels), "{}: {drops:?}", net.service.name);
    });
}

#[test]
fn every_file_of_the_folder_is_tested() {
    let files = std::fs::read_dir(conf("services")).expect("it is part of the project");
    let names = files.map(|file| file.expect("a file").file_name());
    let there: BTreeSet<String> = names
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| name != "lib")
        .collect();
    let tested = SERVICES
        .iter()
        .map(|service| format!("{}.click", service.name));
    assert_eq!(there, tested.collect());
}
