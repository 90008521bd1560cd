//! Remembers the first and the last timestamp of the packets that pass.
//!
//! ```click
//! FromDump(trace.pcap) -> range :: TimeRange -> Discard;
//! ```
//!
//! Keyword arguments:
//!
//! - `SIMPLE`: true if packets come in the order of their timestamps, which saves a comparison. Default false.

use crate::prelude::*;
use captures::time_window::show;

#[derive(Clone, Copy)]
pub(super) struct TimeRange {
    simple: bool,
    /// First and last.
    range: Option<(i64, i64)>,
}

impl TimeRange {
    fn bounds(&self) -> (i64, i64) {
        self.range.unwrap_or((0, 0))
    }
}

impl Element for TimeRange {
    const CONTRACT: Contract = Contract::new("TimeRange", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .copies(Copies::One);

    type Config = bool;

    fn configure(args: &mut Args) -> bool {
        args.key("SIMPLE", false, "true if timestamps come in order")
    }

    fn new(simple: &Arc<bool>, _: &Init) -> TimeRange {
        TimeRange {
            simple: **simple,
            range: None,
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let stamp = super::get(packet, false);
        self.range = Some(match self.range {
            None => (stamp, stamp),
            Some((first, _)) if self.simple => (first, stamp),
            Some((first, last)) => (first.min(stamp), last.max(stamp)),
        });
        Verdict::ON
    }

    fn take(&mut self, old: TimeRange) {
        self.range = old.range;
    }

    const HANDLERS: &'static [Handler<TimeRange>] = &[
        Handler::text("first", "the earliest timestamp", |e, _| {
            Ok(show(e.bounds().0))
        }),
        Handler::text("last", "the latest timestamp", |e, _| {
            Ok(show(e.bounds().1))
        }),
        Handler::text("range", "the earliest and the latest timestamp", |e, _| {
            let (first, last) = e.bounds();
            Ok(format!("{} {}", show(first), show(last)))
        }),
        Handler::text("interval", "time between the two", |e, _| {
            let (first, last) = e.bounds();
            Ok(show(last.wrapping_sub(first)))
        }),
        Handler::set("reset", "forgets all that it has seen", |e, _, _| {
            e.range = None;
            Ok(())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use crate::stamp::testing::packets;
    use testkit::Bench;

    #[test]
    fn the_range_holds_all_timestamps_until_reset() {
        let mut bench = Bench::new(crate::with_basics(), "r :: TimeRange -> Discard");
        assert_eq!(bench.read("r.interval"), "0.000000");
        bench.push_packets(
            "r",
            0,
            packets(&[5_000_000_000, 3_000_000_000, 9_500_000_000]),
        );
        assert_eq!(bench.read("r.range"), "3.000000 9.500000");
        assert_eq!(bench.read("r.interval"), "6.500000");
        bench.write("r.reset", "");
        assert_eq!(bench.read("r.last"), "0.000000");
    }
}
