//! Looks up where IPv4 packets go next: longest-prefix match, mostly by one load per packet.
//!
//! ```click
//! FromDevice(eth0) -> Strip(14) -> CheckIPHeader
//!     -> rt :: DirectIPLookup(
//!         192.0.2.1/32 0,
//!         192.0.2.0/24 1,
//!         0/0 192.0.2.254 1);
//! rt[0] -> Discard;   // for us
//! rt[1] -> Discard;
//! ```
//!
//! The destination annotation is looked up. A packet leaves by the port of the longest route that
//! matches; if the route names a gateway, the annotation becomes its address.
//!
//! The table is DIR-24-8 (Gupta, Lin and McKeown), the D-lookup of RouteBricks: a word for every 24 bits of address, and 256
//! words more where longer prefixes are. It takes 64 MB as soon as routes are scattered, as its pages are huge where the kernel
//! has such, and reserves 320 MB of addresses. Addresses of the default route take a few loads more. RadixIPLookup does
//! the same with 1 to 3 MB and more instructions: take that where there are many tables, or few megabytes.
//!
//! A route may have several next hops, separated by `|`, each with a weight of its own (default 1):
//!
//! ```text
//! 10.0.0.0/8 192.0.2.1 1 | 192.0.2.2 2 WEIGHT 3
//! ```
//!
//! The packets of a flow stay on one of them, and only the flows of a next hop that is lost move. A
//! packet without route is dropped (`no_route`), and so is one of whose route no next hop is up
//! (`no_next_hop`); with `NOROUTE` both leave by that port.
//!
//! Routes can be changed while packets flow, by handlers: `add`, `set`, `remove`, several at once by
//! `ctrl`, all or none of them. `next_hop_down` and `next_hop_up` act on all routes through a next
//! hop at once; they cost the number of groups of next hops, not of routes. Routes that were added so
//! stay when the configuration is replaced.
//!
//! Arguments:
//!
//! - `ROUTE`, any number of: `ADDRESS/MASK [GATEWAY] PORT [WEIGHT n] [| ...]`.
//! - `NOROUTE`: the port for packets without route.
//! - `ROUTES`: a file with a route per line, read when the configuration is new.

use super::{family::V4, lookup::Kind};
use crate::prelude::*;
use tables::fib::Dir24;

pub(crate) struct Direct;

impl Kind<4> for Direct {
    const CLASS: &'static str = "DirectIPLookup";
    const MANUAL: &'static str = manual!();
    const BULK: bool = false;
    type Family = V4;
    type Structure = Dir24<4>;
}
