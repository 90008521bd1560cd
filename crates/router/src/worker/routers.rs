//! The routers that one worker runs.

use super::burst::BurstLimit;
use super::idle_routers::{IdleRouter, IdleRouters};
use super::share::{Key, Share, ShareScheduler};
use super::{BURST_MAX, Idle, LocalRouter, Message, Progress, RepeatedJob, TURN_NS};
use engine::clock::{Clock, Time};
use engine::graph::{BuildContext, Graph};
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
    /// Reader of published tables: the worker's own, or the graph's placeholder while
    /// [`reader_lent`](Self::reader_lent) is true.
    reader: Reader,
    /// True if a single router runs and its graph has the worker's reader.
    reader_lent: bool,
    order: ShareScheduler,
    /// Running routers that are not idle, ordered by their keys: the first one runs next.
    ready: BinaryHeap<Reverse<(Key, usize)>>,
    /// Indices of the routers that had a turn in this turn of the worker.
    had_turn: Vec<usize>,
    /// Indices of the routers whose calls are served between turns: all that are not idle, except the one that had the
    /// last turn. The buffer is reused.
    others: Vec<usize>,
    idle_routers: IdleRouters,
    turns: u32,
    pub(super) idle: Idle,
    quit: bool,
}

/// Events for which a sleeping worker waits.
pub(super) struct WakeEvents {
    /// Descriptors that become readable when there is work.
    pub(super) fds: Vec<RawFd>,
    /// True if some task has no descriptor and must be polled.
    pub(super) must_poll: bool,
    /// The next timer.
    pub(super) timer: Option<Time>,
}

/// Parameters of a router that is added to a worker.
pub struct AddedRouter {
    /// The router's number, which is unique.
    pub router: u64,
    /// The plan of its graph.
    pub plan: Arc<Plan>,
    /// Parameters of the graph.
    pub site: BuildContext,
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
            reader_lent: false,
            order: ShareScheduler::default(),
            ready: BinaryHeap::new(),
            had_turn: Vec::new(),
            others: Vec::new(),
            idle_routers: IdleRouters::new(worker, wakers),
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

    /// Runs `job` between turns, as a message does.
    pub fn change<R>(&mut self, job: impl FnOnce(&mut Routers) -> R) -> R {
        self.set_reader_lent(false);
        let result = job(self);
        self.remove_halted();
        result
    }

    /// Lends the reader to the only router's graph, or takes the reader back.
    fn set_reader_lent(&mut self, lend: bool) {
        if self.reader_lent != lend {
            self.reader_lent = lend;
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
    fn remove_halted(&mut self) {
        self.set_reader_lent(false);
        for mut halted in self.running.extract_if(.., |local| local.halted) {
            self.idle_routers.end(&mut halted);
            self.order.close(&mut halted.account);
            halted.progress.end();
            self.halted.push(halted);
        }
        let alone = self.running.len() == 1 && self.halted.is_empty();
        let numbers = self.running.iter().map(|local| local.router);
        self.idle_routers.update_indices(numbers);
        self.ready.clear();
        for at in 0..self.running.len() {
            if alone {
                let local = &mut self.running[at];
                self.idle_routers.end(local);
                local.burst_limit = BurstLimit::none();
                local.graph().set_burst_limit(BURST_MAX);
            }
            self.enqueue(at);
        }
        self.set_reader_lent(alone);
    }

    /// Queues a router for its turn, unless it is idle.
    #[inline]
    fn enqueue(&mut self, at: usize) {
        let local = &self.running[at];
        if local.idle.is_none() {
            self.ready
                .push(Reverse((ShareScheduler::key(&local.account), at)));
        }
    }

    /// The worker's reader, from here or from the graph that has it.
    pub(super) fn reader_mut(&mut self) -> &mut Reader {
        match self.reader_lent {
            true => self.running[0].graph().reader_mut(),
            false => &mut self.reader,
        }
    }

    /// Adds a router.
    pub fn add(&mut self, arrival: AddedRouter) {
        let AddedRouter {
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
            long_asks: Vec::<RepeatedJob>::new(),
            progress,
            account: self.order.open(share),
            rounds: 1,
            // The cost of its packets is not known yet.
            burst_limit: BurstLimit::new(),
            last_turn: (0, false),
            busy: 0,
            halted: false,
            empty: 0,
            idle: None,
            recorded_wake: None,
        });
    }

    /// Removes a router: its queues return to their ports and its packets to the pool.
    pub fn remove(&mut self, router: u64) {
        let is_it = |local: &mut LocalRouter| local.router == router;
        let running = self.running.extract_if(.., is_it);
        for mut local in running.chain(self.halted.extract_if(.., is_it)) {
            self.idle_routers.end(&mut local);
            self.order.close(&mut local.account);
            let progress = Arc::clone(&local.progress);
            drop(local);
            progress.end();
        }
    }

    /// Removes all routers.
    pub(super) fn clear(&mut self) {
        self.set_reader_lent(false);
        let all: Vec<u64> = self.all().map(|local| local.router).collect();
        all.into_iter().for_each(|router| self.remove(router));
    }

    fn all(&mut self) -> impl Iterator<Item = &mut LocalRouter> {
        self.running.iter_mut().chain(&mut self.halted)
    }

    /// Runs `work` on the worker's part of a router; `None` if it has no part. To be called only within messages and
    /// [`change`](Self::change).
    pub fn with_router<R>(
        &mut self,
        router: u64,
        work: impl FnOnce(&mut LocalRouter) -> R,
    ) -> Option<R> {
        let mut all = self.running.iter_mut().chain(&mut self.halted);
        let local = all.find(|local| local.router == router)?;
        // The request may give the router work.
        self.idle_routers.end(local);
        std::mem::swap(local.graph().reader_mut(), &mut self.reader);
        let result = work(local);
        std::mem::swap(local.graph().reader_mut(), &mut self.reader);
        Some(result)
    }

    /// Sets a router's share.
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
        let (true, [only]) = (self.reader_lent, &mut *self.running) else {
            return self.turn_among_routers(clock, now);
        };
        if last.1 {
            only.busy += last.0;
        }
        let worked = only.turn(now, last);
        only.graph().quiescent();
        if only.record_turn(worked) {
            self.remove_halted();
        }
        worked
    }

    /// Like [`turn`](Self::turn), if no router has the worker's reader: runs routers in order until one has work.
    #[inline(never)]
    fn turn_among_routers(&mut self, clock: &Clock, now: Time) -> bool {
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
                local.last_turn = (time, moved);
                self.order.charge(&mut local.account, time, moved);
                stopped |= stops;
                begin = end;
                if moved {
                    local.busy += time;
                    worked = true;
                }
                // The router that polls a shared port continues until it has received all waiting packets, for about
                // the duration of other routers' turns. Otherwise packets for others would wait in the port behind
                // those for one router, and be lost.
                let ahead = local.account.share.is_ahead();
                again =
                    moved && ahead && !stops && end.since(before).as_nanos() < u128::from(TURN_NS);
                is_over = moved && !ahead;
            }
            self.had_turn.push(at);
            if is_over {
                break;
            }
            // Routers that received packets in this turn resume at once, not after the turns of others.
            self.wake_up(begin);
        }
        worked |= self.serve_others();
        let mut asked = std::mem::take(&mut self.had_turn);
        asked.drain(..).for_each(|at| self.enqueue(at));
        self.had_turn = asked;
        debug_assert!(
            self.ready.len() <= self.running.len(),
            "each stands in line once"
        );
        worked |= self.run_long_asks_of_halted();
        self.reader.quiescent();
        if stopped {
            self.remove_halted();
        }
        worked
    }

    /// Runs a turn of one router. Returns true if packets moved, and true if the router has stopped.
    #[inline]
    fn run(&mut self, at: usize, now: Time) -> (bool, bool) {
        self.swap_reader(at);
        let local = &mut self.running[at];
        let mut moved = local.turn_among_others(now);
        if !moved && self.idle_routers.stop_polling(local, now) {
            // Packets that arrived just before the router became idle cause no wake-up, so the router runs once more.
            moved = local.turn(now, local.last_turn);
            if moved {
                self.idle_routers.end(local);
            }
        }
        if moved {
            local.empty = 0;
        }
        let stopped = local.record_turn(moved);
        self.swap_reader(at);
        (moved, stopped)
    }

    /// Serves calls from other workers before a router's turn. With many waiting routers a call may wait for several
    /// turns.
    fn serve_others(&mut self) -> bool {
        self.turns = self.turns.wrapping_add(1);
        if self.ready.len() > SERVED_EACH_TURN_MAX && !self.turns.is_multiple_of(SERVE_ONE_IN) {
            return false;
        }
        let asked = self
            .had_turn
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

    /// Resumes polling of routers that an event has woken or whose timer has expired.
    #[inline]
    fn wake_up(&mut self, now: Time) {
        while let Some((at, woken)) = self.idle_routers.next(now) {
            let local = &mut self.running[at];
            let is_over = woken || self.idle_routers.is_over(local, now);
            if is_over && local.idle.is_some() {
                self.idle_routers.end(local);
                // Routers that had a turn in this round are enqueued after it.
                if !self.had_turn.contains(&at) {
                    self.enqueue(at);
                }
            }
        }
    }

    /// Runs one turn of every router that is not idle, before the worker sleeps. Returns true if any router had work.
    pub(super) fn check_again_before_sleep(&mut self, now: Time) -> bool {
        if !self.reader_lent {
            self.wake_up(now);
        }
        let mut worked = false;
        self.for_each(|local| {
            if local.idle.is_some() {
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

    /// Processes a wake-up by a descriptor: resumes polling of all routers that have descriptors.
    pub(super) fn has_slept(&mut self) {
        if self.reader_lent {
            return;
        }
        for at in 0..self.running.len() {
            let local = &mut self.running[at];
            if local.idle.as_ref().is_some_and(IdleRouter::has_descriptors) {
                self.idle_routers.end(local);
                self.enqueue(at);
            }
        }
    }

    /// Events for which the running routers wait.
    pub(super) fn waits(&mut self) -> WakeEvents {
        let mut waits = WakeEvents {
            fds: Vec::new(),
            must_poll: false,
            timer: None,
        };
        self.for_each(|local| {
            if let Some(idle) = &local.idle {
                waits.fds.extend(&idle.descriptors);
                waits.timer = waits.timer.into_iter().chain(idle.timer).min();
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
    fn for_each(&mut self, mut work: impl FnMut(&mut LocalRouter)) {
        if self.reader_lent {
            return work(&mut self.running[0]);
        }
        for at in 0..self.running.len() {
            self.swap_reader(at);
            work(&mut self.running[at]);
            self.swap_reader(at);
        }
    }

    /// Runs the repeated jobs of halted routers. Returns true if some are still pending.
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
