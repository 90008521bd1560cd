//! A core-stateless network: `conf/core-stateless-edge.click` alone, and two edges with a core router between them.

use engine::graph::Walker;
use router_tests::services::{ROUTER, SERVICES, Sent, Service, answer, host4, host6, mac};
use router_tests::{Whole, conf};
use std::time::Duration;
use testkit::{Build, ip4, ip6};
use wire::{Icmp, Icmp6, Ipv4, Ipv6, dps, ether};

const WALKERS: [Walker; 2] = [Walker::Sweep, Walker::Strict];
const GUARANTEE: &str = "RATE 640kbps BURST 3000 PACKET 300 HOPS 3 DELAY 50ms";
/// Ports of an edge.
const OUTSIDE: usize = 0;
const CORE: usize = 1;

fn edge(definitions: &[(&str, &str)], walker: Walker) -> Whole {
    let file = conf("core-stateless-edge.click");
    let text = std::fs::read_to_string(&file).expect("it is part of the project");
    let devices = [("OUTSIDE", "port0"), ("CORE", "port1")];
    Whole::of_file(&file, &text, &[&devices, definitions].concat(), walker)
}

/// An IPv4 and an IPv6 packet from host 0 to host 1.
fn across() -> [Build; 2] {
    let four = ip4().src(host4(0)).dst(host4(1));
    [four, ip6().src(host6(0)).dst(host6(1))].map(|packet| packet.udp(1, 9).payload([7; 72]))
}

#[test]
fn edge_writes_and_removes_states_and_trusts_no_host() {
    for walker in WALKERS {
        let mut router = edge(&[], walker);
        router.handler("core/arp.insert", &format!("10.8.0.254 {}", mac(8)));
        router.handler("outside/arp.insert", &format!("{} {}", host4(0), mac(0)));
        let granted = router.handler(
            "flows.add",
            &format!("10.0.0.1 1 10.1.0.1 9 udp {GUARANTEE}"),
        );
        assert!(granted.starts_with("reserved"));
        let framed = |kind: u16, state: Option<dps::State>, packet: Build| {
            let mut bytes = [0; dps::LEN];
            if let Some(state) = state {
                state.write(&mut bytes);
            }
            let header = ether::header(ROUTER, mac(0), kind);
            let state = if state.is_some() { &bytes[..] } else { &[] };
            [&header[..], state, &packet.bytes()].concat()
        };
        let forged = dps::State {
            payload: 0x0800,
            hop: 7_000_000,
            lead: 3_000_000,
        };
        let [packet, _] = across();
        // The flow that was set up, another one, and one that says it was.
        let mut from_outside = [
            framed(0x0800, None, packet.clone()),
            framed(0x0800, None, packet.clone().dst("10.2.0.1")),
            framed(0x88b5, Some(forged), packet.clone()),
        ];
        // A priority tag changes nothing.
        from_outside
            .iter_mut()
            .for_each(|frame| _ = frame.splice(12..12, [0x81, 0, 0x60, 0]));
        router.receive(OUTSIDE, from_outside.iter().map(Vec::as_slice));
        let back = ip4().src(host4(1)).dst(host4(0)).udp(9, 1).payload([7; 72]);
        router.receive(CORE, [&framed(0x88b5, Some(forged), back.clone())[..]]);
        router.settle();
        router.advance(Duration::from_millis(20));
        let inwards = router.sent(CORE);
        let inwards: Vec<_> = inwards.iter().map(|frame| Sent::of(CORE, frame)).collect();
        assert_eq!(inwards.len(), 2);
        let states: Vec<_> = inwards
            .iter()
            .map(|sent| sent.state.expect("a state"))
            .collect();
        // The first one has 300 bytes at the rate that was reserved for each hop.
        assert!(states[0].hop > 0 && states[0].lead > 0);
        assert_eq!((states[1].hop, states[1].lead), (0, 0));
        assert_eq!(inwards[0].packet, packet.ttl(63).bytes());
        assert_eq!(router.handler("forged.count", ""), "1");
        let outwards = router.sent(OUTSIDE);
        assert_eq!(outwards.len(), 1);
        let sent = Sent::of(OUTSIDE, &outwards[0]);
        assert_eq!((sent.to, sent.state), (mac(0), None));
        assert_eq!(sent.packet, back.ttl(63).bytes());
        router.check();
    }
}

/// A host, an edge, a core router, an edge and a host.
struct Chain {
    /// Edge, core, edge.
    routers: [Whole; 3],
    /// Frames that have passed the link from the first edge to the core.
    on_core_link: Vec<Vec<u8>>,
}

/// Definitions of the second edge.
const FAR: &[(&str, &str)] = &[
    ("IP_OUTSIDE", "10.1.0.254/16"),
    ("IP6_OUTSIDE", "fd00:1::fe/64"),
    ("IP_CORE", "10.9.0.1/24"),
    ("IP6_CORE", "fd00:9::1/64"),
    ("NEXT", "10.9.0.254"),
    ("NEXT6", "fd00:9::fe"),
    ("PATH", "18"),
];

impl Chain {
    fn new(core: &Service, walker: Walker) -> Chain {
        let addresses = [
            ("IP0", "10.8.0.254/24"),
            ("IP6_0", "fd00:8::fe/64"),
            ("IP1", "10.9.0.254/24"),
            ("IP6_1", "fd00:9::fe/64"),
        ];
        let middle = core.router(&core.text(), &addresses, walker);
        Chain {
            routers: [edge(&[], walker), middle, edge(FAR, walker)],
            on_core_link: Vec::new(),
        }
    }

    /// Other end of a router's port: a router and its port, or else host 0 or 1.
    fn other_end(router: usize, port: usize) -> Result<(usize, usize), usize> {
        match (router, port) {
            (0, CORE) => Ok((1, 0)),
            (1, 0) => Ok((0, CORE)),
            (1, 1) => Ok((2, CORE)),
            (2, CORE) => Ok((1, 1)),
            (0, _) => Err(0),
            _ => Err(1),
        }
    }

    /// A host sends a packet; gives the packets that hosts receive within a second, each with the host's number.
    fn send(&mut self, host: usize, packet: &[u8]) -> Vec<(usize, Vec<u8>)> {
        let kind = if packet[0] >> 4 == 6 {
            ether::IPV6
        } else {
            ether::IPV4
        };
        let frame = [&ether::header(ROUTER, mac(host), kind)[..], packet].concat();
        self.routers[2 * host].receive(OUTSIDE, [&frame[..]]);
        let mut received = Vec::new();
        for _ in 0..50 {
            for router in 0..3 {
                self.routers[router].advance(Duration::from_millis(20));
                for port in 0..2 {
                    for frame in self.routers[router].sent(port) {
                        self.deliver(router, port, &frame, &mut received);
                    }
                }
            }
        }
        received
    }

    fn deliver(
        &mut self,
        router: usize,
        port: usize,
        frame: &[u8],
        received: &mut Vec<(usize, Vec<u8>)>,
    ) {
        if (router, port) == (0, CORE) {
            self.on_core_link.push(frame.to_vec());
        }
        match Chain::other_end(router, port) {
            Ok((other, port)) => self.routers[other].receive(port, [frame]),
            Err(host) => match answer(host, frame) {
                Some(Some(answer)) => self.routers[router].receive(OUTSIDE, [&answer[..]]),
                Some(None) => {}
                None => received.push((host, Sent::of(host, frame).packet)),
            },
        }
    }
}

/// The two services that are such a core; for `null_look_sort` the edges send by labels, which name its links.
fn on_chains(test: impl Fn(&mut Chain, bool)) {
    let cores = SERVICES.iter().filter(|service| service.has_state());
    for core in cores {
        for walker in WALKERS {
            let mut chain = Chain::new(core, walker);
            let look = core.labels.is_some();
            let (rt4, rt6) = if look {
                ("rt4", "rt6")
            } else {
                ("next", "next6")
            };
            for (table, route) in [
                (rt4, "10.0.0.0/24 10.8.0.1 0"),
                (rt4, "10.1.0.0/16 10.9.0.1 1"),
                (rt6, "fd00::/64 fd00:8::1 0"),
                (rt6, "fd00:1::/64 fd00:9::1 1"),
            ] {
                chain.routers[1].handler(&format!("{table}.add"), route);
            }
            if look {
                // Labels 16 and 18 of the core lead to the edges. Its routes serve its own messages only.
                chain.routers[1].handler("next.set", "16 pop 10.9.0.1 1");
                chain.routers[1].handler("next.set", "18 pop 10.8.0.1 0");
                chain.routers[0].handler("next.add", "10.1.0.0/16 4");
                chain.routers[0].handler("next6.add", "fd00:1::/64 3");
                chain.routers[2].handler("next.add", "10.0.0.0/24 4");
                chain.routers[2].handler("next6.add", "fd00::/64 3");
            }
            test(&mut chain, look);
            for router in &mut chain.routers {
                router.check();
            }
        }
    }
}

#[test]
fn packets_cross_edges_and_core_both_ways() {
    on_chains(|chain, _| {
        for packet in across() {
            // Two edges and the core, whose hop labels count.
            let received = chain.send(0, &packet.bytes());
            assert_eq!(received, [(1, packet.ttl(61).bytes())]);
        }
        let back = [
            ip4().src(host4(1)).dst(host4(0)).udp(9, 1),
            ip6().src(host6(1)).dst(host6(0)).udp(9, 1),
        ];
        for packet in back {
            let received = chain.send(1, &packet.bytes());
            assert_eq!(received, [(0, packet.ttl(61).bytes())]);
        }
    });
}

#[test]
fn a_flow_that_an_edge_admits_has_its_deadline_in_the_core() {
    on_chains(|chain, look| {
        let [packet, packet6] = across();
        for flow in ["10.0.0.1 1 10.1.0.1 9 udp", "fd00::1 1 fd00:1::1 9 udp"] {
            let granted = chain.routers[0].handler("flows.add", &format!("{flow} {GUARANTEE}"));
            assert!(granted.starts_with("reserved"), "{granted}");
        }
        chain.send(0, &packet.bytes());
        chain.on_core_link.clear();
        chain.send(0, &packet.bytes());
        chain.send(0, &packet.udp(2, 9).bytes());
        chain.send(0, &packet6.bytes());
        let passed = chain.on_core_link.iter();
        let passed: Vec<_> = passed
            .filter(|frame| frame[12..14] == [0x88, 0xb5])
            .collect();
        let states: Vec<_> = passed
            .iter()
            .map(|frame| dps::State::read(&frame[14..]).expect("a state"))
            .collect();
        assert_eq!(states.len(), 3);
        let kinds: Vec<_> = states.iter().map(|state| state.payload).collect();
        if look {
            assert_eq!(kinds, [ether::MPLS; 3]);
        } else {
            assert_eq!(kinds, [ether::IPV4, ether::IPV4, ether::IPV6]);
        }
        let hops: Vec<_> = states.iter().map(|state| state.hop).collect();
        assert!(hops[0] > 0 && hops[2] > 0, "{hops:?}");
        assert_eq!(hops[1], 0, "of no flow");
        assert_eq!(chain.routers[0].handler("due.late", ""), "0");
    });
}

#[test]
fn traceroute_sees_three_routers() {
    on_chains(|chain, look| {
        let [four, six] = across();
        let (mut names, mut names6) = (Vec::new(), Vec::new());
        for ttl in 1..=3 {
            let received = chain.send(0, &four.clone().ttl(ttl).bytes());
            assert_eq!(received.len(), 1, "{look} {ttl}: {received:?}");
            let (host, packet) = &received[0];
            let ip = Ipv4::new_checked(&packet[..]).expect("a sound header");
            let icmp = Icmp::new_checked(ip.payload()).expect("a sound message");
            assert_eq!((*host, icmp.kind(), icmp.code()), (0, 11, 0));
            names.push(ip.src().to_string());
            let received = chain.send(0, &six.clone().ttl(ttl).bytes());
            assert_eq!(received.len(), 1, "{look} {ttl}: {received:?}");
            let packet = &received[0].1;
            let message = Icmp6::new_checked(&packet[40..]).expect("a sound message");
            assert_eq!((message.kind(), message.code()), (3, 0));
            let ip = Ipv6::new_checked(&packet[..]).expect("a sound header");
            names6.push(ip.src().to_string());
        }
        assert_eq!(names, ["10.0.0.254", "10.8.0.254", "10.9.0.1"]);
        assert_eq!(names6, ["fd00::fe", "fd00:8::fe", "fd00:9::1"]);
    });
}
