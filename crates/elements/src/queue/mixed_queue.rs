//! Holds packets, first in, first out for input 0, last in, first out for input 1.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> m :: MixedQueue(100) -> Discard;
//! InfiniteSource(LIMIT 3) -> [1] m;
//! ```
//!
//! Packets of input 0 are put after all others, packets of input 1 before all others. When full, MixedQueue drops a
//! new packet of input 0 (`full`); for a new packet of input 1 it drops the packet at its end.
//!
//! One worker fills and empties MixedQueue: the task that pulls from it runs on the worker that fills it, and
//! all sources that fill it must be on the same worker.
//!
//! Arguments:
//!
//! - `CAPACITY`: packets. Default 1000.

use super::two_ended::{Policy, TwoEnded};
use crate::prelude::*;
use std::collections::VecDeque;

/// A queue that accepts packets at both ends.
pub(crate) struct Mixed;

pub(crate) type MixedQueue = TwoEnded<Mixed>;

impl Policy for Mixed {
    const CLASS: &'static str = "MixedQueue";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&["fifo", "lifo"], &["out", "overflow?"], "h/lh");

    fn insert(
        held: &mut VecDeque<Packet>,
        capacity: usize,
        input: usize,
        packet: Packet,
    ) -> Option<Packet> {
        if input == 1 {
            held.push_front(packet);
        } else {
            held.push_back(packet);
        }
        if held.len() > capacity {
            return held.pop_back();
        }
        None
    }

    fn evict(held: &mut VecDeque<Packet>) -> Option<Packet> {
        held.pop_back()
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn the_second_input_goes_first_and_pushes_out_the_last() {
        let mut bench = Bench::strict(
            crate::CLASSES,
            "m :: MixedQueue(5) -> u :: Unqueue(ACTIVE false) -> out :: Collect",
        );
        for (input, packet) in [
            (0, b"1"),
            (0, b"2"),
            (1, b"3"),
            (0, b"4"),
            (1, b"5"),
            (0, b"6"),
            (1, b"7"),
        ] {
            bench.push_at("m", input, &[packet]);
        }
        assert_eq!(bench.read("m.drops"), "2");
        bench.write("u.active", "true");
        bench.run();
        assert_eq!(bench.take("out"), [b"7", b"5", b"3", b"1", b"2"]);
        assert_eq!(bench.drops("m", "full"), 2);
    }

    #[test]
    fn a_smaller_capacity_keeps_the_packets_that_would_leave_first() {
        let text = "m :: MixedQueue -> u :: Unqueue(ACTIVE false) -> out :: Collect; Idle -> [1] m";
        let mut bench = Bench::strict(crate::CLASSES, text);
        bench.push("m", &[b"a", b"b", b"c"]);
        bench.write("m.capacity", "2");
        assert_eq!(
            (bench.read("m.drops"), bench.drops("m", "full")),
            ("0".into(), 1)
        );
        bench.write("u.active", "true");
        bench.run();
        assert_eq!(bench.take("out"), [b"a", b"b"]);
    }
}
