//! Common part of the elements of Neighbour Discovery: frames to send, and messages received.

use super::check_icmp6_header::sound_message;
use super::header_chain;
use super::icmp6_error::{own_packet, write_header};
use engine::packet::Packet;
use std::net::Ipv6Addr;
use wire::{EtherAddr, Icmp6, Ipv6, Nd, checksum, ether, ipv6, proto};

/// Hop limit of all messages: proof that no router has passed them on.
const HOPS: u8 = 255;

/// An ICMPv6 message of the link as an IPv6 packet with its destination annotation set; `None` if
/// the pool has run dry.
pub(super) fn packet(src: Ipv6Addr, dst: Ipv6Addr, message: &[u8]) -> Option<Packet> {
    let mut packet = Packet::new()?;
    let bytes = packet.put(ipv6::LEN + message.len())?;
    let (header, body) = bytes.split_at_mut_checked(ipv6::LEN)?;
    write_header(header, src, dst, message.len());
    Ipv6::new_unchecked(header).set_hop_limit(HOPS);
    body.copy_from_slice(message);
    let pseudo = checksum::pseudo6(src, dst, proto::ICMP6, message.len());
    Icmp6::new_unchecked(body).fill_checksum(pseudo);
    own_packet(&mut packet, dst);
    Some(packet)
}

/// The message in an Ethernet frame.
pub(super) fn frame(
    link: (EtherAddr, EtherAddr),
    src: Ipv6Addr,
    dst: Ipv6Addr,
    message: &[u8],
) -> Option<Packet> {
    let mut packet = packet(src, dst, message)?;
    encapsulate(&mut packet, link.0, link.1).then_some(packet)
}

/// Puts an Ethernet header from `src` to `dst` directly before the IPv6 header; false without room.
#[inline]
pub(super) fn encapsulate(packet: &mut Packet, src: EtherAddr, dst: EtherAddr) -> bool {
    packet.replace_mac(&ether::header(dst, src, ether::IPV6))
}

/// A valid message: from this link, complete, with a correct checksum (RFC 4861, 6.1 and 7.1).
pub(super) struct Received<'a> {
    pub(super) src: Ipv6Addr,
    pub(super) nd: Nd<&'a [u8]>,
}

/// The message in a packet, if it is valid.
pub(super) fn received(packet: &Packet) -> Option<Received<'_>> {
    let whole = header_chain::whole(packet)?;
    // RFC 6980, 5: not in fragments, not even in a single whole one.
    if header_chain::links(whole).any(|link| link.protocol == proto::FRAGMENT) {
        return None;
    }
    let nd = Nd::new_checked(whole.get(sound_message(whole).ok()?..)?).ok()?;
    let ip = Ipv6::new_unchecked(whole);
    nd.check_received(ip.src(), ip.dst(), ip.hop_limit()).ok()?;
    Some(Received { src: ip.src(), nd })
}

/// An address that one station can have.
pub(super) fn of_station(ether: Option<EtherAddr>) -> Option<EtherAddr> {
    ether.filter(|e| e.is_unicast())
}
