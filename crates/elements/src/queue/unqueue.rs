//! Pulls packets as fast as it can and pushes them on: connects pull to push.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Queue -> Unqueue -> Discard;
//! ```
//!
//! Unqueue sleeps while no packets wait upstream.
//!
//! Keyword arguments:
//!
//! - `ACTIVE`: if false, does not pull. Default true.
//! - `LIMIT`: number of packets to pull; negative = no limit, the default.
//! - `BURST`: packets pulled at a time; negative = until none comes. Default 1 in `ashlar click`, where packets
//!   move one by one, else 32.
//! - `CORES`: the workers on which it runs.

use crate::prelude::*;
use arguments::units::{self, Cores};

/// The most packets of one run where `BURST` says "all".
const ALL: usize = 4096;

pub(crate) struct Config {
    active: bool,
    limit: i64,
    burst: Option<i64>,
    cores: Option<Cores>,
}

pub(crate) struct Unqueue {
    active: bool,
    limit: i64,
    burst: Option<i64>,
    count: u64,
}

impl Unqueue {
    /// Number of packets to pull now.
    fn burst(&self, cx: &Cx) -> usize {
        let burst = match self.burst {
            None => cx.burst(),
            Some(n) => cx.at_most(usize::try_from(n).unwrap_or(ALL)),
        };
        match u64::try_from(self.limit) {
            Err(_) => burst,
            Ok(limit) => {
                let left = usize::try_from(limit.saturating_sub(self.count));
                burst.min(left.unwrap_or(usize::MAX))
            }
        }
    }
}

impl Element for Unqueue {
    const CONTRACT: Contract = Contract::new("Unqueue", manual!())
        .ports(Ports::coded(&["in"], &["out"], "l/h"))
        .runs(Runs::AsTask)
        .extensions(&[&resources::of::<Self>()]);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        Config {
            active: args.key("ACTIVE", true, "if false, does not pull"),
            limit: args.key("LIMIT", -1, "number of packets; negative = no limit"),
            burst: args.maybe("BURST", "packets pulled at a time; negative = all"),
            cores: args.key_maybe("CORES", "workers on which it runs"),
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> Unqueue {
        Unqueue {
            active: config.active,
            limit: config.limit,
            burst: config.burst,
            count: 0,
        }
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        let wanted = self.burst(cx);
        if !self.active || wanted == 0 {
            return Did::Sleep;
        }
        let mut batch = cx.spare();
        let n = cx.pull(0, wanted, &mut batch);
        self.count += n as u64;
        cx.emit_batch(0, &mut batch);
        cx.keep_spare(batch);
        if n > 0 { Did::Work } else { cx.idle_result(0) }
    }

    const HANDLERS: &'static [Handler<Unqueue>] = &[
        counter!("count", "packets moved", count),
        Handler::set(
            "reset",
            "counts from zero again, up to LIMIT",
            |e, _, cx| {
                e.count = 0;
                cx.wake_self();
                Ok(())
            },
        ),
        Handler::show("active", "see ACTIVE", |e| &e.active),
        Handler::set("active", "see ACTIVE", |e, value, cx| {
            e.active = units::parse(value)?;
            cx.wake_self();
            Ok(())
        }),
        Handler::show("limit", "see LIMIT", |e| &e.limit),
        Handler::set("limit", "see LIMIT", |e, value, cx| {
            e.limit = units::parse(value)?;
            cx.wake_self();
            Ok(())
        }),
        Handler::text("burst", "see BURST", |e, _| {
            Ok(e.burst.unwrap_or(1).to_string())
        }),
        Handler::set("burst", "see BURST", |e, value, cx| {
            e.burst = Some(units::parse(value)?);
            cx.wake_self();
            Ok(())
        }),
    ];
}

impl Resources for Unqueue {
    fn placement(config: &Config) -> Placement {
        Placement {
            workers: config.cores.as_ref().map(|c| c.0.clone()),
            ..Placement::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn an_inactive_unqueue_waits_until_it_is_made_active() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "q :: Queue -> u :: Unqueue(ACTIVE false) -> out :: Collect",
        );
        bench.push("q", &[b"a"]);
        bench.run();
        assert!(bench.take("out").is_empty());
        bench.write("u.active", "true");
        bench.run();
        assert_eq!(bench.take("out"), [b"a"]);
        assert_eq!(bench.read("u.active"), "true");
    }

    #[test]
    fn the_limit_holds_until_it_is_raised_or_the_count_reset() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "q :: Queue -> u :: Unqueue(LIMIT 2, BURST 5) -> out :: Collect",
        );
        bench.push("q", &[b"a", b"b", b"c", b"d", b"e", b"f"]);
        bench.run();
        assert_eq!(bench.take("out"), [b"a", b"b"]);
        bench.write("u.limit", "3");
        bench.run();
        assert_eq!(bench.take("out"), [b"c"]);
        bench.write("u.reset", "");
        bench.write("u.burst", "-1");
        bench.run();
        assert_eq!(bench.take("out"), [b"d", b"e", b"f"]);
        assert_eq!(
            (bench.read("u.burst"), bench.read("u.limit")),
            ("-1".into(), "3".into())
        );
    }
}
