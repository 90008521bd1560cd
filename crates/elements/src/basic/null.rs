//! Passes packets on unchanged.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Null -> Discard;
//! ```

use crate::prelude::*;

pub(super) struct Null;

impl Element for Null {
    const CLASS: &'static str = "Null";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::new(&["in"], &["out"]);

    type Config = ();

    fn configure(_: &mut Args) {}

    fn carries_super_frames(_: &Self::Config) -> bool {
        true
    }

    fn new(_: &Arc<()>, _: &Init) -> Null {
        Null
    }

    fn process(&mut self, _: usize, _: &mut Batch, _: &mut Cx) {}
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn packets_pass_unchanged_and_in_order() {
        let mut bench = Bench::new(crate::CLASSES, "n :: Null -> out :: Collect");
        bench.push("n", &[&b"one"[..], b"two"]);
        assert_eq!(bench.take("out"), [b"one", b"two"]);
    }
}
