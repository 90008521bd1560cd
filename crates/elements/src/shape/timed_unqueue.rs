//! Pulls a few packets at every interval and pushes them on.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Queue -> TimedUnqueue(0.1) -> Discard;
//! ```
//!
//! At most `BURST` packets go per `INTERVAL`. A packet that arrives after an interval without packets leaves at
//! once, if its queue notifies TimedUnqueue.
//!
//! Arguments:
//!
//! - `INTERVAL`: time between bursts.
//! - `BURST`: packets at a time. Default 1.

use crate::prelude::*;
use arguments::show;
use arguments::units;
use std::marker::PhantomData;
use std::time::Duration;

/// A class that pulls at intervals.
pub(crate) trait Kind: 'static {
    /// The class name.
    const CLASS: &'static str;
    /// The manual page.
    const MANUAL: &'static str;
    /// Packets at a time, by default.
    const BURST: usize;
}

/// One packet at a time.
pub(crate) struct Single;

impl Kind for Single {
    const CLASS: &'static str = "TimedUnqueue";
    const MANUAL: &'static str = manual!();
    const BURST: usize = 1;
}

/// The shortest interval: none at all would be Unqueue.
const SHORTEST: Duration = Duration::from_micros(1);

#[derive(Clone, Copy)]
pub(crate) struct Config {
    interval: Duration,
    burst: usize,
}

pub(crate) struct TimedUnqueue<K = Single> {
    kind: PhantomData<K>,
    config: Config,
    /// Earliest time of the next burst.
    next: Time,
}

impl<K: Kind> Element for TimedUnqueue<K> {
    const CONTRACT: Contract = Contract::new(K::CLASS, K::MANUAL)
        .ports(Ports::coded(&["in"], &["out"], "l/h"))
        .copies(Copies::One)
        .runs(Runs::AsTask);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let config = Config {
            interval: args.required("INTERVAL", "time between bursts"),
            burst: args.optional("BURST", K::BURST, "packets at a time"),
        };
        if config.burst == 0 {
            args.error_in_whole("bad BURST", "at least one packet goes at a time");
        }
        config
    }

    fn new(config: &Arc<Config>, _: &Init) -> TimedUnqueue<K> {
        TimedUnqueue {
            kind: PhantomData,
            config: **config,
            next: Time(0),
        }
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        if cx.now() < self.next {
            cx.set_timer(self.next);
            return Did::Sleep;
        }
        let mut batch = cx.spare();
        let came = cx.pull(0, self.config.burst.max(1), &mut batch);
        cx.emit_batch(0, &mut batch);
        cx.keep_spare(batch);
        if came == 0 && !cx.input_active(0) {
            return Did::Sleep;
        }
        self.next = cx.now() + self.config.interval.max(SHORTEST);
        cx.set_timer(self.next);
        Did::Sleep
    }

    fn timer(&mut self, cx: &mut Cx) {
        cx.wake_self();
    }

    fn take(&mut self, old: TimedUnqueue<K>) {
        self.next = old.next;
    }

    const HANDLERS: &'static [Handler<TimedUnqueue<K>>] = &[
        Handler::text("interval", "see INTERVAL", |e, _| {
            Ok(show::interval(e.config.interval))
        }),
        Handler::set("interval", "see INTERVAL", |e, value, cx| {
            e.config.interval = units::parse(value)?;
            e.next = cx.now();
            cx.wake_self();
            Ok(())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use testkit::Bench;

    #[test]
    fn a_burst_goes_at_every_interval_and_a_late_packet_at_once() {
        for (class, burst) in [
            ("TimedUnqueue(0.1)", 1),
            ("Burster(0.1)", 8),
            ("Burster(0.1, 3)", 3),
        ] {
            let text = format!("q :: Queue -> {class} -> out :: Collect");
            let mut bench = Bench::strict(crate::CLASSES, &text);
            bench.push("q", &[b"a"; 20]);
            bench.run();
            assert_eq!(bench.take("out").len(), burst);
            bench.advance(Duration::from_millis(99));
            assert_eq!(bench.take("out").len(), 0);
            bench.advance(Duration::from_millis(1));
            assert_eq!(bench.take("out").len(), burst);
            bench.advance(Duration::from_secs(5));
            bench.take("out");
            bench.push("q", &[b"b"]);
            bench.run();
            assert_eq!(bench.take("out"), [b"b"]);
        }
    }
}
