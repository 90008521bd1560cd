//! The headers of an IPv6 packet as the elements of this folder look at them.

use engine::packet::Packet;
use std::net::Ipv6Addr;
use wire::{Ipv6, ext, ipv6, proto};

/// IPv6 packet without trailing bytes; `None` if it is truncated.
#[inline]
pub(super) fn whole(packet: &Packet) -> Option<&[u8]> {
    let bytes = packet.network();
    let checked = ipv6::check(bytes).ok()?;
    bytes.get(..checked.total_len)
}

/// Fixed IPv6 header; `None` if the packet is shorter.
#[inline]
pub(super) fn header(packet: &Packet) -> Option<Ipv6<&[u8; ipv6::LEN]>> {
    packet.network().first_chunk().map(Ipv6::new_unchecked)
}

/// Header in a chain of extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// Protocol number.
    pub(super) protocol: u8,
    /// Offset from the IPv6 header, in bytes.
    pub(super) at: usize,
    /// Offset of the next-header field that announces this header.
    pub(super) named_at: usize,
}

/// Headers after the IPv6 header, up to and including the upper layer's; ends early where the packet does. Run
/// [`ext::walk`] first: it finds mistakes, and bounds the number.
pub(super) fn links(packet: &[u8]) -> impl Iterator<Item = Link> {
    let mut next = packet.get(6).map(|&protocol| Link {
        protocol,
        at: ipv6::LEN,
        named_at: 6,
    });
    std::iter::from_fn(move || {
        let link = next?;
        next = follow(packet, link);
        Some(link)
    })
}

fn follow(packet: &[u8], link: Link) -> Option<Link> {
    let units = || packet.get(link.at + 1).map(|&u| usize::from(u));
    let len = match link.protocol {
        proto::HOP_BY_HOP | proto::ROUTING | proto::DEST_OPTS => (units()? + 1) * 8,
        proto::AH => (units()? + 2) * 4,
        // A later fragment contains no further headers.
        proto::FRAGMENT if packet.get(link.at + 2..link.at + 4)? >= &[0, 8][..] => return None,
        proto::FRAGMENT => ext::FRAGMENT_LEN,
        _ => return None,
    };
    (link.at + len <= packet.len()).then_some(Link {
        protocol: *packet.get(link.at)?,
        at: link.at + len,
        named_at: link.at,
    })
}

/// Upper-layer header at the end of the chain. `None` in later fragments and malformed chains.
pub(super) fn upper(packet: &[u8]) -> Option<Link> {
    let walk = ext::walk(packet).ok()?;
    let last = links(packet).last()?;
    (walk.has_upper_header() && last.at == walk.offset).then_some(last)
}

/// True if the frame was sent to a group address, according to its MAC header or packet type.
pub(super) fn sent_to_many(packet: &Packet) -> bool {
    use engine::packet::anno::PacketType::{Broadcast, Multicast};
    matches!(packet.anno().packet_type, Broadcast | Multicast)
        || packet
            .mac()
            .is_some_and(|mac| mac.first().is_some_and(|&b| b & 1 != 0))
}

/// Source address for messages to `peer`: one of the peer's scope if possible.
pub(super) fn source_for(addresses: &[Ipv6Addr], peer: Ipv6Addr) -> Option<Ipv6Addr> {
    let local = |a: Ipv6Addr| wire::addr::is_link_local6(a);
    let same = addresses.iter().find(|&&a| local(a) == local(peer));
    same.or(addresses.first()).copied()
}
