//! Pulls from the first of its inputs that has a packet, and also pulls inputs known to be empty.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Queue -> p :: SimplePrioSched -> Discard;
//! InfiniteSource(LIMIT 3) -> Queue -> [1] p;
//! ```
//!
//! PrioSched does the same and skips such inputs.

use super::prio_sched::pull_in_order;
use crate::prelude::*;

pub(super) struct SimplePrioSched {
    inputs: usize,
}

impl Element for SimplePrioSched {
    const CONTRACT: Contract = Contract::new("SimplePrioSched", manual!())
        .ports(Ports::coded(&["in+"], &["out"], "l/l"))
        .copies(Copies::One);

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, init: &Init) -> SimplePrioSched {
        SimplePrioSched {
            inputs: init.inputs,
        }
    }

    fn pull(&mut self, _: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        pull_in_order(self.inputs, max, into, cx, |_, _| true);
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn the_first_input_goes_first() {
        let text =
            "a :: Queue -> p :: SimplePrioSched -> u :: Unqueue(ACTIVE false) -> out :: Collect;
            b :: SimpleQueue -> [1] p; Idle -> [2] p";
        for make in [Bench::new, Bench::strict] {
            let mut bench = make(crate::CLASSES, text);
            bench.push("b", &[b"3", b"4"]);
            bench.push("a", &[b"1", b"2"]);
            bench.write("u.active", "true");
            for _ in 0..10 {
                bench.graph().turn();
            }
            assert_eq!(bench.take("out"), [b"1", b"2", b"3", b"4"]);
            bench.push("b", &[b"5"]);
            for _ in 0..10 {
                bench.graph().turn();
            }
            assert_eq!(bench.take("out"), [b"5"]);
        }
    }
}
