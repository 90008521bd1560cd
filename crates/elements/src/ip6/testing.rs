//! Common part of the tests of this folder: packets, and a bench of each kind.

use std::net::Ipv6Addr;
use testkit::Bench;
use wire::{Icmp6, Ipv6, checksum, proto};

/// An address.
pub(super) fn a(text: &str) -> Ipv6Addr {
    text.parse().expect("a test's address")
}

/// An IPv6 packet.
pub(crate) fn ip6(src: &str, dst: &str, next: u8, hops: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 40];
    let mut ip = Ipv6::new_unchecked(&mut bytes);
    ip.set_first_word(0, 0);
    ip.set_payload_len(payload.len() as u16);
    ip.set_next_header(next);
    ip.set_hop_limit(hops);
    ip.set_src(a(src));
    ip.set_dst(a(dst));
    bytes.extend(payload);
    bytes
}

/// An ICMPv6 message in a packet with hop limit 255 and a correct checksum.
pub(super) fn icmp6(src: &str, dst: &str, message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    let pseudo = checksum::pseudo6(a(src), a(dst), proto::ICMP6, message.len());
    Icmp6::new_unchecked(&mut message[..]).fill_checksum(pseudo);
    ip6(src, dst, proto::ICMP6, 255, &message)
}

/// True if the ICMPv6 checksum of a packet without extension headers is correct.
pub(super) fn checksum_holds(packet: &[u8]) -> bool {
    let ip = Ipv6::new_unchecked(packet);
    let pseudo = ip.pseudo(proto::ICMP6, ip.payload_len());
    ip.total_len() == packet.len() && checksum::is_valid(pseudo + checksum::sum(ip.payload()))
}

/// Runs a test on a router that moves batches, and on one that moves packets.
pub(super) fn both(text: &str, test: impl Fn(&mut Bench)) {
    test(&mut Bench::new(crate::CLASSES, text));
    test(&mut Bench::strict(crate::CLASSES, text));
}
