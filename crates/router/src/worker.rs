//! A worker: a thread that runs its copies of routers' graphs, processes its messages between batches, and sleeps
//! when no router has work.
//!
//! A single router has the worker for itself. Among several routers, the worker runs the first one that has work, in
//! the order of their shares ([`share`]), and charges it for the time. Idle routers that an event will wake are not
//! polled ([`rest`]). The tasks of a router divide its turn among themselves (`graph/schedule.rs`). A worker
//! registers one reader of published tables, which the router whose turn it is uses.
//!
//! An idle worker polls for a while, then sleeps for increasing periods. It polls for less time if polling recently
//! found little work (`adaptive.rs`). If every source has a descriptor that becomes readable when packets arrive, the
//! worker may sleep long. A source that must be polled limits the period, so that the first packet after a pause does
//! not wait.

mod adaptive;
mod burst;
mod rest;
mod routers;
pub mod share;
mod stopwatch;

use adaptive::AdaptivePolling;
use burst::BurstLimit;
use engine::clock::{Clock, Time};
use engine::graph::{Graph, Site};
use engine::plan::Plan;
use engine::publish::Reader;
use engine::waiter::Waiter;
use engine::wake::Wakers;
pub use routers::{Arrival, Routers};
use share::Account;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender, channel};
use std::sync::{Arc, Condvar, MutexGuard};
use std::time::Duration;
use stopwatch::Stopwatch;
use sync::Lock;

/// Maximum number of rounds of a turn. The clock, messages and timers are checked once per turn.
const ROUNDS: u32 = 16;
/// Time limit in nanoseconds for a turn of several rounds, or for a turn while other routers wait.
const TURN_NS: u64 = 8_000;
/// The greatest BURST that can be configured: the number of packets that tasks take at a time is not limited
/// otherwise.
const BURST_MAX: u32 = 1024;

/// Interval at which a worker that moves no packets retries unfinished requests.
const LONG_ASKS_EVERY: Duration = Duration::from_millis(1);

/// A job that a worker runs repeatedly between batches until the job returns true.
type LongAsk = Box<dyn FnMut(&mut Graph) -> bool>;

/// Sleep settings of a worker; they can be changed at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// Maximum number of empty turns before the first sleep.
    pub spins: u32,
    /// Minimum duration of the first sleep; each further one is twice as long.
    pub first: Duration,
    /// Maximum sleep while a source has to be polled.
    pub polled: Duration,
    /// Maximum sleep if no source has to be polled.
    pub longest: Duration,
}

impl Idle {
    /// Settings for a worker that never sleeps.
    pub fn never() -> Idle {
        Idle {
            spins: u32::MAX,
            ..Idle::default()
        }
    }
}

impl Default for Idle {
    fn default() -> Idle {
        Idle {
            spins: 64,
            first: Duration::from_micros(10),
            polled: Duration::from_micros(100),
            longest: Duration::from_millis(100),
        }
    }
}

/// Counters of a worker that control reads without a request; times in nanoseconds.
#[derive(Debug, Default)]
pub struct WorkerTimes {
    /// Number of turns taken.
    pub turns: AtomicU64,
    /// Number of turns in which nothing moved.
    pub empty: AtomicU64,
    /// Nanoseconds of turns in which something moved.
    pub busy: AtomicU64,
    /// Nanoseconds asleep.
    pub asleep: AtomicU64,
    /// Sleeps.
    pub sleeps: AtomicU64,
    /// Longest time between two checks of the mailbox while awake, in nanoseconds. Control may reset it to 0.
    pub longest_turn: AtomicU64,
    /// Longest part of a turn in which the worker had its core or gave it up voluntarily, in nanoseconds; control may
    /// reset it to 0. Turns below 250 us count whole. It may belong to another turn than `longest_turn`.
    pub longest_run: AtomicU64,
    /// Longest part of a turn in which other threads or the machine's host had the core, in nanoseconds; control may
    /// reset it to 0.
    pub longest_wait: AtomicU64,
    /// Longest part of a turn caused by control: messages; the running time of a turn with a page fault; or a whole
    /// turn in which the worker gave up its core. In nanoseconds.
    pub longest_control: AtomicU64,
    /// Histogram of turns in which something moved, by running time. Element `i` counts turns below 2 to the power of
    /// `i` microseconds that no earlier element counts; the last element counts all others.
    pub runs: [AtomicU64; RUNS],
}

/// Number of elements of [`WorkerTimes::runs`]: up to 16 ms, and all others.
pub const RUNS: usize = 16;

/// Progress of a router on one worker, readable by control without a request.
#[derive(Debug, Default)]
pub struct Progress {
    /// Number of turns in which something moved.
    pub moved: AtomicU64,
    /// True if the router has nothing left to do here: sources have ended, and nothing is held. It can become false
    /// when another worker hands packets over.
    pub done: AtomicBool,
    /// True if an element has stopped the router, or the router has ended here.
    pub ended: AtomicBool,
    /// Notified when `done` or `ended` becomes true.
    pub changed: Arc<Changed>,
}

/// Notification to control that the state of some worker has changed: a counter of changes.
#[derive(Debug, Default)]
pub struct Changed(Lock<u64>, Condvar);

impl Progress {
    fn note_moved(&self) {
        self.done.store(false, Ordering::Release);
        self.moved
            .store(self.moved.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.changed.tell();
    }
}

impl Changed {
    fn tell(&self) {
        *self.lock() += 1;
        self.1.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.0.lock()
    }

    /// Number of changes.
    pub fn count(&self) -> u64 {
        *self.lock()
    }

    /// Waits until the count differs from `seen`, or the time has passed.
    pub fn wait(&self, seen: u64, at_most: Duration) {
        let result = self
            .1
            .wait_timeout_while(self.lock(), at_most, |count| *count == seen);
        drop(result);
    }
}

/// A worker's part of a router, for use by messages.
pub struct LocalRouter {
    router: u64,
    /// The graph; `None` only while it is being swapped.
    graph: Option<Graph>,
    site: Site,
    long_asks: Vec<LongAsk>,
    progress: Arc<Progress>,
    account: Account,
    /// Maximum number of rounds of the router's next turn.
    rounds: u32,
    /// Burst limit of the router's tasks while other routers run.
    burst_limit: BurstLimit,
    /// Duration in nanoseconds of the router's last turn beside other routers, and true if packets moved in it.
    last: (u64, bool),
    /// Nanoseconds of turns in which something moved.
    busy: u64,
    halted: bool,
    /// Number of turns beside other routers since the router last had work.
    empty: u32,
    /// State of an idle router that is not polled.
    rest: Option<rest::Rest>,
    /// Earliest recorded time at which the router is polled again.
    recorded_wake: Option<Time>,
}

impl LocalRouter {
    /// The running graph.
    pub fn graph(&mut self) -> &mut Graph {
        self.graph
            .as_mut()
            .unwrap_or_else(|| unreachable!("a graph is taken out only within swap"))
    }

    /// Runs `ask` now and then between batches, without sleeping, until it returns true or the plan is replaced.
    pub fn until(&mut self, mut ask: impl FnMut(&mut Graph) -> bool + 'static) {
        if !ask(self.graph()) {
            self.long_asks.push(Box::new(ask));
        }
    }

    /// Continues pending requests between batches; returns true if some are left.
    #[cold]
    #[inline(never)]
    fn run_long_asks(&mut self) -> bool {
        if let Some(graph) = &mut self.graph {
            self.long_asks.retain_mut(|ask| !ask(graph));
        }
        !self.long_asks.is_empty()
    }

    /// Hot swap to another plan.
    pub fn swap(&mut self, plan: &Arc<Plan>) {
        // Element numbers have changed. Requests for the old ones have been abandoned, as plans are not replaced
        // during a request.
        self.long_asks.clear();
        if let Some(old) = self.graph.take() {
            self.graph = Some(old.swap(plan, &self.site));
            // A finished router may become active again.
            self.progress.done.store(false, Ordering::Release);
        }
    }

    /// Stops moving packets but still answers; from now on counters are final.
    pub fn halt(&mut self) {
        self.halted = true;
    }

    /// Nanoseconds of this worker's turns in which the router moved something.
    pub fn busy(&self) -> u64 {
        self.busy
    }

    /// Runs a turn; `last` has the previous turn's nanoseconds, and true if packets moved. Returns true if there was
    /// work.
    #[inline(always)] // once for a router that is alone, once for others
    fn turn(&mut self, now: Time, last: (u64, bool)) -> bool {
        let used = self.graph().rounds_used();
        self.rounds = next_rounds(self.rounds, used, last.0, last.1);
        let rounds = self.rounds;
        let mut worked = self.graph().turn_at(now, rounds);
        if !self.long_asks.is_empty() && self.run_long_asks() && !worked {
            // A long request is pending: another worker waits for this one, or the reverse. So the worker stays awake,
            // but yields its core.
            std::thread::yield_now();
            worked = true;
        }
        worked
    }

    /// Runs a turn beside other routers, after [`last`](Self::last). Returns true if there was work.
    #[inline]
    fn turn_among_others(&mut self, now: Time) -> bool {
        // The burst limit does not apply to a shared port's router: it works for all others, and larger bursts make
        // its system calls cheaper per packet.
        if !self.account.share.is_of_port() {
            let moved = self.graph().packets_of_tasks();
            let rounds = self.graph().rounds_used();
            self.burst_limit.note_turn(moved, rounds, self.last.0);
            let limit = self.burst_limit.get();
            self.graph().set_burst_limit(limit);
        }
        self.turn(now, self.last)
    }

    /// Records the result of a turn. Returns true if an element has stopped the router.
    #[inline(always)]
    fn note(&mut self, worked: bool) -> bool {
        if self.graph().stopped() {
            self.halted = true;
            return true;
        }
        if worked {
            self.progress.note_moved();
        } else if !self.progress.done.load(Ordering::Relaxed) && self.graph().may_have_finished() {
            self.progress.done.store(true, Ordering::Release);
            self.progress.changed.tell();
        }
        false
    }
}

/// Request from control, which runs between batches.
type Message = Box<dyn FnOnce(&mut Routers) + Send>;

/// The control side of a worker's mailbox.
#[derive(Clone)]
pub struct Mailbox {
    messages: Sender<Message>,
    waiting: Arc<AtomicBool>,
}

impl Mailbox {
    /// Posts a message; returns false if the worker has ended. The sender must wake the worker.
    pub fn post(&self, message: impl FnOnce(&mut Routers) + Send + 'static) -> bool {
        match self.messages.send(Box::new(message)) {
            Ok(()) => {
                self.waiting.store(true, Ordering::Release);
                true
            }
            Err(SendError(_)) => false,
        }
    }
}

/// A worker before its thread starts.
pub struct Worker {
    number: usize,
    wakers: Arc<Wakers>,
    waiter: Box<dyn Waiter>,
    mail: Receiver<Message>,
    waiting: Arc<AtomicBool>,
    times: Arc<WorkerTimes>,
}

impl Worker {
    /// A worker without routers, its mailbox and its counters.
    pub fn new(
        number: usize,
        wakers: Arc<Wakers>,
        waiter: Box<dyn Waiter>,
    ) -> (Worker, Mailbox, Arc<WorkerTimes>) {
        let (messages, mail) = channel();
        let waiting = Arc::new(AtomicBool::new(false));
        let times = Arc::new(WorkerTimes::default());
        let mailbox = Mailbox {
            messages,
            waiting: Arc::clone(&waiting),
        };
        let worker = Worker {
            number,
            wakers,
            waiter,
            mail,
            waiting,
            times: Arc::clone(&times),
        };
        (worker, mailbox, times)
    }

    /// Runs until the message to quit arrives.
    pub fn run(mut self, reader: Reader) {
        let clock = Clock::real();
        let mut routers = Routers::new(reader, self.number, Arc::clone(&self.wakers));
        let (mut empty, mut moved) = (0u32, false);
        let mut watch = Stopwatch::start(clock.now(), &*self.waiter);
        let mut polling = AdaptivePolling::new(clock.now());
        while !routers.quits() {
            if self.waiting.load(Ordering::Relaxed) && self.waiting.swap(false, Ordering::Acquire) {
                watch.mail(clock.now());
                routers.read(self.mail.try_iter());
                // The sender of this message has already woken the worker, and does not do it again.
                if routers.quits() {
                    break;
                }
            }
            if routers.none_runs() {
                if routers.quits() || !self.answer(&mut routers) {
                    break;
                }
                watch = Stopwatch::start(clock.now(), &*self.waiter);
                (empty, moved) = (0, false);
                continue;
            }
            let now = clock.now();
            let turn = watch.turn(now, &*self.waiter, &self.times);
            if moved {
                add(&self.times.busy, turn);
                add(&self.times.runs[length(watch.run())], 1);
            }
            let worked = routers.turn(&clock, now, (turn, moved));
            add(&self.times.turns, 1);
            moved = worked;
            if worked {
                if empty > 0 {
                    polling.found(now);
                }
                empty = 0;
                continue;
            }
            if empty == 0 {
                polling.idle(now);
            }
            empty = empty.saturating_add(1);
            add(&self.times.empty, 1);
            if polling.is_over(empty, &routers.idle) {
                let time = polling.sleep(empty, &routers.idle, clock.now());
                match self.sleep(&mut routers, &clock, time) {
                    Slept::NotAtAll => {
                        polling.found(clock.now());
                        empty = 0;
                    }
                    Slept::Polling => polling.polls(),
                    Slept::Soundly => (),
                }
                watch = Stopwatch::start(clock.now(), &*self.waiter);
            } else {
                std::hint::spin_loop();
            }
        }
        // Queues return to their ports and packets to the pool before the end is reported.
        routers.clear();
    }

    /// Waits for a message while no router moves packets. Returns false if no message can arrive any more.
    fn answer(&self, routers: &mut Routers) -> bool {
        let at_most = match routers.run_long_asks_of_halted() {
            true => LONG_ASKS_EVERY,
            false => Duration::MAX,
        };
        let mail = || self.mail.recv_timeout(at_most);
        match routers.reader_mut().offline(mail) {
            Ok(message) => routers.read(std::iter::once(message)),
            Err(RecvTimeoutError::Timeout) => (),
            Err(RecvTimeoutError::Disconnected) => return false,
        }
        true
    }

    /// Sleeps for at most `time`, unless work has arrived in the meantime.
    fn sleep(&mut self, routers: &mut Routers, clock: &Clock, time: Duration) -> Slept {
        let idle = routers.idle;
        self.wakers.going_to_sleep(self.number);
        // A sender that posted work before this point may not have seen that this worker is going to sleep: check
        // once more.
        let has_mail = self.waiting.load(Ordering::Acquire);
        if has_mail || routers.check_again_before_sleep(clock.now()) {
            self.wakers.awake(self.number);
            return match has_mail {
                true => Slept::Soundly,
                false => Slept::NotAtAll,
            };
        }
        let waits = routers.waits();
        let polls = waits.must_poll;
        let mut time = time.min(if polls { idle.polled } else { idle.longest });
        let before = clock.now();
        if let Some(at) = waits.timer {
            time = time.min(at.since(before));
        }
        if !time.is_zero() {
            let waiter = &mut self.waiter;
            let reader = routers.reader_mut();
            reader.offline(|| waiter.wait(&waits.fds, time));
            routers.has_slept();
        }
        self.wakers.awake(self.number);
        let slept = clock.now().since(before).as_nanos();
        add(&self.times.asleep, u64::try_from(slept).unwrap_or(0));
        add(&self.times.sleeps, 1);
        match polls {
            true => Slept::Polling,
            false => Slept::Soundly,
        }
    }
}

/// Number of rounds of the next turn, after a turn that used `used` of `rounds` rounds and took `turn` nanoseconds.
/// Short turns make the number grow.
#[inline]
fn next_rounds(rounds: u32, used: u32, turn: u64, moved: bool) -> u32 {
    if !moved || turn >= TURN_NS {
        1
    } else if used < rounds {
        used.max(1)
    } else if turn < TURN_NS / 2 {
        (2 * rounds).min(ROUNDS)
    } else {
        rounds
    }
}

/// Element of [`WorkerTimes::runs`] that counts a turn of `run` nanoseconds.
fn length(run: u64) -> usize {
    let bits = u64::BITS - (run / 1_000).leading_zeros();
    (bits as usize).min(RUNS - 1)
}

/// Adds to a counter with a single writer, so a load and a store suffice.
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

/// Result of a sleep.
enum Slept {
    /// A turn has found work.
    NotAtAll,
    /// The worker slept until an event or until the time was over.
    Soundly,
    /// The worker slept for the time that a source without a wake-up may wait. An event cannot be distinguished from
    /// the end of that time.
    Polling,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_have_more_rounds_while_they_are_light() {
        let after = |turns: &[(u64, bool)]| {
            let next =
                |rounds, &(turn, moved): &(u64, bool)| next_rounds(rounds, rounds, turn, moved);
            turns.iter().fold(1, next)
        };
        assert_eq!(after(&[(1_000, true); 2]), 4);
        assert_eq!(after(&[(10, true); 9]), ROUNDS);
        // Takes as many as fill the time.
        assert_eq!(
            after(&[(1_000, true), (2_000, true), (4_000, true), (4_000, true)]),
            4
        );
        // The time of rounds that a turn did not need is unknown.
        assert_eq!(next_rounds(8, 3, 10, true), 3);
        // A turn without work says nothing of the next one's.
        assert_eq!(after(&[(10, true), (10, true), (10, false)]), 1);
        assert_eq!(after(&[(10, true), (10, true), (TURN_NS, true)]), 1);
    }
}
