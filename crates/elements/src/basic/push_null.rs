//! Passes packets on unchanged, in push mode.
//!
//! Neighbouring elements that could push or pull (agnostic) must then push.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> PushNull -> Discard;
//! ```

use crate::prelude::*;

pub(super) struct PushNull;

impl Element for PushNull {
    const CONTRACT: Contract = Contract::new("PushNull", manual!())
        .ports(Ports::coded(&["in"], &["out"], "h/h"))
        .ignores_annotations();

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, _: &Init) -> PushNull {
        PushNull
    }

    fn process(&mut self, _: usize, _: &mut Batch, _: &mut Cx) {}
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn packets_pass_and_cannot_be_pulled() {
        let mut bench = Bench::new(crate::CLASSES, "n :: PushNull -> out :: Collect");
        bench.push("n", &[&b"one"[..], b"two"]);
        assert_eq!(bench.take("out"), [b"one", b"two"]);
        testkit::errors(crate::CLASSES, "Idle -> Queue -> PushNull -> Discard");
    }
}
