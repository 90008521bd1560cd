//! Looks up where IPv6 packets go next, in the kernel's routing table.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIP6Header -> rt :: LinuxIP6Lookup(eth0, eth1);
//! rt[0] -> Discard;   // to the router itself
//! rt[1] -> Discard;   // the kernel's business
//! rt[2] -> Discard;   // by eth0
//! rt[3] -> Discard;   // by eth1
//! ```
//!
//! Works like LinuxIPLookup for IPv6. Output 0 gets packets to the router itself, to groups and to link-local
//! addresses. Output 1 gets packets that the kernel must handle (no route, `unreachable`, `prohibit`, other
//! interfaces). The other outputs are those of the interfaces. Packets of `blackhole` routes are dropped
//! (`blackhole`).
//!
//! Arguments:
//!
//! - `NAME`, any number of: interfaces of the router's namespace. If there is none, they are those of the compound
//!   elements to which outputs 2, 3 ... lead: each names its own in a LinuxInput.

use super::lookup::Kind;
use crate::prelude::*;
use forwarding::Kernel;
use forwarding::Routes;
use forwarding::family::V6;
use tables::fib::NoMemory;

pub(crate) struct Six;

impl Kind<16> for Six {
    const CLASS: &'static str = "LinuxIP6Lookup";
    const MANUAL: &'static str = manual!();
    type Family = V6;

    fn routes(kernel: &Kernel) -> Result<&Arc<Routes<16>>, NoMemory> {
        kernel.shared6()
    }
}
