//! Sets the differentiated services code point of IPv4 packets (RFC 2474).
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> SetIPDSCP(46) -> Discard;
//! ```
//!
//! The checksum is updated incrementally. A packet without a whole header is dropped (`no_header`).
//!
//! Arguments:
//!
//! - `DSCP`: 0 to 63.

use crate::prelude::*;

drops! {
    NO_HEADER = "no_header",
}

pub(super) struct SetIPDSCP {
    dscp: u8,
}

impl Element for SetIPDSCP {
    const CONTRACT: Contract = Contract::new("SetIPDSCP", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .needs(&[Facts::IP4])
        .drops(DROPS)
        .ignores_annotations();

    type Config = u8;

    fn configure(args: &mut Args) -> u8 {
        args.required_in("DSCP", 0..=63, "code point, 0 to 63")
    }

    fn new(dscp: &Arc<u8>, _: &Init) -> SetIPDSCP {
        SetIPDSCP { dscp: **dscp }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let Some(mut ip) = super::header_mut(packet) else {
            return Verdict::drop(NO_HEADER);
        };
        ip.patch_tos(self.dscp << 2 | ip.ecn());
        Verdict::ON
    }

    const HANDLERS: &'static [Handler<SetIPDSCP>] = &[
        Handler::show("dscp", "the code point", |e| &e.dscp),
        Handler::argument(Handler::set("dscp", "changes it", |e, value, _| {
            e.dscp = arguments::units::parse_in(value, 0..=63)?;
            Ok(())
        })),
    ];
}

#[cfg(test)]
mod tests {
    use crate::ip4::tests::{edited, ip};
    use testkit::Bench;

    #[test]
    fn the_code_point_changes_and_congestion_bits_stay() {
        let packet = |tos| {
            edited(ip([1, 1, 1, 1], [2, 2, 2, 2], b"data"), |ip| {
                ip.set_tos(tos)
            })
        };
        let text = "c :: CheckIPHeader -> s :: SetIPDSCP(46) -> CheckIPHeader -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("c", &[packet(0xff), packet(0x02)]);
        assert_eq!(
            bench.take("out"),
            [packet(46 << 2 | 3), packet(46 << 2 | 2)]
        );
        bench.write("s.dscp", "0");
        bench.push("c", &[packet(0xff)]);
        assert_eq!(bench.take("out"), [packet(3)]);
        assert!(bench.try_write("s.dscp", "64").is_err());
        testkit::errors(crate::CLASSES, "Idle -> SetIPDSCP(64) -> Discard");
    }
}
