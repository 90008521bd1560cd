//! The part of a queue that crosses workers: one ring per worker that fills it from afar.

use crate::prelude::*;
use engine::packet::pool;
use engine::port::Slot;
use engine::ring::{Head, Level, Tail, ring};
use std::collections::VecDeque;
use std::sync::OnceLock;

/// Maximum number of packets taken from one worker's ring before the next one's.
const TURN: usize = 32;

/// Rings, one per worker that fills the queue from another core. Ring ends wait here for their owners.
struct Rings {
    tails: Vec<Slot<Tail<Packet>>>,
    heads: Vec<Slot<Head<Packet>>>,
    levels: Vec<Level>,
}

/// Maximum number of packets in a queue of this capacity, bounded by the number of buffers.
pub(super) fn held_at_most(capacity: usize) -> usize {
    capacity.min(pool::limits().1 + pool::LARGE_MAX)
}

/// Rings of a queue, created with its first clone if a worker fills from another core. A replacing configuration shares
/// this cell, since a reload may be planned before the rings exist.
#[derive(Default)]
pub(super) struct Shared(Arc<OnceLock<Arc<Rings>>>);

impl Shared {
    fn rings(&self, workers: usize, capacity: usize) -> &Arc<Rings> {
        self.0.get_or_init(|| {
            let mut rings = Rings {
                tails: Vec::new(),
                heads: Vec::new(),
                levels: Vec::new(),
            };
            for _ in 0..workers {
                let (tail, head) = ring(held_at_most(capacity).max(1));
                rings.levels.push(head.level().clone());
                rings.tails.push(Slot::new(tail));
                rings.heads.push(Slot::new(head));
            }
            Arc::new(rings)
        })
    }

    /// Shares the rings of the replaced configuration.
    pub(super) fn inherit(&mut self, old: &Shared) {
        self.0 = Arc::clone(&old.0);
    }
}

/// Ring ends of one worker.
pub(super) struct RingEnds {
    worker: usize,
    puller: usize,
    rings: Arc<Rings>,
    tail: Option<Tail<Packet>>,
    /// Workers that fill from other cores, each with the ring's receiving end once it is available.
    heads: Vec<(usize, Option<Head<Packet>>)>,
    /// Queue to be served next: 0 for the local one, then `heads`.
    turn: usize,
}

impl Drop for RingEnds {
    fn drop(&mut self) {
        if let Some(tail) = self.tail.take() {
            self.rings.tails[self.worker].put_back(tail);
        }
        for (worker, head) in &mut self.heads {
            if let Some(head) = head.take() {
                self.rings.heads[*worker].put_back(head);
            }
        }
    }
}

impl RingEnds {
    /// Ring ends of one worker; `None` if all packets stay on their worker.
    pub(super) fn new(shared: &Shared, capacity: usize, init: &Init) -> Option<RingEnds> {
        let &[puller] = init.pullers else { return None };
        let away: Vec<usize> = init
            .pushers
            .iter()
            .copied()
            .filter(|&w| w != puller)
            .collect();
        let known = shared.0.get();
        if away.is_empty() && known.is_none() {
            return None;
        }
        let rings = Arc::clone(shared.rings(init.workers, capacity));
        let heads = if init.worker == puller {
            (0..init.workers).map(|w| (w, None)).collect()
        } else {
            Vec::new()
        };
        Some(RingEnds {
            worker: init.worker,
            puller,
            rings,
            tail: None,
            heads,
            turn: 0,
        })
    }

    /// Worker that empties the queue.
    pub(super) fn puller(&self) -> usize {
        self.puller
    }

    /// True if this worker empties the queue.
    pub(super) fn at_home(&self) -> bool {
        self.puller == self.worker
    }

    /// Number of packets in all rings.
    pub(super) fn length(&self) -> usize {
        self.rings.levels.iter().map(Level::len).sum()
    }

    /// Number of packets ever put into this worker's ring; wraps around.
    pub(super) fn pushed(&self) -> usize {
        self.rings.levels[self.worker].pushed()
    }

    /// True if the first `pushed` packets have left this worker's ring.
    pub(super) fn is_past(&self, pushed: usize) -> bool {
        self.rings.levels[self.worker].is_past(pushed)
    }

    /// Moves packets from `batch` into the ring to the emptying worker. Packets without room stay in `batch`.
    pub(super) fn push(&mut self, batch: &mut Batch, room: usize) {
        if self.tail.is_none() {
            self.tail = self.rings.tails[self.worker].take();
        }
        if let Some(tail) = &mut self.tail {
            let wanted = batch.len().min(room);
            let fits = wanted.min(tail.capacity() - tail.len());
            let mut packets = batch.drain_front(fits);
            tail.push_from(fits, &mut packets);
        }
    }

    /// Takes up to `max` packets from the rings and the local queue, round robin.
    pub(super) fn pull(&mut self, max: usize, local: &mut VecDeque<Packet>, into: &mut Batch) {
        let mut left = max;
        let mut empty = 0;
        while left > 0 && empty <= self.heads.len() {
            let n = left.min(TURN);
            let got = if self.turn == 0 {
                let n = n.min(local.len());
                into.extend(local.drain(..n));
                n
            } else {
                let (worker, head) = &mut self.heads[self.turn - 1];
                if head.is_none() {
                    *head = self.rings.heads[*worker].take();
                }
                head.as_mut()
                    .map_or(0, |head| head.pop_each(n, |p| into.push(p)))
            };
            left -= got;
            empty = if got == 0 { empty + 1 } else { 0 };
            self.turn = (self.turn + 1) % (self.heads.len() + 1);
        }
    }
}
