//! Blocks its worker for some time, to test how a router behaves under overload.
//!
//! ```click
//! b :: BlockThread;
//! Idle -> Discard;
//! ```

use crate::prelude::*;
use arguments::units;

/// Maximum time for which a worker is blocked, so that a mistake does not look like a crash forever.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(3600);

pub(crate) struct BlockThread;

impl Element for BlockThread {
    const CONTRACT: Contract = Contract::new("BlockThread", manual!());

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, _: &Init) -> BlockThread {
        BlockThread
    }

    const HANDLERS: &'static [Handler<BlockThread>] = &[Handler::set(
        "block",
        "blocks the thread for this number of seconds",
        |_, value, cx| {
            let time: std::time::Duration = units::parse(value)?;
            cx.block(time.min(LONGEST));
            Ok(())
        },
    )];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn time_passes_and_nothing_moves() {
        let text = "b :: BlockThread; s :: TimedSource(0.1) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.run();
        let before = bench.graph().now();
        bench.write("b.block", "0.25");
        assert_eq!(bench.graph().now().since(before).as_millis(), 250);
        assert!(bench.take("out").is_empty());
        bench.run();
        assert_eq!(bench.take("out").len(), 2);
    }
}
