//! Looks up the next hop of IPv4 packets; see DirectIPLookup.
//!
//! ```click
//! FromDevice(eth0) -> Strip(14) -> CheckIPHeader
//!     -> rt :: TrieIPLookup(
//!         192.0.2.1/32 0,
//!         192.0.2.0/24 1,
//!         0/0 192.0.2.254 1);
//! rt[0] -> Discard;   // for us
//! rt[1] -> Discard;
//! ```
//!
//! Routes are written and changed as in DirectIPLookup. The table is a trie of four bits at each level, as routers of
//! network processors had (B. Hardekopf et al., "Impact of Network Protocols on Programmable Router Architectures",
//! 2003, section 4.1). A look-up loads one word for each level of the matching route, eight at most. The class is here
//! for comparison: with 256K routes RadixIPLookup is faster (eval/qs-fig4).
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
use tables::fib::Stride4;

pub(crate) struct Four;

impl Kind<4> for Four {
    const CLASS: &'static str = "TrieIPLookup";
    const MANUAL: &'static str = manual!();
    type Family = V4;
    type Structure = Stride4<4>;
}
