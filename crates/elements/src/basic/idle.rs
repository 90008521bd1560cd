//! Never emits a packet, and drops every packet that it gets.
//!
//! Connect Idle to ports that must be connected but are not used.
//!
//! ```click
//! Idle -> Discard;
//! ```

use crate::prelude::*;
use engine::element::Silent;
use engine::notify::Notifies;

pub(super) struct Idle;

impl Element for Idle {
    const CONTRACT: Contract = Contract::new("Idle", manual!())
        .ports(Ports::coded(&["in*"], &["out*"], "a/a").apart())
        .drops(&["idle"])
        .extensions(&[&Notifies::PACKETS, &Silent])
        .ignores_annotations();

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, _: &Init) -> Idle {
        Idle
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        cx.drop_batch(batch, 0);
    }

    fn pull(&mut self, _: usize, _: usize, _: &mut Batch, _: &mut Cx) {}
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn packets_at_idle_are_dropped_by_name() {
        let mut bench = Bench::new(crate::CLASSES, "n :: Null -> i :: Idle");
        bench.push("n", &[b"lost"]);
        assert_eq!(bench.drops("i", "idle"), 1);
    }
}
