//! Sets the AGGREGATE annotation to the paint annotation, or to its low bits.
//!
//! ```click
//! FromIPSummaryDump(-) -> AggregatePaint(1) -> ac :: AggregateCounter -> Discard;
//! ```
//!
//! Arguments:
//!
//! - `BITS`: number of low bits of the paint to use. Default 8.
//!
//! Keyword arguments:
//!
//! - `INCREMENTAL`: true if these bits are appended to the packet's AGGREGATE annotation. Default false.

use crate::prelude::*;

#[derive(Clone, Copy)]
pub(super) struct AggregatePaint {
    bits: u32,
    incremental: bool,
}

impl Element for AggregatePaint {
    const CONTRACT: Contract =
        Contract::new("AggregatePaint", manual!()).ports(Ports::new(&["in"], &["out"]));

    type Config = AggregatePaint;

    fn configure(args: &mut Args) -> AggregatePaint {
        let bits = args.optional("BITS", 8, "low bits of the paint that count");
        if !(1..=8).contains(&bits) {
            args.error_in_whole("bad BITS", "it is a number from 1 to 8");
        }
        AggregatePaint {
            bits: bits.clamp(1, 8),
            incremental: args.key("INCREMENTAL", false, "true if bits are added"),
        }
    }

    fn new(config: &Arc<AggregatePaint>, _: &Init) -> AggregatePaint {
        **config
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let value = u32::from(packet.anno().paint) & ((1 << self.bits) - 1);
        let cold = packet.cold_mut();
        let high = if self.incremental {
            cold.aggregate() << self.bits
        } else {
            0
        };
        cold.set_aggregate(high | value);
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn low_bits_of_the_paint_are_the_aggregate() {
        let seen = |path: &str, aggregate: u32| {
            let text = format!(
                "p :: Paint(7) -> {path} -> f :: AggregateFilter(0 {aggregate}) -> out :: Collect"
            );
            let mut bench = Bench::new(crate::with_basics(), &text);
            bench.push("p", &[b"a"]);
            bench.take("out").len() == 1
        };
        assert!(seen("AggregatePaint", 7));
        assert!(seen("AggregatePaint(2)", 3));
        assert!(seen(
            "AggregatePaint(2) -> AggregatePaint(1, INCREMENTAL true)",
            7
        ));
        assert!(!seen("AggregatePaint(2)", 7));
    }
}
