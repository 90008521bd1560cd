//! Network address translation in whole routers: conf/ip-nat.click on both walkers, and a rewriter that
//! several workers reach.

use engine::graph::Walker;
use router_tests::{Books, Links, conf, start};
use std::collections::BTreeMap;
use std::time::Duration;
use testkit::ip4;
use wire::{FlowKey, Icmp, Ipv4, Tcp, Udp, proto};

const HOST: &str = "10.0.1.2";
const SERVER: &str = "198.51.100.7";
const OUTSIDE: &str = "10.0.2.1";

fn nat(walker: Walker) -> Links {
    let text = std::fs::read_to_string(conf("ip-nat.click")).expect("the configuration");
    Links::of(&text, walker, &[])
}

/// The single packet that results from a packet of a port: its new port and its bytes.
fn becomes(links: &mut Links, port: usize, packet: &[u8]) -> Option<(usize, Vec<u8>)> {
    let mut seen = links.send(port, packet);
    assert!(seen.len() <= 1, "{seen:?}");
    seen.pop().map(|s| (s.port, s.packet))
}

fn ends(packet: &[u8]) -> (String, u16, String, u16) {
    let flow = FlowKey::of_ip4(packet).expect("a sound packet");
    check(packet);
    (
        flow.src.to_string(),
        flow.src_port,
        flow.dst.to_string(),
        flow.dst_port,
    )
}

/// Checks all checksums of a packet.
fn check(packet: &[u8]) {
    let ip = Ipv4::new_checked(packet).expect("a sound packet");
    assert!(ip.verify_checksum());
    let (payload, pseudo) = (ip.payload(), ip.pseudo(ip.payload().len()));
    assert!(match ip.protocol() {
        proto::TCP => Tcp::new_unchecked(payload).verify_checksum(pseudo),
        proto::UDP => Udp::new_unchecked(payload).verify_checksum(pseudo),
        _ => wire::checksum::verify(payload),
    });
}

/// Packets between a host inside and a server, as each of them receives them.
fn conversation(links: &mut Links) -> Vec<Vec<u8>> {
    let mut heard = Vec::new();
    for port in [5000, 5001] {
        for tcp in [true, false] {
            let request = ip4().src(HOST).dst(SERVER).payload("hello");
            let request = match tcp {
                true => request.tcp(port, 80).bytes(),
                false => request.udp(port, 53).bytes(),
            };
            let (to, request) = becomes(links, 0, &request).expect("it goes out");
            let (src, sport, dst, dport) = ends(&request);
            assert_eq!((to, src.as_str(), dst.as_str()), (1, OUTSIDE, SERVER));
            let reply = ip4().src(SERVER).dst(OUTSIDE).payload("yes?");
            let reply = match tcp {
                true => reply.tcp(dport, sport).bytes(),
                false => reply.udp(dport, sport).bytes(),
            };
            let (to, reply) = becomes(links, 1, &reply).expect("it comes in");
            let seen = (SERVER.to_owned(), dport, HOST.to_owned(), port);
            assert_eq!((to, ends(&reply)), (0, seen));
            heard.extend([request, reply]);
        }
    }
    heard
}

#[test]
fn hosts_inside_reach_the_world_and_are_answered_on_both_walkers() {
    let [sweep, strict] = [Walker::Sweep, Walker::Strict].map(|walker| {
        let mut links = nat(walker);
        let heard = conversation(&mut links);
        // No flow may start outside.
        let stranger = ip4().src(SERVER).dst(OUTSIDE).tcp(80, 4).bytes();
        assert_eq!(becomes(&mut links, 1, &stranger), None);
        assert_eq!(links.handler("stealth.count", ""), "1");
        assert_eq!(links.handler("nat.table_size", ""), "4");
        links.router.check();
        heard
    });
    assert_eq!(sweep, strict);
}

#[test]
fn pings_and_errors_find_their_way_back() {
    let mut links = nat(Walker::Sweep);
    let ping = ip4().src(HOST).dst(SERVER).icmp_echo(7, 1).bytes();
    let (_, out) = becomes(&mut links, 0, &ping).expect("it goes out");
    check(&out);
    let ident = Icmp::new_unchecked(&out[20..]).ident();
    let reply = ip4()
        .src(SERVER)
        .dst(OUTSIDE)
        .icmp_echo_reply(ident, 1)
        .bytes();
    let (_, back) = becomes(&mut links, 1, &reply).expect("it comes in");
    check(&back);
    assert_eq!(Icmp::new_unchecked(&back[20..]).ident(), 7);
    assert_eq!(Ipv4::new_unchecked(&back[..]).dst().to_string(), HOST);
    // A router outside reports an error about a packet; the host gets the error about its original packet.
    let sent = ip4().src(HOST).dst(SERVER).udp(9, 53).payload("x").bytes();
    let (_, out) = becomes(&mut links, 0, &sent).expect("it goes out");
    let error = ip4()
        .src("203.0.113.1")
        .dst(OUTSIDE)
        .icmp(3, 1, 0)
        .payload(&out)
        .bytes();
    let (_, told) = becomes(&mut links, 1, &error).expect("it comes in");
    let told = &told[28..];
    assert_eq!(ends(told), (HOST.into(), 9, SERVER.into(), 53));
    links.router.check();
}

/// Sends packets of many flows on two queues of two ports, so that both workers get packets of both directions.
/// Returns the sent packets in the order of each flow.
fn through_two_workers(workers: usize) -> BTreeMap<(String, u16, String, u16), Vec<u8>> {
    const FLOWS: u16 = 40;
    const EACH: u8 = 25;
    let text = "rw :: IPRewriter(pattern 10.0.2.1 5000-5999 - - 0 1, drop);
        FromDevice(mem:a) -> Strip(14) -> CheckIPHeader -> [0] rw [0] -> Unstrip(14) -> ToDevice(mem:c);
        FromDevice(mem:b) -> Strip(14) -> CheckIPHeader -> [1] rw [1] -> Unstrip(14) -> ToDevice(mem:d);";
    let (mut router, ports) = start(text, workers);
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| ports.memory(name));
    let all = usize::from(FLOWS) * usize::from(EACH);
    let mut left = BTreeMap::new();
    let mut note = |frames: Vec<Vec<u8>>| {
        for frame in frames {
            let numbers: &mut Vec<u8> = left.entry(ends(&frame[14..])).or_default();
            numbers.push(frame[frame.len() - 1]);
        }
    };
    for (near, far, forth) in [(&a, &c, true), (&b, &d, false)] {
        for number in 0..EACH {
            for flow in 0..FLOWS {
                let packet = match forth {
                    true => ip4().src(HOST).dst(SERVER).udp(5000 + flow, 53),
                    false => ip4().src(SERVER).dst(OUTSIDE).udp(53, 5000 + flow),
                };
                let frame = packet
                    .payload([number])
                    .ether("02:00:00:00:00:09", "02:00:00:00:00:01");
                // The reply of a flow arrives on the other queue.
                let queue = usize::from(flow + u16::from(forth)) % workers;
                assert!(near.inject(queue, &frame.bytes()));
            }
        }
        let sent = far.collect_at_least(all, Duration::from_secs(20));
        note(sent.into_iter().map(|s| s.frame).collect());
    }
    assert_eq!(router.read("rw.table_size", "").as_deref(), Ok("40"));
    Books::of_router(&router).check();
    router.stop();
    router.join();
    left
}

#[test]
fn two_workers_give_the_same_packets_per_flow_as_one() {
    let one = through_two_workers(1);
    assert_eq!(one.len(), 80);
    for numbers in one.values() {
        assert_eq!(*numbers, (0..25).collect::<Vec<u8>>());
    }
    assert_eq!(through_two_workers(2), one);
}
