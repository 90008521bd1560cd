//! Holds packets of two kinds: those of input 0 wait their turn, those of input 1 go first.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> m :: MixedQueue(100) -> Discard;
//! InfiniteSource(LIMIT 3) -> [1] m;
//! ```
//!
//! Packets of input 0 are put behind all others, packets of input 1 before all others: the last of them
//! leaves first. Full, MixedQueue drops a packet that comes by input 0 (`full`); for one that comes by
//! input 1 it drops the packet at its end.
//!
//! MixedQueue is filled and emptied by one worker: its puller runs where packets come from, and several
//! sources of packets must be given the same core.
//!
//! Arguments:
//!
//! - `CAPACITY`: packets. Default 1000.

use super::two_ended::{Policy, TwoEnded};
use crate::prelude::*;
use std::collections::VecDeque;

/// Lets packets in at both ends.
pub(crate) struct Mixed;

pub(crate) type MixedQueue = TwoEnded<Mixed>;

impl Policy for Mixed {
    const CLASS: &'static str = "MixedQueue";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&["fifo", "lifo"], &["out", "overflow?"], "h/lh");

    fn put(
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

    fn shed(held: &mut VecDeque<Packet>) -> Option<Packet> {
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
    fn a_smaller_capacity_keeps_what_would_leave_first() {
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
