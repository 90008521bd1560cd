//! Holds packets, first in, first out; when full, it drops the oldest packet to make room.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> FrontDropQueue(100) -> Discard;
//! ```
//!
//! Dropped packets leave by output 1 if that is connected (`full` otherwise). One worker fills and empties
//! FrontDropQueue: the task that pulls from it runs on the worker that fills it, and all sources that fill it
//! must be on the same worker.
//!
//! Arguments:
//!
//! - `CAPACITY`: packets. Default 1000.

use super::two_ended::{Policy, TwoEnded};
use crate::prelude::*;
use std::collections::VecDeque;

/// Kind of queue that drops at the front.
pub(crate) struct FrontDrop;

pub(crate) type FrontDropQueue = TwoEnded<FrontDrop>;

impl Policy for FrontDrop {
    const CLASS: &'static str = "FrontDropQueue";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&["in"], &["out", "overflow?"], "h/lh");

    fn insert(
        held: &mut VecDeque<Packet>,
        capacity: usize,
        _: usize,
        packet: Packet,
    ) -> Option<Packet> {
        held.push_back(packet);
        if held.len() > capacity {
            return held.pop_front();
        }
        None
    }

    fn evict(held: &mut VecDeque<Packet>) -> Option<Packet> {
        held.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn the_newest_packets_stay() {
        let text = "q :: FrontDropQueue(2) -> u :: Unqueue(ACTIVE false) -> out :: Collect;
            q[1] -> old :: Collect";
        for make in [Bench::new, Bench::strict] {
            let mut bench = make(crate::CLASSES, text);
            bench.push("q", &[b"a", b"b", b"c", b"d"]);
            assert_eq!(bench.take("old"), [b"a", b"b"]);
            assert_eq!(bench.read("q.drops"), "2");
            assert_eq!(bench.read("q.highwater_length"), "2");
            bench.write("u.active", "true");
            bench.run();
            assert_eq!(bench.take("out"), [b"c", b"d"]);
        }
    }

    #[test]
    fn puller_runs_on_the_worker_that_fills_the_queue() {
        let text = "InfiniteSource(CORES 1, LIMIT 5) -> q :: FrontDropQueue -> Unqueue -> Discard";
        let plan = testkit::plan(crate::CLASSES, text, 2, &engine::port::NoPorts, None);
        let plan = plan.unwrap();
        let q = &plan.elements[plan.find("q").unwrap()];
        assert_eq!((&q.workers[..], &q.pullers[..]), (&[1][..], &[1][..]));
        let text = "InfiniteSource(CORES 1) -> q :: FrontDropQueue -> Unqueue(CORES 0) -> Discard";
        let plan = testkit::plan(crate::CLASSES, text, 2, &engine::port::NoPorts, None);
        assert!(plan.is_err_and(|e| e.contains("workers 0, 1")));
    }

    #[test]
    fn a_smaller_capacity_keeps_the_newest_too() {
        let text = "q :: FrontDropQueue -> u :: Unqueue(ACTIVE false) -> out :: Collect";
        let mut bench = Bench::strict(crate::CLASSES, text);
        bench.push("q", &[b"a", b"b", b"c"]);
        bench.write("q.capacity", "2");
        assert_eq!(
            (bench.read("q.drops"), bench.drops("q", "full")),
            ("0".into(), 1)
        );
        bench.write("u.active", "true");
        bench.run();
        assert_eq!(bench.take("out"), [b"b", b"c"]);
    }
}
