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
//! The destination annotation is looked up by longest-prefix match, in a table that follows the routes of the
//! router's namespace, whatever sets them (`ip route`, FRR, BIRD). Packets to the router itself, to multicast groups
//! and to broadcast addresses leave by output 0. Packets to the interfaces leave by outputs 2, 3 ..., in the order of
//! the arguments. If the route has a gateway, the annotation becomes the gateway's address, which may be an IPv6
//! address (RFC 8950; LinuxARP resolves it). With several next hops (ECMP) all packets of a flow use the same next
//! hop, and next hops get flows in proportion to their weights. When a next hop is lost, only its flows move.
//!
//! Output 1 gets packets that the kernel must handle, which has the same table. These are packets without route and
//! those of `unreachable` and `prohibit` routes, for which the kernel sends the right ICMP error, and packets to
//! interfaces that are not listed here, such as tunnels. So are packets by routes that add MPLS labels;
//! LinuxMPLSEncap after output 1 adds these without the kernel. Packets of `blackhole` routes are dropped
//! (`blackhole`).
//!
//! All LinuxIPLookups of a router share one table, which is kept when the configuration is replaced.
//!
//! Arguments:
//!
//! - `NAME`, any number of: interfaces of the router's namespace. If there is none, they are those of the compound
//!   elements to which outputs 2, 3 ... lead: each names its own in a LinuxInput.

use super::lookup::Kind;
use crate::prelude::*;
use forwarding::Kernel;
use forwarding::Routes;
use forwarding::family::V4;
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
