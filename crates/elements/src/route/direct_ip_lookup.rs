//! Looks up the next hop of IPv4 packets by longest-prefix match, usually with one memory load per packet.
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
//! The table is DIR-24-8 (Gupta, Lin and McKeown), the D-lookup of RouteBricks: one word for each value of an
//! address's first 24 bits, and 256 more words for each of these that has longer prefixes. It takes 64 MB as soon as
//! routes are scattered, because it uses huge pages if the kernel has them, and reserves 320 MB of address space.
//! Addresses that only the default route matches take a few more loads. RadixIPLookup does the same with 1 to 3 MB
//! and more instructions: use it if there are many tables or little memory.
//!
//! A route may have several next hops, separated by `|`, each with its own weight (default 1):
//!
//! ```text
//! 10.0.0.0/8 192.0.2.1 1 | 192.0.2.2 2 WEIGHT 3
//! ```
//!
//! All packets of a flow go to one of them; when a next hop is lost, only its flows move. A packet without route is
//! dropped (`no_route`), and so is a packet whose route has no next hop that is up (`no_next_hop`); with `NOROUTE`
//! both leave by that port.
//!
//! Handlers change routes while packets flow: `add`, `set` and `remove`, and `ctrl` for several changes at
//! once, all or none. `next_hop_down` and `next_hop_up` affect all routes through a next hop at once; the time
//! that they take depends on the number of groups of next hops, not on the number of routes. Routes that were
//! added by handlers stay when the configuration is replaced.
//!
//! Arguments:
//!
//! - `ROUTE`, any number of: `ADDRESS/MASK [GATEWAY] PORT [WEIGHT n] [| ...]`.
//! - `NOROUTE`: the port for packets without route.
//! - `ROUTES`: a file with a route per line, read when the configuration is new.
//! - `OUTPUTS`: a name for each output, in order. Routes that were added by handlers follow the name of their output
//!   when the configuration is replaced, and go with it.
//! - `ATTACHED`: a name of addresses. If an output leads to a compound element whose AddressInfo defines this name,
//!   the output gets routes for the networks of its addresses. So an interface's addresses are written once.
//! - `LOCAL`: with ATTACHED, the port for these addresses themselves.

use super::lookup::Kind;
use crate::prelude::*;
use forwarding::family::V4;
use tables::fib::Dir24;

pub(crate) struct Direct;

impl Kind<4> for Direct {
    const CLASS: &'static str = "DirectIPLookup";
    const MANUAL: &'static str = manual!();
    const BULK: bool = false;
    type Family = V4;
    type Structure = Dir24<4>;
}
