//! Drops packets early to keep queues at a target length: Adaptive RED.
//!
//! ```click
//! InfiniteSource(LIMIT 30) -> AdaptiveRED(20, 0.02) -> Queue(200) -> Discard;
//! ```
//!
//! Works like RED with the thresholds 0.5 and 1.5 times `TARGET`. Every half second the probability at the upper
//! threshold is raised if the average is above the middle of the two, and lowered if it is below. S. Floyd, R.
//! Gummadi, S. Shenker, "Adaptive RED: An Algorithm for Increasing the Robustness of RED's Active Queue
//! Management", 2001.
//!
//! Arguments:
//!
//! - `TARGET`: average length of the queues, in packets; at least 10.
//! - `MAX_P`: initial drop probability at the upper threshold.
//!
//! Keyword arguments:
//!
//! - `QUEUES`: names of queues to measure, instead of the nearest ones.
//! - `STABILITY`: weight of each packet's queue length in the average is 2^-STABILITY; 0 = no average. Default
//!   4.
//! - `GENTLE`: true if the probability increases gradually to 1 at twice the upper threshold. Default true.

use super::red::{Kind, Red};
use crate::manual;

/// Kind that adapts its thresholds to a target queue length.
pub(crate) struct Adaptive;

pub(crate) type AdaptiveRed = Red<Adaptive>;

impl Kind for Adaptive {
    const CLASS: &'static str = "AdaptiveRED";
    const MANUAL: &'static str = manual!();
    const ADAPTS: bool = true;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use testkit::Bench;

    #[test]
    fn the_probability_follows_the_queue() {
        let text = "r :: AdaptiveRED(20, 0.1, STABILITY 0) -> q :: Queue -> Unqueue(ACTIVE false)
            -> Discard";
        let mut bench = Bench::new(crate::CLASSES, text);
        let p = |bench: &mut Bench| bench.read("r.max_p").parse::<f64>().unwrap();
        assert_eq!(bench.read("r.min_thresh"), "10");
        assert_eq!(bench.read("r.max_thresh"), "30");
        let text = "r :: AdaptiveRED(3, 0.1) -> q :: Queue -> Discard";
        let mut small = Bench::new(crate::CLASSES, text);
        assert_eq!(small.read("r.min_thresh"), "5", "as in Click");
        assert_eq!(small.read("r.max_thresh"), "15", "as in Click");
        bench.advance(Duration::from_millis(500));
        assert_eq!(p(&mut bench), 0.1 * 0.9, "the queue is empty");
        bench.push("q", &[b"a"; 25]);
        bench.push("r", &[b"a"]);
        bench.advance(Duration::from_secs(1));
        assert!((p(&mut bench) - 0.11).abs() < 1e-9, "0.01 twice");
        bench.advance(Duration::from_secs(100));
        assert!((0.5..=0.51).contains(&p(&mut bench)), "it has a limit");
    }
}
