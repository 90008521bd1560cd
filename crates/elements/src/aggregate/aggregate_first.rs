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
//! - `NOTIFIER`: an AggregateIPFlows or AggregateIPAddrPair before this element, on the same worker. When it
//!   says that an aggregate has ended, the aggregate is forgotten.

use super::notice::{self, Listener};
use crate::prelude::*;
use std::collections::HashSet;

const LATER: u8 = 0;

pub(super) struct AggregateFirst {
    seen: HashSet<u32>,
    listener: Listener,
}

impl AggregateFirst {
    fn forget(&mut self) {
        for aggregate in self.listener.hear() {
            self.seen.remove(&aggregate);
        }
    }
}

impl Element for AggregateFirst {
    const CLASS: &'static str = "AggregateFirst";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&["in"], &["out", "other?"], "a/ah");
    const DROPS: &'static [&'static str] = &["later"];
    const READS_ANNOTATIONS: bool = true;
    const COPIES: Copies = Copies::One;

    /// The notifier.
    type Config = Option<String>;

    fn configure(args: &mut Args) -> Option<String> {
        notice::argument(args)
    }

    fn new(notifier: &Arc<Option<String>>, init: &Init) -> AggregateFirst {
        AggregateFirst {
            seen: HashSet::new(),
            listener: Listener::new(notifier.as_deref(), init),
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        if !self.listener.is_empty() {
            self.forget();
        }
        if self.seen.insert(packet.cold().aggregate()) {
            Verdict::ON
        } else {
            Verdict::reject(LATER, 1)
        }
    }

    fn take(&mut self, old: AggregateFirst) {
        self.seen = old.seen;
    }

    const HANDLERS: &'static [Handler<AggregateFirst>] = &[Handler::set(
        "ended",
        "forgets aggregates that have ended",
        |e, _, _| {
            e.forget();
            Ok(())
        },
    )];
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
