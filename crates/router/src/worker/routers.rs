//! The routers that one worker runs.

use super::burst::BurstLimit;
use super::rest::{Rest, Resting};
use super::share::{Key, Order, Share};
use super::{BURST_MAX, Idle, LocalRouter, LongAsk, Message, Progress, TURN_NS};
use engine::clock::{Clock, Time};
use engine::graph::{Graph, Site};
use engine::plan::Plan;
use engine::publish::{Domain, Reader};
use engine::wake::Wakers;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::RawFd;
use std::sync::Arc;

/// The routers of one worker, and its sleep settings.
pub struct Routers {
    /// Routers that move packets.
    running: Vec<LocalRouter>,
    /// Routers that only answer.
    halted: Vec<LocalRouter>,
    /// The worker's reader of published tables. While [`lent`](Self::lent) is true, the graph has it, and this is the
    /// graph's own.
    reader: Reader,
    /// True if a single router runs and has the reader.
    lent: bool,
    order: Order,
    /// Running routers that are not idle, ordered by their keys: the first one runs next.
    ready: BinaryHeap<Reverse<(Key, usize)>>,
    /// Running routers that had their turn in this round of the worker.
    asked: Vec<usize>,
    /// Routers that had no turn yet; kept to reuse its memory.
    others: Vec<usize>,
    resting: Resting,
    turns: u32,
    pub(super) idle: Idle,
    quit: bool,
}

/// Events for which a sleeping worker waits.
pub(super) struct Waits {
    /// Descriptors that become readable when there is work.
    pub(super) fds: Vec<RawFd>,
    /// True if a task must be polled nevertheless.
    pub(super) must_poll: bool,
    /// The next timer.
    pub(super) timer: Option<Time>,
}

/// Parameters of a router that is added to a worker.
pub struct Arrival {
    /// The router's number, which is unique.
    pub router: u64,
    /// The plan of its graph.
    pub plan: Arc<Plan>,
    /// Parameters of the graph.
    pub site: Site,
    /// Share of the worker.
    pub share: Share,
    /// Record of the router's progress.
    pub progress: Arc<Progress>,
}

/// Number of waiting routers up to which calls of other workers are served in every turn. With more, they are served
/// once in [`SERVE_ONE_IN`] turns.
const SERVED_EACH_TURN_MAX: usize = 16;
const SERVE_ONE_IN: u32 = 16;

/// A reader of an empty domain: graphs hold it while they have no turn, and can read no table with it.
fn no_reader() -> Reader {
    let reader = Domain::new(1).register();
    reader.unwrap_or_else(|| unreachable!("the domain is made for one"))
}

impl Routers {
    /// Makes a worker's list of routers, which is empty.
    pub fn new(reader: Reader, worker: usize, wakers: Arc<Wakers>) -> Routers {
        Routers {
            running: Vec::new(),
            halted: Vec::new(),
            reader,
            lent: false,
            order: Order::default(),
            ready: BinaryHeap::new(),
            asked: Vec::new(),
            others: Vec::new(),
            resting: Resting::new(worker, wakers),
            turns: 0,
            idle: Idle::default(),
            quit: false,
        }
    }

    /// Ends the worker.
    pub fn quit(&mut self) {
        self.quit = true;
    }

    /// Changes the worker's sleep settings.
    pub fn set_idle(&mut self, idle: Idle) {
        self.idle = idle;
    }

    #[inline]
    pub(super) fn quits(&self) -> bool {
        self.quit
    }

    #[inline]
    pub(super) fn none_runs(&self) -> bool {
        self.running.is_empty()
    }

    /// Carries out messages of control.
    pub(super) fn read(&mut self, messages: impl Iterator<Item = Message>) {
        self.change(|routers| messages.for_each(|message| message(routers)));
    }

    /// Runs `what` between turns, as a message does.
    pub fn change<R>(&mut self, what: impl FnOnce(&mut Routers) -> R) -> R {
        self.lend(false);
        let result = what(self);
        self.settle();
        result
    }

    /// Lends the reader to the only router, or takes it back.
    fn lend(&mut self, lend: bool) {
        if self.lent != lend {
            self.lent = lend;
            self.swap_reader(0);
        }
    }

    #[inline]
    fn swap_reader(&mut self, at: usize) {
        let graph = self.running[at].graph();
        std::mem::swap(graph.reader_mut(), &mut self.reader);
    }

    /// Removes halted routers from the running ones; a single remaining router gets the reader.
    #[cold]
    fn settle(&mut self) {
        self.lend(false);
        for mut halted in self.running.extract_if(.., |local| local.halted) {
            self.resting.end(&mut halted);
            self.order.close(&mut halted.account);
            halted.progress.end();
            self.halted.push(halted);
        }
        let alone = self.running.len() == 1 && self.halted.is_empty();
        let numbers = self.running.iter().map(|local| local.router);
        self.resting.places(numbers);
        self.ready.clear();
        for at in 0..self.running.len() {
            if alone {
                let local = &mut self.running[at];
                self.resting.end(local);
                local.burst_limit = BurstLimit::none();
                local.graph().set_burst_limit(BURST_MAX);
            }
            self.enqueue(at);
        }
        self.lend(alone);
    }

    /// Queues a router for its turn, unless it is idle.
    #[inline]
    fn enqueue(&mut self, at: usize) {
        let local = &self.running[at];
        if local.rest.is_none() {
            self.ready.push(Reverse((Order::key(&local.account), at)));
        }
    }

    /// The reader, wherever it is now.
    pub(super) fn reader_mut(&mut self) -> &mut Reader {
        match self.lent {
            true => self.running[0].graph().reader_mut(),
            false => &mut self.reader,
        }
    }

    /// Adds a router.
    pub fn add(&mut self, arrival: Arrival) {
        let Arrival {
            router,
            plan,
            site,
            share,
            progress,
        } = arrival;
        let mut graph = Graph::build(&plan, &site, no_reader());
        graph.hold_at_most(share.buffers());
        self.running.push(LocalRouter {
            router,
            graph: Some(graph),
            site,
            long_asks: Vec::<LongAsk>::new(),
            progress,
            account: self.order.open(share),
            rounds: 1,
            // The cost of its packets is not known yet.
            burst_limit: BurstLimit::new(),
            last: (0, false),
            busy: 0,
            halted: false,
            empty: 0,
            rest: None,
            recorded_wake: None,
        });
    }

    /// Removes a router: its queues return to their ports and its packets to the pool.
    pub fn remove(&mut self, router: u64) {
        let is_it = |local: &mut LocalRouter| local.router == router;
        let running = self.running.extract_if(.., is_it);
        for mut local in running.chain(self.halted.extract_if(.., is_it)) {
            self.resting.end(&mut local);
            self.order.close(&mut local.account);
            let progress = Arc::clone(&local.progress);
            drop(local);
            progress.end();
        }
    }

    /// Removes all routers.
    pub(super) fn clear(&mut self) {
        self.lend(false);
        let all: Vec<u64> = self.all().map(|local| local.router).collect();
        all.into_iter().for_each(|router| self.remove(router));
    }

    fn all(&mut self) -> impl Iterator<Item = &mut LocalRouter> {
        self.running.iter_mut().chain(&mut self.halted)
    }

    /// Runs `work` on the worker's part of a router; `None` if it has no part. To be called only within messages and
    /// [`change`](Self::change).
    pub fn within<R>(
        &mut self,
        router: u64,
        work: impl FnOnce(&mut LocalRouter) -> R,
    ) -> Option<R> {
        let mut all = self.running.iter_mut().chain(&mut self.halted);
        let local = all.find(|local| local.router == router)?;
        // The request may give the router work.
        self.resting.end(local);
        std::mem::swap(local.graph().reader_mut(), &mut self.reader);
        let result = work(local);
        std::mem::swap(local.graph().reader_mut(), &mut self.reader);
        Some(result)
    }

    /// Changes a router's share.
    pub fn set_share(&mut self, router: u64, share: Share) {
        let mut all = self.running.iter_mut().chain(&mut self.halted);
        if let Some(local) = all.find(|local| local.router == router) {
            local.graph().hold_at_most(share.buffers());
            self.order.change(&mut local.account, share);
        }
    }

    /// Nanoseconds that each router has used on this worker, all read at the same time: pairs of router number and
    /// nanoseconds.
    pub fn busy(&mut self) -> Vec<(u64, u64)> {
        self.all().map(|local| (local.router, local.busy)).collect()
    }

    /// Runs one turn of the worker, which ends when a router has had work. `last` has the previous turn's
    /// nanoseconds, and true if packets moved. Returns true if packets moved.
    #[inline(always)] // into the packet loop
    pub fn turn(&mut self, clock: &Clock, now: Time, last: (u64, bool)) -> bool {
        let (true, [only]) = (self.lent, &mut *self.running) else {
            return self.turn_of_one(clock, now);
        };
        if last.1 {
            only.busy += last.0;
        }
        let worked = only.turn(now, last);
        only.graph().quiescent();
        if only.note(worked) {
            self.settle();
        }
        worked
    }

    /// Like [`turn`](Self::turn), for several routers, or none.
    #[inline(never)]
    fn turn_of_one(&mut self, clock: &Clock, now: Time) -> bool {
        self.wake_up(now);
        let (mut begin, mut stopped, mut worked) = (now, false, false);
        while let Some(Reverse((_, at))) = self.ready.pop() {
            let before = begin;
            let (mut again, mut is_over) = (true, false);
            while again {
                let (moved, stops) = self.run(at, begin);
                let end = clock.now();
                let time = end.since(begin).as_nanos() as u64;
                let local = &mut self.running[at];
                local.last = (time, moved);
                self.order.charge(&mut local.account, time, moved);
                stopped |= stops;
                begin = end;
                if moved {
                    local.busy += time;
                    worked = true;
                }
                // The router that polls a shared port continues until it has seen all waiting packets, for about as
                // long as the turns of others. Otherwise packets of others would wait in the port behind those of one
                // router and be lost.
                let ahead = local.account.share.is_ahead();
                again =
                    moved && ahead && !stops && end.since(before).as_nanos() < u128::from(TURN_NS);
                is_over = moved && !ahead;
            }
            self.asked.push(at);
            if is_over {
                break;
            }
            // Wakes idle routers that received packets in this turn now, not after the turns of others.
            self.wake_up(begin);
        }
        worked |= self.serve_others();
        let mut asked = std::mem::take(&mut self.asked);
        asked.drain(..).for_each(|at| self.enqueue(at));
        self.asked = asked;
        debug_assert!(
            self.ready.len() <= self.running.len(),
            "each stands in line once"
        );
        worked |= self.run_long_asks_of_halted();
        self.reader.quiescent();
        if stopped {
            self.settle();
        }
        worked
    }

    /// Runs a turn of one router. Returns two flags: true if something moved, and true if the router has stopped.
    #[inline]
    fn run(&mut self, at: usize, now: Time) -> (bool, bool) {
        self.swap_reader(at);
        let local = &mut self.running[at];
        let mut moved = local.turn_among_others(now);
        if !moved && self.resting.begin(local, now) {
            // Packets that arrived just before the router became idle cause no wake-up, so the router runs once more.
            moved = local.turn(now, local.last);
            if moved {
                self.resting.end(local);
            }
        }
        if moved {
            local.empty = 0;
        }
        let stopped = local.note(moved);
        self.swap_reader(at);
        (moved, stopped)
    }

    /// Serves calls from other workers before a router's turn. With many routers a call may wait for a few turns.
    fn serve_others(&mut self) -> bool {
        self.turns = self.turns.wrapping_add(1);
        if self.ready.len() > SERVED_EACH_TURN_MAX && !self.turns.is_multiple_of(SERVE_ONE_IN) {
            return false;
        }
        let asked = self
            .asked
            .split_last()
            .map_or(&[][..], |(_, others)| others);
        let waiting = self.ready.iter().map(|Reverse((_, at))| *at);
        self.others.extend(waiting.chain(asked.iter().copied()));
        let mut worked = false;
        while let Some(at) = self.others.pop() {
            let local = &mut self.running[at];
            if local.graph().is_called() || !local.long_asks.is_empty() {
                self.swap_reader(at);
                let local = &mut self.running[at];
                local.graph().serve();
                worked |= local.run_long_asks();
                self.swap_reader(at);
            }
        }
        worked
    }

    /// Makes routers polled again that were woken or whose timer has expired.
    #[inline]
    fn wake_up(&mut self, now: Time) {
        while let Some((at, woken)) = self.resting.next(now) {
            let local = &mut self.running[at];
            let is_over = woken || self.resting.is_over(local, now);
            if is_over && local.rest.is_some() {
                self.resting.end(local);
                // Routers that had a turn in this round are enqueued after it.
                if !self.asked.contains(&at) {
                    self.enqueue(at);
                }
            }
        }
    }

    /// Runs one turn of every router that is not idle, before the worker sleeps. Returns true if one had work.
    pub(super) fn check_again_before_sleep(&mut self, now: Time) -> bool {
        if !self.lent {
            self.wake_up(now);
        }
        let mut worked = false;
        self.each(|local| {
            if local.rest.is_some() {
                return;
            }
            let moved = local.graph().turn();
            if moved {
                local.progress.note_moved();
            }
            worked |= moved;
        });
        worked
    }

    /// Processes a wake-up, which may be meant for any router that has descriptors.
    pub(super) fn has_slept(&mut self) {
        if self.lent {
            return;
        }
        for at in 0..self.running.len() {
            let local = &mut self.running[at];
            if local.rest.as_ref().is_some_and(Rest::has_descriptors) {
                self.resting.end(local);
                self.enqueue(at);
            }
        }
    }

    /// Events for which the running routers wait.
    pub(super) fn waits(&mut self) -> Waits {
        let mut waits = Waits {
            fds: Vec::new(),
            must_poll: false,
            timer: None,
        };
        self.each(|local| {
            if let Some(rest) = &local.rest {
                waits.fds.extend(&rest.descriptors);
                waits.timer = waits.timer.into_iter().chain(rest.timer).min();
                return;
            }
            let graph = local.graph();
            let (fds, must_poll) = graph.wait_fds();
            waits.fds.extend(fds);
            waits.must_poll |= must_poll;
            let timers = waits.timer.into_iter().chain(graph.next_timer());
            waits.timer = timers.min();
        });
        waits
    }

    /// Runs `work` on each running router.
    fn each(&mut self, mut work: impl FnMut(&mut LocalRouter)) {
        if self.lent {
            return work(&mut self.running[0]);
        }
        for at in 0..self.running.len() {
            self.swap_reader(at);
            work(&mut self.running[at]);
            self.swap_reader(at);
        }
    }

    /// Runs the pending long requests of halted routers. Returns true if some are left.
    pub(super) fn run_long_asks_of_halted(&mut self) -> bool {
        let mut left = false;
        for at in 0..self.halted.len() {
            if !self.halted[at].long_asks.is_empty() {
                std::mem::swap(self.halted[at].graph().reader_mut(), &mut self.reader);
                left |= self.halted[at].run_long_asks();
                std::mem::swap(self.halted[at].graph().reader_mut(), &mut self.reader);
            }
        }
        left
    }
}
