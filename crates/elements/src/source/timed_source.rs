//! Makes a packet at every interval.
//!
//! ```click
//! TimedSource(0.333, LIMIT 3) -> Discard;
//! ```
//!
//! Arguments:
//!
//! - `INTERVAL`: time between packets, and before the first one. Default 500ms.
//! - `DATA`: bytes of each packet. Default is a text of 69 bytes.
//!
//! Keyword arguments:
//!
//! - `LIMIT`: number of packets; negative = no limit, the default.
//! - `HEADROOM`: accepted, and without effect: packets always have the usual headroom.
//! - `STOP`: true to stop the router one interval after the last of `LIMIT` packets. Default false.
//! - `END_CALL`: handler that is written then, instead of `STOP`.

use super::interval_timer::Every;
use super::source_state::{self, Source, Supply};
use super::template::Template;
use crate::prelude::*;
use std::time::Duration;

pub(crate) struct Config {
    interval: Duration,
    supply: Supply,
}

pub(crate) struct TimedSource {
    interval: Every,
    supply: Supply,
}

impl Source for TimedSource {
    fn supply(&self) -> &Supply {
        &self.supply
    }

    fn supply_mut(&mut self) -> &mut Supply {
        &mut self.supply
    }

    fn changed(&mut self, _: &mut Cx) {}
}

impl Element for TimedSource {
    const CONTRACT: Contract = Contract::new("TimedSource", manual!())
        .ports(Ports::coded(&[], &["out"], "/h"))
        .copies(Copies::One)
        .runs(Runs::AsTask);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let interval = Every::parse(args);
        let data = Template::data(args);
        let limit = args.key("LIMIT", -1, "number of packets; negative = no limit");
        args.key_maybe::<u32>("HEADROOM", "bytes kept free before the packet");
        let template = Template::exact(args, data);
        Config {
            interval,
            supply: Supply::new(args, template, limit, true),
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> TimedSource {
        TimedSource {
            interval: Every::new(config.interval),
            supply: config.supply.clone(),
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        self.interval.start(cx);
    }

    fn task(&mut self, _: &mut Cx) -> Did {
        if self.supply.remaining() == 0 {
            Did::End
        } else {
            Did::Sleep
        }
    }

    fn timer(&mut self, cx: &mut Cx) {
        if self.supply.limit_reached(cx) {
            return cx.wake_self();
        }
        let mut batch = cx.spare();
        self.supply.create(1, cx.timestamp(), &mut batch, |_| {});
        cx.emit_batch(0, &mut batch);
        cx.keep_spare(batch);
        self.interval.rearm(cx);
    }

    fn take(&mut self, old: TimedSource) {
        self.supply.count = old.supply.count;
    }

    const HANDLERS: &'static [Handler<TimedSource>] = &[
        source_state::count(),
        source_state::data(),
        source_state::set_data(),
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
    fn a_packet_comes_at_every_interval_up_to_the_limit() {
        let text = "s :: TimedSource(0.5, abc, LIMIT 3, STOP true) -> out :: Collect";
        let mut bench = Bench::strict(crate::CLASSES, text);
        bench.advance(Duration::from_millis(499));
        assert!(bench.take("out").is_empty());
        bench.advance(Duration::from_millis(1));
        assert_eq!(bench.take("out"), [b"abc"]);
        bench.advance(Duration::from_millis(1499));
        assert_eq!(bench.take("out").len(), 2);
        assert!(!bench.graph().stopped());
        bench.advance(Duration::from_millis(1));
        assert!(bench.graph().stopped());
    }

    #[test]
    fn the_handler_of_the_end_is_written_an_interval_after_the_last_packet() {
        let text = "s :: TimedSource(1, LIMIT 2, END_CALL d.reset_counts) -> d :: Discard";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.advance(Duration::from_millis(2999));
        assert_eq!(bench.read("d.count"), "2");
        bench.advance(Duration::from_millis(1));
        assert_eq!(bench.read("d.count"), "0");
    }

    #[test]
    fn a_shorter_interval_counts_from_now_and_a_longer_one_from_the_next_packet() {
        let mut bench = Bench::new(crate::CLASSES, "s :: TimedSource(10) -> out :: Collect");
        bench.write("s.interval", "1.5");
        assert_eq!(bench.read("s.interval"), "1.500000s");
        bench.advance(Duration::from_secs(3));
        assert_eq!(bench.take("out").len(), 2);
        bench.write("s.interval", "10");
        bench.advance(Duration::from_millis(1500));
        assert_eq!(bench.take("out").len(), 1);
        bench.advance(Duration::from_millis(9999));
        assert_eq!(bench.take("out").len(), 0);
    }
}
