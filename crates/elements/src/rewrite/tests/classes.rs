//! Keys of pings and hosts.

use crate::rewrite::testing::{bench, send};

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
    for (line, to) in [
        ("T 1.0.0.1 1 9.9.9.9 2", "3.0.0.1 1 9.9.9.9 2"),
        ("U 1.0.0.2 1 9.9.9.8 2", "3.0.0.2 1 9.9.9.8 2"),
        ("I 1.0.0.1 9.9.9.7 2", "3.0.0.1 9.9.9.7 2"),
        ("T 9.9.9.6 1 3.0.0.1 2", "9.9.9.6 1 1.0.0.1 2"),
    ] {
        assert_eq!(send(&mut b, 0, line), format!("out0 {to}"));
    }
    assert_eq!(
        b.read("rw.table").lines().next(),
        Some("1.0.0.1 => 3.0.0.1 [*0 0] i0")
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
