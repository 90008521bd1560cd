//! Holds packets until they are pulled, in an order by deadline for each worker (MDS-BinSort).
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> q :: MDSDeadlineQueue(1000, BINS 1024, WIDTH 1ms) -> Discard;
//! ```
//!
//! Each worker that takes packets out has an order of its own, with the full capacity, and fills it itself. So a link
//! can use several workers, and no packet changes worker. Arguments, handlers and drops are those of DeadlineQueue,
//! which has one order for all workers.
//!
//! The price is order between workers: a packet may leave before one of another worker with an earlier deadline. If
//! each worker sends an equal part of the link's rate, a flow's bound holds if the reservations of its worker fit into
//! that part. Packets of one flow keep their order, since a flow stays on its worker.
//!
//! The paper's MDS-BinSort has a structure for every four threads that dequeue, and the threads that enqueue choose one
//! by turns (B. Hardekopf et al., "Impact of Network Protocols on Programmable Router Architectures", 2003). There, two
//! packets of a flow can overtake each other, and threads wait for each other's locks. Here, a packet's receive queue
//! chooses, by its flow.
//!
//! If one element that cannot be copied follows (a BandwidthShaper), its worker has the only order, and the others send
//! their packets to it by rings, as in Queue. The order and the rings then hold up to `CAPACITY` packets each.
//!
//! Arguments:
//!
//! - `CAPACITY`: packets for each worker. Default 1000.
//!
//! Keyword arguments:
//!
//! - `BINS`, `WIDTH`, `EXACT`, `DROP_LATE`, `SLACK`: as in DeadlineQueue.

use super::deadline_queue::{DeadlineQueue, Kind};
use crate::manual;
use engine::element::Copies;

/// Kind with an order for each worker.
pub(crate) struct PerWorker;

pub(crate) type MDSDeadlineQueue = DeadlineQueue<PerWorker>;

impl Kind for PerWorker {
    const CLASS: &'static str = "MDSDeadlineQueue";
    const MANUAL: &'static str = manual!();
    const COPIES: Copies = Copies::PerCore;
}

#[cfg(test)]
mod tests {
    use engine::packet::{Batch, Packet};
    use std::collections::VecDeque;
    use testkit::Bench;

    /// Packets leave as from a list that is searched for the earliest bin, and within a bin for the earliest arrival.
    #[test]
    fn packets_leave_as_from_a_list_that_is_searched() {
        const WIDTH: u64 = 1_000_000;
        let text = "q :: MDSDeadlineQueue(1000, WIDTH 1ms)
            -> u :: Unqueue(LIMIT 10, ACTIVE false) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        // Deadline and number of each waiting packet, in the order of arrival; deadline 0 is none.
        let mut naive: VecDeque<(u64, u32)> = VecDeque::new();
        let (mut expected, mut number) = (Vec::new(), 0u32);
        for _ in 0..40 {
            for _ in 0..1 + random(30) {
                let deadline = match random(4) {
                    0 => 0,
                    _ => 2_000_000_000 + random(500 * WIDTH),
                };
                let mut packet = Packet::from_bytes(&number.to_be_bytes()).unwrap();
                packet.cold_mut().set_deadline(deadline);
                bench.push_packets("q", 0, Batch::from_iter([packet]));
                naive.push_back((deadline, number));
                number += 1;
            }
            assert_eq!(bench.read("q.length"), naive.len().to_string());
            for _ in 0..10.min(naive.len()) {
                let bin = |deadline: u64| {
                    if deadline == 0 {
                        u64::MAX
                    } else {
                        deadline / WIDTH
                    }
                };
                let least = naive.iter().map(|&(deadline, _)| bin(deadline)).min();
                let at = naive
                    .iter()
                    .position(|&(deadline, _)| Some(bin(deadline)) == least);
                expected.push(naive.remove(at.unwrap()).unwrap().1);
            }
            bench.write("u.reset", "");
            bench.write("u.active", "true");
            bench.run();
            bench.write("u.active", "false");
        }
        let left = bench.take("out");
        let left: Vec<u32> = left
            .iter()
            .map(|p| u32::from_be_bytes(p[..].try_into().unwrap()))
            .collect();
        assert_eq!(left, expected);
        assert_eq!(bench.read("q.drops"), "0");
    }
}
