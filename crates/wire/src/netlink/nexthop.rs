//! Next-hop objects and groups of them (`struct nhmsg` and `NHA_*`).

use crate::BadHeader;
use crate::mpls::Labels;
use core::net::IpAddr;

use super::attr::{Attributes, ne32};

pub(super) const NHA_ID: u16 = 1;
pub(super) const NHA_GROUP: u16 = 2;
pub(super) const NHA_BLACKHOLE: u16 = 4;
pub(super) const NHA_OIF: u16 = 5;
pub(super) const NHA_GATEWAY: u16 = 6;
const NHA_ENCAP_TYPE: u16 = 7;
const NHA_ENCAP: u16 = 8;
const NHA_FDB: u16 = 11;

/// A next-hop object: a next hop that routes refer to by number, or a group of next hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nexthop<'a> {
    /// The gateway's family, which may differ from that of the routes; 0 for a group.
    pub family: u8,
    /// Number of the object; never 0 in messages of the kernel.
    pub id: u32,
    /// Number of the interface; 0 if none.
    pub interface: u32,
    /// The next router; `None` if destinations are on the link.
    pub gateway: Option<IpAddr>,
    /// True if the next hop drops packets.
    pub blackhole: bool,
    /// Labels to push; `None` if the encapsulation is not MPLS, or has more than [`Labels::MAX`] labels.
    pub labels: Option<Labels>,
    /// True if the next hop belongs to a bridge's forwarding entries, not to routes.
    pub bridge: bool,
    members: &'a [u8],
}

impl<'a> Nexthop<'a> {
    /// Parses the body of a message.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Nexthop<'a>, BadHeader> {
        let (head, rest) = body.split_first_chunk::<8>().ok_or(BadHeader::TooShort)?;
        let mut hop = Nexthop {
            family: head[0],
            id: 0,
            interface: 0,
            gateway: None,
            blackhole: false,
            labels: Some(Labels::NONE),
            bridge: false,
            members: &[],
        };
        let attributes = Attributes::new(rest);
        for attribute in attributes {
            let attribute = attribute?;
            match attribute.kind {
                NHA_ID => hop.id = attribute.u32()?,
                NHA_GROUP if attribute.value.len() % 8 == 0 => hop.members = attribute.value,
                NHA_GROUP => return Err(BadHeader::BadOption),
                NHA_BLACKHOLE => hop.blackhole = true,
                NHA_OIF => hop.interface = attribute.u32()?,
                NHA_GATEWAY => hop.gateway = Some(attribute.ip(hop.family)?),
                NHA_ENCAP_TYPE => hop.labels = None,
                NHA_FDB => hop.bridge = true,
                _ => {}
            }
        }
        if hop.labels.is_none() {
            hop.labels = super::route::labels(attributes, NHA_ENCAP_TYPE, NHA_ENCAP);
        }
        Ok(hop)
    }

    /// True if the object is a group of next hops.
    #[inline]
    pub const fn is_group(&self) -> bool {
        !self.members.is_empty()
    }

    /// The members of a group.
    #[inline]
    pub fn members(&self) -> Members<'a> {
        Members(self.members)
    }
}

/// Member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The next hop's number.
    pub id: u32,
    /// Share of the traffic, relative to the sum of all weights: 1 to 65,536 (to 256 before Linux 6.12).
    pub weight: u32,
}

/// See [`Nexthop::members`].
#[derive(Clone, Debug)]
pub struct Members<'a>(&'a [u8]);

impl Iterator for Members<'_> {
    type Item = Member;

    #[inline]
    fn next(&mut self) -> Option<Member> {
        let (member, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(Member {
            id: ne32(member, 0),
            weight: u32::from(member[4]) + (u32::from(member[5]) << 8) + 1,
        })
    }
}
