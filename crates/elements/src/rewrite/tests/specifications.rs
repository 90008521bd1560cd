//! Input specifications: patterns, mappers, and packets without a mapping.

use crate::rewrite::testing::{bench, config, packet, send};
use testkit::ip4;

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
        "1.0.0.1 1 - -\n1.0.0.1 1-65535 - -\n1.0.0.1 - - -\n"
    );
}

#[test]
fn ports_may_be_named_and_written_as_any_number() {
    let rw = "rw :: IPRewriter(pattern 1.0.0.1 0x400-0x4ff - http 0 1, pattern - ssh - 010 0 1,
        pattern - ftp-data - - 0 1, nochange 0 1)";
    assert_eq!(
        bench(rw, 4, 2).read("rw.patterns"),
        "1.0.0.1 1024-1279 - 80\n- 22 - 8\n- 20 - -\n<keep>\n"
    );
}

#[test]
fn wrong_specifications_are_refused() {
    for (spec, wrong) in [
        ("pattern 1.0.0.x - 0 1", "bad source address"),
        ("pattern 1.255.0.0-1.0.255.255 - 0 1", "bad source address"),
        ("pattern 1.0.0.1 1x - - 0 1", "bad source port"),
        ("pattern 1.0.0.1 0 - - 0 1", "bad source port"),
        ("pattern 1.0.0.0 456-19 - - 0 1", "bad source port"),
        ("pattern 1.0.0.0 456-65536 - - 0 1", "bad source port"),
        ("pattern 1.0.0.0 1 x - 0 1", "bad destination address"),
        ("pattern 1.0.0.0 1 - x 0 1", "bad destination port"),
        ("pattern 1.0.0.0 1 - 0 0 1", "bad destination port"),
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
fn unrewritten_packets_pass_only_at_inputs_with_pass() {
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
    assert_eq!(b.drops("rw", "not_rewritable"), 1);
    assert_eq!(b.drops("rw", "fragment"), 1);
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
fn a_hash_mapper_chooses_by_the_number_of_a_node_not_by_its_place() {
    let servers = |patterns: &str| -> Vec<String> {
        let text = format!("m :: SourceIPHashMapper(5 7, {patterns}); rw :: IPRewriter(m)");
        let mut b = bench(&text, 1, 2);
        let client = |host| send(&mut b, 0, &format!("T 1.0.0.{host} 1 9.9.9.9 80"));
        (1..=20).map(client).collect()
    };
    let (two, three) = ("- - 10.0.0.2 - 0 1 2", "- - 10.0.0.3 - 0 1 3");
    let chosen = servers(&format!("{two}, {three}"));
    assert_eq!(chosen, servers(&format!("{three}, {two}")));
    assert!(chosen.iter().any(|out| out.contains("10.0.0.2")));
    assert!(chosen.iter().any(|out| out.contains("10.0.0.3")));
}
