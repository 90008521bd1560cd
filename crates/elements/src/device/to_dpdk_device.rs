//! Sends packets to a DPDK port: ToDevice with the arguments of Click's class.
//!
//! ```click
//! FromDPDKDevice(net_null0) -> ToDPDKDevice(net_null1, BURST 16, TIMEOUT 50us);
//! ```
//!
//! Arguments:
//!
//! - `PORT`: number of a DPDK port, its PCI address, or a virtual device such as `net_null1`.
//!
//! Keyword arguments:
//!
//! - `BURST`: packets handed over at a time. Default 64.
//! - `TIMEOUT`: longest time that a packet waits for a burst to fill. Default 0.
//! - `IQUEUE`: packets that may wait for a busy port. Default 1024.
//! - `NDESC`: descriptors per queue. Default is the driver's.
//! - `CORES`: in pull mode, the workers that send.

use super::to_device::{Config, Style, ToDevice};
use crate::prelude::*;

pub(crate) struct Dpdk;

/// ToDevice under Click's name for DPDK ports.
pub(super) type ToDpdkDevice = ToDevice<Dpdk>;

impl Style for Dpdk {
    const CLASS: &'static str = "ToDPDKDevice";
    const MANUAL: &'static str = manual!();

    fn configure(args: &mut Args) -> Config {
        let device = super::dpdk_name(&args.required::<String>("PORT", "the DPDK port"));
        let doc = "descriptors per queue; 0 = the driver's default";
        Config::of(args, device, "IQUEUE", ("NDESC", doc))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_port_must_be_named() {
        let errors = testkit::errors(crate::CLASSES, "FromDevice(x) -> ToDPDKDevice()");
        assert!(
            errors.contains("required argument PORT is missing"),
            "{errors}"
        );
    }
}
