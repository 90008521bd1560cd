//! Looks up where IPv4 packets go next, in the kernel's routing table.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> rt :: LinuxIPLookup(eth0, eth1);
//! rt[0] -> Discard;   // to the router itself
//! rt[1] -> Discard;   // the kernel's business
//! rt[2] -> Discard;   // by eth0
//! rt[3] -> Discard;   // by eth1
//! ```
//!
//! The destination annotation is looked up: longest prefix match in a table that follows the routes of the
//! router's namespace, whoever sets them (`ip route`, FRR, BIRD). Packets for the router itself, for groups
//! and for everybody leave by output 0; packets to an interface by its output, those after 1 in the order
//! of the arguments. The annotation becomes the gateway's address if the route has one, which may be an IPv6
//! address (RFC 8950; LinuxARP finds it). Of several next
//! hops (ECMP) a flow's packets take the same, each as often as its weight says, and only flows of one that
//! is lost move.
//!
//! By output 1 leaves what the kernel is to deal with, since it has the same table: packets without route,
//! those of `unreachable` and `prohibit` routes, for which it sends the right ICMP error, and routes through
//! interfaces that are not listed here, such as tunnels. Packets of `blackhole` routes are dropped
//! (`blackhole`).
//!
//! All LinuxIPLookups of a router have one table, which goes on when the configuration is replaced.
//!
//! Arguments:
//!
//! - `NAME`, any number of: interfaces of the router's namespace.

use super::Kernel;
use super::lookup::Kind;
use super::routes::Routes;
use crate::prelude::*;
use crate::route::family::V4;
use tables::fib::NoMemory;

pub(crate) struct Four;

impl Kind<4> for Four {
    const CLASS: &'static str = "LinuxIPLookup";
    const MANUAL: &'static str = manual!();
    type Family = V4;

    fn routes(kernel: &Kernel) -> Result<&Arc<Routes<4>>, NoMemory> {
        kernel.shared4()
    }
}
