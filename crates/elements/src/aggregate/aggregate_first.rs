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
//! - `CAPACITY`: aggregates at a time. Default 1048576; with `ashlar click` 16777216. Packets of further aggregates leave by
//!   output 1, or are dropped (`table_full`).

use super::notice::{self, Listener};
use crate::prelude::*;
use std::collections::HashSet;

const LATER: u8 = 0;
const TABLE_FULL: u8 = 1;

pub(super) struct Config {
    notifier: Option<String>,
    capacity: Option<Capacity>,
}

pub(super) struct AggregateFirst {
    seen: HashSet<u32>,
    capacity: usize,
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
    const DROPS: &'static [&'static str] = &["later", "table_full"];
    const READS_ANNOTATIONS: bool = true;
    const COPIES: Copies = Copies::One;

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        Config {
            notifier: notice::argument(args),
            capacity: super::capacity(args),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> AggregateFirst {
        AggregateFirst {
            seen: HashSet::new(),
            capacity: super::bound(config.capacity, init),
            listener: Listener::new(config.notifier.as_deref(), init),
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        if !self.listener.is_empty() {
            self.forget();
        }
        let aggregate = packet.cold().aggregate();
        if self.seen.len() >= self.capacity && !self.seen.contains(&aggregate) {
            return Verdict::reject(TABLE_FULL, 1);
        }
        if self.seen.insert(aggregate) {
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
    fn aggregates_beyond_the_capacity_are_refused_by_name() {
        let text = "a :: AggregateLength -> f :: AggregateFirst(CAPACITY 2) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("a", &[&b"a"[..], b"bb", b"ccc", b"d", b"eee"]);
        assert_eq!(bench.take("out").len(), 2);
        assert_eq!(
            (bench.drops("f", "later"), bench.drops("f", "table_full")),
            (1, 2)
        );
    }

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
