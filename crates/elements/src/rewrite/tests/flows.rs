//! Flows: how they are mapped, and where their mappings are kept.

use crate::rewrite::testing::{NAT, bench, config, seconds, send, show};
use testkit::{Bench, ip4};

#[test]
fn flows_are_rewritten_and_their_replies_back_again() {
    let mut b = bench(NAT, 2, 2);
    for _ in 0..2 {
        let line = "T 18.26.4.44 30 10.0.0.4 40";
        assert_eq!(send(&mut b, 0, line), "out0 1.0.0.1 1024 10.0.0.4 40");
    }
    let other = "T 18.26.4.44 20 10.0.0.8 80";
    assert_eq!(send(&mut b, 0, other), "out0 1.0.0.1 1025 10.0.0.8 80");
    let reply = "T 10.0.0.4 40 1.0.0.1 1024";
    assert_eq!(send(&mut b, 1, reply), "out1 10.0.0.4 40 18.26.4.44 30");
    assert_eq!(send(&mut b, 1, "T 10.0.0.8 80 1.0.0.1 1026"), "-");
    assert_eq!(b.drops("rw", "discarded"), 1);
    assert_eq!(
        b.read("rw.tcp_table"),
        "(18.26.4.44, 30, 10.0.0.4, 40) => (1.0.0.1, 1024, 10.0.0.4, 40) [*0 1] i0\n\
         (10.0.0.4, 40, 1.0.0.1, 1024) => (10.0.0.4, 40, 18.26.4.44, 30) [0 *1] i0\n\
         (18.26.4.44, 20, 10.0.0.8, 80) => (1.0.0.1, 1025, 10.0.0.8, 80) [*0 1] i0\n\
         (10.0.0.8, 80, 1.0.0.1, 1025) => (10.0.0.8, 80, 18.26.4.44, 20) [0 *1] i0\n"
    );
    assert_eq!(b.read("rw.udp_table"), "");
    assert_eq!(b.read("rw.table_size"), "2");
    let lookup = |b: &mut Bench, flow| b.try_read("rw.tcp_lookup", flow);
    let found = lookup(&mut b, "18.26.4.44 30 10.0.0.4 40");
    assert_eq!(found.as_deref(), Ok("1.0.0.1 1024 10.0.0.4 40"));
    assert_eq!(
        lookup(&mut b, "10.0.0.4 40 1.0.0.1 1024").as_deref(),
        Ok("10.0.0.4 40 18.26.4.44 30")
    );
    b.write("rw.clear", "");
    assert_eq!(
        (b.read("rw.table_size"), send(&mut b, 1, reply)),
        ("0".into(), "-".into())
    );
}

#[test]
fn a_port_serves_many_destinations_and_a_range_that_is_used_up_fails() {
    let mut b = bench(
        "rw :: IPRewriter(pattern 1.0.0.1 1024-1026# - - 0 1, drop)",
        2,
        2,
    );
    let lines = [
        ("1 10.0.0.4 1", "1024"),
        ("2 10.0.0.8 2", "1025"),
        ("3 10.0.0.4 3", "1026"),
        ("4 10.0.0.8 2", "1024"),
        ("5 10.0.0.8 2", "1026"),
        ("6 10.0.0.8 2", ""),
        ("6 10.0.0.8 2", ""),
        ("1 10.0.0.4 1", "1024"),
        ("5 10.0.0.8 2", "1026"),
    ];
    for (line, port) in lines {
        let rest = line.split_once(' ').unwrap().1;
        let expected = match port {
            "" => "-".to_owned(),
            port => format!("out0 1.0.0.1 {port} {rest}"),
        };
        assert_eq!(
            send(&mut b, 0, &format!("T 18.26.4.44 {line}")),
            expected,
            "{line}"
        );
    }
    assert_eq!(b.read("rw.mapping_failures"), "2");
    assert_eq!(b.drops("rw", "mapping_failure"), 2);
    let reply = send(&mut b, 1, "T 10.0.0.8 2 1.0.0.1 1026");
    assert_eq!(reply, "out1 10.0.0.8 2 18.26.4.44 5");
}

#[test]
fn a_port_that_comes_free_is_found_where_all_others_are_in_use() {
    for order in ["", "?", "#"] {
        let text = format!(
            "rw :: UDPRewriter(pattern 1.0.0.1 1024-1123{order} - - 0 1, drop, TIMEOUT 10, GUARANTEE 1, REAP_INTERVAL \
                1)"
        );
        let mut b = bench(&text, 2, 2);
        let line =
            |flow: usize, server: usize| format!("U 10.0.0.1 {} 2.0.0.{server} 53", 2000 + flow);
        let port = |sent: String| sent.split(' ').nth(2).map(str::to_owned);
        let mut ports = Vec::new();
        for flow in 0..100 {
            for server in [1, 2] {
                let sent = send(&mut b, 0, &line(flow, server));
                ports.extend(port(sent).filter(|_| server == 1));
            }
        }
        let mut different = ports.clone();
        different.sort();
        different.dedup();
        assert_eq!(different.len(), 100, "all ports are used");
        for flow in 100..120 {
            assert_eq!(send(&mut b, 0, &line(flow, 1 + flow % 2)), "-");
        }
        // One flow ends: only for its server a port is free.
        seconds(&mut b, 6.0);
        for flow in (0..100).filter(|flow| *flow != 42) {
            send(&mut b, 0, &line(flow, 1));
        }
        (0..100).for_each(|flow| drop(send(&mut b, 0, &line(flow, 2))));
        seconds(&mut b, 6.0);
        assert_eq!(send(&mut b, 0, &line(200, 2)), "-");
        assert_eq!(port(send(&mut b, 0, &line(201, 1))).as_ref(), ports.get(42));
        assert_eq!(send(&mut b, 0, &line(202, 1)), "-");
    }
}

#[test]
fn a_table_that_is_full_of_flows_refuses_more_by_name() {
    let mut b = bench("rw :: IPRewriter(keep 0 1, MAPPING_CAPACITY 2)", 1, 2);
    for port in 1..=5 {
        send(&mut b, 0, &format!("T 18.26.4.44 {port} 10.0.0.4 1"));
    }
    assert_eq!(
        (
            b.drops("rw", "table_full"),
            b.drops("rw", "mapping_failure")
        ),
        (3, 0)
    );
    assert_eq!(b.read("rw.capacity"), "2");
    let text = "rw :: IPRewriter(keep 0 1, MAPPING_CAPACITY 010)";
    assert_eq!(bench(text, 1, 2).read("rw.capacity"), "8", "as in Click");
    let text = "rw :: IPRewriter(keep 0 1)";
    assert_eq!(bench(text, 1, 2).read("rw.capacity"), "1048576");
    let mut b = testkit::Bench::click(crate::CLASSES, &config(text, 1, 2));
    assert_eq!(b.read("rw.capacity"), "2147483647", "as Click shows it");
}

#[test]
fn a_flow_from_an_address_to_itself_is_found_as_its_reply() {
    let mut b = bench(
        "rw :: IPRewriter(pattern 2.0.0.1 1024-65535# - - 0 1, drop)",
        2,
        2,
    );
    send(&mut b, 0, "T 1.0.0.1 11 2.0.0.2 21");
    let line = "T 2.0.0.1 1025 2.0.0.1 1025";
    assert_eq!(send(&mut b, 0, line), "out0 2.0.0.1 1025 2.0.0.1 1025");
    assert_eq!(send(&mut b, 1, line), "out1 2.0.0.1 1025 2.0.0.1 1025");
}

#[test]
fn a_flows_own_port_is_preferred_and_else_a_random_one_is_taken() {
    let mut b = bench(
        "rw :: UDPRewriter(pattern 1.0.0.2 1024-65534 - - 0 1, drop)",
        2,
        2,
    );
    assert_eq!(
        send(&mut b, 0, "U 10.0.0.1 1024 1.0.0.2 20"),
        "out0 1.0.0.2 1024 1.0.0.2 20"
    );
    assert_eq!(
        send(&mut b, 0, "U 10.0.0.2 1024 1.0.0.2 30"),
        "out0 1.0.0.2 1024 1.0.0.2 30"
    );
    let third = send(&mut b, 0, "U 10.0.0.3 1024 1.0.0.2 20");
    let port: u16 = third.split(' ').nth(2).unwrap().parse().unwrap();
    assert!((1025..=65534).contains(&port));
    let reply = send(&mut b, 1, &format!("U 1.0.0.2 20 1.0.0.2 {port}"));
    assert_eq!(reply, "out1 1.0.0.2 20 10.0.0.3 1024");
}

#[test]
fn flows_and_sequences_outlive_a_reload() {
    let mut b = bench(NAT, 2, 2);
    send(&mut b, 0, "T 1.1.1.1 1 2.2.2.2 2");
    let next = config(&NAT.replace(", drop)", ", drop, TCP_TIMEOUT 7)"), 2, 2);
    b.reload(&next).unwrap();
    let reply = send(&mut b, 1, "T 2.2.2.2 2 1.0.0.1 1024");
    assert_eq!(reply, "out1 2.2.2.2 2 1.1.1.1 1");
    let new = send(&mut b, 0, "T 1.1.1.1 9 2.2.2.2 2");
    assert_eq!(new, "out0 1.0.0.1 1025 2.2.2.2 2");
    assert_eq!(b.read("rw.table_size"), "2");
}

#[test]
fn rewriting_there_and_back_gives_the_same_packet() {
    let rewriters = [
        "IPRewriter(pattern 192.0.2.1 1024-65535 198.51.100.7 8080 0 1)",
        "UDPRewriter(pattern - 7 - - 0 1)",
        "IPAddrPairRewriter(pattern 192.0.2.1-192.0.2.250 198.51.100.7 0 1)",
        "IPAddrRewriter(pattern 192.0.2.0/24 - 0 1)",
        "IPRewriter(keep 0 1)",
    ];
    let mut rng = testkit::Rng::seed(3);
    for rewriter in rewriters {
        // Packets that leave are mirrored and sent back.
        let mut b = bench(&format!("rw :: {rewriter}"), 1, 2);
        for _ in 0..200 {
            let (src, dst) = (rng.u32() | 1, rng.u32() | 1);
            let (src, dst) = (
                std::net::Ipv4Addr::from(src & 0x7fff_ffff),
                std::net::Ipv4Addr::from(dst & 0x7fff_ffff),
            );
            let built = ip4().src(src).dst(dst).payload_len(rng.below(60));
            let (sport, dport) = (rng.u16(), rng.u16());
            let original = match rng.below(3) {
                0 => built.tcp(sport, dport).bytes(),
                1 => built.udp(sport, dport).bytes(),
                _ => built.udp(sport, dport).no_udp_checksum().bytes(),
            };
            if wire::addr::is_multicast4(dst) || wire::addr::is_martian_source4(src) {
                continue;
            }
            b.push("in0", &[&original]);
            let Some(forth) = b.take("out0").pop() else {
                continue;
            };
            show(&forth);
            b.push("in0", &[mirrored(&forth)]);
            let back = b.take("out1").pop().unwrap();
            assert_eq!(mirrored(&back), original, "{rewriter}");
        }
    }
}

/// The packet with both ends exchanged: no checksum changes.
fn mirrored(packet: &[u8]) -> Vec<u8> {
    let mut p = packet.to_vec();
    for i in 0..4 {
        p.swap(12 + i, 16 + i);
    }
    for i in 0..2 {
        p.swap(20 + i, 22 + i);
    }
    p
}

#[test]
fn elements_that_share_flows_are_brought_to_one_worker() {
    let text = "a :: InfiniteSource(LIMIT 1) -> MarkIPHeader -> rw1 :: UDPRewriter(keep 0 1, MAPPING_CAPACITY rw2);
        b :: InfiniteSource(LIMIT 1) -> MarkIPHeader -> rw2 :: UDPRewriter(keep 0 1);
        c :: InfiniteSource(LIMIT 1) -> MarkIPHeader -> e :: ICMPRewriter(rw1) -> Discard;
        d :: InfiniteSource(LIMIT 1) -> MarkIPHeader -> alone :: UDPRewriter(keep 0 0) -> Discard;
        rw1, rw2 => [0] Discard, [0] Discard; rw1[1] -> Discard; rw2[1] -> Discard;
        StaticThreadSched(a 1, b 2, c 2, d 2)";
    let text = &text.replace(
        "rw1, rw2 => [0] Discard, [0] Discard;",
        "rw1 -> Discard; rw2 -> Discard;",
    );
    let plan = testkit::plan(crate::CLASSES, text, 3, &engine::port::NoPorts, None);
    let plan = plan.unwrap_or_else(|e| panic!("{e}"));
    let workers = |name: &str| plan.elements[plan.find(name).unwrap()].workers.clone();
    for (name, owner) in [("rw1", 1), ("rw2", 1), ("e", 1), ("alone", 2)] {
        assert_eq!(workers(name), [owner], "{name}");
    }
    assert_eq!(workers("rw2@unqueue0"), [1]);
    assert!(plan.find("rw1@queue0").is_none() && plan.find("alone@queue0").is_none());
}
