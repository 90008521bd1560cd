//! Looks up the next hop of IPv6 packets by longest-prefix match.
//!
//! ```click
//! FromDevice(eth0) -> Strip(14) -> CheckIP6Header
//!     -> rt :: LookupIP6Route(
//!         2001:db8::1/128 ::0 0,
//!         2001:db8::/64 1,
//!         ::0/0 2001:db8::fe 1);
//! rt[0] -> Discard;   // for us
//! rt[1] -> Discard;
//! ```
//!
//! The destination annotation is looked up. A packet leaves by the port of the longest route that matches; if
//! the route names a gateway (not `::0`), the annotation becomes its address. Several next hops, handlers, and
//! packets without route are as in DirectIPLookup.
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
use forwarding::family::V6;
use tables::fib::Fib;

pub(crate) struct Ip6Route;

impl Kind<16> for Ip6Route {
    const CLASS: &'static str = "LookupIP6Route";
    const MANUAL: &'static str = manual!();
    type Family = V6;
    type Structure = Fib<16>;
}
