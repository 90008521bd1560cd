//! Passes packets on unchanged.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Null -> Discard;
//! ```

use crate::prelude::*;

pub(super) struct Null;

impl Element for Null {
    const CONTRACT: Contract = Contract::new("Null", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .carries_super_frames()
        .ignores_annotations();

    type Config = ();

    fn configure(_: &mut Args) {}

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
