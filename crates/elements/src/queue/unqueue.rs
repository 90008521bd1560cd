//! Asks for packets as fast as it can and pushes them on: joins pull to push.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Queue -> Unqueue -> Discard;
//! ```
//!
//! Arguments:
//!
//! - `BURST`: packets asked for at a time. Default 32.
//!
//! Keyword arguments:
//!
//! - `ACTIVE`: if false, asks for nothing. Default true.
//! - `CORES`: the workers on which it runs.

use crate::prelude::*;
use engine::units::Cores;

pub(super) struct Config {
    burst: usize,
    active: bool,
    cores: Option<Cores>,
}

pub(super) struct Unqueue {
    burst: usize,
    active: bool,
    notified: bool,
    count: u64,
}

impl Element for Unqueue {
    const CLASS: &'static str = "Unqueue";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&["in"], &["out"], "l/h");
    const RUNS: Runs = Runs::AsTask;

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        Config {
            burst: args.optional("BURST", 32, "packets asked for at a time"),
            active: args.key("ACTIVE", true, "if false, asks for nothing"),
            cores: args.key_maybe("CORES", "workers on which it runs"),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> Unqueue {
        Unqueue {
            burst: config.burst,
            active: config.active,
            notified: init.notified,
            count: 0,
        }
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        if !self.active {
            return Did::Sleep;
        }
        let mut batch = cx.spare();
        let n = cx.pull(0, self.burst, &mut batch);
        self.count += n as u64;
        cx.emit_batch(0, &mut batch);
        cx.keep_spare(batch);
        match n {
            0 if self.notified => Did::Sleep,
            0 => Did::Nothing,
            _ => Did::Work,
        }
    }

    fn take(&mut self, old: Unqueue) {
        self.count = old.count;
    }

    fn placement(config: &Config) -> Placement {
        Placement {
            workers: config.cores.as_ref().map(|c| c.0.clone()),
            ..Placement::default()
        }
    }

    const HANDLERS: &'static [Handler<Unqueue>] = &[
        Handler::sum("count", "packets moved", |e| e.count),
        Handler::set("active", "see ACTIVE", |e, value, cx| {
            e.active = engine::units::parse(value)?;
            cx.wake_self();
            Ok(())
        }),
    ];
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
    }
}
