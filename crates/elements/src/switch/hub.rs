//! Sends a copy of every packet to each output, except the one with the number of its input.
//!
//! ```click
//! h :: Hub;
//! InfiniteSource(LIMIT 3) -> h -> Discard;
//! InfiniteSource(LIMIT 3) -> [1]h[1] -> Discard;
//! ```
//!
//! The original leaves last. If there is no free packet buffer, a copy is not made (counter `no_buffer`). A
//! packet for which there is no output is dropped (`alone`).

use crate::prelude::*;

drops! {
    ALONE = "alone",
}

pub(super) struct Hub {
    outputs: usize,
    no_buffer: u64,
}

impl Element for Hub {
    const CONTRACT: Contract = Contract::new("Hub", manual!())
        .ports(Ports::coded(&["in+"], &["out+"], "h/h"))
        .drops(DROPS);

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, init: &Init) -> Hub {
        Hub {
            outputs: init.outputs,
            no_buffer: 0,
        }
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        for packet in batch.drain() {
            self.no_buffer += flood(packet, input, self.outputs, ALONE, cx);
        }
    }

    const HANDLERS: &'static [Handler<Hub>] = &[no_buffer(|e| e.no_buffer)];
}

/// The handler of a class that copies, for the copies that could not be made.
pub const fn no_buffer<E: Element>(count: fn(&E) -> u64) -> Handler<E> {
    let doc = "copies not made because there was no free buffer";
    Handler::sum("no_buffer", doc, count)
}

/// Sends a packet to every output except `input`. Without such an output, drops it under the name with number `alone`.
/// Returns the number of copies that could not be made.
pub(crate) fn flood(packet: Packet, input: usize, outputs: usize, alone: u8, cx: &mut Cx) -> u64 {
    let mut others = (0..outputs).filter(|&output| output != input).peekable();
    if others.peek().is_some() {
        return copy_to(packet, others, cx);
    }
    cx.drop(packet, alone);
    0
}

/// Sends a packet to at least one output: a copy to each but the last, the original there. Returns the number of copies
/// that could not be made.
pub(crate) fn copy_to(packet: Packet, outputs: impl Iterator<Item = usize>, cx: &mut Cx) -> u64 {
    let mut outputs = outputs.peekable();
    let mut missing = 0;
    while let Some(output) = outputs.next() {
        if outputs.peek().is_none() {
            cx.emit(output, packet);
            break;
        }
        match packet.copy() {
            Some(twin) => cx.emit(output, twin),
            None => missing += 1,
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    const THREE: &str = "h :: Hub; Idle -> h -> a :: Collect;
        Idle -> [1]h[1] -> b :: Collect; Idle -> [2]h[2] -> c :: Collect";

    #[test]
    fn packets_reach_all_other_outputs() {
        let mut bench = Bench::new(crate::CLASSES, THREE);
        for input in 0..3 {
            bench.push_at("h", input, &[[b'0' + input as u8]]);
        }
        assert_eq!(bench.take("a"), [b"1", b"2"]);
        assert_eq!(bench.take("b"), [b"0", b"2"]);
        assert_eq!(bench.take("c"), [b"0", b"1"]);
    }

    #[test]
    fn hub_with_one_output_drops_packets() {
        let mut bench = Bench::new(crate::CLASSES, "h :: Hub -> out :: Collect");
        bench.push("h", &[b"x"]);
        assert!(bench.take("out").is_empty());
        assert_eq!(bench.drops("h", "alone"), 1);
    }
}
