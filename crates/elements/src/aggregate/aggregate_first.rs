//! Lets the first packet of each aggregate pass.
//!
//! ```click
//! FromDump(trace.pcap, FORCE_IP true) -> AggregateIPFlows -> AggregateFirst -> ToIPSummaryDump(-);
//! ```
//!
//! Later packets with the same AGGREGATE annotation leave by output 1, or are dropped (`later`).
//!
//! Keyword arguments:
//!
//! - `NOTIFIER`: accepted for Click's sake; nothing is forgotten.

use crate::prelude::*;
use std::collections::HashSet;

const LATER: u8 = 0;

#[derive(Default)]
pub(super) struct AggregateFirst {
    seen: HashSet<u32>,
}

impl Element for AggregateFirst {
    const CLASS: &'static str = "AggregateFirst";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&["in"], &["out", "other?"], "a/ah");
    const DROPS: &'static [&'static str] = &["later"];
    const COPIES: Copies = Copies::One;

    type Config = ();

    fn configure(args: &mut Args) {
        let _: Option<String> = args.key_maybe("NOTIFIER", "accepted for Click's sake");
    }

    fn new(_: &Arc<()>, _: &Init) -> AggregateFirst {
        AggregateFirst::default()
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        if self.seen.insert(packet.cold().aggregate()) {
            Verdict::ON
        } else {
            Verdict::reject(LATER, 1)
        }
    }

    fn take(&mut self, old: AggregateFirst) {
        self.seen = old.seen;
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn the_first_of_each_passes() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "a :: AggregateLength -> f :: AggregateFirst -> out :: Collect",
        );
        bench.push("a", &[&b"aa"[..], b"b", b"cc", b"d"]);
        assert_eq!(bench.take("out"), [b"aa".to_vec(), b"b".to_vec()]);
        assert_eq!(bench.drops("f", "later"), 2);
    }
}
