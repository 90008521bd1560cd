//! The RX queues of a port, each owned by one worker, which can give it to another one.
//!
//! A queue changes its owner through its slot, so waiting packets are not lost. The caller of [`steer::move_queue`]
//! keeps the order.

use engine::element::Init;
use engine::packet::{Batch, Packet};
use engine::port::{RxQueue, Slot};
use engine::ring::{Head, Tail, ring};
use engine::wake::Wakers;
use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::{Arc, MutexGuard};
use steer::RxQueues;
use sync::Lock;

/// Maximum number of packets kept here per queue, and number of packets taken over at a time.
const ROOM: usize = 4096;
const BURST: usize = 64;

/// Owner of each queue, shared by the receiver's clones.
#[derive(Default)]
pub(super) struct Owners(Lock<BTreeMap<usize, usize>>);

impl Owners {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, usize>> {
        self.0.lock()
    }

    /// Owners of the replaced configuration, so that queues stay at their workers.
    pub(super) fn inherit(old: &Owners) -> Arc<Owners> {
        Arc::new(Owners(Lock::new(old.lock().clone())))
    }

    /// Queues with an owner, each with its worker.
    pub(super) fn all(&self) -> Vec<(usize, usize)> {
        let owners = self.lock();
        owners
            .iter()
            .map(|(&queue, &worker)| (queue, worker))
            .collect()
    }

    /// Queues of each worker that owns some.
    pub(super) fn by_worker(&self) -> BTreeMap<usize, Vec<usize>> {
        let mut all: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (&queue, &worker) in self.lock().iter() {
            all.entry(worker).or_default().push(queue);
        }
        all
    }

    /// Text form of the owners, one queue per line: its number and its worker.
    pub(super) fn show(&self) -> String {
        let lines = self.all().into_iter();
        let lines = lines.map(|(queue, worker)| format!("{queue} {worker}\n"));
        lines.collect()
    }
}

/// A receive queue of this worker; it may still be held by its former owner.
struct Owned {
    number: usize,
    slot: Slot<Box<dyn RxQueue>>,
    queue: Option<Box<dyn RxQueue>>,
    /// True if arriving packets wake this worker.
    wakes: bool,
    state: State,
    /// Packets kept here while the queue moves; they precede those in the queue.
    kept: Option<(Tail<Packet>, KeepingQueue)>,
}

/// State of a queue that moves between workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Polled,
    /// Not polled, since the queue is about to move.
    Held,
    /// Polled until this number of packets, which waited at the request, have been delivered.
    Draining(usize),
    /// Arriving packets are kept here, up to `ROOM`.
    Keeping,
    /// Kept packets are delivered before others.
    Giving,
}

impl Owned {
    /// Takes the queue from its former owner, if that has released it.
    #[cold]
    fn take_over(&mut self, wakers: &Arc<Wakers>, worker: usize) {
        self.queue = self.slot.take();
        let queue = self.queue.as_mut();
        self.wakes = queue.is_some_and(|queue| queue.wakes(wakers, worker));
    }

    /// Polls a queue that is moving.
    #[cold]
    fn poll(&mut self, receive: &mut dyn FnMut(&mut dyn RxQueue) -> usize) -> usize {
        let Some(queue) = &mut self.queue else {
            return 0;
        };
        if self.state == State::Keeping {
            let (tail, _) = self.kept.get_or_insert_with(|| {
                let (tail, packets) = ring(ROOM);
                let queue = None;
                (tail, KeepingQueue { packets, queue })
            });
            let (room, mut came) = (ROOM - tail.len(), Batch::new());
            if room > 0 {
                queue.receive(&mut came, room.min(BURST));
                tail.push_from(room, &mut came.drain());
            }
            return 0;
        }
        let came = match &mut self.kept {
            Some((_, kept)) if !kept.packets.is_empty() => receive(kept),
            _ => receive(&mut **queue),
        };
        self.state = match self.state {
            // An empty poll means that no packets wait, or that no buffers were free.
            State::Draining(left) if came == 0 => match queue.fill() {
                Some(fill) if fill > 0.0 => State::Draining(left),
                _ => State::Polled,
            },
            State::Draining(left) if left > came => State::Draining(left - came),
            State::Giving if self.kept_packets() > 0 => State::Giving,
            _ => State::Polled,
        };
        came
    }

    /// Number of packets kept here.
    fn kept_packets(&self) -> usize {
        let kept = self.kept.as_ref();
        kept.map_or(0, |(_, kept)| kept.packets.len())
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            self.slot.put_back(match self.kept.take() {
                Some((_, mut kept)) if !kept.packets.is_empty() => {
                    kept.queue = Some(queue);
                    Box::new(kept)
                }
                _ => queue,
            });
        }
    }
}

/// Receive queue that delivers kept packets before those of the real queue.
struct KeepingQueue {
    packets: Head<Packet>,
    queue: Option<Box<dyn RxQueue>>,
}

impl RxQueue for KeepingQueue {
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        match self.packets.pop_each(max, |packet| into.push(packet)) {
            0 => {
                let queue = self.queue.as_mut();
                queue.map_or(0, |queue| queue.receive(into, max))
            }
            n => n,
        }
    }

    fn receive_whole(&mut self, into: &mut Batch, max: usize) -> usize {
        match &mut self.queue {
            Some(queue) if self.packets.is_empty() => queue.receive_whole(into, max),
            _ => self.receive(into, max),
        }
    }

    fn wakes(&mut self, wakers: &Arc<Wakers>, worker: usize) -> bool {
        let queue = self.queue.as_mut();
        queue.is_some_and(|queue| queue.wakes(wakers, worker))
    }

    fn wait_fd(&self) -> Option<RawFd> {
        // The queue must be polled as long as packets are kept.
        let queue = self.queue.as_ref().filter(|_| self.packets.is_empty());
        queue?.wait_fd()
    }

    fn ended(&self) -> bool {
        self.packets.is_empty() && self.queue.as_ref().is_none_or(|queue| queue.ended())
    }

    fn fill(&self) -> Option<f64> {
        self.queue.as_ref()?.fill()
    }

    fn waiting(&self) -> Option<usize> {
        Some(self.queue.as_ref()?.waiting()? + self.packets.len())
    }
}

/// Receive queues of one worker.
pub(super) struct Queues {
    worker: usize,
    wakers: Arc<Wakers>,
    owners: Arc<Owners>,
    slots: Vec<Slot<Box<dyn RxQueue>>>,
    queues: Vec<Owned>,
}

impl Queues {
    /// Queues of one clone: those of the plan, and those that moved to it since.
    pub(super) fn new(device: &str, owners: &Arc<Owners>, init: &Init) -> Queues {
        let slots = init.ports.get(device).map_or_else(Vec::new, |port| port.rx);
        let mut queues = Queues {
            worker: init.worker,
            wakers: Arc::clone(init.wakers),
            owners: Arc::clone(owners),
            slots,
            queues: Vec::new(),
        };
        let mut owners = owners.lock();
        for &queue in init.queues {
            let owner = owners.entry(queue).or_insert(init.worker);
            if !init.pullers.contains(owner) {
                *owner = init.worker;
            }
        }
        let mine = owners.iter().filter(|(_, owner)| **owner == init.worker);
        mine.for_each(|(&queue, _)| queues.add(queue));
        drop(owners);
        queues
    }

    fn add(&mut self, number: usize) {
        if let Some(slot) = self.slots.get(number) {
            self.queues.push(Owned {
                number,
                slot: slot.clone(),
                queue: None,
                wakes: false,
                state: State::Polled,
                kept: None,
            });
        }
    }

    /// True if the element has no queue.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Polls each queue with `receive`. Returns the number of packets.
    #[inline]
    pub(super) fn receive(&mut self, mut receive: impl FnMut(&mut dyn RxQueue) -> usize) -> usize {
        let mut received = 0;
        for owned in &mut self.queues {
            if owned.state == State::Held {
                continue;
            }
            if owned.queue.is_none() {
                owned.take_over(&self.wakers, self.worker);
            }
            if let Some(queue) = &mut owned.queue {
                received += match owned.state {
                    State::Polled => receive(&mut **queue),
                    _ => owned.poll(&mut receive),
                };
            }
        }
        received
    }

    /// Fill level of the fullest queue that reports its level, 0 to 1.
    pub(super) fn fill(&self) -> f64 {
        let queues = self.queues.iter().filter_map(|q| q.queue.as_ref()?.fill());
        queues.fold(0.0, f64::max)
    }

    /// True if all queues have reported, after an empty poll, that no more packets will arrive.
    pub(super) fn has_ended(&self) -> bool {
        let ended = |q: &Owned| {
            let may = q.state != State::Held && q.kept_packets() == 0;
            may && q.queue.as_ref().is_some_and(|q| q.ended())
        };
        !self.queues.is_empty() && self.queues.iter().all(ended)
    }

    fn find(&mut self, number: usize) -> Option<&mut Owned> {
        self.queues.iter_mut().find(|owned| owned.number == number)
    }

    /// Appends the descriptors that become readable when packets arrive.
    pub(super) fn wait_fds(&self, fds: &mut Vec<RawFd>) {
        let polled = self.queues.iter().filter(|q| q.state != State::Held);
        fds.extend(polled.filter_map(|q| q.queue.as_ref()?.wait_fd()));
    }

    /// True if packets may arrive on a queue without a descriptor.
    pub(super) fn must_poll(&self) -> bool {
        let silent = |q: &Owned| !q.wakes && q.queue.as_ref().is_none_or(|q| q.wait_fd().is_none());
        self.queues
            .iter()
            .any(|q| q.state != State::Held && silent(q))
    }
}

impl RxQueues for Queues {
    fn poll(&mut self, queue: usize) {
        let (wakers, worker) = (Arc::clone(&self.wakers), self.worker);
        match self.find(queue) {
            Some(owned) => {
                owned.state = State::Polled;
                if owned.queue.is_none() {
                    owned.take_over(&wakers, worker);
                }
            }
            None => self.add(queue),
        }
    }

    fn hold(&mut self, queue: usize) {
        if let Some(owned) = self.find(queue) {
            owned.state = State::Held;
        }
    }

    fn release(&mut self, queue: usize, to: usize) {
        self.queues.retain(|owned| owned.number != queue);
        // A worker that has not received the queue yet cannot give it up.
        let mut owners = self.owners.lock();
        if owners.get(&queue) == Some(&self.worker) {
            owners.insert(queue, to);
        }
    }

    fn drain(&mut self, queue: usize) {
        if let Some(owned) = self.find(queue) {
            let waiting = owned.queue.as_ref().map(|queue| queue.waiting());
            // If the fill level is unknown, the queue is drained until a poll returns nothing.
            let most = waiting.flatten().unwrap_or(usize::MAX);
            let most = most.saturating_add(owned.kept_packets());
            owned.state = match most {
                0 => State::Polled,
                most => State::Draining(most),
            };
        }
    }

    fn is_drained(&self) -> bool {
        let is_left = |owned: &Owned| matches!(owned.state, State::Draining(_));
        !self.queues.iter().any(is_left)
    }

    fn keep_packets(&mut self, queue: usize, on: bool) {
        if let Some(owned) = self.find(queue) {
            owned.state = match on {
                true => State::Keeping,
                false => State::Giving,
            };
        }
    }

    fn kept_packets(&self) -> usize {
        self.queues.iter().map(Owned::kept_packets).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

    /// A queue with a number of packets, whose memory may be exhausted.
    #[derive(Clone, Default)]
    struct Queue(Arc<AtomicUsize>, Arc<AtomicBool>);

    impl RxQueue for Queue {
        fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
            if self.1.load(Relaxed) {
                return 0;
            }
            let n = max.min(self.0.load(Relaxed));
            (0..n).for_each(|_| into.push(Packet::from_bytes(&[0; 60]).expect("there is room")));
            self.0.fetch_sub(n, Relaxed);
            n
        }

        fn fill(&self) -> Option<f64> {
            Some(self.0.load(Relaxed) as f64 / 1000.0)
        }

        fn waiting(&self) -> Option<usize> {
            Some(100)
        }
    }

    fn queues(queue: &Queue) -> Queues {
        let slot = Slot::new(Box::new(queue.clone()) as Box<dyn RxQueue>);
        let mut queues = Queues {
            worker: 0,
            wakers: Arc::new(Wakers::none(1)),
            owners: Arc::default(),
            slots: vec![slot],
            queues: Vec::new(),
        };
        queues.add(0);
        queues
    }

    fn poll(queues: &mut Queues) -> usize {
        queues.receive(|queue| queue.receive(&mut Batch::new(), 32))
    }

    #[test]
    fn a_poll_that_finds_no_memory_does_not_end_a_drain() {
        let queue = Queue::default();
        let mut all = queues(&queue);
        poll(&mut all);
        queue.0.store(40, Relaxed);
        all.drain(0);
        queue.1.store(true, Relaxed);
        assert_eq!((poll(&mut all), all.is_drained()), (0, false));
        queue.1.store(false, Relaxed);
        assert_eq!((poll(&mut all), poll(&mut all)), (32, 8));
        assert!(!all.is_drained());
        assert_eq!((poll(&mut all), all.is_drained()), (0, true));
    }

    #[test]
    fn kept_packets_leave_first_even_if_the_queue_changes_worker() {
        let queue = Queue::default();
        let mut one = queues(&queue);
        queue.0.store(ROOM + 100, Relaxed);
        one.keep_packets(0, true);
        let polls = 2 * ROOM / BURST;
        assert!((0..polls).all(|_| poll(&mut one) == 0));
        assert_eq!((one.kept_packets(), queue.0.load(Relaxed)), (ROOM, 100));
        one.keep_packets(0, false);
        assert_eq!((poll(&mut one), one.kept_packets()), (32, ROOM - 32));
        let slot = one.slots[0].clone();
        drop(one);
        let mut other = queues(&queue);
        other.queues[0].slot = slot;
        let all = (0..polls * 4).map(|_| poll(&mut other)).sum::<usize>();
        assert_eq!(all, ROOM - 32 + 100);
    }
}
