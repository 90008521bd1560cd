//! Health of a balancer's back ends: any bytes that arrive as returned probes change no more than their own session.
//!
//! A record is a byte of flags, a length and as many bytes.

use super::Choices;
use crate::whole::Whole;
use engine::graph::Walker;
use engine::packet::{Batch, Packet, pool};
use std::time::Duration;
use testkit::{arp_reply, ip4};

const ROUTER: &str = "
    lb :: BalancePool(r1 02:00:00:00:00:01 10.255.0.11, r2 02:00:00:00:00:02 10.255.0.12, SETTLE 0);
    echo :: BalanceHealth(lb, 02:00:00:00:01:03, 10.255.0.1) -> out :: Collect;
    arp :: BalanceHealth(lb, 02:00:00:00:01:03, 10.255.0.1, KIND arp) -> out;
    icmp :: BalanceHealth(lb, 02:00:00:00:01:03, 10.255.0.1, KIND icmp) -> out;
    bfd :: BalanceHealth(lb, 02:00:00:00:01:03, 10.255.0.1, KIND bfd) -> out;
";
const KINDS: [&str; 4] = ["echo", "arp", "icmp", "bfd"];
/// Flag: the bytes are the body of a datagram from r1 or r2, or they follow the header of an ARP reply; otherwise a
/// whole frame.
const BODY: u8 = 4;
const SECOND: u8 = 8;
/// Flag: the datagram goes to the port of BFD; otherwise to that of its echoes.
const CONTROL: u8 = 16;
/// Time passes after this record.
const WAIT: u8 = 32;

/// Feeds a router.
pub fn run(data: &[u8]) {
    let before = pool::balance();
    let mut choices = Choices(&data[..data.len().min(4 << 10)]);
    let mut router = Whole::new(ROUTER, &[], Walker::Sweep);
    while !choices.is_empty() {
        let flags = choices.byte();
        let kind = KINDS[usize::from(flags & 3)];
        let len = usize::from(choices.byte());
        let frame = frame(flags, choices.bytes(len));
        router.push(
            kind,
            Packet::from_bytes(&frame).into_iter().collect::<Batch>(),
        );
        router.settle();
        let sent = testkit::collected(router.graph().plan(), "out");
        assert!(sent.len() <= 1, "{} frames for one", sent.len());
        if flags & WAIT != 0 {
            router.advance(Duration::from_millis(300));
            testkit::collected(router.graph().plan(), "out");
        }
    }
    router.check();
    drop(router);
    assert_eq!(pool::balance(), before, "buffers were leaked");
}

fn frame(flags: u8, bytes: &[u8]) -> Vec<u8> {
    let (ether, ip) = match flags & SECOND {
        0 => ("02:00:00:00:00:01", "10.255.0.11"),
        _ => ("02:00:00:00:00:02", "10.255.0.12"),
    };
    if flags & BODY == 0 {
        return bytes.to_vec();
    }
    if flags & 3 == 1 {
        let mut frame = arp_reply(ether, ip, "02:00:00:00:01:03", "10.255.0.1");
        frame.truncate(14 + 8);
        frame.extend(bytes);
        return frame;
    }
    let port = if flags & CONTROL == 0 { 3785 } else { 3784 };
    ip4()
        .ether(ether, "02:00:00:00:01:03")
        .src(ip)
        .dst("10.255.0.1")
        .ttl(255)
        .udp(49152, port)
        .payload(bytes)
        .bytes()
}
