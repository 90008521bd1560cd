//! A worker: a thread that runs its copies of routers' graphs, processes its messages between batches, and sleeps
//! when no router has work.
//!
//! A router that is alone gets all of the worker's time. Of several routers, the worker runs the first that has work,
//! in the order of their shares ([`share`]), and charges the time to that router. Idle routers that an event will wake
//! are not polled ([`idle_routers`]). A router's tasks are scheduled within the router's turn (`graph/schedule.rs`). A
//! worker registers one reader of published tables, and lends it to the router that has the turn.
//!
//! An idle worker polls for a while, then sleeps for increasing periods. It polls for less time if polling recently
//! found little work (`adaptive.rs`). If every source has a descriptor that becomes readable when packets arrive, the
//! worker may sleep long. A source that must be polled limits the period, so that the first packet after a pause does
//! not wait.

mod adaptive;
mod burst;
mod idle_routers;
mod routers;
pub mod share;
mod stopwatch;

use adaptive::AdaptivePolling;
use burst::BurstLimit;
use engine::clock::{Clock, Time};
use engine::graph::{BuildContext, Graph};
use engine::plan::Plan;
use engine::publish::Reader;
use engine::waiter::Waiter;
use engine::wake::Wakers;
pub use routers::{AddedRouter, Routers};
use share::Account;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender, channel};
use std::sync::{Arc, Condvar, MutexGuard};
use std::time::Duration;
use stopwatch::TurnTimer;
use sync::Lock;

/// Maximum number of rounds of a turn. The clock, messages and timers are checked once per turn.
const ROUNDS_MAX: u32 = 16;
/// Time limit in nanoseconds for a turn of several rounds, or for a turn while other routers wait.
const TURN_NS: u64 = 8_000;
/// Upper end of the burst limit, in packets: the maximum that BURST arguments accept, so that this value limits no
/// task.
const BURST_MAX: u32 = 1024;

/// Interval at which a worker that moves no packets retries unfinished requests.
const RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// A job that a worker runs repeatedly between batches until the job returns true.
type RepeatedJob = Box<dyn FnMut(&mut Graph) -> bool>;

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
    /// Number of turns in which no packet moved.
    pub empty: AtomicU64,
    /// Time of turns in which packets moved, in nanoseconds.
    pub busy: AtomicU64,
    /// Time asleep, in nanoseconds.
    pub asleep: AtomicU64,
    /// Number of sleeps.
    pub sleeps: AtomicU64,
    /// Longest time between two checks of the mailbox while awake, in nanoseconds. Control may reset it to 0.
    pub longest_turn: AtomicU64,
    /// Longest time within one turn on the core, or after the worker yielded the core, in nanoseconds; control may
    /// reset it to 0. A turn below 250 us counts in full. The turn may be another one than that of `longest_turn`.
    pub longest_run: AtomicU64,
    /// Longest time within one turn in which another thread or the hypervisor had the core, in nanoseconds; control may
    /// reset it to 0.
    pub longest_wait: AtomicU64,
    /// Longest time within one turn that control caused, in nanoseconds: the processing of messages, the running time
    /// of a turn with a page fault, or a whole turn in which the worker yielded its core.
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
    pub busy_turns: AtomicU64,
    /// True if the router has no work on this worker: sources have ended, and no packet is held. Packets from another
    /// worker make it false again.
    pub done: AtomicBool,
    /// True if an element has stopped the router, or the router has ended on this worker.
    pub ended: AtomicBool,
    /// Notified when `done` or `ended` becomes true.
    pub changed: Arc<Changed>,
}

/// Counter of state changes of workers, on which control can wait.
#[derive(Debug, Default)]
pub struct Changed(Lock<u64>, Condvar);

impl Progress {
    fn note_moved(&self) {
        self.done.store(false, Ordering::Release);
        self.busy_turns.store(
            self.busy_turns.load(Ordering::Relaxed) + 1,
            Ordering::Release,
        );
    }

    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.changed.notify();
    }
}

impl Changed {
    fn notify(&self) {
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

    /// Waits until the count differs from `seen`, for at most `at_most`.
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
    site: BuildContext,
    long_asks: Vec<RepeatedJob>,
    progress: Arc<Progress>,
    account: Account,
    /// Maximum number of rounds of the router's next turn.
    rounds: u32,
    /// Burst limit of the router's tasks while other routers run.
    burst_limit: BurstLimit,
    /// Last turn beside other routers: its duration in nanoseconds, and true if packets moved.
    last_turn: (u64, bool),
    /// Time of turns in which packets moved, in nanoseconds.
    busy: u64,
    halted: bool,
    /// Number of turns beside other routers since the router last had work.
    empty: u32,
    /// State of an idle router that is not polled.
    idle: Option<idle_routers::IdleRouter>,
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

    /// Runs `ask` between batches until `ask` returns true or the plan is replaced. The worker does not sleep
    /// meanwhile.
    pub fn run_until(&mut self, mut ask: impl FnMut(&mut Graph) -> bool + 'static) {
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

    /// Replaces the plan.
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
            // While a repeated job is pending, this worker and another one wait for each other. So the worker stays
            // awake, but yields its core.
            std::thread::yield_now();
            worked = true;
        }
        worked
    }

    /// Runs a turn beside other routers, after [`last_turn`](Self::last_turn). Returns true if there was work.
    #[inline]
    fn turn_among_others(&mut self, now: Time) -> bool {
        // The burst limit does not apply to the router of a shared port, which works for all other routers: larger
        // bursts make its system calls cheaper per packet.
        if !self.account.share.polls_shared_port() {
            let moved = self.graph().packets_of_tasks();
            let rounds = self.graph().rounds_used();
            self.burst_limit.note_turn(moved, rounds, self.last_turn.0);
            let limit = self.burst_limit.get();
            self.graph().set_burst_limit(limit);
        }
        self.turn(now, self.last_turn)
    }

    /// Records the result of a turn. Returns true if an element has stopped the router.
    #[inline(always)]
    fn record_turn(&mut self, worked: bool) -> bool {
        if self.graph().stopped() {
            self.halted = true;
            return true;
        }
        if worked {
            self.progress.note_moved();
        } else if !self.progress.done.load(Ordering::Relaxed) && self.graph().may_have_finished() {
            self.progress.done.store(true, Ordering::Release);
            self.progress.changed.notify();
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
        let mut watch = TurnTimer::start(clock.now(), &*self.waiter);
        let mut polling = AdaptivePolling::new(clock.now());
        while !routers.quits() {
            if self.waiting.load(Ordering::Relaxed) && self.waiting.swap(false, Ordering::Acquire) {
                watch.begin_messages(clock.now());
                routers.read(self.mail.try_iter());
                // The sender of the quit message has woken this worker and will not do so again: the worker must not
                // sleep now.
                if routers.quits() {
                    break;
                }
            }
            if routers.none_runs() {
                if routers.quits() || !self.answer(&mut routers) {
                    break;
                }
                watch = TurnTimer::start(clock.now(), &*self.waiter);
                (empty, moved) = (0, false);
                continue;
            }
            let now = clock.now();
            let turn = watch.end_turn(now, &*self.waiter, &self.times);
            if moved {
                add(&self.times.busy, turn);
                add(&self.times.runs[runs_index(watch.last_run_ns())], 1);
            }
            let worked = routers.turn(&clock, now, (turn, moved));
            add(&self.times.turns, 1);
            moved = worked;
            if worked {
                if empty > 0 {
                    polling.record_work(now);
                }
                empty = 0;
                continue;
            }
            if empty == 0 {
                polling.record_idle(now);
            }
            empty = empty.saturating_add(1);
            add(&self.times.empty, 1);
            if polling.is_exhausted(empty, &routers.idle) {
                let time = polling.next_sleep(empty, &routers.idle, clock.now());
                match self.sleep(&mut routers, &clock, time) {
                    SleepResult::FoundWork => {
                        polling.record_work(clock.now());
                        empty = 0;
                    }
                    SleepResult::Polling => polling.ignore_sleep(),
                    SleepResult::FullSleep => (),
                }
                watch = TurnTimer::start(clock.now(), &*self.waiter);
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
            true => RETRY_INTERVAL,
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
    fn sleep(&mut self, routers: &mut Routers, clock: &Clock, time: Duration) -> SleepResult {
        let idle = routers.idle;
        self.wakers.going_to_sleep(self.number);
        // A sender that posted work before this point may not have seen that this worker is going to sleep: check
        // once more.
        let has_mail = self.waiting.load(Ordering::Acquire);
        if has_mail || routers.check_again_before_sleep(clock.now()) {
            self.wakers.awake(self.number);
            return match has_mail {
                true => SleepResult::FullSleep,
                false => SleepResult::FoundWork,
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
            true => SleepResult::Polling,
            false => SleepResult::FullSleep,
        }
    }
}

/// Round limit of the next turn, after a turn of `turn` nanoseconds that used `used` of `rounds` rounds. The limit
/// grows after short turns.
#[inline]
fn next_rounds(rounds: u32, used: u32, turn: u64, moved: bool) -> u32 {
    if !moved || turn >= TURN_NS {
        1
    } else if used < rounds {
        used.max(1)
    } else if turn < TURN_NS / 2 {
        (2 * rounds).min(ROUNDS_MAX)
    } else {
        rounds
    }
}

/// Index in [`WorkerTimes::runs`] of a turn that ran for `run` nanoseconds.
fn runs_index(run: u64) -> usize {
    let bits = u64::BITS - (run / 1_000).leading_zeros();
    (bits as usize).min(RUNS - 1)
}

/// Adds to a counter with a single writer, so a load and a store suffice.
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

/// Result of a sleep.
enum SleepResult {
    /// The worker did not sleep: a last turn found work.
    FoundWork,
    /// The worker slept until an event or the timeout.
    FullSleep,
    /// The worker slept as long as a source without a wake-up may wait, so an event cannot be distinguished from the
    /// timeout.
    Polling,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_turns_get_more_rounds() {
        let after = |turns: &[(u64, bool)]| {
            let next =
                |rounds, &(turn, moved): &(u64, bool)| next_rounds(rounds, rounds, turn, moved);
            turns.iter().fold(1, next)
        };
        assert_eq!(after(&[(1_000, true); 2]), 4);
        assert_eq!(after(&[(10, true); 9]), ROUNDS_MAX);
        // The limit is the number of rounds that fill the time.
        assert_eq!(
            after(&[(1_000, true), (2_000, true), (4_000, true), (4_000, true)]),
            4
        );
        // The duration of unused rounds is unknown.
        assert_eq!(next_rounds(8, 3, 10, true), 3);
        // A turn without work resets the limit.
        assert_eq!(after(&[(10, true), (10, true), (10, false)]), 1);
        assert_eq!(after(&[(10, true), (10, true), (TURN_NS, true)]), 1);
    }
}
