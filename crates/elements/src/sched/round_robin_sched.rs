//! Pulls from its inputs in turn, one packet from each.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Queue -> r :: RoundRobinSched -> Discard;
//! InfiniteSource(LIMIT 3) -> Queue -> [1] r;
//! ```
//!
//! After each packet it is the turn of the next input; an input without a packet is skipped. Inputs known to be empty
//! are not pulled; when all are empty, a task that pulls from RoundRobinSched sleeps.

use crate::prelude::*;

pub(super) struct RoundRobinSched {
    inputs: usize,
    next: usize,
}

impl Element for RoundRobinSched {
    const CONTRACT: Contract = Contract::new("RoundRobinSched", manual!())
        .ports(Ports::coded(&["in*"], &["out"], "l/l"))
        .copies(Copies::One);

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, init: &Init) -> RoundRobinSched {
        RoundRobinSched {
            inputs: init.inputs,
            next: 0,
        }
    }

    fn pull(&mut self, _: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        let (mut left, mut passed) = (max, 0);
        while left > 0 && passed < self.inputs {
            let input = self.next;
            self.next = (input + 1) % self.inputs;
            let came = cx.input_active(input) && cx.pull(input, 1, into) > 0;
            left -= usize::from(came);
            passed = if came { 0 } else { passed + 1 };
        }
    }

    fn take(&mut self, old: RoundRobinSched) {
        self.next = old.next % self.inputs.max(1);
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn inputs_take_turns_and_empty_ones_are_passed_over() {
        let text =
            "a :: Queue -> r :: RoundRobinSched -> u :: Unqueue(ACTIVE false) -> out :: Collect;
            b :: Queue -> [1] r; c :: Queue -> [2] r";
        for make in [Bench::new, Bench::strict] {
            let mut bench = make(crate::CLASSES, text);
            bench.push("a", &[b"a", b"a", b"a"]);
            bench.push("c", &[b"c", b"c"]);
            bench.write("u.active", "true");
            bench.run();
            assert_eq!(bench.take("out"), [b"a", b"c", b"a", b"c", b"a"]);
            bench.push("b", &[b"b"]);
            bench.push("a", &[b"a"]);
            bench.run();
            let mut both = bench.take("out");
            both.sort();
            assert_eq!(both, [b"a", b"b"]);
        }
    }
}
