//! rtnetlink: Linux's messages about links, addresses, neighbours, routes and next hops, and the requests for them
//! (`linux/netlink.h`, `linux/rtnetlink.h`, `linux/nexthop.h`, `linux/neighbour.h`; RFC 3549).
//!
//! [`messages`] iterates over the messages of one receive; [`Message::event`] decodes one message into a plain
//! structure. Lists (hops of a route, members of a group) stay slices of the message and are walked in place, so
//! nothing is allocated. [`Writer`] puts requests into a buffer of the caller's.
//!
//! Netlink has numbers in host order and addresses in network order. No input makes this module panic. A length that
//! exceeds its message is a [`BadHeader`]; unknown types are [`Event::Other`]; unknown attributes are skipped.

mod address;
mod attr;
mod build;
mod link;
mod neighbour;
mod netconf;
mod nexthop;
mod route;
mod rule;
#[cfg(all(test, target_endian = "little"))]
mod tests;
pub mod xfrm;
mod xfrm_build;

pub use address::Address;
pub use attr::{Attribute, Attributes};
pub use build::{Full, NewHop, NewRoute, Target, Writer};
pub use link::{IFF_LOWER_UP, IFF_UP, Link};
pub use neighbour::{
    NTF_PROXY, NTF_USE, NUD_DELAY, NUD_FAILED, NUD_INCOMPLETE, NUD_NOARP, NUD_PERMANENT, NUD_PROBE,
    NUD_REACHABLE, NUD_STALE, Neighbour, NeighbourTable,
};
pub use netconf::{NETCONF_ALL, Netconf};
pub use nexthop::{Member, Members, Nexthop};
pub use route::{
    Hop, Hops, RTM_F_CLONED, RTNH_F_DEAD, RTNH_F_LINKDOWN, Route, RouteKind, TABLE_LOCAL,
    TABLE_MAIN,
};
pub use rule::Rule;

use crate::BadHeader;
use attr::{ne16, ne32};

/// Address family: none, all.
pub const AF_UNSPEC: u8 = 0;
/// Address family: IPv4.
pub const AF_INET: u8 = 2;
/// Address family: bridges' ports and forwarding entries.
pub const AF_BRIDGE: u8 = 7;
/// Address family: IPv6.
pub const AF_INET6: u8 = 10;
/// Address family: MPLS.
pub const AF_MPLS: u8 = 28;

/// Flag: a request.
pub const NLM_F_REQUEST: u16 = 1;
/// Flag: one of several messages of an answer; [`Event::Done`] ends them.
pub const NLM_F_MULTI: u16 = 2;
/// Flag: the dumped table changed during the dump, so entries may be missing.
pub const NLM_F_DUMP_INTR: u16 = 0x10;
/// Flag of a new object: it replaces an existing one.
pub const NLM_F_REPLACE: u16 = 0x100;
/// Flag of a new object: it is created if it does not exist.
pub const NLM_F_CREATE: u16 = 0x400;
/// Flag of a new object: it goes after the existing ones.
pub const NLM_F_APPEND: u16 = 0x800;
/// Flags of a request for all objects.
pub const NLM_F_DUMP: u16 = 0x300;

const ERROR: u16 = 2;
const DONE: u16 = 3;

/// Type: a link exists, or has changed.
pub const RTM_NEWLINK: u16 = 16;
/// Type: a link was deleted.
pub const RTM_DELLINK: u16 = 17;
/// Type: request for links.
pub const RTM_GETLINK: u16 = 18;
/// Type: an address exists, or has changed.
pub const RTM_NEWADDR: u16 = 20;
/// Type: an address was deleted.
pub const RTM_DELADDR: u16 = 21;
/// Type: a route exists, or has changed.
pub const RTM_NEWROUTE: u16 = 24;
/// Type: a route was deleted.
pub const RTM_DELROUTE: u16 = 25;
/// Type: request for routes.
pub const RTM_GETROUTE: u16 = 26;
/// Type: a neighbour exists, or has changed.
pub const RTM_NEWNEIGH: u16 = 28;
/// Type: a neighbour was deleted.
pub const RTM_DELNEIGH: u16 = 29;
/// Type: request for neighbours.
pub const RTM_GETNEIGH: u16 = 30;
/// Type: a rule exists, or has changed.
pub const RTM_NEWRULE: u16 = 32;
/// Type: a rule was deleted.
pub const RTM_DELRULE: u16 = 33;
/// Type: request for rules.
pub const RTM_GETRULE: u16 = 34;
/// Type: a neighbour table exists.
pub const RTM_NEWNEIGHTBL: u16 = 64;
/// Type: request for neighbour tables.
pub const RTM_GETNEIGHTBL: u16 = 66;
/// Type: settings of an interface exist, or have changed.
pub const RTM_NEWNETCONF: u16 = 80;
/// Type: settings of an interface were deleted.
pub const RTM_DELNETCONF: u16 = 81;
/// Type: request for settings of interfaces.
pub const RTM_GETNETCONF: u16 = 82;
/// Type: a next hop or group exists, or has changed.
pub const RTM_NEWNEXTHOP: u16 = 104;
/// Type: a next hop or group was deleted.
pub const RTM_DELNEXTHOP: u16 = 105;
/// Type: request for next hops and groups.
pub const RTM_GETNEXTHOP: u16 = 106;

/// Length of the header of a message.
pub const HEADER: usize = 16;

/// `n` rounded up to a multiple of four.
const fn aligned(n: usize) -> usize {
    (n + 3) & !3
}

/// The messages in the bytes of one receive; none after a fault.
pub fn messages(bytes: &[u8]) -> Messages<'_> {
    Messages(bytes)
}

/// See [`messages`].
#[derive(Clone, Debug)]
pub struct Messages<'a>(&'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, BadHeader>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let Some((header, _)) = self.0.split_first_chunk::<HEADER>() else {
            self.0 = &[];
            return Some(Err(BadHeader::TooShort));
        };
        let len = ne32(header, 0) as usize;
        let Some(body) = self.0.get(HEADER..len) else {
            self.0 = &[];
            return Some(Err(match len < HEADER {
                true => BadHeader::BadLength,
                false => BadHeader::Truncated,
            }));
        };
        let message = Message {
            kind: ne16(header, 4),
            flags: ne16(header, 6),
            sequence: ne32(header, 8),
            port: ne32(header, 12),
            body,
        };
        self.0 = self.0.get(aligned(len)..).unwrap_or(&[]);
        Some(Ok(message))
    }
}

/// One message: the fields of its header (`struct nlmsghdr`) and its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Type: `RTM_*`, or below 16 a type of netlink itself.
    pub kind: u16,
    /// `NLM_F_*`.
    pub flags: u16,
    /// Number of the request that this message answers; 0 for a notification.
    pub sequence: u32,
    /// Port number of the requesting socket: the one that gets the answer or, in a notification, the one that made
    /// the change.
    pub port: u32,
    /// Bytes after the header.
    pub body: &'a [u8],
}

/// State that a message reports of an object: present, or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object exists: it is new or changed, or part of a dump.
    New,
    /// The object was deleted.
    Gone,
}

/// Meaning of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A network interface.
    Link(Change, Link<'a>),
    /// An address of an interface.
    Address(Change, Address),
    /// A neighbour.
    Neighbour(Change, Neighbour),
    /// A table of neighbours.
    NeighbourTable(NeighbourTable),
    /// A route.
    Route(Change, Route<'a>),
    /// A next hop or a group of them.
    Nexthop(Change, Nexthop<'a>),
    /// A rule that chooses a routing table.
    Rule(Change, Rule),
    /// Settings of an interface.
    Netconf(Change, Netconf),
    /// End of a dump. If not 0, the negative errno of its failure.
    Done(i32),
    /// Result of a request: 0 for success, otherwise the negative errno.
    Error(i32),
    /// Something else.
    Other,
}

impl<'a> Message<'a> {
    /// Decodes the message.
    #[inline]
    pub fn event(&self) -> Result<Event<'a>, BadHeader> {
        let change = match self.kind & 3 {
            0 => Change::New,
            _ => Change::Gone,
        };
        let body = self.body;
        Ok(match self.kind {
            RTM_NEWROUTE | RTM_DELROUTE => Event::Route(change, Route::parse(body)?),
            RTM_NEWNEIGH | RTM_DELNEIGH => Event::Neighbour(change, Neighbour::parse(body)?),
            RTM_NEWNEXTHOP | RTM_DELNEXTHOP => Event::Nexthop(change, Nexthop::parse(body)?),
            RTM_NEWLINK | RTM_DELLINK => Event::Link(change, Link::parse(body)?),
            RTM_NEWADDR | RTM_DELADDR => Event::Address(change, Address::parse(body)?),
            RTM_NEWNEIGHTBL => Event::NeighbourTable(NeighbourTable::parse(body)?),
            RTM_NEWRULE | RTM_DELRULE => Event::Rule(change, Rule::parse(body)?),
            RTM_NEWNETCONF | RTM_DELNETCONF => Event::Netconf(change, Netconf::parse(body)?),
            ERROR => Event::Error(errno(body).ok_or(BadHeader::TooShort)?),
            DONE => Event::Done(errno(body).unwrap_or(0)),
            _ => Event::Other,
        })
    }

    /// True if the dump to which this message belongs missed concurrent changes and has to be repeated.
    #[inline]
    pub const fn interrupted(&self) -> bool {
        self.flags & NLM_F_DUMP_INTR != 0
    }
}

fn errno(body: &[u8]) -> Option<i32> {
    body.first_chunk().map(|b| i32::from_ne_bytes(*b))
}
