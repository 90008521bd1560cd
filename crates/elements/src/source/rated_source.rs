//! Makes packets at a steady rate.
//!
//! ```click
//! RatedSource(DATA \<08 00>, RATE 10, LIMIT 3) -> Discard;
//! ```
//!
//! With a pull output, packets can be pulled no faster than `RATE`, and RatedSource notifies tasks that pull
//! from it when the next packet is ready.
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
//! - `BANDWIDTH`: sets `RATE` so that packets of `LENGTH` have this bandwidth.
//! - `STOP`: true to stop the router when `LIMIT` is reached. Default false.
//! - `END_CALL`: handler that is written when `LIMIT` is reached, instead of `STOP`.
//! - `CORES`: the workers on which it runs. Default 0.

use super::source_state::{self, Source, Supply};
use super::template::Template;
use crate::prelude::*;
use arguments::units::{Bandwidth, Cores};
use engine::notify::Notifies;
use std::time::Duration;
use tables::tokens::Tokens;

pub(crate) struct Config {
    supply: Supply,
    rate: u32,
    cores: Option<Cores>,
}

pub(crate) struct RatedSource {
    supply: Supply,
    rate: u32,
    tokens: Tokens,
    as_click: bool,
}

/// Depth of the token bucket: ten milliseconds at full rate, at least two packets.
fn depth(rate: u32) -> u64 {
    u64::from(rate / 100).max(2)
}

impl RatedSource {
    /// Number of packets created at the start: one, or a full bucket in Click's mode.
    fn at_start(&self) -> u64 {
        match self.as_click {
            true => depth(self.rate),
            false => 1,
        }
    }

    /// Creates the packets that are due, at most `max`. If none is due, sets the timer.
    fn make(&mut self, max: usize, into: &mut Batch, cx: &mut Cx) {
        self.tokens.refill(cx.now().0);
        let due = usize::try_from(self.tokens.level()).unwrap_or(usize::MAX);
        let n = due.min(max).min(self.supply.remaining());
        let made = self.supply.create(n, cx.timestamp(), into, |_| {});
        self.tokens.remove(made as u64);
        if n == 0
            && let Some(wait) = self.tokens.wait_ns(1)
        {
            cx.set_timer(cx.now() + Duration::from_nanos(wait));
        }
    }
}

impl Source for RatedSource {
    fn supply(&self) -> &Supply {
        &self.supply
    }

    fn supply_mut(&mut self) -> &mut Supply {
        &mut self.supply
    }

    fn changed(&mut self, cx: &mut Cx) {
        cx.cancel_timer();
        cx.wake_self();
        cx.wake_pullers();
    }
}

impl Element for RatedSource {
    const CONTRACT: Contract = Contract::new("RatedSource", manual!())
        .ports(Ports::coded(&[], &["out"], "/a"))
        .copies(Copies::One)
        .runs(Runs::AsTaskIfPush)
        .extensions(&[&resources::of::<Self>(), &Notifies::PACKETS]);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let data = Template::data(args);
        let rate = args.optional("RATE", 10, "packets per second");
        let limit: i64 = args.optional("LIMIT", -1, "number of packets; negative = no limit");
        let active = args.optional("ACTIVE", true, "if false, makes none");
        let template = Template::parse(args, data);
        let bandwidth: Option<Bandwidth> = args.key_maybe("BANDWIDTH", "sets RATE");
        let from_bandwidth = bandwidth.map(|b| {
            let rate = b.0 / (template.len() as u64).max(1);
            u32::try_from(rate).unwrap_or(u32::MAX)
        });
        Config {
            supply: Supply::new(args, template, limit.max(-1), active),
            rate: from_bandwidth.unwrap_or(rate),
            cores: args.key_maybe("CORES", "workers on which it runs"),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> RatedSource {
        RatedSource {
            as_click: init.as_click(),
            supply: config.supply.clone(),
            rate: config.rate,
            tokens: Tokens::new(config.rate.into(), depth(config.rate)),
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        self.tokens.refill(cx.now().0);
        self.tokens.set(self.at_start());
        cx.wake_pullers();
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        if !self.supply.active {
            return Did::Sleep;
        }
        if self.supply.limit_reached(cx) {
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
        if self.supply.active && !self.supply.limit_reached(cx) {
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
        self.supply.count = old.supply.count;
    }

    const HANDLERS: &'static [Handler<RatedSource>] = &[
        source_state::count(),
        source_state::reset(),
        source_state::data(),
        source_state::set_data(),
        source_state::length(),
        source_state::set_length(),
        Handler::show("rate", "see RATE", |e| &e.rate),
        Handler::set("rate", "see RATE", |e, value, cx| {
            let now = cx.now().0;
            source_state::set(e, value, cx, |e, rate: u32| {
                e.tokens.refill(now);
                e.rate = rate;
                e.tokens.set_rate(rate.into(), depth(rate));
            })
        }),
        source_state::limit(),
        source_state::set_limit(),
        source_state::active(),
        Handler::set("active", "see ACTIVE", |e, value, cx| {
            let now = cx.now().0;
            source_state::set(e, value, cx, |e, active| {
                e.supply.active = active;
                // Tokens gained while the source was inactive do not count.
                e.tokens.refill(now);
                e.tokens.set(e.at_start());
            })
        }),
    ];
}

impl Resources for RatedSource {
    fn placement(config: &Config) -> Placement {
        Placement {
            workers: config.cores.as_ref().map(|c| c.0.clone()),
            ..Placement::default()
        }
    }
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
    fn a_negative_limit_is_no_limit() {
        let text = "s :: RatedSource(RATE 10, LIMIT -5) -> d :: Discard";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.run();
        bench.advance(Duration::from_secs(1));
        assert_eq!(bench.read("d.count"), "10");
    }

    #[test]
    fn clicks_driver_starts_with_a_full_bucket() {
        for (rate, first) in [(10, "2"), (1000, "10")] {
            let text = format!("s :: RatedSource(RATE {rate}) -> d :: Discard");
            let mut bench = Bench::click(crate::CLASSES, &text);
            bench.run();
            assert_eq!(bench.read("d.count"), first);
            bench.write("s.active", "false");
            bench.write("s.active", "true");
            bench.run();
            assert_eq!(
                bench.read("d.count"),
                (2 * first.parse::<u32>().unwrap()).to_string()
            );
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
