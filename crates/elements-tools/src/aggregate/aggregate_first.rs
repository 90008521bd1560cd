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
//! - `NOTIFIER`: an AggregateIPFlows or AggregateIPAddrPair upstream, on the same worker. When it reports the end of
//!   an aggregate, the aggregate is removed.
//! - `CAPACITY`: maximum number of aggregates. Default 1048576; with `ashlar click` 16777216. A further aggregate
//!   replaces the one that was idle longest, whose next packet then counts as a first one; the handler `evicted`
//!   counts those.

use super::bounded_map::BoundedMap;
use super::end_notices::{self, Listener};
use crate::prelude::*;

drops! {
    LATER = "later",
}

pub(super) struct Config {
    notifier: Option<String>,
    capacity: Option<Capacity>,
}

pub(super) struct AggregateFirst {
    seen: BoundedMap<u32, ()>,
    listener: Listener,
}

impl AggregateFirst {
    fn forget(&mut self) {
        for aggregate in self.listener.take_ended() {
            self.seen.remove(&aggregate);
        }
    }
}

impl Element for AggregateFirst {
    const CONTRACT: Contract = Contract::new("AggregateFirst", manual!())
        .ports(Ports::coded(&["in"], &["out", "other?"], "a/ah"))
        .drops(DROPS)
        .copies(Copies::One);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        Config {
            notifier: end_notices::argument(args),
            capacity: super::capacity(args),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> AggregateFirst {
        AggregateFirst {
            seen: BoundedMap::new(super::bound(config.capacity, init)),
            listener: Listener::new(config.notifier.as_deref(), init),
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        if !self.listener.is_empty() {
            self.forget();
        }
        let aggregate = packet.cold().aggregate();
        if self.seen.use_of(&aggregate).is_some() {
            return Verdict::reject(LATER, 1);
        }
        self.seen.insert(aggregate, (), |_, ()| ());
        Verdict::ON
    }

    fn take(&mut self, old: AggregateFirst) {
        let capacity = self.seen.capacity();
        self.seen = old.seen;
        self.seen.set_capacity(capacity, |_, ()| ());
    }

    const HANDLERS: &'static [Handler<AggregateFirst>] = &[
        Handler::set("ended", "forgets aggregates that have ended", |e, _, _| {
            e.forget();
            Ok(())
        }),
        Handler::sum(
            "evicted",
            "aggregates that were forgotten for others, see CAPACITY",
            |e| e.seen.evicted(),
        ),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn an_aggregate_beyond_the_capacity_pushes_out_the_one_that_was_idle_longest() {
        let text = "a :: AggregateLength -> f :: AggregateFirst(CAPACITY 2) -> out :: Collect";
        let mut bench = Bench::new(crate::with_basics(), text);
        bench.push("a", &[&b"a"[..], b"bb", b"d", b"ccc", b"d", b"ee"]);
        let out = bench.take("out");
        assert_eq!(out, [&b"a"[..], b"bb", b"ccc", b"ee"]);
        assert_eq!(
            (bench.drops("f", "later"), bench.read("f.evicted")),
            (2, "2".into())
        );
    }

    #[test]
    fn the_first_of_each_passes() {
        let mut bench = Bench::new(
            crate::with_basics(),
            "a :: AggregateLength -> f :: AggregateFirst -> out :: Collect",
        );
        bench.push("a", &[&b"aa"[..], b"b", b"cc", b"d"]);
        assert_eq!(bench.take("out"), [b"aa".to_vec(), b"b".to_vec()]);
        assert_eq!(bench.drops("f", "later"), 2);
    }
}
