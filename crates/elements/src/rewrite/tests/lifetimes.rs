//! Lifetimes of mappings, and the order in which they are removed.

use crate::rewrite::testing::{bench, packet, seconds, send, show};
use testkit::Bench;

#[test]
fn a_full_table_keeps_guaranteed_flows() {
    let rw = "rw :: IPRewriter(pattern 2.0.0.1 1024-65535# - - 0 1, drop, MAPPING_CAPACITY 8)";
    let mut b = bench(rw, 2, 2);
    let there = |i: u16| format!("T 1.0.0.{i} {} 2.0.0.2 {} A abc", 10 + i, 20 + i);
    let back = |i: u16| format!("T 2.0.0.2 {} 2.0.0.1 {} A abc", 20 + i, 1023 + i);
    let arrives = |b: &mut Bench, input, line: &str| send(b, input, line) != "-";
    for i in 1..=9 {
        seconds(&mut b, 0.1);
        assert_eq!(arrives(&mut b, 0, &there(i)), i < 9);
    }
    for i in 1..=9 {
        seconds(&mut b, 0.1);
        assert_eq!(arrives(&mut b, 1, &back(i)), i < 9);
    }
    // The guarantees are over: the oldest is removed.
    seconds(&mut b, 5.1);
    let new = "U 1.0.0.10 20 2.0.0.2 30 - abc";
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
    assert_eq!(b.read("rw.capacity"), "8");
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

/// Some of the mappings to one peer stay in use while the others expire: only those in use may block values.
#[test]
fn a_mapping_whose_time_is_over_is_none_before_it_is_removed() {
    for (order, ports) in [("", 64), ("#", 64), ("?", 64), ("", 8)] {
        let last = 1023 + ports;
        let rw = format!(
            "rw :: IPRewriter(pattern 1.0.0.1 1024-{last}{order} - - 0 1, drop, UDP_TIMEOUT 10, REAP_INTERVAL 900)"
        );
        let mut b = bench(&rw, 2, 2);
        let question = |i: u16| format!("U 10.0.0.1 {} 9.9.9.9 53", 2000 + i);
        let port = |sent: String| -> u16 {
            let words: Vec<&str> = sent.split_whitespace().collect();
            words.get(2).map_or(0, |port| port.parse().unwrap())
        };
        let first: Vec<u16> = (0..ports)
            .map(|i| port(send(&mut b, 0, &question(i))))
            .collect();
        assert!(first.iter().all(|&p| p != 0));
        assert_eq!(send(&mut b, 0, &question(999)), "-");
        assert_eq!(b.drops("rw", "mapping_failure"), 1);
        seconds(&mut b, 9.0);
        let answer = |port: u16| format!("U 9.9.9.9 53 1.0.0.1 {port}");
        assert_ne!(send(&mut b, 1, &answer(first[0])), "-");
        // All others have expired, and are still in the table.
        seconds(&mut b, 1.5);
        assert_eq!(b.read("rw.table_size"), ports.to_string());
        assert_eq!(send(&mut b, 1, &answer(first[1])), "-");
        assert_ne!(send(&mut b, 1, &answer(first[0])), "-");
        let second: Vec<u16> = (1..ports)
            .map(|i| port(send(&mut b, 0, &question(1000 + i))))
            .collect();
        assert!(
            second.iter().all(|&p| p != 0 && p != first[0]),
            "{order} {ports}"
        );
        assert_eq!(send(&mut b, 0, &question(5000)), "-");
        assert_eq!(
            send(&mut b, 1, &answer(second[0])),
            format!("out1 9.9.9.9 53 10.0.0.1 {}", 3001)
        );
    }
}

#[test]
fn an_error_about_a_mapping_whose_time_is_over_is_about_no_flow() {
    let rw = "rw :: IPRewriter(pattern 1.0.0.1 1024-65535 - - 0 1, drop, UDP_TIMEOUT 10, REAP_INTERVAL 900);
        errors :: CheckIPHeader -> ICMPRewriter(rw) -> told :: Collect";
    let mut b = bench(rw, 2, 2);
    b.push("in0", &[packet("U 10.0.0.1 2000 9.9.9.9 53")]);
    let sent = b.take("out0").remove(0);
    let error = testkit::ip4()
        .src("7.7.7.7")
        .dst("1.0.0.1")
        .icmp(3, 1, 0)
        .payload(sent)
        .bytes();
    for told in [1, 0] {
        b.push("errors", std::slice::from_ref(&error));
        assert_eq!(b.take("told").len(), told);
        seconds(&mut b, 10.1);
    }
}

/// A client queries a resolver repeatedly, from a new port each time; every port is in use until its mapping expires.
#[test]
fn all_ports_to_one_resolver_last_as_the_timeouts_say() {
    let rw = "rw :: IPRewriter(pattern 1.0.0.1 1024-65535 - - 0 1, drop, UDP_TIMEOUT 100)";
    let mut b = bench(rw, 2, 2);
    let ports = 64_512_u32;
    // There are as many mappings in a timeout as ports: none is refused, however long it continues.
    let mut random = testkit::Rng::seed(7);
    for i in 0..3 * ports {
        if i % 64 == 0 {
            seconds(&mut b, 100.0 * 64.0 / f64::from(ports - 64));
        }
        let (host, port) = (i % 250, 32_768 + random.below(28_232));
        let line = format!("U 10.0.{}.{host} {port} 9.9.9.9 53", i / 250 % 250);
        b.push("in0", &[packet(&line)]);
    }
    assert_eq!(b.read("rw.mapping_failures"), "0");
    assert_eq!(b.take("out0").len(), 3 * ports as usize);
}
