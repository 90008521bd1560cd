//! Drops packets on purpose: they count as delivered, not as lost.
//!
//! With a pull input, Discard pulls packets as fast as it can, `BURST` at a time, and sleeps while none wait
//! upstream.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Discard;
//! ```
//!
//! Keyword arguments:
//!
//! - `ACTIVE`: if false, Discard does not pull. Default true.
//! - `BURST`: packets pulled at a time. Default 1 in `ashlar click`, where packets move one by one, else 32.

use crate::prelude::*;

pub(super) struct Discard {
    active: bool,
    burst: Option<usize>,
    count: u64,
}

pub(super) struct Config {
    active: bool,
    burst: Option<usize>,
}

impl Element for Discard {
    const CONTRACT: Contract = Contract::new("Discard", manual!())
        .ports(Ports::coded(&["in"], &[], "a"))
        .runs(Runs::AsTaskIfPull)
        .ignores_annotations();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        Config {
            active: args.key("ACTIVE", true, "if false, does not pull"),
            burst: args.key_maybe("BURST", "packets pulled at a time"),
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> Discard {
        Discard {
            active: config.active,
            burst: config.burst,
            count: 0,
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, _: &mut Cx) {
        self.count += batch.len() as u64;
        batch.clear();
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        if !self.active {
            return Did::Sleep;
        }
        let mut batch = cx.spare();
        let burst = self.burst.unwrap_or(cx.burst()).max(1);
        let n = cx.pull(0, burst, &mut batch);
        self.count += n as u64;
        cx.keep_spare(batch);
        if n > 0 { Did::Work } else { cx.idle_result(0) }
    }

    const HANDLERS: &'static [Handler<Discard>] = &[
        counter!("count", "packets thrown away", count),
        Handler::set("reset_counts", "counts from zero again", |e, _, _| {
            e.count = 0;
            Ok(())
        }),
        Handler::show("active", "see ACTIVE", |e| &e.active),
        Handler::set("active", "see ACTIVE", |e, value, cx| {
            e.active = arguments::units::parse(value)?;
            cx.wake_self();
            Ok(())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn pushed_packets_are_counted_and_gone() {
        let mut bench = Bench::new(crate::CLASSES, "d :: Discard");
        bench.push("d", &[b"a", b"b"]);
        assert_eq!(bench.read("d.count"), "2");
    }

    #[test]
    fn a_pull_discard_empties_its_queue() {
        let mut bench = Bench::new(crate::CLASSES, "q :: Queue(10) -> d :: Discard");
        bench.push("q", &[b"a", b"b", b"c"]);
        bench.run();
        assert_eq!(bench.read("d.count"), "3");
        assert_eq!(bench.read("q.length"), "0");
    }
}
