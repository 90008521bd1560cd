//! Counts packets and bytes, and computes the average rate from the first packet to the last.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> c :: AverageCounter -> Discard;
//! ```
//!
//! Arguments:
//!
//! - `IGNORE`: seconds after the first packet that are not counted. Default 0.

use crate::prelude::*;
use std::time::Duration;

#[derive(Default)]
pub(super) struct AverageCounter {
    ignore: Duration,
    packets: u64,
    bytes: u64,
    first: Option<Time>,
    last: Time,
}

impl AverageCounter {
    /// Average of a count per second, since the first packet and the ignored time after it.
    fn per_second(&self, count: u64) -> u64 {
        let first = self.first.unwrap_or(self.last) + self.ignore;
        let passed = self.last.since(first).as_nanos();
        let scaled = u128::from(count) * 1_000_000_000;
        u64::try_from(scaled / passed.max(1_000_000)).unwrap_or(u64::MAX)
    }
}

impl Element for AverageCounter {
    const CONTRACT: Contract =
        Contract::new("AverageCounter", manual!()).ports(Ports::new(&["in"], &["out"]));

    type Config = u64;

    fn configure(args: &mut Args) -> u64 {
        args.optional("IGNORE", 0, "seconds that do not count")
    }

    fn new(ignore: &Arc<u64>, _: &Init) -> AverageCounter {
        AverageCounter {
            ignore: Duration::from_secs(**ignore),
            ..AverageCounter::default()
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        let now = cx.now();
        let first = *self.first.get_or_insert(now);
        if now.since(first) >= self.ignore {
            self.packets += batch.len() as u64;
            self.bytes += batch.bytes();
        }
        self.last = now;
    }

    fn take(&mut self, old: AverageCounter) {
        let ignore = self.ignore;
        *self = AverageCounter { ignore, ..old };
    }

    const HANDLERS: &'static [Handler<AverageCounter>] = &[
        Handler::sum("count", "packets passed", |e| e.packets),
        Handler::sum("byte_count", "bytes passed", |e| e.bytes),
        Handler::sum("rate", "packets per second", |e| e.per_second(e.packets)),
        Handler::sum("byte_rate", "bytes per second", |e| e.per_second(e.bytes)),
        Handler::set("reset", "counts from zero again", |e, _, _| {
            let ignore = e.ignore;
            *e = AverageCounter {
                ignore,
                ..AverageCounter::default()
            };
            Ok(())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use testkit::Bench;

    #[test]
    fn the_rate_is_an_average_over_all_the_time() {
        let mut bench = Bench::new(crate::with_basics(), "c :: AverageCounter -> Discard");
        for _ in 0..3 {
            bench.push("c", &[b"four"]);
            bench.advance(Duration::from_millis(500));
        }
        assert_eq!(bench.read("c.count"), "3");
        assert_eq!(bench.read("c.rate"), "3");
        assert_eq!(bench.read("c.byte_rate"), "12");
        bench.write("c.reset", "");
        assert_eq!(bench.read("c.byte_count"), "0");
    }

    #[test]
    fn the_first_seconds_may_be_left_out() {
        let mut bench = Bench::new(crate::with_basics(), "c :: AverageCounter(1) -> Discard");
        for _ in 0..3 {
            bench.push("c", &[b"four"]);
            bench.advance(Duration::from_secs(1));
        }
        assert_eq!(
            (bench.read("c.count"), bench.read("c.rate")),
            ("2".into(), "2".into())
        );
    }
}
