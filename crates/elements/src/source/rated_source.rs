//! Makes packets at a steady rate.
//!
//! ```click
//! RatedSource(DATA \<08 00>, RATE 10, LIMIT 3) -> Discard;
//! ```
//!
//! With a pull output, RatedSource gives packets to those who ask, no faster than `RATE`, and tells them
//! when the next one is there.
//!
//! Arguments:
//!
//! - `DATA`: bytes of each packet. Default is a text of 69 bytes.
//! - `RATE`: packets per second. Default 10.
//! - `LIMIT`: number of packets; negative = no limit, the default.
//! - `ACTIVE`: if false, makes none. Default true.
//!
//! Keyword arguments:
//!
//! - `LENGTH`: if given, packets are this long; `DATA` is repeated or cut.
//! - `BANDWIDTH`: sets `RATE` so that packets of this length come at this bandwidth.
//! - `STOP`: whether to stop the router when `LIMIT` is reached. Default false.
//! - `END_CALL`: handler that is written when `LIMIT` is reached, in place of `STOP`.
//! - `CORES`: the workers on which it runs. Default 0.

use super::end::End;
use super::template::{Template, left};
use crate::prelude::*;
use engine::units::{self, Bandwidth, Cores};
use std::time::Duration;
use tables::tokens::Tokens;

#[derive(Clone)]
pub(crate) struct Settings {
    template: Template,
    rate: u32,
    limit: i64,
    active: bool,
}

pub(crate) struct Config {
    settings: Settings,
    end: End,
    cores: Option<Cores>,
}

pub(crate) struct RatedSource {
    config: Arc<Config>,
    settings: Settings,
    tokens: Tokens,
    count: u64,
    /// Whether the end of the packets has been told.
    ended: bool,
}

/// A bucket as deep as ten milliseconds at full rate, two packets at least.
fn depth(rate: u32) -> u64 {
    u64::from(rate / 100).max(2)
}

impl RatedSource {
    /// Makes the packets that are due, at most `max`; sets the timer if there is none.
    fn make(&mut self, max: usize, into: &mut Batch, cx: &mut Cx) {
        self.tokens.refill(cx.now().0);
        let due = usize::try_from(self.tokens.level()).unwrap_or(usize::MAX);
        let n = due.min(max).min(left(self.settings.limit, self.count));
        for _ in 0..n {
            let Some(mut packet) = self.settings.template.packet() else {
                break;
            };
            packet.cold_mut().timestamp = cx.timestamp();
            into.push(packet);
            self.count += 1;
            self.tokens.remove(1);
        }
        if n == 0
            && let Some(wait) = self.tokens.wait(1)
        {
            cx.set_timer(cx.now() + Duration::from_nanos(wait));
        }
    }

    /// Whether the limit is reached; tells it once.
    fn over(&mut self, cx: &mut Cx) -> bool {
        let over = left(self.settings.limit, self.count) == 0;
        if over && !self.ended {
            self.ended = true;
            self.config.end.reached(cx);
        }
        over
    }

    fn changed(&mut self, cx: &mut Cx) {
        self.ended = false;
        cx.cancel_timer();
        cx.wake_self();
        cx.wake_pullers();
    }
}

impl Element for RatedSource {
    const CLASS: &'static str = "RatedSource";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&[], &["out"], "/a");
    const COPIES: Copies = Copies::One;
    const RUNS: Runs = Runs::AsTaskIfPush;
    const NOTIFIES: bool = true;

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let data = Template::data(args);
        let rate = args.optional("RATE", 10, "packets per second");
        let limit = args.optional("LIMIT", -1, "number of packets; negative = no limit");
        let active = args.optional("ACTIVE", true, "if false, makes none");
        let template = Template::parse(args, data);
        let bandwidth: Option<Bandwidth> = args.key_maybe("BANDWIDTH", "sets RATE");
        let from_bandwidth = bandwidth.map(|b| {
            let rate = b.0 / (template.len() as u64).max(1);
            u32::try_from(rate).unwrap_or(u32::MAX)
        });
        Config {
            settings: Settings {
                template,
                rate: from_bandwidth.unwrap_or(rate),
                limit,
                active,
            },
            end: End::parse(args),
            cores: args.key_maybe("CORES", "workers on which it runs"),
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> RatedSource {
        let rate = config.settings.rate;
        RatedSource {
            settings: config.settings.clone(),
            config: Arc::clone(config),
            tokens: Tokens::new(rate.into(), depth(rate)),
            count: 0,
            ended: false,
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        self.tokens.refill(cx.now().0);
        self.tokens.set(1);
        cx.wake_pullers();
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        if !self.settings.active {
            return Did::Sleep;
        }
        if self.over(cx) {
            return Did::End;
        }
        let mut batch = cx.spare();
        self.make(cx.burst(), &mut batch, cx);
        let made = !batch.is_empty();
        cx.emit_batch(0, &mut batch);
        cx.keep_spare(batch);
        if made { Did::Work } else { Did::Sleep }
    }

    fn pull(&mut self, _: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        let had = into.len();
        if self.settings.active && !self.over(cx) {
            self.make(max, into, cx);
        }
        if into.len() == had {
            cx.note_empty();
        }
    }

    fn timer(&mut self, cx: &mut Cx) {
        cx.wake_self();
        cx.wake_pullers();
    }

    fn take(&mut self, old: RatedSource) {
        self.count = old.count;
    }

    fn placement(config: &Config) -> Placement {
        Placement {
            workers: config.cores.as_ref().map(|c| c.0.clone()),
            ..Placement::default()
        }
    }

    const HANDLERS: &'static [Handler<RatedSource>] = &[
        Handler::sum("count", "packets made", |e| e.count),
        Handler::set(
            "reset",
            "counts from zero again, up to LIMIT",
            |e, _, cx| {
                e.count = 0;
                e.changed(cx);
                Ok(())
            },
        ),
        Handler::text("data", "see DATA", |e, _| {
            Ok(e.settings.template.show_data())
        }),
        Handler::set("data", "see DATA", |e, value, _| {
            e.settings.template.set_data(value)
        }),
        Handler::text("length", "see LENGTH", |e, _| {
            Ok(e.settings.template.show_length())
        }),
        Handler::set("length", "see LENGTH", |e, value, _| {
            e.settings.template.set_length(value)
        }),
        Handler::text("rate", "see RATE", |e, _| Ok(e.settings.rate.to_string())),
        Handler::set("rate", "see RATE", |e, value, cx| {
            e.settings.rate = units::parse(value)?;
            e.tokens
                .set_rate(e.settings.rate.into(), depth(e.settings.rate));
            e.changed(cx);
            Ok(())
        }),
        Handler::text("limit", "see LIMIT", |e, _| {
            Ok(e.settings.limit.to_string())
        }),
        Handler::set("limit", "see LIMIT", |e, value, cx| {
            e.settings.limit = units::parse(value)?;
            e.changed(cx);
            Ok(())
        }),
        Handler::text("active", "see ACTIVE", |e, _| {
            Ok(e.settings.active.to_string())
        }),
        Handler::set("active", "see ACTIVE", |e, value, cx| {
            e.settings.active = units::parse(value)?;
            // What came up while it rested does not count.
            e.tokens.refill(cx.now().0);
            e.tokens.set(1);
            e.changed(cx);
            Ok(())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use testkit::Bench;

    #[test]
    fn packets_come_at_the_rate_up_to_the_limit() {
        for make in [Bench::new, Bench::strict] {
            let text = "s :: RatedSource(RATE 10, LIMIT 15, STOP true) -> d :: Discard";
            let mut bench = make(crate::CLASSES, text);
            bench.run();
            assert_eq!(bench.read("d.count"), "1");
            bench.advance(Duration::from_secs(1));
            assert_eq!(bench.read("d.count"), "10");
            bench.advance(Duration::from_secs(9));
            assert_eq!(bench.read("d.count"), "15");
            assert!(bench.graph().stopped());
        }
    }

    #[test]
    fn asked_for_packets_it_gives_no_more_than_the_rate() {
        let text = "s :: RatedSource(RATE 100) -> u :: Unqueue -> d :: Discard";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.run();
        bench.advance(Duration::from_secs(1));
        let n: u64 = bench.read("d.count").parse().unwrap();
        assert!((99..=101).contains(&n), "{n}");
        bench.write("s.active", "false");
        bench.advance(Duration::from_secs(1));
        assert_eq!(bench.read("d.count"), n.to_string());
        bench.write("s.rate", "1000");
        bench.write("s.active", "true");
        bench.run();
        bench.advance(Duration::from_secs(1));
        let more = bench.read("d.count").parse::<u64>().unwrap() - n;
        assert!((998..=1001).contains(&more), "{more}");
    }

    #[test]
    fn the_handler_of_the_end_is_written_once() {
        let text =
            "s :: RatedSource(RATE 10, LIMIT 2, END_CALL d.reset_counts) -> VIA -> d :: Discard";
        for via in ["Null", "Unqueue"] {
            let mut bench = Bench::new(crate::CLASSES, &text.replace("VIA", via));
            bench.run();
            assert_eq!(bench.read("d.count"), "1");
            bench.advance(Duration::from_secs(1));
            assert_eq!(
                (bench.read("s.count"), bench.read("d.count")),
                ("2".into(), "0".into())
            );
        }
    }

    #[test]
    fn a_bandwidth_is_a_rate_of_packets() {
        let text = "s :: RatedSource(LENGTH 100, BANDWIDTH 80kbps) -> Discard";
        let mut bench = Bench::new(crate::CLASSES, text);
        assert_eq!(bench.read("s.rate"), "100");
    }
}
