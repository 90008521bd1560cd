//! Looks up where IPv4 packets go next: longest-prefix match, a few loads per packet.
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
//! matches; if the route names a gateway, the annotation becomes its address. The table is a Poptrie
//! (Asai and Ohara): 1 MB, and 2 or 3 MB with all routes of the Internet.
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

pub(crate) struct Direct;

impl Kind<4> for Direct {
    const CLASS: &'static str = "DirectIPLookup";
    const MANUAL: &'static str = manual!();
    type Family = V4;
}
