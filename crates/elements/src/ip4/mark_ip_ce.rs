//! Sets "congestion experienced" in IPv4 packets (RFC 3168).
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> MarkIPCE -> Discard;
//! ```
//!
//! The checksum is updated incrementally. Packets of transports without congestion notification are dropped
//! (`not_capable`).
//!
//! Arguments:
//!
//! - `FORCE`: true to mark such packets, too. Default false.

use super::ecn::CE;
use crate::prelude::*;

drops! {
    NOT_CAPABLE = "not_capable",
    NO_HEADER = "no_header",
}

pub(super) struct MarkIPCE {
    force: bool,
    drops: u64,
}

impl Element for MarkIPCE {
    const CONTRACT: Contract = Contract::new("MarkIPCE", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .needs(&[Facts::IP4])
        .drops(DROPS)
        .ignores_annotations();

    type Config = bool;

    fn configure(args: &mut Args) -> bool {
        args.optional("FORCE", false, "true to mark all packets")
    }

    fn new(force: &Arc<bool>, _: &Init) -> MarkIPCE {
        MarkIPCE {
            force: **force,
            drops: 0,
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let Some(mut ip) = super::header_mut(packet) else {
            return Verdict::drop(NO_HEADER);
        };
        if ip.ecn() == 0 && !self.force {
            self.drops += 1;
            return Verdict::drop(NOT_CAPABLE);
        }
        ip.patch_tos(ip.tos() | CE);
        Verdict::ON
    }

    const HANDLERS: &'static [Handler<MarkIPCE>] =
        &[counter!("drops", "packets that could not be marked", drops)];
}

#[cfg(test)]
mod tests {
    use crate::ip4::tests::{edited, ip};
    use testkit::Bench;

    #[test]
    fn capable_packets_are_marked_and_others_only_by_force() {
        let packet = |tos| {
            edited(ip([1, 1, 1, 1], [2, 2, 2, 2], b"data"), |ip| {
                ip.set_tos(tos)
            })
        };
        let all = [packet(0x10), packet(0x11), packet(0x12), packet(0x13)];
        let marked = packet(0x13);
        let text =
            "c :: CheckIPHeader -> t :: Tee -> m :: MarkIPCE -> CheckIPHeader -> out :: Collect;
            t[1] -> MarkIPCE(true) -> CheckIPHeader -> forced :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("c", &all);
        assert_eq!(bench.take("out"), [&marked[..]; 3]);
        assert_eq!(bench.take("forced"), [&marked[..]; 4]);
        assert_eq!(bench.read("m.drops"), "1");
    }
}
