//! Passes packets from each input to the output of the same number, if that pair is active.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> s :: Suppressor -> Discard;
//! InfiniteSource(LIMIT 3) -> [1]s[1] -> Discard;
//! ```
//!
//! At first all pairs are active. Packets of an inactive pair are dropped (`suppressed`); a pull from it gives
//! none. The pairs are all push or all pull, and there are at most 16.

use crate::prelude::*;

const SUPPRESSED: usize = 0;
const PAIRS_MAX: usize = 16;

pub(super) struct Suppressor {
    active: [bool; PAIRS_MAX],
}

impl Suppressor {
    fn is_active(&self, pair: usize) -> bool {
        self.active.get(pair).is_some_and(|active| *active)
    }
}

/// The handlers of all pairs.
macro_rules! handlers {
    ($($pair:literal $name:literal,)*) => {
        &[
            $(
                Handler::text($name, "whether packets pass here", |e, _| {
                    Ok(e.active[$pair].to_string())
                }),
                Handler::set($name, "whether packets pass here", |e, value, _| {
                    assign(&mut e.active[$pair], value)?;
                    Ok(())
                }),
            )*
            Handler::set("reset", "makes all pairs active", |e, _, _| {
                e.active = [true; PAIRS_MAX];
                Ok(())
            }),
        ]
    };
}

impl Element for Suppressor {
    const CLASS: &'static str = "Suppressor";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&["in+"], &["out+"], "a/a");
    const DROPS: &'static [&'static str] = &["suppressed"];
    const READS_ANNOTATIONS: bool = true;

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, _: &Init) -> Suppressor {
        Suppressor {
            active: [true; PAIRS_MAX],
        }
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        if self.is_active(input) {
            cx.emit_batch(input, batch);
        } else {
            cx.drop_batch(batch, SUPPRESSED);
        }
    }

    fn pull(&mut self, output: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        if self.is_active(output) {
            cx.pull(output, max, into);
        }
    }

    const HANDLERS: &'static [Handler<Suppressor>] = handlers! {
        0 "active0", 1 "active1", 2 "active2", 3 "active3",
        4 "active4", 5 "active5", 6 "active6", 7 "active7",
        8 "active8", 9 "active9", 10 "active10", 11 "active11",
        12 "active12", 13 "active13", 14 "active14", 15 "active15",
    };
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn a_pair_can_be_silenced_and_heard_again() {
        let text = "s :: Suppressor -> a :: Collect; Idle -> [1]s[1] -> b :: Collect; Idle -> s";
        let mut bench = Bench::new(crate::CLASSES, text);
        let both = |bench: &mut Bench| {
            bench.push_at("s", 0, &[b"0"]);
            bench.push_at("s", 1, &[b"1"]);
            (bench.take("a").len(), bench.take("b").len())
        };
        assert_eq!(both(&mut bench), (1, 1));
        bench.write("s.active1", "false");
        assert_eq!(both(&mut bench), (1, 0));
        assert_eq!(bench.read("s.active1"), "false");
        bench.write("s.reset", "");
        assert_eq!(both(&mut bench), (1, 1));
        assert_eq!(bench.drops("s", "suppressed"), 1);
    }

    #[test]
    fn a_silenced_pair_is_not_pulled_from() {
        let text = "q :: Queue -> s :: Suppressor -> Unqueue -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.write("s.active0", "false");
        bench.push("q", &[b"x"]);
        bench.run();
        assert_eq!(bench.read("q.length"), "1");
        bench.write("s.active0", "true");
        bench.run();
        assert_eq!(bench.take("out"), [b"x"]);
    }
}
