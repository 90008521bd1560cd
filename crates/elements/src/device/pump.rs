//! The receive queues of a port, each in the hands of one worker, which can hand it to another one.
//!
//! A queue that changes hands goes by its slot, so nothing that waits in it is lost. Order is the affair of who
//! asks for it: the old worker rests from the queue (`hold`) until what it has received has gone on.

use engine::element::Init;
use engine::port::{RxQueue, Slot};
use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Which worker has which queue; what the copies share.
#[derive(Default)]
pub(super) struct Owners(Mutex<BTreeMap<usize, usize>>);

impl Owners {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reload: queues stay where they are.
    pub(super) fn inherit(&mut self, old: &Owners) {
        *self = Owners(Mutex::new(old.lock().clone()));
    }

    /// The queues of each worker that has some.
    pub(super) fn by_worker(&self) -> BTreeMap<usize, Vec<usize>> {
        let mut all: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (&queue, &worker) in self.lock().iter() {
            all.entry(worker).or_default().push(queue);
        }
        all
    }

    /// A line for each queue: its number and its worker.
    pub(super) fn show(&self) -> String {
        let line = |(queue, worker): (&usize, &usize)| format!("{queue} {worker}\n");
        self.lock().iter().map(line).collect()
    }
}

/// A queue of the port: here, or still with the worker that had it before.
struct Owned {
    number: usize,
    slot: Slot<Box<dyn RxQueue>>,
    queue: Option<Box<dyn RxQueue>>,
    state: State,
}

/// What is asked of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Polled,
    /// It is not polled: it is to go to another worker.
    Held,
    /// It is polled, and has still to deliver so many packets of those that waited when somebody asked.
    Draining(usize),
}

impl Owned {
    /// A poll has brought so many; one that brings none has found nothing that waits.
    #[cold]
    fn delivered(&mut self, came: usize) {
        let left = match self.state {
            State::Draining(left) if came > 0 => left.saturating_sub(came),
            _ => 0,
        };
        self.state = match left {
            0 => State::Polled,
            left => State::Draining(left),
        };
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            self.slot.give(queue);
        }
    }
}

/// One worker's queues of a port.
pub(super) struct Pump {
    worker: usize,
    workers: Vec<usize>,
    slots: Vec<Slot<Box<dyn RxQueue>>>,
    queues: Vec<Owned>,
}

impl Pump {
    /// The queues of one copy: those that the plan gives it, and those that it has been given since.
    pub(super) fn new(device: &str, owners: &Owners, init: &Init) -> Pump {
        let slots = init.ports.get(device).map_or_else(Vec::new, |port| port.rx);
        let mut pump = Pump {
            worker: init.worker,
            workers: init.pullers.to_vec(),
            slots,
            queues: Vec::new(),
        };
        let mut owners = owners.lock();
        for &queue in init.queues {
            let owner = owners.entry(queue).or_insert(init.worker);
            if !pump.workers.contains(owner) {
                *owner = init.worker;
            }
        }
        let mine = owners.iter().filter(|(_, owner)| **owner == init.worker);
        mine.for_each(|(&queue, _)| pump.add(queue));
        pump
    }

    fn add(&mut self, number: usize) {
        if let Some(slot) = self.slots.get(number) {
            self.queues.push(Owned {
                number,
                slot: slot.clone(),
                queue: None,
                state: State::Polled,
            });
        }
    }

    /// Whether it has no queue.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Has `receive` poll every queue, and returns how many packets came.
    #[inline]
    pub(super) fn poll(&mut self, mut receive: impl FnMut(&mut dyn RxQueue) -> usize) -> usize {
        let mut received = 0;
        for owned in &mut self.queues {
            if owned.state == State::Held {
                continue;
            }
            if owned.queue.is_none() {
                owned.queue = owned.slot.take();
            }
            if let Some(queue) = &mut owned.queue {
                let came = receive(&mut **queue);
                received += came;
                if owned.state != State::Polled {
                    owned.delivered(came);
                }
            }
        }
        received
    }

    /// How full the fullest of its queues is, of those that tell.
    pub(super) fn fill(&self) -> f64 {
        let queues = self.queues.iter().filter_map(|q| q.queue.as_ref()?.fill());
        queues.fold(0.0, f64::max)
    }

    /// Whether no packet will ever come, as every queue says after a poll that has brought none.
    pub(super) fn has_ended(&self) -> bool {
        let ended =
            |q: &Owned| q.state != State::Held && q.queue.as_ref().is_some_and(|q| q.ended());
        !self.queues.is_empty() && self.queues.iter().all(ended)
    }

    /// Notes what waits in a queue.
    pub(super) fn drain(&mut self, value: &str) -> Result<(), String> {
        let queue: usize = engine::units::parse(value)?;
        for owned in self.queues.iter_mut().filter(|o| o.number == queue) {
            let waiting = owned.queue.as_ref().map(|queue| queue.waiting());
            // Until a poll finds it empty, where nobody knows.
            let most = waiting.flatten().unwrap_or(usize::MAX);
            owned.state = match most {
                0 => State::Polled,
                most => State::Draining(most),
            };
        }
        Ok(())
    }

    /// The queues that have not delivered what was noted.
    pub(super) fn draining(&self) -> String {
        let is_left = |o: &&Owned| matches!(o.state, State::Draining(_));
        let left = self.queues.iter().filter(is_left);
        let numbers: Vec<usize> = left.map(|owned| owned.number).collect();
        engine::steer::ranges(&numbers)
    }

    /// Rests from a queue that is to go to another worker.
    pub(super) fn hold(&mut self, value: &str) -> Result<(), String> {
        let queue: usize = engine::units::parse(value)?;
        let ours = self.queues.iter_mut().filter(|o| o.number == queue);
        ours.for_each(|owned| owned.state = State::Held);
        Ok(())
    }

    /// `QUEUE WORKER`: takes the queue up as soon as its owner has let go of it, or lets go of it; it has another owner then.
    /// Returns whether there is something to do now.
    pub(super) fn hand_over(&mut self, value: &str, owners: &Owners) -> Result<bool, String> {
        let (queue, to) = self.parse(value)?;
        if to != self.worker {
            self.queues.retain(|owned| owned.number != queue);
            // Who only looks out for it has nothing to give.
            let mut owners = owners.lock();
            if owners.get(&queue) == Some(&self.worker) {
                owners.insert(queue, to);
            }
            return Ok(false);
        }
        match self.queues.iter_mut().find(|o| o.number == queue) {
            Some(ours) => {
                ours.state = State::Polled;
                ours.queue = ours.queue.take().or_else(|| ours.slot.take());
            }
            None => self.add(queue),
        }
        Ok(true)
    }

    fn parse(&self, value: &str) -> Result<(usize, usize), String> {
        let words: Vec<&str> = value.split_whitespace().collect();
        let [queue, to] = words[..] else {
            return Err("give a queue and a worker, such as `0 1`".to_owned());
        };
        let (queue, to) = (engine::units::parse(queue)?, engine::units::parse(to)?);
        if queue >= self.slots.len() {
            let n = self.slots.len();
            return Err(format!(
                "there is no queue {queue}: the port is open with {n}"
            ));
        }
        if !self.workers.contains(&to) {
            let workers: Vec<String> = self.workers.iter().map(usize::to_string).collect();
            let workers = workers.join(", ");
            return Err(format!(
                "worker {to} cannot receive: it would have to be one of {workers}"
            ));
        }
        Ok((queue, to))
    }

    /// Descriptors that tell of packets.
    pub(super) fn wait_fds(&self, fds: &mut Vec<RawFd>) {
        let polled = self.queues.iter().filter(|q| q.state != State::Held);
        fds.extend(polled.filter_map(|q| q.queue.as_ref()?.wait_fd()));
    }

    /// Whether packets may come to a queue that has no descriptor.
    pub(super) fn must_poll(&self) -> bool {
        let silent = |q: &Owned| q.queue.as_ref().is_none_or(|q| q.wait_fd().is_none());
        self.queues
            .iter()
            .any(|q| q.state != State::Held && silent(q))
    }
}
