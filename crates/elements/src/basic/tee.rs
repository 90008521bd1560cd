//! Sends a copy of every packet to each output.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> t :: Tee -> Discard;
//! t[1] -> Discard;
//! ```
//!
//! The original leaves last, by the last output. If there is no free packet buffer, a copy is not made (counter
//! `no_buffer`).
//!
//! Arguments:
//!
//! - `N`: number of outputs; default is the number connected.

use crate::prelude::*;
use crate::switch::hub::{copy_to, no_buffer};

pub(super) struct Tee {
    outputs: usize,
    no_buffer: u64,
}

impl Element for Tee {
    const CONTRACT: Contract = Contract::new("Tee", manual!())
        .ports(Ports::coded(&["in"], &["out+"], "h/h"))
        .extensions(&[&resources::of::<Self>()]);

    type Config = Option<usize>;

    fn configure(args: &mut Args) -> Option<usize> {
        args.maybe("N", "number of outputs")
    }

    fn new(_: &Arc<Option<usize>>, init: &Init) -> Tee {
        Tee {
            outputs: init.outputs,
            no_buffer: 0,
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        if self.outputs < 2 {
            return;
        }
        for packet in batch.drain() {
            self.no_buffer += copy_to(packet, 0..self.outputs, cx);
        }
    }

    const HANDLERS: &'static [Handler<Tee>] = &[no_buffer(|e| e.no_buffer)];
}

impl Resources for Tee {
    fn port_count(config: &Option<usize>) -> (Option<usize>, Option<usize>) {
        (None, *config)
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn every_output_gets_every_packet() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "t :: Tee -> a :: Collect; t[1] -> b :: Collect; t[2] -> c :: Collect",
        );
        bench.push("t", &[b"one", b"two"]);
        for out in ["a", "b", "c"] {
            assert_eq!(bench.take(out), [b"one", b"two"]);
        }
    }
}
