//! Pulls from the first of its inputs that has a packet.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Queue -> p :: PrioSched -> Discard;
//! InfiniteSource(LIMIT 3) -> Queue -> [1] p;
//! ```
//!
//! Input 0 has the highest priority. Inputs known to be empty are skipped; when all are empty, a task that pulls from
//! PrioSched sleeps.

use crate::prelude::*;

pub(super) struct PrioSched {
    inputs: usize,
}

impl Element for PrioSched {
    const CONTRACT: Contract = Contract::new("PrioSched", manual!())
        .ports(Ports::coded(&["in+"], &["out"], "l/l"))
        .copies(Copies::One);

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, init: &Init) -> PrioSched {
        PrioSched {
            inputs: init.inputs,
        }
    }

    fn pull(&mut self, _: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        let worth = |cx: &Cx, input| cx.input_active(input);
        pull_in_order(self.inputs, max, into, cx, worth);
    }
}

/// Pulls up to `max` packets: from each input, only as many as the inputs before it did not have. Inputs that are not
/// `worth` it are skipped.
pub(super) fn pull_in_order(
    inputs: usize,
    max: usize,
    into: &mut Batch,
    cx: &mut Cx,
    worth: impl Fn(&Cx, usize) -> bool,
) {
    let mut left = max;
    for input in 0..inputs {
        // An input may return fewer packets than it holds, so it is pulled until it returns none.
        while left > 0 && worth(cx, input) {
            match cx.pull(input, left, into) {
                0 => break,
                n => left -= n,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    const TEXT: &str =
        "a :: Queue -> p :: PrioSched -> u :: Unqueue(ACTIVE false) -> out :: Collect;
        b :: Queue -> [1] p";

    #[test]
    fn the_first_input_goes_first() {
        for make in [Bench::new, Bench::strict] {
            let mut bench = make(crate::CLASSES, TEXT);
            bench.push("b", &[b"3", b"4"]);
            bench.push("a", &[b"1", b"2"]);
            bench.write("u.active", "true");
            bench.run();
            assert_eq!(bench.take("out"), [b"1", b"2", b"3", b"4"]);
            bench.push("b", &[b"5"]);
            bench.run();
            assert_eq!(bench.take("out"), [b"5"], "a packet wakes the puller");
        }
    }

    #[test]
    fn an_idle_input_lets_the_puller_sleep_and_wake() {
        let text = "i :: InfiniteSource(ACTIVE false, LIMIT 5) -> q :: Queue -> p :: PrioSched
            -> u :: Unqueue -> c :: Counter -> Discard; Idle -> [1] p";
        let mut bench = Bench::strict(crate::CLASSES, text);
        bench.run();
        bench.write("i.active", "true");
        bench.run();
        assert_eq!(bench.read("c.count"), "5");
    }
}
