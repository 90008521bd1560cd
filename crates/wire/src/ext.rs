//! IPv6 extension headers: the bounded walk to the upper layer, and their options (RFC 8200, 4).
//!
//! Offsets are counted from the first byte of the IPv6 header, so that they serve as the pointer of an
//! ICMPv6 Parameter Problem (RFC 4443, 3.4).

use crate::bytes::{array, be16, be32};
use crate::{ipv6, proto};

/// Maximum number of extension headers; a packet with more is refused.
pub const MAX_HEADERS: usize = 8;
/// Length of a fragment header.
pub const FRAGMENT_LEN: usize = 8;

/// Option: one byte of padding, without a length byte.
pub const PAD1: u8 = 0;
/// Option: padding.
pub const PADN: u8 = 1;
/// Option: router alert (RFC 2711).
pub const ROUTER_ALERT: u8 = 5;
/// Option: jumbo payload (RFC 2675).
pub const JUMBO: u8 = 0xc2;

/// Cases in which a fault is answered with a Parameter Problem message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// Drop silently.
    Never,
    /// Answer unless the destination is a multicast address.
    Unicast,
    /// Answer even if the destination is a multicast address (RFC 4443, 2.4 e.3).
    Always,
}

/// A fault in an extension header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadExt {
    /// Code of the Parameter Problem; see [`crate::icmp6::parameter_problem`].
    pub code: u8,
    /// Offset of the mistake, for the pointer of an ICMPv6 parameter problem.
    pub pointer: usize,
    /// Cases in which the fault is reported to the source.
    pub report: Report,
}

impl BadExt {
    const fn field(pointer: usize) -> BadExt {
        BadExt {
            code: 0,
            pointer,
            report: Report::Unicast,
        }
    }
}

/// A fragment header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Offset of the header.
    pub at: usize,
    /// Position of this fragment in the fragmentable part, in bytes.
    pub offset: usize,
    /// True if more fragments follow.
    pub more_fragments: bool,
    /// Identification.
    pub ident: u32,
}

impl Fragment {
    /// True for an atomic fragment: the packet has a fragment header although it is whole (RFC 6946).
    #[inline]
    pub const fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more_fragments
    }
}

/// Result of the walk from an IPv6 header to the upper layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// Number of the upper layer; [`proto::NO_NEXT`] if there is none.
    pub protocol: u8,
    /// Offset of the upper layer. In a fragment other than the first, the offset of the fragment's data, which may
    /// start inside a header.
    pub offset: usize,
    /// Offset of the hop-by-hop options header.
    pub hop_by_hop: Option<usize>,
    /// Offset of the first routing header.
    pub routing: Option<usize>,
    /// Offset of the last destination options header.
    pub dest_opts: Option<usize>,
    /// The fragment header, if there is one.
    pub fragment: Option<Fragment>,
    /// Offset at which a new fragment header is inserted: the length of the part that every fragment repeats (RFC
    /// 8200, 4.5).
    pub per_fragment_len: usize,
    /// Offset of the next-header byte that changes when such a fragment header is inserted.
    pub per_fragment_next_at: usize,
}

impl Walk {
    /// True if the upper layer's header starts at [`Walk::offset`]; false in later fragments.
    #[inline]
    pub fn has_upper_header(&self) -> bool {
        self.protocol != proto::NO_NEXT && self.fragment.is_none_or(|f| f.offset == 0)
    }
}

/// Walks the extension headers of `packet`, which starts with the IPv6 header and ends without padding.
///
/// The walk stops at the first number that is no extension header (ESP is none), and after a fragment header with an
/// offset. Hop-by-hop options at any other place than the first are an unrecognised next header (RFC 8200, 4.1).
pub fn walk(packet: &[u8]) -> Result<Walk, BadExt> {
    let mut next_at = 6;
    let mut walk = Walk {
        protocol: *packet.get(next_at).ok_or(BadExt::field(0))?,
        offset: ipv6::LEN,
        hop_by_hop: None,
        routing: None,
        dest_opts: None,
        fragment: None,
        per_fragment_len: ipv6::LEN,
        per_fragment_next_at: next_at,
    };
    for _ in 0..MAX_HEADERS {
        let at = walk.offset;
        match walk.protocol {
            proto::HOP_BY_HOP if at == ipv6::LEN => walk.hop_by_hop = Some(at),
            proto::HOP_BY_HOP => {
                return Err(BadExt {
                    code: 1,
                    ..BadExt::field(next_at)
                });
            }
            proto::ROUTING => walk.routing = walk.routing.or(Some(at)),
            proto::DEST_OPTS => walk.dest_opts = Some(at),
            proto::FRAGMENT | proto::AH => {}
            _ => return Ok(walk),
        }
        let (next, len) = header(packet, at, walk.protocol, next_at)?;
        let seen = walk.protocol;
        (walk.protocol, walk.offset, next_at) = (next, at + len, at);
        match seen {
            // Every router processes the headers up to here, so every fragment needs them.
            proto::HOP_BY_HOP | proto::ROUTING if walk.fragment.is_none() => {
                (walk.per_fragment_len, walk.per_fragment_next_at) = (walk.offset, at);
            }
            proto::FRAGMENT => {
                let fragment = fragment(packet, at);
                walk.fragment = walk.fragment.or(Some(fragment));
                if fragment.offset != 0 {
                    return Ok(walk);
                }
            }
            _ => {}
        }
    }
    match walk.protocol {
        proto::HOP_BY_HOP | proto::ROUTING | proto::FRAGMENT | proto::AH | proto::DEST_OPTS => {
            Err(BadExt {
                report: Report::Never,
                ..BadExt::field(next_at)
            })
        }
        _ => Ok(walk),
    }
}

/// The next-header number of the extension header at `at`, and the header's length in bytes.
#[inline]
fn header(packet: &[u8], at: usize, kind: u8, named_at: usize) -> Result<(u8, usize), BadExt> {
    let &[next, units] = packet
        .get(at..at + 2)
        .and_then(|b| b.first_chunk::<2>())
        .ok_or(BadExt::field(named_at))?;
    let units = usize::from(units);
    let len = match kind {
        proto::FRAGMENT => FRAGMENT_LEN,
        proto::AH => (units + 2) * 4,
        _ => (units + 1) * 8,
    };
    match at + len <= packet.len() {
        true => Ok((next, len)),
        // A fragment header's second byte is reserved: so the next-header byte that announced it is reported.
        false if kind == proto::FRAGMENT => Err(BadExt::field(named_at)),
        false => Err(BadExt::field(at + 1)),
    }
}

/// Reads the fragment header at `at`, whose eight bytes must be present.
#[inline]
fn fragment(packet: &[u8], at: usize) -> Fragment {
    let word = be16(packet, at + 2);
    Fragment {
        at,
        offset: usize::from(word & 0xfff8),
        more_fragments: word & 1 != 0,
        ident: be32(packet, at + 4),
    }
}

/// The eight bytes of a fragment header; `offset` in bytes, a multiple of 8.
#[inline]
pub const fn fragment_header(
    next: u8,
    offset: usize,
    more: bool,
    ident: u32,
) -> [u8; FRAGMENT_LEN] {
    let [a, b] = ((offset as u16 & 0xfff8) | more as u16).to_be_bytes();
    let [c, d, e, f] = ident.to_be_bytes();
    [next, 0, a, b, c, d, e, f]
}

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// Offset of the type byte.
    pub at: usize,
    /// Option type. The two highest bits say what to do with an unknown option, the third if routers may change it.
    pub kind: u8,
    /// The data after the length byte.
    pub data: &'a [u8],
}

impl Item<'_> {
    /// The fault to report for an unknown option; `None` if it is to be skipped (RFC 8200, 4.2).
    #[inline]
    pub const fn unknown(&self) -> Option<BadExt> {
        let report = match self.kind >> 6 {
            0 => return None,
            1 => Report::Never,
            2 => Report::Always,
            _ => Report::Unicast,
        };
        Some(BadExt {
            code: 2,
            pointer: self.at,
            report,
        })
    }
}

/// The options of a hop-by-hop or destination options header, without padding.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    packet: &'a [u8],
    at: usize,
}

impl<'a> Options<'a> {
    /// Options of the header at `at`; empty if the header is incomplete.
    #[inline]
    pub fn new(packet: &'a [u8], at: usize) -> Self {
        let end = packet
            .get(at + 1)
            .map_or(0, |&units| at + (usize::from(units) + 1) * 8);
        Options {
            packet: packet.get(..end).unwrap_or(&[]),
            at: at + 2,
        }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Item<'a>, BadExt>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let at = self.at;
            let kind = *self.packet.get(at)?;
            if kind == PAD1 {
                self.at += 1;
                continue;
            }
            let data = self
                .packet
                .get(at + 1)
                .and_then(|&len| self.packet.get(at + 2..at + 2 + usize::from(len)));
            let Some(data) = data else {
                self.at = self.packet.len();
                return Some(Err(BadExt::field(at + 1)));
            };
            self.at = at + 2 + data.len();
            if kind != PADN {
                return Some(Ok(Item { at, kind, data }));
            }
        }
    }
}

/// Checks the hop-by-hop options at `at` as a router must; returns the router alert's value if there is one.
///
/// Jumbo payloads are refused: no interface of this router carries them.
pub fn check_hop_by_hop(packet: &[u8], at: usize) -> Result<Option<u16>, BadExt> {
    let mut alert = None;
    for item in Options::new(packet, at) {
        let item = item?;
        match item.kind {
            ROUTER_ALERT if item.data.len() == 2 => {
                alert = Some(u16::from_be_bytes(array(item.data, 0)));
            }
            ROUTER_ALERT => return Err(BadExt::field(item.at + 1)),
            JUMBO => return Err(BadExt::field(item.at)),
            _ => item.unknown().map_or(Ok(()), Err)?,
        }
    }
    Ok(alert)
}

#[cfg(test)]
mod tests;
