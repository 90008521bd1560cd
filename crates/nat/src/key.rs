//! Key of a mapping, and its place in packets.

use std::hash::{Hash, Hasher};
use std::net::Ipv4Addr;
use wire::flow::Flow;
use wire::{FlowKey, checksum, icmp, ipv4, proto};

/// Fields that a rewriter reads and changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Addresses and ports of TCP and UDP, with separate mappings for each protocol (IPRewriter).
    Ip,
    /// Addresses and ports of TCP (TCPRewriter).
    Tcp,
    /// Addresses and ports of TCP or UDP, with mappings that both protocols share (UDPRewriter).
    Udp,
    /// Addresses and the identifier of pings (ICMPPingRewriter).
    Ping,
    /// The source address of a host's packets (IPAddrRewriter).
    Address,
    /// Source and destination address (IPAddrPairRewriter).
    Pair,
}

/// Flow key: the header fields on one side of a mapping. Fields that the mapping's kind does not use are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// Source address.
    pub src: u32,
    /// Destination address.
    pub dst: u32,
    /// Source port; for pings, the identifier of an echo request.
    pub sport: u16,
    /// Destination port; for pings, the identifier of an echo reply.
    pub dport: u16,
    /// Number of the rewriter in the flow set.
    pub space: u16,
    /// Protocol number, for kinds that distinguish protocols; [`REQUEST`] or [`REPLY`] for pings; otherwise 0.
    pub proto: u8,
}

const REQUEST: u8 = proto::ICMP;
const REPLY: u8 = proto::ICMP | 0x80;

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from(self.src) << 32 | u64::from(self.dst));
        let ports = u64::from(self.sport) << 16 | u64::from(self.dport);
        state.write_u64(u64::from(self.space) << 40 | u64::from(self.proto) << 32 | ports);
    }
}

impl Key {
    /// Key of the flow's replies: source and destination are exchanged.
    #[inline]
    pub fn reversed(self) -> Key {
        Key {
            src: self.dst,
            dst: self.src,
            sport: self.dport,
            dport: self.sport,
            space: self.space,
            proto: match self.proto {
                REQUEST => REPLY,
                REPLY => REQUEST,
                other => other,
            },
        }
    }

    /// Flow from which the packet's bucket is computed.
    pub fn flow(&self) -> FlowKey {
        FlowKey::V4(Flow {
            src: Ipv4Addr::from_bits(self.src),
            dst: Ipv4Addr::from_bits(self.dst),
            src_port: self.sport,
            dst_port: self.dport,
            protocol: self.proto,
        })
    }

    /// True if this is the key of an ICMP echo reply.
    pub fn is_reply(&self) -> bool {
        self.proto == REPLY
    }

    /// Text form of the flow, as in Click's tables: `(SA, SP, DA, DP)`.
    pub fn show(&self, kind: Kind) -> String {
        let (src, dst) = (Ipv4Addr::from_bits(self.src), Ipv4Addr::from_bits(self.dst));
        match kind {
            Kind::Address if self.dst == 0 => src.to_string(),
            Kind::Address => dst.to_string(),
            Kind::Pair => format!("({src}, {dst})"),
            Kind::Ping => format!("({src}, {dst}, {})", self.sport | self.dport),
            _ => format!("({src}, {}, {dst}, {})", self.sport, self.dport),
        }
    }
}

/// Position of a datagram's transport header.
#[derive(Clone, Copy, Debug)]
pub struct TransportPosition {
    /// Offset of the transport header in bytes.
    pub at: usize,
    /// IP protocol number.
    pub protocol: u8,
    /// True if the packet is the first or only fragment of the datagram.
    pub first: bool,
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from(be16(bytes, at)) << 16 | u32::from(be16(bytes, at + 2))
}

/// Finds the transport header of a datagram; `None` if the IP header is invalid.
#[inline]
pub fn locate_transport(datagram: &[u8]) -> Option<TransportPosition> {
    let first = *datagram.first()?;
    let at = usize::from(first & 0xf) * 4;
    let sound = first >> 4 == 4 && at >= ipv4::MIN_LEN && at <= datagram.len();
    sound.then(|| TransportPosition {
        at,
        protocol: datagram[9],
        first: be16(datagram, 6) & ipv4::OFFSET_MASK == 0,
    })
}

/// Flow key of a datagram; `None` if rewriters of this kind do not rewrite it. For [`Kind::Address`], the key of the
/// source address.
#[inline]
pub fn key(kind: Kind, datagram: &[u8], place: TransportPosition, space: u16) -> Option<Key> {
    let key = Key {
        src: be32(datagram, 12),
        dst: be32(datagram, 16),
        space,
        ..Key::default()
    };
    match kind {
        Kind::Pair => return Some(key),
        Kind::Address => return Some(Key { dst: 0, ..key }),
        _ => {}
    }
    // An ICMP error quotes at least 8 bytes after the IP header.
    if !place.first || datagram.len() < place.at + 8 {
        return None;
    }
    if kind == Kind::Ping {
        let ident = be16(datagram, place.at + 4);
        return match datagram[place.at] {
            icmp::ECHO if place.protocol == proto::ICMP => Some(Key {
                sport: ident,
                proto: REQUEST,
                ..key
            }),
            icmp::ECHO_REPLY if place.protocol == proto::ICMP => Some(Key {
                dport: ident,
                proto: REPLY,
                ..key
            }),
            _ => None,
        };
    }
    let rewrites = match kind {
        Kind::Tcp => place.protocol == proto::TCP,
        _ => matches!(place.protocol, proto::TCP | proto::UDP),
    };
    rewrites.then(|| Key {
        sport: be16(datagram, place.at),
        dport: be16(datagram, place.at + 2),
        proto: if kind == Kind::Ip { place.protocol } else { 0 },
        ..key
    })
}

/// Replaces the fields of key `from` in a datagram by those of `to`, and updates the checksums that the packet
/// contains.
#[inline]
pub fn rewrite(datagram: &mut [u8], place: TransportPosition, from: &Key, to: &Key, kind: Kind) {
    let (mut src, mut dst) = (to.src, to.dst);
    let (old_src, old_dst) = (be32(datagram, 12), be32(datagram, 16));
    if kind == Kind::Address {
        // An address mapping rewrites one address; the other is kept.
        src = if from.dst == 0 { src } else { old_src };
        dst = if from.dst == 0 { old_dst } else { dst };
    }
    let mut old = u64::from(old_src) + u64::from(old_dst);
    let mut new = u64::from(src) + u64::from(dst);
    if old != new || src != old_src {
        datagram[12..16].copy_from_slice(&src.to_be_bytes());
        datagram[16..20].copy_from_slice(&dst.to_be_bytes());
        let check = be16(datagram, 10);
        put16(datagram, 10, updated(check, old, new));
    }
    if !place.first {
        return;
    }
    let at = place.at;
    match place.protocol {
        proto::ICMP if kind == Kind::Ping => {
            let (was, is) = (from.sport | from.dport, to.sport | to.dport);
            put16(datagram, at + 4, is);
            let check = updated(be16(datagram, at + 2), was.into(), is.into());
            let check = checksum::updated_icmp(check, &datagram[at..]);
            put16(datagram, at + 2, check);
        }
        proto::TCP | proto::UDP => {
            if matches!(kind, Kind::Ip | Kind::Tcp | Kind::Udp) {
                old += u64::from(from.sport) + u64::from(from.dport);
                new += u64::from(to.sport) + u64::from(to.dport);
                put16(datagram, at, to.sport);
                put16(datagram, at + 2, to.dport);
            }
            patch(datagram, place, old, new);
        }
        _ => {}
    }
}

/// Updates the checksum of a TCP or UDP header, if present, after the sum of the covered bytes has changed from `old`
/// to `new`.
pub(crate) fn patch(datagram: &mut [u8], place: TransportPosition, old: u64, new: u64) {
    let udp = place.protocol == proto::UDP;
    let at = place.at + if udp { 6 } else { 16 };
    if datagram.len() < at + 2 {
        return;
    }
    let check = match be16(datagram, at) {
        0 if udp => 0,
        check => match updated(check, old, new) {
            0 if udp => 0xffff,
            check => check,
        },
    };
    put16(datagram, at, check);
}

/// Incrementally updated checksum (RFC 1624, equation 3). An unchanged sum leaves the checksum as it is.
#[inline]
fn updated(check: u16, old: u64, new: u64) -> u16 {
    if old == new {
        return check;
    }
    checksum::finish(u64::from(!check) + u64::from(!checksum::fold(old)) + new)
}
