//! Sends each packet to a random output.
//!
//! ```click
//! InfiniteSource(LIMIT 4) -> r :: RandomSwitch -> Discard;
//! r[1] -> Discard;
//! ```

use crate::prelude::*;

pub(super) struct RandomSwitch {
    outputs: u64,
}

impl Element for RandomSwitch {
    const CONTRACT: Contract = Contract::new("RandomSwitch", manual!())
        .ports(Ports::coded(&["in"], &["out+"], "h/h"))
        .ignores_annotations();

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, init: &Init) -> RandomSwitch {
        RandomSwitch {
            outputs: init.outputs.min(255) as u64,
        }
    }

    #[inline]
    fn step(&mut self, _: &mut Packet, cx: &mut Cx) -> Verdict {
        // Scaling keeps the bias below 2^-24 without a division.
        Verdict::out(((u64::from(cx.random()) * self.outputs) >> 32) as u8)
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn every_output_gets_about_its_share() {
        let text = "r :: RandomSwitch -> a :: Collect; r[1] -> b :: Collect; r[2] -> c :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        for _ in 0..30 {
            bench.push("r", &[b"x"; 100]);
        }
        let counts = ["a", "b", "c"].map(|out| bench.take(out).len());
        assert_eq!(counts.iter().sum::<usize>(), 3000);
        assert!(counts.iter().all(|n| (850..1150).contains(n)), "{counts:?}");
    }
}
