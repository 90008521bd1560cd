//! Passes packets from each input to the output of the same number, if that pair is active.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> s :: Suppressor -> Discard;
//! InfiniteSource(LIMIT 3) -> [1]s[1] -> Discard;
//! ```
//!
//! At first all pairs are active. Packets of an inactive pair are dropped (`suppressed`); a pull from it gives
//! none. The pairs are all push or all pull.

use crate::prelude::*;
use arguments::units;
use engine::dynamic::{self, DynamicHandlers};
use std::cell::Cell;
use std::rc::Rc;

drops! {
    SUPPRESSED = "suppressed",
}
/// Maximum number of ports of an element.
const PAIRS_MAX: usize = 1024;

/// Active pairs, shared with the element's handlers.
#[derive(Clone)]
struct Active(Rc<[Cell<bool>]>);

impl Active {
    fn of(&self, pair: usize) -> Result<&Cell<bool>, String> {
        let active = self.0.get(pair);
        active.ok_or_else(|| format!("there is no pair {pair}"))
    }

    fn show(&self, pair: usize) -> Result<String, String> {
        Ok(self.of(pair)?.get().to_string())
    }

    fn set(&self, pair: usize, value: &str) -> Result<(), String> {
        self.of(pair)?.set(units::parse(value)?);
        Ok(())
    }
}

pub(super) struct Suppressor {
    active: Active,
}

impl Suppressor {
    fn is_active(&self, pair: usize) -> bool {
        self.active.of(pair).is_ok_and(Cell::get)
    }
}

/// The pair that a handler's name means: `active3`.
fn pair_of(name: &str) -> Option<usize> {
    let digits = name.strip_prefix("active")?;
    let plain = digits == "0" || !digits.starts_with(['0', '+']);
    digits.parse().ok().filter(|_| plain)
}

/// Handlers of the first pairs; those of others are offered.
macro_rules! handlers {
    ($($pair:literal $name:literal,)*) => {
        &[
            $(
                Handler::text($name, "true if packets pass here", |e, _| e.active.show($pair)),
                Handler::set($name, "true if packets pass here", |e, value, _| {
                    e.active.set($pair, value)
                }),
            )*
            Handler::set("reset", "makes all pairs active", |e, _, _| {
                e.active.0.iter().for_each(|active| active.set(true));
                Ok(())
            }),
        ]
    };
}

impl Element for Suppressor {
    const CONTRACT: Contract = Contract::new("Suppressor", manual!())
        .ports(Ports::coded(&["in+"], &["out+"], "a/a"))
        .drops(DROPS)
        .extensions(&[&dynamic::of::<Self>()]);

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, init: &Init) -> Suppressor {
        let pairs = init.inputs.max(init.outputs);
        Suppressor {
            active: Active((0..pairs).map(|_| Cell::new(true)).collect()),
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

impl DynamicHandlers for Suppressor {
    fn has_handler(_: &(), name: &str, _: Use) -> bool {
        pair_of(name).is_some_and(|pair| pair < PAIRS_MAX)
    }

    fn handler_job(&self, name: &str, value: &str, wanted: Use) -> Job {
        let (active, pair) = (self.active.clone(), pair_of(name).unwrap_or(usize::MAX));
        let value = value.to_owned();
        Box::new(move |_| match wanted {
            Use::Read => active.show(pair),
            Use::Write => active.set(pair, &value).map(|()| String::new()),
        })
    }
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
    fn every_pair_has_a_handler() {
        let pairs: String = (0..20)
            .map(|n| format!("Idle -> [{n}] s [{n}] -> Discard;"))
            .collect();
        let mut bench = Bench::new(crate::CLASSES, &format!("s :: Suppressor; {pairs}"));
        for pair in [0, 15, 16, 19] {
            let name = format!("s.active{pair}");
            bench.write(&name, "false");
            assert_eq!(bench.read(&name), "false");
            bench.write("s.reset", "");
            assert_eq!(bench.read(&name), "true");
        }
        assert!(bench.try_read("s.active20", "").is_err());
        assert!(bench.try_write("s.active016", "true").is_err());
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
