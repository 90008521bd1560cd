//! Sends packets to a DPDK port: ToDevice with the arguments of Click's class.
//!
//! ```click
//! FromDPDKDevice(net_null0) -> ToDPDKDevice(net_null1, BURST 16, TIMEOUT 50us);
//! ```
//!
//! Arguments:
//!
//! - `PORT`: number of a DPDK port, its PCI address, or a virtual device such as `net_null1`.
//! - `QUEUE`, `N_QUEUES`: accepted as in Click, and without effect: each worker has its own queue.
//!
//! Keyword arguments:
//!
//! - `BURST`: packets handed over at a time. Default 64.
//! - `TIMEOUT`: maximum time that a packet waits for a burst to fill. Default 0.
//! - `IQUEUE`: maximum number of packets that wait for a busy port. Default 1024.
//! - `NDESC`: descriptors per queue. Default is the driver's.
//! - `BLOCKING`, `VERBOSE`, `NUMA`, `MAXTHREADS`: accepted for compatibility with Click and FastClick, and without
//!   effect: packets always wait for a busy port, up to `IQUEUE`.
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
        args.optional("QUEUE", -1i32, "accepted, and without effect");
        args.optional("N_QUEUES", -1i32, "accepted, and without effect");
        super::of_fastclick(args);
        args.key_maybe::<bool>("BLOCKING", "accepted, and without effect");
        args.key_maybe::<i32>("MAXTHREADS", "accepted, and without effect");
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
