//! Receives packets from a DPDK port: FromDevice with the arguments of Click's class.
//!
//! ```click
//! FromDPDKDevice(net_null0, BURST 16) -> Discard;
//! ```
//!
//! Arguments:
//!
//! - `PORT`: number of a DPDK port, its PCI address, or a virtual device such as `net_null0`.
//! - `QUEUE`, `N_QUEUES`: accepted as in Click. The plan distributes queues over workers, so `N_QUEUES` is
//!   their number, and `QUEUE` must be 0 or negative.
//!
//! Keyword arguments:
//!
//! - `PROMISC`: true to receive frames for other stations, too. Default true, as in Click.
//! - `BURST`: packets taken at a time. Default 64, or 32 if no element downstream reads annotations (`ashlar plan`
//!   shows it).
//! - `NDESC`: descriptors per queue. Default is the driver's.
//! - `CORES`: workers that receive; see FromDevice.
//! - `VERBOSE`, `NUMA`, `MAXTHREADS`, `THREADOFFSET`, `MAC`, `MTU`: accepted for compatibility with Click and
//!   FastClick, and without effect.
//! - `CLASSIFY`: method to spread packets over the workers; see FromDevice.

use super::from_device::{Config, FromDevice, Style};
use super::rss::Rss;
use crate::prelude::*;

pub(crate) struct Dpdk;

/// FromDevice under Click's name for DPDK ports.
pub(super) type FromDpdkDevice = FromDevice<Dpdk>;

impl Style for Dpdk {
    const CLASS: &'static str = "FromDPDKDevice";
    const MANUAL: &'static str = manual!();

    fn configure(args: &mut Args) -> Config {
        let device = super::dpdk_name(&args.required::<String>("PORT", "the DPDK port"));
        let queue = args.optional("QUEUE", -1i32, "0 or negative: the plan assigns queues");
        let queues = args.optional(
            "N_QUEUES",
            -1i32,
            "receive queues to open; negative = one per worker",
        );
        super::of_fastclick(args);
        args.key_maybe::<i32>("MAXTHREADS", "accepted, and without effect");
        args.key_maybe::<i32>("THREADOFFSET", "accepted, and without effect");
        args.key_maybe::<String>("MAC", "accepted, and without effect");
        args.key_maybe::<u32>("MTU", "accepted, and without effect");
        if queue > 0 {
            args.error_in_whole(
                "QUEUE cannot start behind 0",
                "use CORES to place queues on workers",
            );
        }
        let rss = Rss::configure(args, &device);
        Config {
            device,
            cores: args.key_maybe("CORES", "workers that receive"),
            queues: usize::try_from(queues).ok().filter(|&n| n > 0),
            burst: args.key_maybe("BURST", "packets taken from a queue at a time"),
            descriptors: args.key(
                "NDESC",
                0,
                "descriptors per queue; 0 = the driver's default",
            ),
            promiscuous: args.key("PROMISC", true, "true to receive frames for other stations"),
            rss,
            timestamp: Some(false),
            yields: true,
            owners: Default::default(),
            only: None,
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn keywords_of_fastclick_are_taken() {
        let text =
            "FromDPDKDevice(0, PROMISC true, VERBOSE 99, MAXTHREADS 4, NUMA false, THREADOFFSET 1)
            -> ToDPDKDevice(0, BLOCKING true, VERBOSE 99)";
        let errors = testkit::errors(crate::CLASSES, text);
        assert!(
            !errors.contains("keyword") && !errors.contains("must"),
            "{errors}"
        );
    }

    #[test]
    fn a_queue_of_its_own_choice_is_refused_with_the_remedy() {
        let errors = testkit::errors(crate::CLASSES, "FromDPDKDevice(0, 3) -> Discard");
        assert!(errors.contains("use CORES"), "{errors}");
    }
}
