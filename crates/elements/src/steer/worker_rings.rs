//! Rings from every worker to every other one.

use crate::prelude::*;
use engine::port::Slot;
use engine::ring::{Head, Level, Tail, ring};
use std::sync::{OnceLock, Weak};
use steer::Table;
use sync::Lock;

/// A ring between two workers, and its ends until the workers take them.
struct Ring {
    tail: Slot<Tail<Packet>>,
    head: Slot<Head<Packet>>,
    level: Level,
}

/// Rings between all pairs of workers.
struct Rings {
    /// Rings by sending, then by receiving worker.
    by_pair: Vec<Vec<Option<Ring>>>,
    /// Tables that monitor the rings; a reload may add another one.
    known: Lock<Vec<Weak<Table>>>,
}

impl Rings {
    /// Registers the rings with a table, once.
    fn show(self: &Arc<Rings>, table: &Arc<Table>) {
        let mut known = self.known.lock();
        known.retain(|table| table.strong_count() > 0);
        let weak = Arc::downgrade(table);
        if !known.iter().any(|known| known.ptr_eq(&weak)) {
            known.push(weak);
            let rings: Weak<Rings> = Arc::downgrade(self);
            table.watch(rings);
        }
    }
}

impl steer::Rings for Rings {
    fn fill(&self) -> f64 {
        let rings = self.by_pair.iter().flatten().flatten();
        let fill = |one: &Ring| one.level.len() as f64 / one.level.limit().max(1) as f64;
        rings.map(fill).fold(0.0, f64::max)
    }
}

/// Rings of an element, created with the first of its clones if there are several. A replacing configuration shares
/// this cell, since a reload may be planned before the rings exist.
#[derive(Default)]
pub(super) struct Mesh(Arc<OnceLock<Arc<Rings>>>);

impl Mesh {
    /// Shares the rings of the replaced configuration.
    pub(super) fn inherit(&mut self, old: &Mesh) {
        self.0 = Arc::clone(&old.0);
    }

    /// Ring ends of one worker. The rings are registered with `table`.
    pub(super) fn ends(
        &self,
        worker: usize,
        workers: usize,
        capacity: usize,
        table: &Arc<Table>,
    ) -> Ends {
        let one = |from, to| {
            let (tail, head) = (from != to).then(|| ring(capacity))?;
            Some(Ring {
                level: tail.level().clone(),
                tail: Slot::new(tail),
                head: Slot::new(head),
            })
        };
        let row = |from| (0..workers).map(|to| one(from, to)).collect();
        let rings = self.0.get_or_init(|| {
            Arc::new(Rings {
                by_pair: (0..workers).map(row).collect(),
                known: Lock::default(),
            })
        });
        rings.show(table);
        let out = |_| Out {
            tail: None,
            packets: Vec::new(),
        };
        Ends {
            worker,
            rings: Arc::clone(rings),
            out: (0..workers).map(out).collect(),
            heads: (0..workers).map(|_| None).collect(),
        }
    }
}

/// Free space in the fullest of several rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FreeSpace {
    /// More than half of the ring.
    #[default]
    MoreThanHalf,
    /// Between a quarter and half of the ring.
    MoreThanQuarter,
    /// Less than a quarter of the ring.
    Little,
}

/// Sending end of the ring to one worker, and packets set aside for it.
struct Out {
    tail: Option<Tail<Packet>>,
    packets: Vec<Packet>,
}

impl Out {
    fn free_space(&mut self) -> FreeSpace {
        let Some(tail) = &mut self.tail else {
            return FreeSpace::MoreThanHalf;
        };
        let limit = tail.level().limit();
        if !tail.holds_at_least(limit.div_ceil(2)) {
            FreeSpace::MoreThanHalf
        } else if !tail.holds_at_least(limit - limit / 4) {
            FreeSpace::MoreThanQuarter
        } else {
            FreeSpace::Little
        }
    }
}

/// Ring ends of one worker.
pub(super) struct Ends {
    worker: usize,
    rings: Arc<Rings>,
    out: Vec<Out>,
    heads: Vec<Option<Head<Packet>>>,
}

impl Drop for Ends {
    fn drop(&mut self) {
        for other in 0..self.out.len() {
            let Some(there) = &self.rings.by_pair[self.worker][other] else {
                continue;
            };
            if let Some(tail) = self.out[other].tail.take() {
                there.tail.put_back(tail);
            }
            if let (Some(back), Some(head)) = (
                &self.rings.by_pair[other][self.worker],
                self.heads[other].take(),
            ) {
                back.head.put_back(head);
            }
        }
    }
}

impl Ends {
    /// Number of packets that other workers have sent to this one and that wait in rings.
    pub(super) fn waiting(&self) -> usize {
        let rings = self.rings.by_pair.iter().map(|row| &row[self.worker]);
        rings.flatten().map(|one| one.level.len()).sum()
    }

    /// Number of packets sent to other workers since the rings were created.
    pub(super) fn crossed(&self) -> u64 {
        let rings = self.rings.by_pair[self.worker].iter().flatten();
        rings.map(|one| one.level.pushed() as u64).sum()
    }

    /// Ring to a worker; `None` to itself.
    fn ring_to(&self, to: usize) -> Option<&Ring> {
        self.rings.by_pair[self.worker].get(to)?.as_ref()
    }

    /// Number of packets sent to a worker, for [`has_arrived`](Self::has_arrived).
    pub(super) fn sent(&self, to: usize) -> usize {
        self.ring_to(to).map_or(0, |ring| ring.level.pushed())
    }

    /// True if worker `to` has received the first `sent` packets sent to it.
    pub(super) fn has_arrived(&self, to: usize, sent: usize) -> bool {
        self.ring_to(to).is_none_or(|ring| ring.level.is_past(sent))
    }

    /// Sends packets from the front of `packets` to a worker until the ring is full. The others remain in `packets`.
    pub(super) fn send_some(&mut self, to: usize, packets: &mut Vec<Packet>, cx: &mut Cx) {
        if let Some(tail) = self.tail(to)
            && tail.push_burst(packets) > 0
        {
            cx.wake_worker(to);
        }
    }

    fn tail(&mut self, to: usize) -> Option<&mut Tail<Packet>> {
        let out = self.out.get_mut(to)?;
        if out.tail.is_none() {
            let one = self.rings.by_pair[self.worker][to].as_ref();
            out.tail = one.and_then(|one| one.tail.take());
        }
        out.tail.as_mut()
    }

    /// Sets a packet aside for another worker; [`send`](Self::send) sends it.
    #[inline]
    pub(super) fn set_aside(&mut self, to: usize, packet: Packet) {
        self.out[to].packets.push(packet);
    }

    /// Sends the packets set aside. Calls `lost` for each packet whose ring is full. Returns the room in the fullest
    /// ring used.
    pub(super) fn send(&mut self, cx: &mut Cx, mut lost: impl FnMut(Packet, &mut Cx)) -> FreeSpace {
        let mut room = FreeSpace::MoreThanHalf;
        for to in 0..self.out.len() {
            if self.out[to].packets.is_empty() {
                continue;
            }
            let mut packets = std::mem::take(&mut self.out[to].packets);
            self.send_some(to, &mut packets, cx);
            packets.drain(..).for_each(|packet| lost(packet, cx));
            self.out[to].packets = packets;
            room = room.max(self.out[to].free_space());
        }
        room
    }

    /// Free space in the fullest ring to another worker.
    pub(super) fn free_space(&mut self) -> FreeSpace {
        let workers = 0..self.out.len();
        let room = workers.map(|to| {
            // After a reload, this worker may not have taken the sending end yet.
            self.tail(to);
            self.out[to].free_space()
        });
        room.max().unwrap_or_default()
    }

    /// Appends up to `max` packets from each other worker to a batch.
    pub(super) fn receive(&mut self, max: usize, into: &mut Batch) {
        for (from, head) in self.heads.iter_mut().enumerate() {
            if head.is_none() {
                let one = self.rings.by_pair[from][self.worker].as_ref();
                *head = one.and_then(|one| one.head.take());
            }
            if let Some(head) = head {
                head.pop_each(max, |packet| into.push(packet));
            }
        }
    }
}
