//! Sends packets to its outputs in turn.
//!
//! ```click
//! InfiniteSource(LIMIT 4) -> r :: RoundRobinSwitch -> Discard;
//! r[1] -> Discard;
//! ```
//!
//! Each worker counts its turns for itself.

use crate::prelude::*;

pub(super) struct RoundRobinSwitch {
    next: u8,
    outputs: u8,
}

impl Element for RoundRobinSwitch {
    const CONTRACT: Contract = Contract::new("RoundRobinSwitch", manual!())
        .ports(Ports::coded(&["in"], &["out+"], "h/h"))
        .ignores_annotations();

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, init: &Init) -> RoundRobinSwitch {
        RoundRobinSwitch {
            next: 0,
            outputs: init.outputs.min(255) as u8,
        }
    }

    #[inline]
    fn step(&mut self, _: &mut Packet, _: &mut Cx) -> Verdict {
        let output = self.next;
        self.next = if output + 1 < self.outputs {
            output + 1
        } else {
            0
        };
        Verdict::out(output)
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn outputs_take_turns_over_batches() {
        let text =
            "r :: RoundRobinSwitch -> a :: Collect; r[1] -> b :: Collect; r[2] -> c :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("r", &[b"0", b"1"]);
        bench.push("r", &[b"2", b"3", b"4"]);
        assert_eq!(bench.take("a"), [b"0", b"3"]);
        assert_eq!(bench.take("b"), [b"1", b"4"]);
        assert_eq!(bench.take("c"), [b"2"]);
    }
}
