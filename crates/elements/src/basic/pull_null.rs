//! Passes packets on unchanged, in pull mode.
//!
//! Neighbouring elements that could push or pull (agnostic) must then pull.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Queue -> PullNull -> Discard;
//! ```

use crate::prelude::*;

pub(super) struct PullNull;

impl Element for PullNull {
    const CONTRACT: Contract =
        Contract::new("PullNull", manual!()).ports(Ports::coded(&["in"], &["out"], "l/l"));

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, _: &Init) -> PullNull {
        PullNull
    }

    fn process(&mut self, _: usize, _: &mut Batch, _: &mut Cx) {}
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn packets_are_pulled_through_and_cannot_be_pushed() {
        let text = "q :: Queue -> PullNull -> Unqueue -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("q", &[&b"one"[..], b"two"]);
        bench.run();
        assert_eq!(bench.take("out"), [b"one", b"two"]);
        testkit::errors(crate::CLASSES, "Idle -> PushNull -> PullNull -> Discard");
    }
}
