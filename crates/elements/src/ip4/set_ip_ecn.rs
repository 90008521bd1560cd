//! Sets the congestion notification bits of IPv4 packets (RFC 3168).
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> SetIPECN(ect2) -> Discard;
//! ```
//!
//! The checksum is updated incrementally. A packet without a whole header is dropped (`no_header`).
//!
//! Arguments:
//!
//! - `ECN`: 0 to 3, or `no`, `ect1` (ECT(1)), `ect2` (ECT(0)), `ce`.

use super::ecn::Ecn;
use crate::prelude::*;

drops! {
    NO_HEADER = "no_header",
}

pub(super) struct SetIPECN(Ecn);

impl Element for SetIPECN {
    const CONTRACT: Contract = Contract::new("SetIPECN", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .needs(&[Facts::IP4])
        .drops(DROPS)
        .ignores_annotations();

    type Config = Ecn;

    fn configure(args: &mut Args) -> Ecn {
        args.required("ECN", "the bits")
    }

    fn new(ecn: &Arc<Ecn>, _: &Init) -> SetIPECN {
        SetIPECN(**ecn)
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let Some(mut ip) = super::header_mut(packet) else {
            return Verdict::drop(NO_HEADER);
        };
        ip.patch_tos(ip.tos() & !3 | self.0.0);
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use crate::ip4::tests::{edited, ip};
    use testkit::Bench;

    #[test]
    fn the_bits_change_and_the_code_point_stays() {
        let packet = |tos| {
            edited(ip([1, 1, 1, 1], [2, 2, 2, 2], b"data"), |ip| {
                ip.set_tos(tos)
            })
        };
        for (word, bits) in [("no", 0), ("ECT(1)", 1), ("ect2", 2), ("3", 3)] {
            let text = format!(
                "c :: CheckIPHeader -> SetIPECN({word}) -> CheckIPHeader -> out :: Collect"
            );
            let mut bench = Bench::new(crate::CLASSES, &text);
            bench.push("c", &[packet(0xa9)]);
            assert_eq!(bench.take("out"), [packet(0xa8 | bits)]);
        }
        testkit::errors(crate::CLASSES, "Idle -> SetIPECN(4) -> Discard");
    }
}
