//! The rewriting classes on packets, written as Click's summary dumps are: `T SRC SPORT DST DPORT DATA`.

use std::time::Duration;
use testkit::{Bench, ip4};
use wire::{FlowKey, Icmp, Ipv4, Tcp, Udp, proto, tcp};

/// A packet from `T|U SRC SPORT DST DPORT [FLAGS [DATA]]` or `I SRC DST IDENT` (`R` for a reply).
pub(super) fn packet(line: &str) -> Vec<u8> {
    let w: Vec<&str> = line.split_whitespace().collect();
    let port = |i: usize| w[i].parse::<u16>().unwrap();
    let data = w.get(6).unwrap_or(&"");
    match w[0] {
        "I" => ip4().src(w[1]).dst(w[2]).icmp_echo(port(3), 1).bytes(),
        "R" => ip4()
            .src(w[1])
            .dst(w[2])
            .icmp_echo_reply(port(3), 1)
            .bytes(),
        "U" => ip4()
            .src(w[1])
            .dst(w[3])
            .udp(port(2), port(4))
            .payload(data)
            .bytes(),
        _ => {
            let flags = w.get(5).unwrap_or(&"A").bytes().map(|f| match f {
                b'F' => tcp::FIN,
                b'S' => tcp::SYN,
                b'R' => tcp::RST,
                _ => tcp::ACK,
            });
            let built = ip4().src(w[1]).dst(w[3]).tcp(port(2), port(4));
            built.tcp_flags(flags.sum()).payload(data).bytes()
        }
    }
}

/// Addresses and ports of a packet, whose checksums must hold.
pub(super) fn show(bytes: &[u8]) -> String {
    let ip = Ipv4::new_checked(bytes).unwrap();
    assert!(ip.verify_checksum(), "{bytes:x?}");
    let (payload, pseudo) = (ip.payload(), ip.pseudo(ip.payload().len()));
    let ends = FlowKey::of_ip4(bytes).unwrap();
    match ip.protocol() {
        proto::TCP => assert!(Tcp::new_checked(payload).unwrap().verify_checksum(pseudo)),
        proto::UDP => assert!(Udp::new_checked(payload).unwrap().verify_checksum(pseudo)),
        proto::ICMP => {
            assert!(wire::checksum::verify(payload));
            let ident = Icmp::new_checked(payload).unwrap().ident();
            return format!("{} {} {ident}", ip.src(), ip.dst());
        }
        _ => {}
    }
    format!(
        "{} {} {} {}",
        ends.src, ends.src_port, ends.dst, ends.dst_port
    )
}

/// A rewriter `rw` between checks and collectors `out0`, `out1` ...
pub(super) fn bench(rewriter: &str, inputs: usize, outputs: usize) -> Bench {
    Bench::new(crate::CLASSES, &config(rewriter, inputs, outputs))
}

fn config(rewriter: &str, inputs: usize, outputs: usize) -> String {
    let mut text = format!("{rewriter};\n");
    for i in 0..inputs {
        text += &format!("in{i} :: CheckIPHeader -> [{i}]rw;\n");
    }
    for o in 0..outputs {
        text += &format!("rw[{o}] -> out{o} :: Collect;\n");
    }
    text
}

/// Sends one packet; says where it came out and how, or `-`.
pub(super) fn send(bench: &mut Bench, input: usize, line: &str) -> String {
    bench.push(&format!("in{input}"), &[packet(line)]);
    for output in ["out0", "out1"] {
        if bench.graph().plan().find(output).is_none() {
            continue;
        }
        if let Some(bytes) = bench.take(output).first() {
            return format!("{output} {}", show(bytes));
        }
    }
    "-".to_owned()
}

fn seconds(bench: &mut Bench, s: f64) {
    bench.advance(Duration::from_secs_f64(s));
}

const NAT: &str = "rw :: IPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop)";

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
        "(18.26.4.44, 30, 10.0.0.4, 40) => (1.0.0.1, 1024, 10.0.0.4, 40) [*0 1]\n\
         (10.0.0.4, 40, 1.0.0.1, 1024) => (10.0.0.4, 40, 18.26.4.44, 30) [0 *1]\n\
         (18.26.4.44, 20, 10.0.0.8, 80) => (1.0.0.1, 1025, 10.0.0.8, 80) [*0 1]\n\
         (10.0.0.8, 80, 1.0.0.1, 1025) => (10.0.0.8, 80, 18.26.4.44, 20) [0 *1]\n"
    );
    assert_eq!(b.read("rw.udp_table"), "");
    assert_eq!(b.read("rw.table_size"), "2");
    let lookup = |b: &mut Bench, flow| b.try_read("rw.tcp_lookup", flow);
    let found = lookup(&mut b, "18.26.4.44 30 10.0.0.4 40");
    assert_eq!(found.as_deref(), Ok("1.0.0.1 1024 10.0.0.4 40"));
    assert_eq!(
        lookup(&mut b, "10.0.0.4 40 1.0.0.1 1024").as_deref(),
        Ok("")
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
fn a_full_table_keeps_what_is_guaranteed() {
    let rw = "rw :: IPRewriter(pattern 2.0.0.1 1024-65535# - - 0 1, drop, MAPPING_CAPACITY 8)";
    let mut b = bench(rw, 2, 2);
    let there = |i: u16| format!("T 1.0.0.{i} {} 2.0.0.2 {} A XXX", 10 + i, 20 + i);
    let back = |i: u16| format!("T 2.0.0.2 {} 2.0.0.1 {} A XXX", 20 + i, 1023 + i);
    let arrives = |b: &mut Bench, input, line: &str| send(b, input, line) != "-";
    for i in 1..=9 {
        seconds(&mut b, 0.1);
        assert_eq!(arrives(&mut b, 0, &there(i)), i < 9);
    }
    for i in 1..=9 {
        seconds(&mut b, 0.1);
        assert_eq!(arrives(&mut b, 1, &back(i)), i < 9);
    }
    // The guarantees are over: the oldest goes.
    seconds(&mut b, 5.1);
    let new = "U 1.0.0.10 20 2.0.0.2 30 - XXX";
    assert_eq!(send(&mut b, 0, new), "out0 2.0.0.1 1033 2.0.0.2 30");
    for i in 1..=9 {
        seconds(&mut b, 0.1);
        assert_eq!(arrives(&mut b, 1, &back(i)), (2..9).contains(&i));
    }
    assert!(arrives(&mut b, 1, "U 2.0.0.2 30 2.0.0.1 1033"));
    seconds(&mut b, 6.0);
    // A UDP flow ends before connections do.
    let last = "T 1.0.0.11 21 2.0.0.2 31 A X";
    assert_eq!(send(&mut b, 0, last), "out0 2.0.0.1 1034 2.0.0.2 31");
    assert!(!arrives(&mut b, 1, "U 2.0.0.2 30 2.0.0.1 1033"));
    assert_eq!(b.read("rw.size"), "8");
    assert_eq!(b.read("rw.capacity"), "8 1");
    b.write("rw.capacity", "2");
    assert_eq!(
        (b.read("rw.size"), b.read("rw.table_size")),
        ("2".into(), "2".into())
    );
}

#[test]
fn without_guarantee_a_new_flow_that_would_end_first_is_refused() {
    let rw = "rw :: IPRewriter(pattern 2.0.0.1 1024-65535# - - 0 1, drop, MAPPING_CAPACITY 3, GUARANTEE 0)";
    let mut b = bench(rw, 2, 2);
    for i in 1..=3 {
        send(&mut b, 0, &format!("T 1.0.0.{i} 1{i} 2.0.0.2 2{i} A X"));
        send(
            &mut b,
            1,
            &format!("T 2.0.0.2 2{i} 2.0.0.1 {} A X", 1023 + i),
        );
    }
    assert_eq!(send(&mut b, 0, "T 1.0.0.11 21 2.0.0.2 31 A X"), "-");
    assert_eq!(b.read("rw.mapping_failures"), "1");
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
fn connections_end_sooner_without_data_and_soonest_after_a_reset() {
    let rw = "rw :: TCPRewriter(pattern 2.0.0.1 1024-65535# - - 0 1, drop, MAPPING_CAPACITY 2, GUARANTEE 0)";
    let mut b = bench(rw, 2, 2);
    let there = |i: u16, flags: &str| format!("T 1.0.0.{i} {} 2.0.0.2 {} {flags}", i + 9, i + 19);
    let back = |i: u16, data: &str| format!("T 2.0.0.2 {} 2.0.0.1 {} A {data}", i + 19, i + 1023);
    let alive = |b: &mut Bench, i: u16| {
        seconds(b, 1.0);
        send(b, 1, &back(i, "")) != "-"
    };
    for i in 1..=3 {
        send(&mut b, 0, &there(i, "A"));
        seconds(&mut b, 1.0);
    }
    assert_eq!([1, 2, 3].map(|i| alive(&mut b, i)), [false, true, true]);
    send(&mut b, 0, &there(2, "A X"));
    send(&mut b, 1, &back(2, "X"));
    for i in 4..=6 {
        send(&mut b, 0, &there(i, "A"));
        seconds(&mut b, 1.0);
    }
    let all: Vec<u16> = (1..=6).filter(|&i| alive(&mut b, i)).collect();
    assert_eq!(all, [2, 6]);
    send(&mut b, 0, &there(2, "R"));
    seconds(&mut b, 1.0);
    send(&mut b, 0, &there(7, "A"));
    let all: Vec<u16> = (1..=7).filter(|&i| alive(&mut b, i)).collect();
    assert_eq!(all, [6, 7]);
}

#[test]
fn rewriters_may_share_a_capacity() {
    let text =
        "rw1 :: UDPRewriter(pattern 1.0.0.2 1024-65534# - - 0 1, drop, MAPPING_CAPACITY rw2);
        rw2 :: UDPRewriter(pattern 1.0.0.3 1024-65534# - - 0 1, drop, MAPPING_CAPACITY 3);
        a0 :: CheckIPHeader -> rw1 -> out :: Collect; rw1[1] -> out;
        a1 :: CheckIPHeader -> [1]rw1;
        a2 :: CheckIPHeader -> rw2 -> out; rw2[1] -> out;
        a3 :: CheckIPHeader -> [1]rw2;";
    let mut b = Bench::new(crate::CLASSES, text);
    let go = |b: &mut Bench, link: u8, line: &str| {
        b.push(&format!("a{link}"), &[packet(line)]);
        b.take("out").first().map_or("-".to_owned(), |p| show(p))
    };
    let (there, back) = ("2.115.2.2 2", "T 2.115.2.2 2");
    assert_eq!(
        go(&mut b, 0, &format!("T 53.1.1.1 1 {there}")),
        "1.0.0.2 1024 2.115.2.2 2"
    );
    assert_eq!(
        go(&mut b, 2, &format!("T 53.1.1.1 1 {there}")),
        "1.0.0.3 1024 2.115.2.2 2"
    );
    assert_eq!(
        go(&mut b, 2, &format!("T 53.1.1.2 1 {there}")),
        "1.0.0.3 1025 2.115.2.2 2"
    );
    assert_eq!(go(&mut b, 2, &format!("T 53.1.1.3 1 {there}")), "-");
    seconds(&mut b, 1.0);
    assert_eq!(
        go(&mut b, 3, &format!("{back} 1.0.0.3 1024")),
        "2.115.2.2 2 53.1.1.1 1"
    );
    assert_eq!(
        go(&mut b, 3, &format!("{back} 1.0.0.3 1025")),
        "2.115.2.2 2 53.1.1.2 1"
    );
    seconds(&mut b, 4.5);
    assert_eq!(
        go(&mut b, 0, &format!("T 53.1.1.4 1 {there}")),
        "1.0.0.2 1025 2.115.2.2 2"
    );
    assert_eq!(go(&mut b, 0, &format!("T 53.1.1.5 1 {there}")), "-");
    assert_eq!(go(&mut b, 1, &format!("{back} 1.0.0.2 1024")), "-");
    let sizes = ["rw1.size", "rw2.size", "rw1.table_size", "rw2.table_size"];
    assert_eq!(sizes.map(|h| b.read(h)), ["3", "3", "1", "2"]);
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
fn pings_are_told_apart_by_their_identifiers() {
    let mut b = bench(
        "rw :: ICMPPingRewriter(pattern 2.0.0.2 - 0-65535 0 1, drop)",
        2,
        2,
    );
    assert_eq!(
        send(&mut b, 0, "I 1.0.0.1 5.0.0.5 10"),
        "out0 2.0.0.2 5.0.0.5 10"
    );
    let second = send(&mut b, 0, "I 1.0.0.2 5.0.0.5 10");
    let ident = second.rsplit_once(' ').unwrap().1.to_owned();
    assert_ne!(ident, "10");
    assert_eq!(
        send(&mut b, 1, "R 5.0.0.5 2.0.0.2 10"),
        "out1 5.0.0.5 1.0.0.1 10"
    );
    let reply = send(&mut b, 1, &format!("R 5.0.0.5 2.0.0.2 {ident}"));
    assert_eq!(reply, "out1 5.0.0.5 1.0.0.2 10");
    assert_eq!(send(&mut b, 0, "R 5.0.0.9 2.0.0.2 10"), "-");
    assert_eq!(send(&mut b, 0, "U 1.0.0.1 1 5.0.0.5 2"), "-");
    assert_eq!(b.drops("rw", "not_rewritable"), 1);
}

#[test]
fn hosts_are_lent_addresses() {
    let mut b = bench(
        "rw :: IPAddrRewriter(pattern 3.0.0.1-3.0.0.255# - 0 0)",
        1,
        1,
    );
    assert_eq!(
        send(&mut b, 0, "T 1.0.0.1 1 9.9.9.9 2"),
        "out0 3.0.0.1 1 9.9.9.9 2"
    );
    assert_eq!(
        send(&mut b, 0, "U 1.0.0.2 1 9.9.9.8 2"),
        "out0 3.0.0.2 1 9.9.9.8 2"
    );
    assert_eq!(
        send(&mut b, 0, "I 1.0.0.1 9.9.9.7 2"),
        "out0 3.0.0.1 9.9.9.7 2"
    );
    assert_eq!(
        send(&mut b, 0, "T 9.9.9.6 1 3.0.0.1 2"),
        "out0 9.9.9.6 1 1.0.0.1 2"
    );
    assert_eq!(
        b.read("rw.table").lines().next(),
        Some("(1.0.0.1) => (3.0.0.1) [*0 0]")
    );
}

#[test]
fn pairs_of_hosts_are_lent_addresses() {
    let mut b = bench(
        "rw :: IPAddrPairRewriter(pattern 3.0.0.1-3.0.0.255# - 0 0)",
        1,
        1,
    );
    for (line, to) in [
        ("1.0.0.1 9.9.9.9", "3.0.0.1 9.9.9.9"),
        ("1.0.0.2 9.9.9.8", "3.0.0.2 9.9.9.8"),
        ("1.0.0.1 9.9.9.9", "3.0.0.1 9.9.9.9"),
        ("1.0.0.1 9.9.9.7", "3.0.0.3 9.9.9.7"),
        ("9.9.9.6 3.0.0.1", "3.0.0.4 3.0.0.1"),
        ("9.9.9.7 3.0.0.3", "9.9.9.7 1.0.0.1"),
    ] {
        assert_eq!(
            send(&mut b, 0, &format!("I {line} 7")),
            format!("out0 {to} 7")
        );
    }
}

#[test]
fn patterns_are_shown_as_they_are_understood() {
    let rw = "rw :: IPAddrRewriter(pattern 1.0.0.1 - 0 1, pattern 1.0.0.1-1.0.255.255 - 0 1,
        pattern 1.0.0.1/24 - 0 1, pattern 1.0.0.1/8 - 0 1, drop, pass 1, keep 0 1)";
    let mut b = bench(rw, 7, 2);
    assert_eq!(
        b.read("rw.patterns"),
        "1.0.0.1 -\n1.0.0.1-1.0.255.255 -\n1.0.0.1-1.0.0.254 -\n1.0.0.1-1.255.255.254 -\n\
         <drop>\n<nochange>\n<keep>\n"
    );
    let rw = "IPRewriterPatterns(p 1.0.0.1 1-65535# - -);
        rw :: UDPRewriter(pattern 1.0.0.1 1 - - 0 1, pattern p 0 1, pattern 1.0.0.1 - - - 0 1)";
    let mut b = bench(rw, 3, 2);
    assert_eq!(
        b.read("rw.patterns"),
        "1.0.0.1 1 - -\n1.0.0.1 1-65535# - -\n1.0.0.1 - - -\n"
    );
}

#[test]
fn wrong_specifications_are_refused() {
    for (spec, wrong) in [
        ("pattern 1.0.0.x - 0 1", "bad source address"),
        ("pattern 1.255.0.0-1.0.255.255 - 0 1", "bad source address"),
        ("pattern 1.0.0.1 1x - - 0 1", "bad source port"),
        ("pattern 1.0.0.0 456-19 - - 0 1", "bad source port"),
        ("pattern 1.0.0.0 456-65536 - - 0 1", "bad source port"),
        ("pattern 1.0.0.0 1 x - 0 1", "bad destination address"),
        ("pattern 1.0.0.0 1 - x 0 1", "bad destination port"),
        ("pattern nobody 0 1", "no pattern is named 'nobody'"),
        ("pattern 1.0.0.0 1 - - 0 7", "output port out of range"),
        ("pass 9", "output port out of range"),
        ("keep 0", "bad forward port"),
        ("frobnicate", "unknown specification"),
        ("in0", "element is not an IPMapper"),
    ] {
        let text = config(&format!("rw :: UDPRewriter({spec})"), 1, 2);
        let text = text.replace("in0 ::", "FromDevice(null:64) -> Strip(14) -> in0 ::");
        let text = text
            .replace("out0 :: Collect", "Discard")
            .replace("out1 :: Collect", "Discard");
        let errors = testkit::errors(crate::CLASSES, &text);
        assert!(
            errors.contains(&format!("input spec 0: {wrong}")),
            "{spec}: {errors}"
        );
    }
}

#[test]
fn what_is_not_rewritten_passes_only_where_it_may() {
    let mut b = bench("rw :: IPRewriter(drop, pass 1)", 2, 2);
    let fragment = ip4()
        .src("1.1.1.1")
        .dst("2.2.2.2")
        .udp(1, 2)
        .payload_len(64)
        .fragment(8, false);
    let others = [
        packet("I 1.1.1.1 2.2.2.2 3"),
        fragment.bytes(),
        packet("U 1.1.1.1 1 2.2.2.2 2"),
    ];
    b.push("in0", &others);
    assert!(b.take("out1").is_empty());
    b.push("in1", &others);
    assert_eq!(b.take("out1"), others);
    assert_eq!(b.drops("rw", "not_rewritable"), 2);
    assert_eq!(b.drops("rw", "discarded"), 1);
}

#[test]
fn mappers_choose_in_turn_or_by_source() {
    let turn =
        "m :: RoundRobinIPMapper(- - 10.0.0.2 - 0 1, - - 10.0.0.3 - 0 1); rw :: IPRewriter(m)";
    let mut b = bench(turn, 1, 2);
    let mut to = Vec::new();
    for port in 1..=4 {
        to.push(send(&mut b, 0, &format!("T 1.0.0.1 {port} 9.9.9.9 80")));
    }
    let expected = ["10.0.0.2", "10.0.0.3", "10.0.0.2", "10.0.0.3"];
    for (i, dst) in expected.iter().enumerate() {
        assert_eq!(to[i], format!("out0 1.0.0.1 {} {dst} 80", i + 1));
    }
    let hash = "m :: SourceIPHashMapper(5 0xbad, - - 10.0.0.2 - 0 1, - - 10.0.0.3 - 0 1); rw :: IPRewriter(m)";
    let mut b = bench(hash, 1, 2);
    let mut seen = std::collections::BTreeSet::new();
    for host in 1..=20 {
        let mut server = |port| {
            let out = send(&mut b, 0, &format!("T 1.0.0.{host} {port} 9.9.9.9 80"));
            out.split(' ').nth(3).unwrap().to_owned()
        };
        assert_eq!(server(1), server(2));
        seen.insert(server(3));
    }
    assert_eq!(seen.len(), 2);
}

#[test]
fn unused_mappings_are_reaped() {
    let rw = "rw :: UDPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, TIMEOUT 10, GUARANTEE 1, REAP_INTERVAL 4)";
    let mut b = bench(rw, 1, 2);
    send(&mut b, 0, "U 1.1.1.1 1 2.2.2.2 2");
    send(&mut b, 0, "U 1.1.1.1 3 2.2.2.2 2");
    seconds(&mut b, 9.0);
    send(&mut b, 0, "U 1.1.1.1 3 2.2.2.2 2");
    assert_eq!(b.read("rw.table_size"), "2");
    seconds(&mut b, 4.0);
    assert_eq!(b.read("rw.table_size"), "1");
    seconds(&mut b, 12.0);
    assert_eq!(b.read("rw.table_size"), "0");
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
        // What comes out is mirrored by hand and sent back.
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

/// Both ends exchanged: no checksum changes.
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
