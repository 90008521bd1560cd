//! Adds up the time that has passed since the timestamps of packets.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> SetTimestamp -> Queue -> Unqueue -> TimestampAccum -> Discard;
//! ```

use crate::prelude::*;
use captures::time_window::show;

#[derive(Clone, Copy, Default)]
pub(super) struct TimestampAccum {
    count: u64,
    /// Nanoseconds.
    total: i64,
}

impl Element for TimestampAccum {
    const CONTRACT: Contract = Contract::new("TimestampAccum", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .copies(Copies::One);

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, _: &Init) -> TimestampAccum {
        TimestampAccum::default()
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let passed = (cx.timestamp() as i64).wrapping_sub(super::get(packet, false));
        self.count += 1;
        self.total = self.total.wrapping_add(passed);
        Verdict::ON
    }

    fn take(&mut self, old: TimestampAccum) {
        *self = old;
    }

    const HANDLERS: &'static [Handler<TimestampAccum>] = &[
        Handler::sum("count", "packets passed", |e| e.count),
        Handler::text("time", "the sum, in seconds", |e, _| Ok(show(e.total))),
        Handler::text("average_time", "the sum divided by the packets", |e, _| {
            Ok(show(
                e.total / i64::try_from(e.count.max(1)).unwrap_or(i64::MAX),
            ))
        }),
        Handler::set("reset_counts", "counts from zero again", |e, _, _| {
            *e = TimestampAccum::default();
            Ok(())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use crate::stamp::testing::packets;
    use testkit::Bench;

    #[test]
    fn differences_to_now_are_added_up() {
        let mut bench = Bench::new(crate::with_basics(), "t :: TimestampAccum -> Discard");
        // A bench's clock starts at one second.
        bench.push_packets("t", 0, packets(&[500_000_000, 900_000_000]));
        assert_eq!(bench.read("t.count"), "2");
        assert_eq!(bench.read("t.time"), "0.600000");
        assert_eq!(bench.read("t.average_time"), "0.300000");
        bench.write("t.reset_counts", "");
        assert_eq!(bench.read("t.time"), "0.000000");
    }
}
