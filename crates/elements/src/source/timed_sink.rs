//! Asks for one packet at every interval and throws it away.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Queue -> TimedSink(0.1);
//! ```
//!
//! Arguments:
//!
//! - `INTERVAL`: time between packets. Default 500ms.

use crate::prelude::*;
use crate::show;
use engine::units;
use std::time::Duration;

pub(crate) struct TimedSink {
    interval: Duration,
    count: u64,
    next: Time,
}

/// An interval of nothing would leave no time for anything else.
const SHORTEST: Duration = Duration::from_micros(1);

impl Element for TimedSink {
    const CLASS: &'static str = "TimedSink";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&["in"], &[], "l");
    const COPIES: Copies = Copies::One;
    const RUNS: Runs = Runs::AsTask;

    type Config = Duration;

    fn configure(args: &mut Args) -> Duration {
        let default = Duration::from_millis(500);
        args.optional("INTERVAL", default, "time between packets")
    }

    fn new(interval: &Arc<Duration>, _: &Init) -> TimedSink {
        TimedSink {
            interval: **interval,
            count: 0,
            next: Time(0),
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        self.next = cx.now() + self.interval.max(SHORTEST);
        cx.set_timer(self.next);
    }

    fn timer(&mut self, cx: &mut Cx) {
        let mut batch = cx.spare();
        self.count += cx.pull(0, 1, &mut batch) as u64;
        cx.keep_spare(batch);
        self.next = self.next + self.interval.max(SHORTEST);
        cx.set_timer(self.next);
    }

    fn take(&mut self, old: TimedSink) {
        self.count = old.count;
    }

    const HANDLERS: &'static [Handler<TimedSink>] = &[
        Handler::sum("count", "packets thrown away", |e| e.count),
        Handler::text("interval", "see INTERVAL", |e, _| {
            Ok(show::interval(e.interval))
        }),
        Handler::set("interval", "see INTERVAL", |e, value, cx| {
            e.interval = units::parse(value)?;
            cx.cancel_timer();
            e.start(cx);
            Ok(())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use testkit::Bench;

    #[test]
    fn a_packet_goes_at_every_interval() {
        let text = "InfiniteSource -> q :: Queue(10) -> s :: TimedSink(0.1)";
        let mut bench = Bench::strict(crate::CLASSES, text);
        bench.run();
        bench.advance(Duration::from_secs(1));
        assert_eq!(bench.read("s.count"), "10");
        assert_eq!(bench.read("q.length"), "10", "the source fills it up again");
        assert_eq!(bench.read("s.interval"), "100ms");
    }
}
