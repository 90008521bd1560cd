//! Neighbours (`struct ndmsg` and `NDA_*`).

use crate::{BadHeader, EtherAddr};
use core::net::IpAddr;

use super::attr::{Attributes, ne16, ne32};
use super::{AF_INET, AF_INET6};

/// State: address resolution is in progress.
pub const NUD_INCOMPLETE: u16 = 1;
/// State: confirmed recently.
pub const NUD_REACHABLE: u16 = 2;
/// State: not confirmed recently; still used, and its use starts a probe.
pub const NUD_STALE: u16 = 4;
/// State: used while stale; a probe follows soon.
pub const NUD_DELAY: u16 = 8;
/// State: being probed; still used.
pub const NUD_PROBE: u16 = 0x10;
/// State: has not answered.
pub const NUD_FAILED: u16 = 0x20;
/// State: needs no address resolution (group addresses, links without ARP).
pub const NUD_NOARP: u16 = 0x40;
/// State: set by the administrator, permanent.
pub const NUD_PERMANENT: u16 = 0x80;

/// Flag of a request: the neighbour is in use, so the kernel resolves or verifies it.
pub const NTF_USE: u8 = 1;
/// Flag: this host answers for the address (proxy); it is not a neighbour itself.
pub const NTF_PROXY: u8 = 8;

pub(super) const NDA_DST: u16 = 1;
pub(super) const NDA_LLADDR: u16 = 2;

/// A neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// `AF_INET`, `AF_INET6`, or `AF_BRIDGE` for a bridge's forwarding entry.
    pub family: u8,
    /// Number of the interface.
    pub interface: u32,
    /// State: one of `NUD_*`, or 0.
    pub state: u16,
    /// `NTF_*`.
    pub flags: u8,
    /// Address of the neighbour; `None` for an entry of a bridge.
    pub dst: Option<IpAddr>,
    /// Ethernet address of the neighbour, once it is known.
    pub ether: Option<EtherAddr>,
}

impl Neighbour {
    /// Parses the body of a message.
    #[inline]
    pub fn parse(body: &[u8]) -> Result<Neighbour, BadHeader> {
        let (head, rest) = body.split_first_chunk::<12>().ok_or(BadHeader::TooShort)?;
        let mut neighbour = Neighbour {
            family: head[0],
            interface: ne32(head, 4),
            state: ne16(head, 8),
            flags: head[10],
            dst: None,
            ether: None,
        };
        let of_ip = matches!(neighbour.family, AF_INET | AF_INET6);
        for attribute in Attributes::new(rest) {
            let attribute = attribute?;
            match attribute.kind {
                NDA_DST if of_ip => neighbour.dst = Some(attribute.ip(neighbour.family)?),
                NDA_LLADDR => neighbour.ether = attribute.ether(),
                _ => {}
            }
        }
        Ok(neighbour)
    }
}

const NDTA_THRESH3: u16 = 4;

/// A neighbour table of the kernel (`struct ndtmsg`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourTable {
    /// Address family.
    pub family: u8,
    /// Maximum number of neighbours (`gc_thresh3`); `None` if the message does not say.
    pub entries_max: Option<u32>,
}

impl NeighbourTable {
    /// Parses the body of a message.
    pub fn parse(body: &[u8]) -> Result<NeighbourTable, BadHeader> {
        let (head, rest) = body.split_first_chunk::<4>().ok_or(BadHeader::TooShort)?;
        let mut table = NeighbourTable {
            family: head[0],
            entries_max: None,
        };
        for attribute in Attributes::new(rest) {
            let attribute = attribute?;
            if attribute.kind == NDTA_THRESH3 {
                table.entries_max = Some(attribute.u32()?);
            }
        }
        Ok(table)
    }
}
