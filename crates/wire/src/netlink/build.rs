//! Writer of requests: one after the other, into the caller's buffer.

use crate::EtherAddr;
use core::fmt;
use core::net::IpAddr;

use super::neighbour::{NDA_DST, NDA_LLADDR};
use super::nexthop::{NHA_BLACKHOLE, NHA_GATEWAY, NHA_GROUP, NHA_ID, NHA_OIF};
use super::route::{
    RTA_DST, RTA_GATEWAY, RTA_MULTIPATH, RTA_NH_ID, RTA_OIF, RTA_PRIORITY, RTA_TABLE, RTA_VIA,
};
use super::{
    AF_INET, AF_INET6, AF_UNSPEC, HEADER, Member, NLM_F_DUMP, NLM_F_REQUEST, NTF_USE, RTM_DELROUTE,
    RTM_GETLINK, RTM_GETNEIGH, RTM_GETNEXTHOP, RTM_GETROUTE, RTM_GETRULE, RTM_NEWNEIGH,
    RTM_NEWNEXTHOP, RouteKind, aligned,
};

/// Scope of a route: the destination is on the link.
const SCOPE_LINK: u8 = 253;
/// Scope that matches any route to be removed.
const SCOPE_ANY: u8 = 255;

/// The buffer has no room for the message; its content has not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the buffer has no room for the message")
    }
}

impl core::error::Error for Full {}

/// Writes messages into a buffer.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

/// A route to be added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewRoute<'a> {
    /// The destination's address.
    pub dst: IpAddr,
    /// Prefix length of the destination, in bits.
    pub dst_len: u8,
    /// The table.
    pub table: u32,
    /// Routing daemon that owns the route (`RTPROT_*`).
    pub protocol: u8,
    /// Kind of route.
    pub kind: RouteKind,
    /// The metric.
    pub priority: u32,
    /// Destination of the packets.
    pub target: Target<'a>,
}

/// Next hops of a route, or content of a next-hop object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// No next hop: blackhole, unreachable, or any next hop for a removal.
    None,
    /// Next hops; several share the traffic by their weights.
    Hops(&'a [NewHop]),
    /// The next-hop object with this number.
    Nexthop(u32),
    /// Members of a group of next-hop objects; only in a group.
    Group(&'a [Member]),
}

/// A hop of a route to be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewHop {
    /// Number of the interface; 0: the kernel finds it from the gateway.
    pub interface: u32,
    /// The next router.
    pub gateway: Option<IpAddr>,
    /// Share of the traffic, 1 to 256.
    pub weight: u16,
    /// `RTNH_F_*`.
    pub flags: u8,
}

impl NewHop {
    /// True if a route with only this hop needs no list of hops. Outside a list a hop has no weight, and must have an
    /// interface or a gateway.
    fn is_plain(&self) -> bool {
        self.weight <= 1 && (self.interface != 0 || self.gateway.is_some())
    }
}

const fn family(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(_) => AF_INET,
        IpAddr::V6(_) => AF_INET6,
    }
}

impl<'a> Writer<'a> {
    /// A writer that starts at the beginning of `buffer`.
    pub fn new(buffer: &'a mut [u8]) -> Writer<'a> {
        Writer { buffer, len: 0 }
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or(&[])
    }

    /// True if nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Removes all messages.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Writes a dump request for all objects of a kind: `kind` is an `RTM_GET*`. The format satisfies strict checking
    /// (`NETLINK_GET_STRICT_CHK`).
    pub fn dump(&mut self, kind: u16, family: u8, sequence: u32) -> Result<(), Full> {
        let body = match kind {
            RTM_GETLINK => 16,
            RTM_GETNEXTHOP => 8,
            RTM_GETROUTE | RTM_GETNEIGH | RTM_GETRULE => 12,
            _ => 1,
        };
        self.message(kind, NLM_F_REQUEST | NLM_F_DUMP, sequence, |w| {
            w.put(&[family])?;
            w.fill(body - 1)
        })
    }

    /// Writes a request that tells the kernel that a neighbour is in use. The kernel resolves an unknown neighbour,
    /// and verifies a stale one.
    pub fn use_neighbour(
        &mut self,
        interface: u32,
        address: IpAddr,
        flags: u16,
        sequence: u32,
    ) -> Result<(), Full> {
        self.neighbour(
            (RTM_NEWNEIGH, NLM_F_REQUEST | flags, sequence),
            (interface, address),
            (0, NTF_USE, None),
        )
    }

    /// Writes a neighbour: type, flags and number of the message; interface and address; state, flags and Ethernet
    /// address.
    pub fn neighbour(
        &mut self,
        (kind, flags, sequence): (u16, u16, u32),
        (interface, address): (u32, IpAddr),
        (state, about, ether): (u16, u8, Option<EtherAddr>),
    ) -> Result<(), Full> {
        self.message(kind, flags, sequence, |w| {
            w.put(&[family(address), 0, 0, 0])?;
            w.put(&interface.to_ne_bytes())?;
            w.put(&state.to_ne_bytes())?;
            w.put(&[about, 0])?;
            w.ip(NDA_DST, address)?;
            ether.map_or(Ok(()), |e| w.attribute(NDA_LLADDR, &e.0))
        })
    }

    /// Writes an addition or removal of a route: `kind` is `RTM_NEWROUTE` or `RTM_DELROUTE`, `flags` say how
    /// (`NLM_F_REQUEST | NLM_F_CREATE | NLM_F_REPLACE`).
    pub fn route(
        &mut self,
        kind: u16,
        flags: u16,
        sequence: u32,
        route: &NewRoute<'_>,
    ) -> Result<(), Full> {
        self.message(kind, flags, sequence, |w| w.route_body(kind, route))
    }

    fn route_body(&mut self, kind: u16, route: &NewRoute<'_>) -> Result<(), Full> {
        let on_link = |h: &NewHop| h.gateway.is_none();
        let scope = match route.target {
            _ if kind == RTM_DELROUTE => SCOPE_ANY,
            Target::Hops(hops) if hops.iter().all(on_link) => SCOPE_LINK,
            _ => 0,
        };
        let family = family(route.dst);
        let table = u8::try_from(route.table).unwrap_or(0);
        self.put(&[family, route.dst_len, 0, 0])?;
        self.put(&[table, route.protocol, scope, route.kind as u8])?;
        let flags = match route.target {
            Target::Hops([hop]) if hop.is_plain() => u32::from(hop.flags),
            _ => 0,
        };
        self.put(&flags.to_ne_bytes())?;
        if route.dst_len > 0 {
            self.ip(RTA_DST, route.dst)?;
        }
        if table == 0 {
            self.attribute(RTA_TABLE, &route.table.to_ne_bytes())?;
        }
        if route.priority > 0 {
            self.attribute(RTA_PRIORITY, &route.priority.to_ne_bytes())?;
        }
        match route.target {
            Target::None | Target::Group(_) => Ok(()),
            Target::Nexthop(id) => self.attribute(RTA_NH_ID, &id.to_ne_bytes()),
            Target::Hops([hop]) if hop.is_plain() => {
                if hop.interface != 0 {
                    self.attribute(RTA_OIF, &hop.interface.to_ne_bytes())?;
                }
                self.gateway(family, hop.gateway)
            }
            Target::Hops(hops) => self.nested(RTA_MULTIPATH, |w| w.hops(family, hops)),
        }
    }

    fn hops(&mut self, family: u8, hops: &[NewHop]) -> Result<(), Full> {
        for hop in hops {
            let start = self.len;
            let weight = hop.weight.clamp(1, 256) - 1;
            self.put(&[0, 0, hop.flags, weight as u8])?;
            self.put(&hop.interface.to_ne_bytes())?;
            self.gateway(family, hop.gateway)?;
            self.close(start)?;
        }
        Ok(())
    }

    fn gateway(&mut self, of: u8, gateway: Option<IpAddr>) -> Result<(), Full> {
        match gateway {
            None => Ok(()),
            Some(ip) if family(ip) == of => self.ip(RTA_GATEWAY, ip),
            Some(ip) => self.nested(RTA_VIA, |w| {
                w.put(&u16::from(family(ip)).to_ne_bytes())?;
                w.address(ip)
            }),
        }
    }

    /// Writes an addition of a next-hop object. [`Target::Hops`] must contain one hop; [`Target::None`] makes a
    /// blackhole.
    pub fn nexthop(
        &mut self,
        flags: u16,
        sequence: u32,
        id: u32,
        target: &Target<'_>,
    ) -> Result<(), Full> {
        self.message(RTM_NEWNEXTHOP, flags, sequence, |w| {
            let of = match target {
                Target::Hops([hop, ..]) => hop.gateway.map_or(AF_INET, family),
                Target::Group(_) => AF_UNSPEC,
                _ => AF_INET,
            };
            w.put(&[of, 0, 0, 0])?;
            w.fill(4)?;
            w.attribute(NHA_ID, &id.to_ne_bytes())?;
            match target {
                Target::Hops([hop, ..]) => {
                    w.attribute(NHA_OIF, &hop.interface.to_ne_bytes())?;
                    hop.gateway.map_or(Ok(()), |ip| w.ip(NHA_GATEWAY, ip))
                }
                Target::Group(members) => w.nested(NHA_GROUP, |w| {
                    members.iter().try_for_each(|member| {
                        let weight = member.weight.clamp(1, 1 << 16) - 1;
                        w.put(&member.id.to_ne_bytes())?;
                        w.put(&[weight as u8, (weight >> 8) as u8, 0, 0])
                    })
                }),
                _ => w.attribute(NHA_BLACKHOLE, &[]),
            }
        })
    }

    /// Writes a request about a next-hop object given by its number, such as `RTM_DELNEXTHOP`.
    pub fn nexthop_by_id(&mut self, kind: u16, flags: u16, seq: u32, id: u32) -> Result<(), Full> {
        self.message(kind, flags, seq, |w| {
            w.fill(8)?;
            w.attribute(NHA_ID, &id.to_ne_bytes())
        })
    }

    /// Writes a message whose body `body` writes. If it does not fit, nothing is written.
    pub(super) fn message(
        &mut self,
        kind: u16,
        flags: u16,
        sequence: u32,
        body: impl FnOnce(&mut Self) -> Result<(), Full>,
    ) -> Result<(), Full> {
        let start = self.len;
        let written = self.fill(HEADER).and_then(|()| {
            body(self)?;
            self.fill(aligned(self.len) - self.len)
        });
        let len = self.len - start;
        match self.buffer.get_mut(start..) {
            Some([a, b, c, d, e, f, g, h, i, j, k, l, ..]) if written.is_ok() => {
                [*a, *b, *c, *d] = (len as u32).to_ne_bytes();
                [*e, *f] = kind.to_ne_bytes();
                [*g, *h] = flags.to_ne_bytes();
                [*i, *j, *k, *l] = sequence.to_ne_bytes();
                Ok(())
            }
            _ => {
                self.len = start;
                Err(Full)
            }
        }
    }

    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let end = self.len + bytes.len();
        let room = self.buffer.get_mut(self.len..end).ok_or(Full)?;
        room.copy_from_slice(bytes);
        self.len = end;
        Ok(())
    }

    pub(super) fn fill(&mut self, n: usize) -> Result<(), Full> {
        let end = self.len + n;
        self.buffer.get_mut(self.len..end).ok_or(Full)?.fill(0);
        self.len = end;
        Ok(())
    }

    pub(super) fn attribute(&mut self, kind: u16, value: &[u8]) -> Result<(), Full> {
        self.nested(kind, |w| w.put(value))
    }

    fn ip(&mut self, kind: u16, ip: IpAddr) -> Result<(), Full> {
        self.nested(kind, |w| w.address(ip))
    }

    fn address(&mut self, ip: IpAddr) -> Result<(), Full> {
        match ip {
            IpAddr::V4(ip) => self.put(&ip.octets()),
            IpAddr::V6(ip) => self.put(&ip.octets()),
        }
    }

    /// Writes an attribute whose value `value` writes.
    pub(super) fn nested(
        &mut self,
        kind: u16,
        value: impl FnOnce(&mut Self) -> Result<(), Full>,
    ) -> Result<(), Full> {
        let start = self.len;
        self.put(&[0, 0])?;
        self.put(&kind.to_ne_bytes())?;
        value(self)?;
        self.close(start)
    }

    /// Ends the attribute or message that begins at `start`: writes its length there, and pads to a multiple of four.
    fn close(&mut self, start: usize) -> Result<(), Full> {
        let len = u16::try_from(self.len - start).map_err(|_| Full)?;
        if let Some([a, b, ..]) = self.buffer.get_mut(start..) {
            [*a, *b] = len.to_ne_bytes();
        }
        self.fill(aligned(self.len) - self.len)
    }
}
