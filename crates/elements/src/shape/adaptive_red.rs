//! Drops packets early, so that queues stay around a length: Adaptive RED.
//!
//! ```click
//! InfiniteSource(LIMIT 30) -> AdaptiveRED(20, 0.02) -> Queue(200) -> Discard;
//! ```
//!
//! As RED between half of `TARGET` and one and a half times `TARGET`. Every half second the probability at
//! the upper threshold is raised if the average is above the middle of the two, and lowered if it is
//! below. S. Floyd, R. Gummadi, S. Shenker, "Adaptive RED: An Algorithm for Increasing the Robustness of
//! RED's Active Queue Management", 2001.
//!
//! Arguments:
//!
//! - `TARGET`: packets.
//! - `MAX_P`: probability at the upper threshold, at the start.
//!
//! Keyword arguments:
//!
//! - `QUEUES`: names of queues to look at instead of the nearest ones.
//! - `STABILITY`: a packet's queue length counts 2^-STABILITY in the average; 0 = no average. Default 4.
//! - `GENTLE`: whether the probability grows on to 1 at twice the upper threshold. Default true.

use super::red::{Kind, Red};
use engine::manual;

/// Around a target.
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
