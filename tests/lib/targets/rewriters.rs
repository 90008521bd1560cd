//! Rewriters: packets from inside and from outside, valid and invalid, while flows begin and end.
//!
//! A record is a byte of flags, a byte that chooses both ends of the flow, a byte for TCP's flags, a length and the
//! payload.

use super::Choices;
use crate::whole::Whole;
use engine::graph::Walker;
use engine::packet::{Batch, Packet, pool};
use std::time::Duration;
use testkit::ip4;
use wire::Ipv4;

/// Small ranges and capacities, so that they run out.
const ROUTER: &str = "
    inside :: CheckIPHeader -> i :: IPClassifier(tcp, udp, icmp type echo, -);
    outside :: CheckIPHeader -> o :: IPClassifier(tcp, udp, icmp type echo-reply, icmp, -);
    tcp :: TCPRewriter(pattern 192.0.2.1 1024-1100 - - 0 1, drop, MAPPING_CAPACITY 12);
    udp :: IPRewriter(pattern 192.0.2.1 1024-1027# - - 0 1, services, MAPPING_CAPACITY tcp);
    services :: PortIPMapper(udp 1024-1026 - - 10.0.0.2 53 1 0, tcp 1031 - - 10.0.0.3 - 1 0, pass 1);
    pings :: ICMPPingRewriter(pattern 192.0.2.1 - 0-2 0 1, drop, MAPPING_CAPACITY 5);
    hosts :: IPAddrRewriter(pattern 192.0.2.0/29 - 0 1, drop, MAPPING_CAPACITY 4);
    errors :: ICMPRewriter(tcp udp pings hosts);
    i[0] -> FTPPortMapper(tcp, tcp, 0) -> [0] tcp; i[1] -> [0] udp; i[2] -> [0] pings; i[3] -> [0] hosts;
    o[0] -> [1] tcp; o[1] -> [1] udp; o[2] -> [1] pings; o[3] -> errors; o[4] -> [1] hosts;
    out :: Collect; back :: Collect;
    tcp, udp, pings, hosts -> out;
    tcp[1], udp[1], pings[1], hosts[1], errors -> back;
";

/// The packet comes from outside.
const OUTSIDE: u8 = 1;
/// Flag: the bytes are the whole packet; the header checksum is made correct.
const RAW: u8 = 2;
/// Flag for UDP; with the next one, a ping; otherwise TCP.
const UDP: u8 = 4;
const PING: u8 = 8;
/// Time passes after this packet: seconds, or hours.
const SECONDS: u8 = 16;
const HOURS: u8 = 32;
/// Flag for a fragment.
const FRAGMENT: u8 = 64;

/// Feeds a router.
pub fn run(data: &[u8]) {
    let before = pool::balance();
    let mut choices = Choices(&data[..data.len().min(4 << 10)]);
    let mut router = Whole::new(ROUTER, &[], Walker::Sweep);
    while !choices.is_empty() {
        let flags = choices.byte();
        let packet = packet(flags, &mut choices);
        let batch: Batch = Packet::from_bytes(&packet).into_iter().collect();
        let side = if flags & OUTSIDE != 0 {
            "outside"
        } else {
            "inside"
        };
        router.push(side, batch);
        router.settle();
        let wait = u64::from(flags & SECONDS != 0) * 3 + u64::from(flags & HOURS != 0) * 90_000;
        router.advance(Duration::from_secs(wait));
        for sink in ["out", "back"] {
            for seen in testkit::collected(router.graph().plan(), sink) {
                let ip = Ipv4::new_checked(&seen.bytes[seen.network_offset..]);
                assert!(ip.is_ok_and(|ip| ip.verify_checksum()), "{:x?}", seen.bytes);
            }
        }
    }
    for (element, most) in [("tcp", 12), ("pings", 5), ("hosts", 4)] {
        let size: u64 = router
            .handler(&format!("{element}.size"), "")
            .parse()
            .expect("a number");
        assert!(size <= most, "{element} has {size} flows");
    }
    router.check();
    drop(router);
    assert_eq!(pool::balance(), before, "buffers were leaked");
}

fn packet(flags: u8, choices: &mut Choices) -> Vec<u8> {
    let (ends, tcp_flags) = (choices.byte(), choices.byte());
    let length = choices.byte();
    let payload = choices.bytes(length.into());
    if flags & RAW != 0 {
        return summed(payload.to_vec());
    }
    let (host, server) = (
        format!("10.0.0.{}", ends & 7),
        format!("198.51.100.{}", ends >> 3 & 3),
    );
    let (own, other) = (
        1024 + u16::from(ends >> 5),
        if ends & 16 != 0 { 21 } else { 80 },
    );
    let mut built = match flags & OUTSIDE {
        0 => ip4().src(&*host).dst(&*server),
        _ => ip4().src(&*server).dst("192.0.2.1"),
    };
    if flags & FRAGMENT != 0 {
        built = built.fragment(usize::from(ends >> 5) * 8, ends & 1 != 0);
    }
    let (sport, dport) = match flags & OUTSIDE {
        0 => (own, other),
        _ => (other, own),
    };
    let built = match (flags & UDP, flags & PING, flags & OUTSIDE) {
        (0, 0, _) => built.tcp(sport, dport).tcp_flags(tcp_flags),
        (_, 0, _) => built.udp(sport, dport),
        (_, _, 0) => built.icmp_echo(own, 1),
        _ => built.icmp_echo_reply(u16::from(ends & 3), 1),
    };
    built.payload(payload).bytes()
}

/// Helps the fuzzer past the check of the header's checksum.
fn summed(mut packet: Vec<u8>) -> Vec<u8> {
    let length = packet
        .first()
        .map_or(0, |first| usize::from(first & 15) * 4);
    if length >= 20
        && let Some(header) = packet.get_mut(..length)
    {
        header[10..12].fill(0);
        let sum = wire::checksum::checksum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    packet
}
