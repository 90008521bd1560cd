//! Looks up the next hop of IPv4 packets; see DirectIPLookup.
//!
//! ```click
//! FromDevice(eth0) -> Strip(14) -> CheckIPHeader
//!     -> rt :: RadixIPLookup(
//!         192.0.2.1/32 0,
//!         192.0.2.0/24 1,
//!         0/0 192.0.2.254 1);
//! rt[0] -> Discard;   // for us
//! rt[1] -> Discard;
//! ```
//!
//! Routes are written and changed as in DirectIPLookup. The table is a Poptrie (Asai and Ohara). It takes 8 KB for 100
//! routes of one network, 4 KB more for each /8 that has routes, and 2 to 3 MB with all routes of the Internet, while
//! DirectIPLookup takes 64 MB. A look-up loads one or two more words than with DirectIPLookup.
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

pub(crate) struct Radix;

impl Kind<4> for Radix {
    const CLASS: &'static str = "RadixIPLookup";
    const MANUAL: &'static str = manual!();
    type Family = V4;
    type Structure = Fib<4>;
}
