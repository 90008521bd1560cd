//! The five-tuple of a packet, and a fast seeded hash of it for ECMP and queues.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::bytes::be32;
use crate::{Ipv4, Ipv6, ext, icmp, icmp6, ipv4, proto};

/// Addresses, ports and protocol of a packet.
///
/// Ports are zero if the protocol has none, and in every fragment including the first. So all fragments of a datagram
/// have the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowKey {
    /// A flow over IPv4.
    V4(Flow<Ipv4Addr>),
    /// A flow over IPv6.
    V6(Flow<Ipv6Addr>),
}

/// The five-tuple for one kind of address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow<A> {
    /// Source address.
    pub src: A,
    /// Destination address.
    pub dst: A,
    /// Source port or 0.
    pub src_port: u16,
    /// Destination port or 0.
    pub dst_port: u16,
    /// Number of the upper layer.
    pub protocol: u8,
}

impl<A> Flow<A> {
    /// The flow of the reverse direction.
    #[inline]
    pub fn reversed(self) -> Flow<A> {
        Flow {
            src: self.dst,
            dst: self.src,
            src_port: self.dst_port,
            dst_port: self.src_port,
            protocol: self.protocol,
        }
    }

    /// Ports and protocol in one word.
    #[inline]
    fn tail(&self) -> u64 {
        u64::from(self.src_port) << 32 | u64::from(self.dst_port) << 16 | u64::from(self.protocol)
    }
}

/// True if the protocol's header starts with two ports.
#[inline]
const fn has_ports(protocol: u8) -> bool {
    matches!(
        protocol,
        proto::TCP | proto::UDP | proto::SCTP | proto::DCCP | proto::UDP_LITE
    )
}

/// The ports at `at`, or zeros.
#[inline]
fn ports(packet: &[u8], at: usize) -> (u16, u16) {
    match packet.get(at..at + 4) {
        Some(b) => {
            let both = be32(b, 0);
            ((both >> 16) as u16, both as u16)
        }
        None => (0, 0),
    }
}

#[cold]
fn quoted4(packet: &[u8]) -> Option<Flow<Ipv4Addr>> {
    let ip = Ipv4::new_unchecked(packet.first_chunk::<{ ipv4::MIN_LEN }>()?);
    if ip.protocol() != proto::ICMP || ip.is_fragment() {
        return None;
    }
    let message = packet.get(ip.header_len()..)?;
    let quoted = message
        .get(icmp::LEN..)
        .filter(|_| icmp::is_error(message[0]))?;
    let is_ipv4 = quoted.first()? >> 4 == 4;
    FlowKey::of_ip4(quoted)
        .filter(|_| is_ipv4)
        .map(Flow::reversed)
}

#[cold]
fn quoted6(packet: &[u8]) -> Option<Flow<Ipv6Addr>> {
    packet.first_chunk::<{ crate::ipv6::LEN }>()?;
    let walk = ext::walk(packet).ok()?;
    let is_whole = walk.fragment.is_none_or(|fragment| fragment.is_atomic());
    if walk.protocol != proto::ICMP6 || !is_whole {
        return None;
    }
    let message = packet.get(walk.offset..)?;
    let quoted = message
        .get(icmp6::LEN..)
        .filter(|_| icmp6::is_error(message[0]))?;
    let is_ipv6 = quoted.first()? >> 4 == 6;
    FlowKey::of_ip6(quoted)
        .filter(|_| is_ipv6)
        .map(Flow::reversed)
}

impl FlowKey {
    /// The flow of an IP packet of either version; `None` if its headers are malformed.
    #[inline]
    pub fn of_ip(packet: &[u8]) -> Option<FlowKey> {
        match packet.first()? >> 4 {
            4 => FlowKey::of_ip4(packet).map(FlowKey::V4),
            6 => FlowKey::of_ip6(packet).map(FlowKey::V6),
            _ => None,
        }
    }

    /// The flow of an IPv4 packet; the caller has checked the version.
    #[inline]
    pub fn of_ip4(packet: &[u8]) -> Option<Flow<Ipv4Addr>> {
        let ip = Ipv4::new_unchecked(packet.first_chunk::<{ ipv4::MIN_LEN }>()?);
        let (src_port, dst_port) = match has_ports(ip.protocol()) && !ip.is_fragment() {
            true => ports(packet, ip.header_len()),
            false => (0, 0),
        };
        Some(Flow {
            src: ip.src(),
            dst: ip.dst(),
            src_port,
            dst_port,
            protocol: ip.protocol(),
        })
    }

    /// The flow of an IPv6 packet, whose extension headers are skipped; the caller has checked the version.
    #[inline]
    pub fn of_ip6(packet: &[u8]) -> Option<Flow<Ipv6Addr>> {
        let ip = Ipv6::new_unchecked(packet.first_chunk::<{ crate::ipv6::LEN }>()?);
        let next = ip.next_header();
        let (protocol, at) = match has_ports(next) {
            true => (next, Some(crate::ipv6::LEN)),
            false => match ext::walk(packet) {
                Ok(w) if w.fragment.is_some_and(|f| !f.is_atomic()) => (proto::FRAGMENT, None),
                Ok(w) => (w.protocol, has_ports(w.protocol).then_some(w.offset)),
                Err(_) => (next, None),
            },
        };
        let (src_port, dst_port) = at.map_or((0, 0), |at| ports(packet, at));
        Some(Flow {
            src: ip.src(),
            dst: ip.dst(),
            src_port,
            dst_port,
            protocol,
        })
    }

    /// The flow that determines a packet's path: its own, or that of the packet which an ICMP error
    /// [quotes](Self::quoted).
    #[inline]
    pub fn of_ip_or_quoted(packet: &[u8]) -> Option<FlowKey> {
        match packet.first()? >> 4 {
            4 => FlowKey::of_ip4_or_quoted(packet).map(FlowKey::V4),
            6 => FlowKey::of_ip6_or_quoted(packet).map(FlowKey::V6),
            _ => None,
        }
    }

    /// Like [`of_ip_or_quoted`](Self::of_ip_or_quoted), for an IPv4 packet.
    #[inline]
    pub fn of_ip4_or_quoted(packet: &[u8]) -> Option<Flow<Ipv4Addr>> {
        let flow = FlowKey::of_ip4(packet)?;
        let quoted = match flow.protocol == proto::ICMP {
            true => quoted4(packet),
            false => None,
        };
        Some(quoted.unwrap_or(flow))
    }

    /// Like [`of_ip_or_quoted`](Self::of_ip_or_quoted), for an IPv6 packet.
    #[inline]
    pub fn of_ip6_or_quoted(packet: &[u8]) -> Option<Flow<Ipv6Addr>> {
        let flow = FlowKey::of_ip6(packet)?;
        let quoted = match flow.protocol == proto::ICMP6 {
            true => quoted6(packet),
            false => None,
        };
        Some(quoted.unwrap_or(flow))
    }

    /// Flow of an ICMP error: that of the packet it quotes, reversed. A balancer that keeps a flow on one path must
    /// send the flow's errors the same way (RFC 7690).
    pub fn quoted(packet: &[u8]) -> Option<FlowKey> {
        match packet.first()? >> 4 {
            4 => quoted4(packet).map(FlowKey::V4),
            6 => quoted6(packet).map(FlowKey::V6),
            _ => None,
        }
    }

    /// The flow of the reverse direction.
    #[inline]
    pub fn reversed(self) -> FlowKey {
        match self {
            FlowKey::V4(f) => FlowKey::V4(f.reversed()),
            FlowKey::V6(f) => FlowKey::V6(f.reversed()),
        }
    }

    /// Source address.
    #[inline]
    pub fn src(&self) -> IpAddr {
        match self {
            FlowKey::V4(f) => f.src.into(),
            FlowKey::V6(f) => f.src.into(),
        }
    }

    /// Destination address.
    #[inline]
    pub fn dst(&self) -> IpAddr {
        match self {
            FlowKey::V4(f) => f.dst.into(),
            FlowKey::V6(f) => f.dst.into(),
        }
    }

    /// A hash of 32 bits. Routers that hash one after the other need different seeds, otherwise the second one uses
    /// only a part of its paths (polarisation).
    #[inline]
    pub fn hash(&self, seed: u32) -> u32 {
        match self {
            FlowKey::V4(f) => f.hash(seed),
            FlowKey::V6(f) => f.hash(seed),
        }
    }
}

impl Flow<Ipv4Addr> {
    /// See [`FlowKey::hash`].
    #[inline]
    pub fn hash(&self, seed: u32) -> u32 {
        let addrs = u64::from(self.src.to_bits()) << 32 | u64::from(self.dst.to_bits());
        finish(absorb(absorb(start(seed), addrs), self.tail()))
    }

    /// Like [`hash`](Self::hash), with the same value for both directions of the flow.
    #[inline]
    pub fn symmetric_hash(&self, seed: u32) -> u32 {
        let src = (self.src.octets(), self.src_port.to_be_bytes());
        let dst = (self.dst.octets(), self.dst_port.to_be_bytes());
        Start::new(seed).symmetric_hash(src, dst, self.protocol)
    }
}

impl Flow<Ipv6Addr> {
    /// See [`FlowKey::hash`].
    #[inline]
    pub fn hash(&self, seed: u32) -> u32 {
        let mut state = start(seed);
        for addr in [self.src.to_bits(), self.dst.to_bits()] {
            state = absorb(state, (addr >> 64) as u64);
            state = absorb(state, addr as u64);
        }
        finish(absorb(state, self.tail()))
    }

    /// Like [`hash`](Self::hash), with the same value for both directions of the flow.
    #[inline]
    pub fn symmetric_hash(&self, seed: u32) -> u32 {
        let end = |addr: Ipv6Addr, port: u16| {
            let high = absorb(start(seed), (addr.to_bits() >> 64) as u64);
            absorb(absorb(high, addr.to_bits() as u64), u64::from(port))
        };
        let (src, dst) = (end(self.src, self.src_port), end(self.dst, self.dst_port));
        finish(combine(src, dst) ^ u64::from(self.protocol))
    }
}

/// Initial state of the symmetric hash for a seed, for callers that read the fields of IPv4 headers themselves.
#[derive(Clone, Copy, Debug)]
pub struct Start(u64);

impl Start {
    /// The hash state for a seed.
    #[inline]
    pub fn new(seed: u32) -> Start {
        Start(start(seed))
    }

    /// Same as [`Flow::symmetric_hash`]. An end is an address and a port, in the byte order of the headers.
    #[inline(always)]
    pub fn symmetric_hash(
        self,
        src: ([u8; 4], [u8; 2]),
        dst: ([u8; 4], [u8; 2]),
        protocol: u8,
    ) -> u32 {
        // An end has 48 bits, so the two high bytes of its state are those of the seed's state. With nearly all seeds
        // they are not 0. Then no end has the state 0, in whose product the other end would be lost.
        let end = |(addr, port)| {
            let high = u64::from(u16::from_le_bytes(port)) << 32;
            self.0 ^ (high | u64::from(u32::from_le_bytes(addr)))
        };
        finish(combine(end(src), end(dst)) ^ u64::from(protocol))
    }
}

// Odd multipliers without structure: the fractional bits of the square roots of 2, 3 and 5. Each step is a bijection
// of the state, so no key value cancels the bits that follow.
const ROOT2: u64 = 0x6a09_e667_f3bc_c909;
const ROOT3: u64 = 0xbb67_ae85_84ca_a73b;
const ROOT5: u64 = 0x3c6e_f372_fe94_f82b;

#[inline(always)]
fn start(seed: u32) -> u64 {
    u64::from(seed).wrapping_mul(ROOT3) ^ ROOT5
}

#[inline(always)]
fn absorb(state: u64, word: u64) -> u64 {
    let x = (state ^ word).wrapping_mul(ROOT2);
    x ^ (x >> 32)
}

/// Combines two states; the order does not matter. The result is the exclusive or of the two halves of their product.
#[inline(always)]
fn combine(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline(always)]
fn finish(state: u64) -> u32 {
    let x = state.wrapping_mul(ROOT3);
    let x = (x ^ (x >> 29)).wrapping_mul(ROOT5);
    (x >> 32) as u32
}

#[cfg(test)]
mod tests;
