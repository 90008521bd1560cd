//! A lane: one direction between two routers on one worker, as a ring without a descriptor. The sender wakes the router
//! at the other end.

use engine::packet::{Batch, Packet};
use engine::port::Slot;
use engine::ring::{Head, Level, Tail, ring};
use engine::wake::Wakers;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, OnceLock};
use sync::Lock;

/// Worker to wake.
#[derive(Default)]
pub(super) struct WorkerWaker {
    changes: AtomicUsize,
    waker: Lock<Option<(Arc<Wakers>, usize)>>,
}

impl WorkerWaker {
    pub(super) fn set(&self, wakers: &Arc<Wakers>, worker: usize) {
        *self.waker.lock() = Some((Arc::clone(wakers), worker));
        self.changes.fetch_add(1, Release);
    }
}

/// Sender's end of a bell.
#[derive(Default)]
pub(super) struct WakeSender {
    seen: usize,
    waker: Option<(Arc<Wakers>, usize)>,
}

impl WakeSender {
    /// Wakes a sleeping waiter, after a full fence that follows the change it waits for.
    #[inline]
    pub(super) fn ring(&mut self, bell: &WorkerWaker) {
        let changes = bell.changes.load(Acquire);
        if changes != self.seen {
            self.seen = changes;
            self.waker = bell.waker.lock().clone();
        }
        if let Some((wakers, worker)) = &self.waker {
            wakers.wake_fenced(*worker);
        }
    }
}

/// A direction. Its ring is made when the first end is opened, as a router that only receives by a port never sends.
pub(super) struct Lane {
    packets: usize,
    tail: Slot<Tail<Packet>>,
    head: Slot<Head<Packet>>,
    level: OnceLock<Level>,
    /// Number of open receivers.
    open: AtomicUsize,
    pub(super) bell: WorkerWaker,
}

impl Lane {
    pub(super) fn new(packets: usize) -> Arc<Lane> {
        Arc::new(Lane {
            packets,
            level: OnceLock::new(),
            tail: Slot::default(),
            head: Slot::default(),
            open: AtomicUsize::new(0),
            bell: WorkerWaker::default(),
        })
    }

    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Acquire) > 0
    }

    pub(super) fn take_head(&self) -> Option<Head<Packet>> {
        self.head.take()
    }

    pub(super) fn give_head(&self, head: Head<Packet>) {
        self.head.put_back(head);
    }

    pub(super) fn level(&self) -> &Level {
        self.level.get_or_init(|| {
            let (tail, head) = ring(self.packets);
            let level = tail.level().clone();
            self.tail.put_back(tail);
            self.head.put_back(head);
            level
        })
    }
}

/// The end that fills a lane.
pub(super) struct Producer {
    pub(super) lane: Arc<Lane>,
    tail: Option<Tail<Packet>>,
    wake_sender: WakeSender,
}

impl Producer {
    pub(super) fn new(lane: &Arc<Lane>) -> Producer {
        lane.level();
        Producer {
            lane: Arc::clone(lane),
            tail: None,
            wake_sender: WakeSender::default(),
        }
    }

    /// The ring's write end; `None` while an older producer of the lane holds it.
    #[inline]
    pub(super) fn tail(&mut self) -> Option<&mut Tail<Packet>> {
        if self.tail.is_none() {
            self.tail = self.lane.tail.take();
        }
        self.tail.as_mut()
    }

    /// See [`WakeSender::ring`].
    #[inline]
    pub(super) fn ring(&mut self) {
        self.wake_sender.ring(&self.lane.bell);
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        if let Some(tail) = self.tail.take() {
            self.lane.tail.put_back(tail);
        }
    }
}

/// The end that empties a lane.
struct Consumer {
    lane: Arc<Lane>,
    head: Option<Head<Packet>>,
}

impl Consumer {
    fn new(lane: &Arc<Lane>) -> Consumer {
        lane.level();
        Consumer {
            lane: Arc::clone(lane),
            head: None,
        }
    }

    /// The ring's read end; `None` while an older consumer of the lane holds it.
    #[inline]
    fn head(&mut self) -> Option<&mut Head<Packet>> {
        if self.head.is_none() {
            self.head = self.lane.head.take();
        }
        self.head.as_mut()
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        if let Some(head) = self.head.take() {
            self.lane.head.put_back(head);
        }
    }
}

/// The lanes from which one queue of a router's port takes packets; the `RxQueue` consists of these.
pub(super) struct Lanes {
    lanes: Vec<Consumer>,
    _open: Arc<Open>,
}

impl Lanes {
    pub(super) fn new<'a>(lanes: impl Iterator<Item = &'a Arc<Lane>>, open: &Arc<Open>) -> Lanes {
        Lanes {
            lanes: lanes.map(Consumer::new).collect(),
            _open: Arc::clone(open),
        }
    }

    /// Appends up to `max` packets; returns how many.
    #[inline]
    pub(super) fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        let mut n = 0;
        for lane in &mut self.lanes {
            if let Some(head) = lane.head() {
                n += head.pop_each(max - n, |packet| into.push(packet));
            }
        }
        n
    }

    /// Makes senders wake a worker.
    pub(super) fn wakes(&self, wakers: &Arc<Wakers>, worker: usize) -> bool {
        let lanes = self.lanes.iter();
        lanes.for_each(|c| c.lane.bell.set(wakers, worker));
        true
    }

    /// Fill level of the fullest lane, 0 to 1.
    pub(super) fn fill(&self) -> f64 {
        let each = self.lanes.iter().map(|consumer| {
            let level = consumer.lane.level();
            level.len() as f64 / level.limit().max(1) as f64
        });
        each.fold(0.0, f64::max)
    }

    /// Number of packets that wait.
    pub(super) fn waiting(&self) -> usize {
        let each = self.lanes.iter();
        each.map(|consumer| consumer.lane.level().len()).sum()
    }
}

/// The lanes of a router's port that are open to it, one for each worker: it takes packets out of all of them.
pub(super) struct Open(Vec<Arc<Lane>>);

impl Open {
    pub(super) fn new(lanes: impl IntoIterator<Item = Arc<Lane>>) -> Arc<Open> {
        let lanes: Vec<_> = lanes.into_iter().collect();
        let each = lanes.iter();
        each.for_each(|lane| _ = lane.open.fetch_add(1, AcqRel));
        Arc::new(Open(lanes))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // The waiting packets are for a receiver that has closed, so they are dropped.
        for lane in &self.0 {
            if lane.open.fetch_sub(1, AcqRel) == 1
                && let Some(mut head) = lane.head.take()
            {
                head.pop_each(usize::MAX, drop);
                lane.head.put_back(head);
            }
        }
    }
}
