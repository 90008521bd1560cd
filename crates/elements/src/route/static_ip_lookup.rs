//! Looks up the next hop of IPv4 packets, by routes that do not change while the router runs.
//!
//! ```click
//! FromDevice(eth0) -> Strip(14) -> CheckIPHeader
//!     -> rt :: StaticIPLookup(
//!         192.0.2.1/32 0,
//!         192.0.2.0/24 1,
//!         0/0 192.0.2.254 1);
//! rt[0] -> Discard;   // for us
//! rt[1] -> Discard;
//! ```
//!
//! Routes are written as in DirectIPLookup, and looked up as in RadixIPLookup; there are no handlers to change
//! them.
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
use tables::fib::Fib;

pub(crate) struct Static;

impl Kind<4> for Static {
    const CLASS: &'static str = "StaticIPLookup";
    const MANUAL: &'static str = manual!();
    type Family = V4;
    type Structure = Fib<4>;
    const FIXED: bool = true;
}
