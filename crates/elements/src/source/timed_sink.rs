//! Pulls one packet at every interval and throws it away.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Queue -> TimedSink(0.1);
//! ```
//!
//! Arguments:
//!
//! - `INTERVAL`: time between packets. Default 500ms.

use super::interval_timer::Every;
use crate::prelude::*;
use std::time::Duration;

pub(crate) struct TimedSink {
    interval: Every,
    count: u64,
}

impl Element for TimedSink {
    const CONTRACT: Contract = Contract::new("TimedSink", manual!())
        .ports(Ports::coded(&["in"], &[], "l"))
        .copies(Copies::One)
        .runs(Runs::AsTask);

    type Config = Duration;

    fn configure(args: &mut Args) -> Duration {
        Every::parse(args)
    }

    fn new(interval: &Arc<Duration>, _: &Init) -> TimedSink {
        TimedSink {
            interval: Every::new(**interval),
            count: 0,
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        self.interval.start(cx);
    }

    fn timer(&mut self, cx: &mut Cx) {
        let mut batch = cx.spare();
        self.count += cx.pull(0, 1, &mut batch) as u64;
        cx.keep_spare(batch);
        self.interval.rearm(cx);
    }

    const HANDLERS: &'static [Handler<TimedSink>] = &[
        counter!("count", "packets thrown away", count),
        Handler::text("interval", "see INTERVAL", |e, _| e.interval.show()),
        Handler::set("interval", "see INTERVAL", |e, value, cx| {
            e.interval.change(value, cx)
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
