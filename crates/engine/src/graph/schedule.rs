//! Scheduling of elements: tasks by stride scheduling, and timers when they are due.

use super::{Core, Graph};
use crate::clock::Time;
use crate::graph::peers::Inbox;
use crate::notify::Signal;
use crate::run_result::Did;
use crate::stats::TaskStats;
use std::cmp::Reverse;

/// A task: an element that starts work by itself, scheduled by stride.
pub(crate) struct Task {
    pub(crate) node: usize,
    pub(super) stride: u64,
    tickets: u64,
    pass: u64,
    /// Order among tasks of the same pass: the one that has waited longest is first.
    sequence: u64,
    pub(crate) state: TaskState,
    pub(crate) stats: TaskStats,
    /// Number of the next run that is measured.
    next_measured: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskState {
    Ready,
    Asleep,
    Ended,
}

/// Stride of a task with one ticket; Click's tasks have 1024 tickets by default.
const STRIDE_ONE: u64 = 1 << 20;
const TICKETS: u64 = 1024;
/// One in this many runs of a task is measured, and represents all of them. A prime number: busy and empty runs often
/// alternate, and with 64 all measured runs would be of the same kind.
const MEASURED_ONE_IN: u64 = 61;
/// Maximum number of rounds of a turn with several tasks. It is more than one because a task that found one packet
/// may find a full burst next time.
const ROUNDS_TOGETHER: u32 = 4;
/// Maximum number of tasks that run between two checks of timers and descriptors on a strict graph, as in Click.
const TASKS_MAX: usize = 128;

/// State of the schedule.
#[derive(Default)]
pub(crate) struct Schedule {
    /// Pass of the task that ran last.
    pass: u64,
    /// The next value of `Task::sequence`.
    next_sequence: u64,
}

impl Schedule {
    /// Charges a task for a run, and enqueues it after the waiting tasks.
    #[inline]
    fn charge(&mut self, task: &mut Task) {
        self.pass = task.pass;
        self.queue(task);
        task.pass += task.stride;
    }

    /// Enqueues a task after the other tasks of its pass.
    #[inline]
    fn queue(&mut self, task: &mut Task) {
        task.sequence = self.next_sequence;
        self.next_sequence += 1;
    }
}

/// Makes the task of `node` ready. A task that has slept gets no time for its sleep.
pub(crate) fn wake(tasks: &mut [Task], schedule: &mut Schedule, node: usize) {
    for task in tasks.iter_mut().filter(|t| t.node == node) {
        task.stats.woken = true;
        if task.state == TaskState::Asleep {
            task.state = TaskState::Ready;
            task.pass = task.pass.max(schedule.pass);
            schedule.queue(task);
        }
    }
}

/// Like [`wake`], for an element's own task: it also revives a task that has ended.
pub(crate) fn revive(tasks: &mut [Task], schedule: &mut Schedule, node: usize) {
    for task in tasks.iter_mut().filter(|t| t.node == node) {
        if task.state == TaskState::Ended {
            task.state = TaskState::Asleep;
        }
    }
    wake(tasks, schedule, node);
}

impl Graph {
    /// Runs one turn: due timers, then each ready task about once by stride. Returns true if a packet moved.
    #[inline(always)]
    pub fn turn(&mut self) -> bool {
        self.turn_at(self.core.clock.now(), 1)
    }

    /// Like [`Graph::turn`], for callers that have just read the clock. Runs each task up to `rounds` times, at least
    /// once, while one has work. A single task may continue by itself instead
    /// ([`Cx::run_to_completion`](crate::graph::Cx::run_to_completion)).
    #[inline(never)] // profilers know the packet loop by it
    pub fn turn_at(&mut self, now: Time, rounds: u32) -> bool {
        self.core.now = now;
        let mut worked = self.serve();
        self.start();
        let is_due = |&Reverse((at, _)): &Reverse<(Time, u32)>| at <= self.core.now;
        worked |= self.core.timers.peek().is_some_and(is_due) && self.run_timers();
        self.check_held_limit();
        if let [only] = &*self.core.tasks {
            // If there is a bound, held packets are counted before each burst.
            let bounded = self.core.held_limit.is_some();
            let rounds = if bounded { 1 } else { rounds };
            self.core.extra_runs = rounds.saturating_sub(1);
            let may_run = self.core.may_run(only, self.core.sources_paused());
            worked |= may_run && self.run_task(0) == Did::Work;
            self.core.used = rounds - self.core.extra_runs;
            return worked;
        }
        (self.core.extra_runs, self.core.used) = (0, 0);
        for _ in 0..rounds.min(ROUNDS_TOGETHER) {
            let mut any = false;
            self.core.used += 1;
            for _ in 0..self.core.tasks.len() {
                match self.run_next() {
                    Some(did) => any |= did == Did::Work,
                    None => break,
                }
            }
            worked |= any;
            if !any || self.core.stops > 0 {
                break;
            }
        }
        worked
    }

    /// Answers the calls of other workers. Returns true if there were some.
    #[inline]
    pub fn serve(&mut self) -> bool {
        self.is_called() && self.job(|cx| cx.serve())
    }

    /// True if calls of other workers may wait.
    #[inline]
    pub fn is_called(&self) -> bool {
        self.core.inbox.as_ref().is_some_and(Inbox::any)
    }

    /// Number of packets that elements with tasks have sent or taken, whichever is more.
    pub fn packets_of_tasks(&self) -> u64 {
        let of_node = |task: &Task| {
            let stats = &self.core.stats[task.node];
            stats.packets.max(stats.sent.iter().sum())
        };
        self.core.tasks.iter().map(of_node).sum()
    }

    /// Sets the maximum number of packets that a task takes at a time.
    #[inline]
    pub fn set_burst_limit(&mut self, limit: u32) {
        self.core.burst = limit as usize;
    }

    /// Pauses sources while elements hold `packets` packets or more; `None` = no bound. One burst of each source may
    /// exceed the bound.
    pub fn hold_at_most(&mut self, packets: Option<usize>) {
        (self.core.held_limit, self.core.full) = (packets, false);
        self.check_held_limit();
    }

    /// Checks whether elements hold as many packets as they may.
    #[inline]
    fn check_held_limit(&mut self) {
        if let Some(most) = self.core.held_limit {
            self.core.full = self.held() >= most;
        }
    }

    /// Number of rounds that the last turn used.
    #[inline]
    pub fn rounds_used(&self) -> u32 {
        self.core.used
    }

    /// Runs one round of Click's driver: ready tasks one by one, then due timers. It ends early on a request to stop,
    /// or when every task has been tried and none had work. Returns true if something was done.
    pub fn round(&mut self) -> bool {
        self.core.now = self.core.clock.now();
        let (mut worked, mut idle) = (false, 0);
        for _ in 0..TASKS_MAX {
            let Some(did) = self.run_next_task() else {
                break;
            };
            idle = if did == Did::Work { 0 } else { idle + 1 };
            worked |= did == Did::Work;
            if self.core.interrupted() || idle > self.core.tasks.len() {
                break;
            }
        }
        self.core.now = self.core.clock.now();
        self.run_timers() | worked
    }

    /// Runs the timers that are due. Returns true if there was one.
    pub fn run_timers(&mut self) -> bool {
        let mut any = false;
        self.start();
        while let Some(&Reverse((at, node))) = self.core.timers.peek() {
            if at > self.core.now {
                break;
            }
            self.core.timers.pop();
            let node = node as usize;
            if self.core.timer_at[node] != Some(at) {
                continue;
            }
            self.core.timer_at[node] = None;
            any = true;
            self.with_node(node, |element, cx| element.timer(cx));
            self.walk();
        }
        any
    }

    /// Calls `start` of elements that are new; called by turns, timers and tasks.
    #[inline]
    pub fn start(&mut self) {
        if !self.core.fresh.is_empty() {
            self.start_fresh();
        }
    }

    #[cold]
    #[inline(never)]
    fn start_fresh(&mut self) {
        let fresh = std::mem::take(&mut self.core.fresh);
        for &node in &fresh {
            self.with_node(node, |element, cx| element.start(cx));
        }
        for node in fresh {
            self.rest_at_start(node);
        }
        self.walk();
    }

    /// Puts a task that only pulls to sleep at the start, if nothing waits for it.
    fn rest_at_start(&mut self, node: usize) {
        let Core {
            plan, notes, tasks, ..
        } = &mut self.core;
        let element = &plan.elements[node];
        let waits = |signal| Signal::active(Some(signal), &notes.packets);
        let holds = self.nodes[node].as_ref().is_none_or(|n| n.held() > 0);
        let inputs = element.inputs.iter().zip(&element.signals);
        let mut pulled = inputs.filter(|(pull, _)| **pull).map(|(_, signal)| signal);
        let Some(first) = pulled.next() else {
            return;
        };
        if waits(first) || pulled.any(waits) || holds {
            return;
        }
        for task in tasks.iter_mut().filter(|t| t.node == node) {
            task.state = TaskState::Asleep;
        }
    }

    /// Time of the next timer.
    pub fn next_timer(&mut self) -> Option<Time> {
        self.start();
        while let Some(&Reverse((at, node))) = self.core.timers.peek() {
            if self.core.timer_at[node as usize] == Some(at) {
                return Some(at);
            }
            self.core.timers.pop();
        }
        None
    }

    /// Runs the ready task with the least pass; `None` if no task is ready.
    pub fn run_next_task(&mut self) -> Option<Did> {
        self.start();
        self.run_next()
    }

    #[inline(never)]
    fn run_next(&mut self) -> Option<Did> {
        self.check_held_limit();
        let index = self.core.next_task()?;
        self.core.schedule.charge(&mut self.core.tasks[index]);
        Some(self.run_task(index))
    }

    #[inline(always)] // one copy for a graph with a single task, one for other graphs
    fn run_task(&mut self, index: usize) -> Did {
        let task = &mut self.core.tasks[index];
        let node = task.node;
        // This run serves the task's wake-up; only a wake-up during the run causes another one.
        task.stats.woken = false;
        // Reading the counter costs as much as an element does, so a sample is measured.
        let measured = task.is_measured();
        if measured || !self.core.overflows.is_empty() {
            return self.run_watched(index, measured);
        }
        self.core.weight = 0;
        let did = self.with_node(node, |element, cx| element.task(cx));
        self.walk();
        self.core.weight = 1;
        let did = did.unwrap_or(Did::End);
        self.core.tasks[index].record_run(did, 0);
        if !self.core.overflows.is_empty() {
            self.account(node, (0, 0));
        }
        did
    }

    /// Like `run_task`, for a run whose cycles are measured or whose losses are accounted for.
    #[inline(never)]
    fn run_watched(&mut self, index: usize, measured: bool) -> Did {
        let task = &mut self.core.tasks[index];
        let node = task.node;
        self.core.weight = 0;
        if measured {
            task.plan_measurement();
            self.core.weight = MEASURED_ONE_IN;
        }
        let room = self.core.overflows.snapshot(&self.core.stats);
        self.core.completed = 0;
        let before = self.core.stamp();
        let did = self.with_node(node, |element, cx| element.task(cx));
        let did = did.unwrap_or(Did::End);
        let own = self
            .core
            .elapsed_cycles(before)
            .saturating_sub(self.core.completed);
        if did == Did::Work {
            self.core.stats[node].cycles += own;
        }
        self.walk();
        let spent = self.core.elapsed_cycles(before);
        self.core.weight = 1;
        self.core.tasks[index].record_run(did, spent);
        if !self.core.overflows.is_empty() {
            self.account(node, room);
        }
        did
    }

    /// Sets the tickets of a task; returns false if the element has no task.
    pub fn set_tickets(&mut self, node: usize, tickets: u64) -> bool {
        let task = self.core.tasks.iter_mut().find(|t| t.node == node);
        task.map(|t| t.set_tickets(tickets)).is_some()
    }

    /// Counts of every task on this worker, with its element.
    pub fn task_stats(&self) -> impl Iterator<Item = (usize, &TaskStats)> {
        self.core.tasks.iter().map(|t| (t.node, &t.stats))
    }
}

impl Task {
    pub(super) fn new(node: usize) -> Task {
        Task {
            node,
            stride: STRIDE_ONE / TICKETS,
            tickets: TICKETS,
            pass: 0,
            sequence: 0,
            state: TaskState::Ready,
            stats: TaskStats::default(),
            next_measured: 0,
        }
    }

    /// True if the next run is to be measured.
    #[inline]
    fn is_measured(&self) -> bool {
        self.stats.runs >= self.next_measured
    }

    /// Determines the next measured run. To be called in a measured run, before its result is recorded.
    #[inline]
    fn plan_measurement(&mut self) {
        self.next_measured = self.stats.runs + MEASURED_ONE_IN;
    }

    /// Records the result of a run that took `cycles` cycles.
    #[inline]
    fn record_run(&mut self, did: Did, cycles: u64) {
        self.stats.record_run(did, cycles);
        self.state = match did {
            Did::Work | Did::Nothing => TaskState::Ready,
            // If the run has woken the task again, its pass stays as it is.
            Did::Sleep if self.stats.woken => TaskState::Ready,
            Did::Sleep => TaskState::Asleep,
            Did::End => TaskState::Ended,
        };
        self.stats.woken = false;
    }

    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.state == TaskState::Ready
    }

    pub(crate) fn tickets(&self) -> u64 {
        self.tickets
    }

    pub(crate) fn set_tickets(&mut self, tickets: u64) {
        self.tickets = tickets.clamp(1, STRIDE_ONE);
        self.stride = STRIDE_ONE / self.tickets;
    }
}

impl Core {
    /// The ready task with the lowest pass; of several, the one that has waited longest.
    #[inline]
    fn next_task(&self) -> Option<usize> {
        let sources_paused = self.sources_paused();
        let mut best: Option<(usize, (u64, u64))> = None;
        for (index, task) in self.tasks.iter().enumerate() {
            let turn = (task.pass, task.sequence);
            if self.may_run(task, sources_paused) && best.is_none_or(|(_, best)| turn < best) {
                best = Some((index, turn));
            }
        }
        best.map(|(index, _)| index)
    }

    /// True if a task is ready and allowed to run: sources do not run while they are paused.
    #[inline]
    fn may_run(&self, task: &Task, sources_paused: bool) -> bool {
        let is_source = || self.plan.elements[task.node].inputs.is_empty();
        task.is_ready() && !(sources_paused && is_source())
    }

    /// True while sources do not run: they are paused, too many packets are held, or an element applies back-pressure.
    #[inline]
    fn sources_paused(&self) -> bool {
        self.paused || self.full || self.back_pressures > 0
    }

    /// True if the driver has something to do before the next task.
    fn interrupted(&mut self) -> bool {
        std::mem::take(&mut self.interrupt) || self.stops > 0 || self.stopping
    }

    pub(crate) fn set_timer(&mut self, node: usize, at: Time) {
        if self.timer_at[node].is_none_or(|was| at < was) {
            self.timer_at[node] = Some(at);
            self.timers.push(Reverse((at, node as u32)));
        }
    }

    pub(crate) fn cancel_timer(&mut self, node: usize) {
        self.timer_at[node] = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_runs_are_of_all_kinds_that_take_turns() {
        for kinds in 2..MEASURED_ONE_IN {
            let mut task = Task::new(0);
            let mut measured = vec![0; kinds as usize];
            for run in 0..10 * kinds * MEASURED_ONE_IN {
                if task.is_measured() {
                    measured[(run % kinds) as usize] += 1;
                    task.plan_measurement();
                }
                task.record_run(Did::Nothing, 0);
            }
            assert!(measured.iter().all(|n| *n == 10), "{kinds}: {measured:?}");
        }
    }
}
