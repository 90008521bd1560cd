//! Routes (`struct rtmsg` and `RTA_*`).

use crate::mpls::{self, Labels};
use crate::{BadHeader, Prefix4, Prefix6};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::attr::{Attributes, ne32};
use super::{AF_INET, AF_INET6, AF_MPLS, aligned};

/// Table of the host's own addresses, broadcast addresses included.
pub const TABLE_LOCAL: u32 = 255;
/// The table for routes that name no other table.
pub const TABLE_MAIN: u32 = 254;

/// Flag of a route: a cached exception, not an entry of the table.
pub const RTM_F_CLONED: u32 = 0x200;
/// Flag of a hop: its interface is down, so the kernel does not use it.
pub const RTNH_F_DEAD: u8 = 1;
/// Flag of a hop: its interface has no carrier.
pub const RTNH_F_LINKDOWN: u8 = 16;

pub(super) const RTA_DST: u16 = 1;
pub(super) const RTA_OIF: u16 = 4;
pub(super) const RTA_GATEWAY: u16 = 5;
pub(super) const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
/// Attribute within RTA_METRICS: path MTU, in bytes.
const RTAX_MTU: u16 = 2;
pub(super) const RTA_MULTIPATH: u16 = 9;
pub(super) const RTA_TABLE: u16 = 15;
pub(super) const RTA_VIA: u16 = 18;
const RTA_NEWDST: u16 = 19;
const RTA_ENCAP_TYPE: u16 = 21;
const RTA_ENCAP: u16 = 22;
pub(super) const RTA_NH_ID: u16 = 30;

/// Kind of a route (`RTN_*`): the treatment of its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RouteKind {
    /// Sent to a gateway or a neighbour.
    Unicast = 1,
    /// A route to an address of the host itself.
    Local = 2,
    /// A route to a broadcast address of the link.
    Broadcast = 3,
    /// A route to an anycast address of this host.
    Anycast = 4,
    /// A route for a multicast group.
    Multicast = 5,
    /// Dropped silently.
    Blackhole = 6,
    /// Dropped, and answered with "host unreachable".
    Unreachable = 7,
    /// Dropped, and answered with "communication prohibited".
    Prohibit = 8,
    /// Look-up continues in the next table.
    Throw = 9,
    /// Something else.
    Other = 0,
}

impl RouteKind {
    #[inline]
    const fn of(number: u8) -> RouteKind {
        match number {
            1 => RouteKind::Unicast,
            2 => RouteKind::Local,
            3 => RouteKind::Broadcast,
            4 => RouteKind::Anycast,
            5 => RouteKind::Multicast,
            6 => RouteKind::Blackhole,
            7 => RouteKind::Unreachable,
            8 => RouteKind::Prohibit,
            9 => RouteKind::Throw,
            _ => RouteKind::Other,
        }
    }
}

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route<'a> {
    /// [`AF_INET`], [`AF_INET6`] or [`AF_MPLS`]. Routes of other families (multicast) are returned without hops.
    pub family: u8,
    /// Incoming label of the packets, for [`AF_MPLS`].
    pub label: Option<u32>,
    /// Destination address as received; 0.0.0.0 for other families than IPv4 and IPv6.
    pub dst: IpAddr,
    /// Length of the destination prefix in bits, at most the address's length.
    pub dst_len: u8,
    /// Length of the source prefix in bits (IPv6); 0 = all sources.
    pub src_len: u8,
    /// Traffic class of the packets (IPv4); 0 = any.
    pub tos: u8,
    /// Number of the table; it may be above 255.
    pub table: u32,
    /// Owner of the route (`RTPROT_*`): 2 the kernel, 3 `ip`, 11 zebra, 12 BIRD, 186 BGP.
    pub protocol: u8,
    /// Distance of the destination (`RT_SCOPE_*`).
    pub scope: u8,
    /// Kind of route.
    pub kind: RouteKind,
    /// `RTM_F_*`; for a route with one hop also that hop's `RTNH_F_*`.
    pub flags: u32,
    /// The metric; the route with the lowest one is used.
    pub priority: u32,
    /// Preferred source address for the router's own packets. IPv4 routes may differ in nothing else.
    pub source: Option<IpAddr>,
    /// MTU in bytes, if the route has its own; else 0.
    pub mtu: u32,
    /// Number of the next-hop object or group, which takes precedence over the hops below; 0 if none.
    pub nexthop: u32,
    /// The only hop, if there is just one.
    hop: Hop,
    multipath: &'a [u8],
}

impl<'a> Route<'a> {
    /// Parses the body of a message.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Route<'a>, BadHeader> {
        let (head, rest) = body.split_first_chunk::<12>().ok_or(BadHeader::TooShort)?;
        let family = head[0];
        let (none, most) = match family {
            AF_INET6 => (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 128),
            AF_INET => (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 32),
            AF_MPLS => (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 20),
            _ => (IpAddr::V4(Ipv4Addr::UNSPECIFIED), u8::MAX),
        };
        let mut route = Route {
            family,
            label: None,
            dst: none,
            dst_len: head[1],
            src_len: head[2],
            tos: head[3],
            table: head[4].into(),
            protocol: head[5],
            scope: head[6],
            kind: RouteKind::of(head[7]),
            flags: ne32(head, 8),
            priority: 0,
            source: None,
            mtu: 0,
            nexthop: 0,
            hop: Hop::NONE,
            multipath: &[],
        };
        if route.dst_len > most {
            return Err(BadHeader::BadField);
        }
        if most != u8::MAX {
            route.attributes(Attributes::new(rest))?;
            route.hop.flags = route.flags as u8;
        }
        Ok(route)
    }

    #[inline]
    fn attributes(&mut self, attributes: Attributes<'a>) -> Result<(), BadHeader> {
        for attribute in attributes {
            let attribute = attribute?;
            match attribute.kind {
                RTA_DST if self.family == AF_MPLS => {
                    let label = mpls::Entry::read(attribute.value, 0);
                    self.label = Some(label.ok_or(BadHeader::BadOption)?.label);
                }
                RTA_DST => self.dst = attribute.ip(self.family)?,
                RTA_TABLE => self.table = attribute.u32()?,
                RTA_PRIORITY => self.priority = attribute.u32()?,
                RTA_PREFSRC => self.source = Some(attribute.ip(self.family)?),
                RTA_METRICS => {
                    for metric in Attributes::new(attribute.value) {
                        let metric = metric?;
                        if metric.kind == RTAX_MTU {
                            self.mtu = metric.u32()?;
                        }
                    }
                }
                RTA_NH_ID => self.nexthop = attribute.u32()?,
                RTA_MULTIPATH => {
                    check_multipath(attribute.value, self.family)?;
                    self.multipath = attribute.value;
                }
                _ => self.hop.take(&attribute, self.family)?,
            }
        }
        self.hop.see_encapsulation(attributes, self.family);
        Ok(())
    }

    /// The destination, if it is IPv4.
    #[inline]
    pub fn prefix4(&self) -> Option<Prefix4> {
        match self.dst {
            IpAddr::V4(dst) if self.family == AF_INET => Some(Prefix4::new(dst, self.dst_len)),
            _ => None,
        }
    }

    /// The destination, if it is IPv6.
    #[inline]
    pub fn prefix6(&self) -> Option<Prefix6> {
        match self.dst {
            IpAddr::V6(dst) => Some(Prefix6::new(dst, self.dst_len)),
            IpAddr::V4(_) => None,
        }
    }

    /// Hops of a multipath route, or the only hop, with weight 1. A route without interface and gateway has none: a
    /// blackhole, or a route whose next-hop object is given only by number.
    #[inline]
    pub fn hops(&self) -> Hops<'a> {
        let one = self.hop.interface != 0 || self.hop.gateway.is_some();
        Hops {
            one: (one && self.multipath.is_empty()).then_some(self.hop),
            rest: self.multipath,
            family: self.family,
        }
    }
}

/// One next hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Number of the interface; 0 if none.
    pub interface: u32,
    /// The next router, possibly of another family than the route; `None` if the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// Share of the traffic, relative to the sum of all weights: 1 to 256.
    pub weight: u16,
    /// `RTNH_F_*`.
    pub flags: u8,
    /// Labels to push; for a route of [`AF_MPLS`] they replace the present label. `None` if the encapsulation is not
    /// MPLS, there are more than [`Labels::MAX`] labels, or the hop is given by its Ethernet address.
    pub labels: Option<Labels>,
}

impl Hop {
    const NONE: Hop = Hop {
        interface: 0,
        gateway: None,
        weight: 1,
        flags: 0,
        labels: Some(Labels::NONE),
    };

    #[inline]
    fn take(&mut self, attribute: &super::Attribute<'_>, family: u8) -> Result<(), BadHeader> {
        match attribute.kind {
            RTA_OIF => self.interface = attribute.u32()?,
            RTA_GATEWAY => self.gateway = Some(attribute.ip(family)?),
            RTA_VIA if family == AF_MPLS => match attribute.via() {
                Ok(gateway) => self.gateway = Some(gateway),
                Err(_) => self.labels = None,
            },
            RTA_VIA => self.gateway = Some(attribute.via()?),
            RTA_ENCAP_TYPE => self.labels = None,
            RTA_NEWDST => self.labels = self.labels.and(Labels::of_stack(attribute.value)),
            _ => {}
        }
        Ok(())
    }
}

impl Hop {
    /// Records the encapsulation of packets.
    #[inline]
    fn see_encapsulation(&mut self, attributes: Attributes<'_>, family: u8) {
        if self.labels.is_none() && family != AF_MPLS {
            self.labels = labels(attributes, RTA_ENCAP_TYPE, RTA_ENCAP);
        }
    }
}

/// Labels that a route pushes. Attribute `of_type` holds the type of encapsulation, and `of_what` the labels. `None`
/// for other encapsulations (`linux/mpls_iptunnel.h`).
pub(super) fn labels(attributes: Attributes<'_>, of_type: u16, of_what: u16) -> Option<Labels> {
    /// `LWTUNNEL_ENCAP_MPLS`
    const MPLS: u16 = 1;
    const MPLS_IPTUNNEL_DST: u16 = 1;
    let find = |kind| {
        attributes
            .flatten()
            .find(|attribute| attribute.kind == kind)
    };
    if find(of_type)?.u16() != Ok(MPLS) {
        return None;
    }
    let mut labels = None;
    for attribute in Attributes::new(find(of_what)?.value) {
        match attribute.ok()? {
            attribute if attribute.kind == MPLS_IPTUNNEL_DST => {
                labels = Labels::of_stack(attribute.value);
            }
            // A TTL of its own, or an unknown attribute.
            _ => return None,
        }
    }
    labels
}

/// See [`Route::hops`].
#[derive(Clone, Debug)]
pub struct Hops<'a> {
    one: Option<Hop>,
    rest: &'a [u8],
    family: u8,
}

impl Iterator for Hops<'_> {
    type Item = Hop;

    #[inline]
    fn next(&mut self) -> Option<Hop> {
        if let Some(hop) = self.one.take() {
            return Some(hop);
        }
        if self.rest.is_empty() {
            return None;
        }
        // The list was checked when the route was parsed, so this ends only at the end of the list.
        let (hop, rest) = next_hop(self.rest, self.family).ok()?;
        self.rest = rest;
        Some(hop)
    }
}

fn check_multipath(mut bytes: &[u8], family: u8) -> Result<(), BadHeader> {
    while !bytes.is_empty() {
        bytes = next_hop(bytes, family)?.1;
    }
    Ok(())
}

/// The first hop of a list (`struct rtnexthop`), and the rest of the list.
#[inline]
fn next_hop(bytes: &[u8], family: u8) -> Result<(Hop, &[u8]), BadHeader> {
    let (head, _) = bytes.split_first_chunk::<8>().ok_or(BadHeader::BadOption)?;
    let len = usize::from(u16::from_ne_bytes([head[0], head[1]]));
    let attributes = bytes.get(8..len).ok_or(BadHeader::BadOption)?;
    let mut hop = Hop {
        interface: ne32(head, 4),
        weight: u16::from(head[3]) + 1,
        flags: head[2],
        ..Hop::NONE
    };
    let attributes = Attributes::new(attributes);
    for attribute in attributes {
        hop.take(&attribute?, family)?;
    }
    hop.see_encapsulation(attributes, family);
    Ok((hop, bytes.get(aligned(len)..).unwrap_or(&[])))
}
