//! Hand-over: a bucket, a queue or a table entry gets another owner while packets arrive. No packet is lost, and no
//! packet overtakes another of its flow.
//!
//! All hand-overs have the same parts. New packets are *held*, at their sender or at their destination. Earlier
//! packets are *drained* at the old owner. State is transferred to the new owner. Held packets are *released*. A
//! [`Change`] implements the parts.
//!
//! Control sends the workers one request, and sleeps until they are done. Each worker does its part of a step between
//! batches, as soon as a counter shows that earlier steps are complete ([`Steps`]). So a step costs only turns of the
//! workers involved, and no thread switches.
//!
//! A step has a deadline. If a worker is late or does not answer, the hand-over is cancelled, up to the step in which
//! ownership changes. Then the old owner keeps everything, and held packets go there.

use engine::clock::Time;
use engine::graph::Graph;
use engine::handler::AskError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use sync::Lock;
use sync::steps::Steps;

/// Runs functions on workers, between batches.
pub trait Ask {
    /// Runs `job` on these workers repeatedly until each has an answer, and returns the answers in their order.
    /// `job` keeps intermediate results on a worker in an `S`. The call takes at most `time_limit` plus the time for
    /// an answer.
    fn run_until_all<S: Default + 'static, R: Send + 'static>(
        &self,
        workers: &[usize],
        time_limit: Duration,
        job: impl Fn(&mut Graph, &mut S) -> Option<R> + Send + Sync + 'static,
    ) -> Result<Vec<R>, AskError>;

    /// Runs `job` once on one worker.
    fn run_on_one<R: Send + 'static>(
        &self,
        worker: usize,
        job: impl FnOnce(&mut Graph) -> R + Send + 'static,
    ) -> Result<R, AskError>;
}

/// A kind of hand-over: what changes its owner, and the steps.
pub(crate) trait Change: Send + Sync + 'static {
    /// Type that names the steps.
    type Step: Copy + Send + Sync + 'static;
    /// State of a worker between attempts at a step.
    type Memory: Default + 'static;

    /// Does as much of a step as this worker can do now. Returns true if the step is complete.
    fn take(&self, step: Self::Step, graph: &mut Graph, memory: &mut Self::Memory) -> bool;

    /// Continues on a worker that has not completed a step in time.
    fn on_timeout(&self, step: Self::Step, graph: &mut Graph, memory: &mut Self::Memory);

    /// Ends a hand-over that did not complete on a worker. If `has_moved`, the new owner owns everything; otherwise
    /// the old owner does.
    fn end(&self, graph: &mut Graph, has_moved: bool);
}

/// Condition for the end of a step.
#[derive(Clone, Copy)]
pub(crate) enum Ends {
    /// The step must complete. If it takes longer than this, the hand-over is cancelled.
    OrCancel(Duration),
    /// The step ends when it is complete, or after this time.
    OrTimeout(Duration),
    /// The step takes no time. It is skipped if the hand-over was cancelled.
    Immediate,
    /// The step takes no time and changes the owner: from now on the hand-over cannot be cancelled.
    ChangesOwner,
}

/// A step of the hand-over, and the workers that take part in it.
pub(crate) struct Step<S> {
    pub(crate) what: S,
    pub(crate) who: Vec<usize>,
    pub(crate) ends: Ends,
}

/// Outcome of a hand-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All steps are over.
    Done,
    /// The owner has changed, but not every worker has reported the end of its steps.
    Moved,
    /// The hand-over was cancelled because a worker was late: nothing has changed.
    Cancelled,
}

/// State of a hand-over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    Moved,
    Cancelled,
}

/// A hand-over.
pub(crate) struct HandOver<C: Change> {
    change: C,
    /// Workers that take part, the old owner first: after a cancellation it must have everything back before others
    /// send to it again.
    parties: Vec<usize>,
    steps: Vec<Step<C::Step>>,
    taken: Steps,
    phase: Lock<Phase>,
    /// True if workers have nothing left to do.
    finished: AtomicBool,
}

/// Progress of a worker.
pub(crate) struct Progress<M> {
    step: usize,
    /// Time of the first attempt at the step.
    since: Option<Time>,
    memory: M,
}

impl<M: Default> Default for Progress<M> {
    fn default() -> Progress<M> {
        Progress {
            step: 0,
            since: None,
            memory: M::default(),
        }
    }
}

/// True if `limit` has passed since the first call with the same `since`.
pub(crate) fn is_past(since: &mut Option<Time>, graph: &Graph, limit: Duration) -> bool {
    let now = graph.clock().now();
    now.since(*since.get_or_insert(now)) >= limit
}

impl<C: Change> HandOver<C> {
    pub(crate) fn new(
        change: C,
        parties: Vec<usize>,
        steps: Vec<Step<C::Step>>,
    ) -> Arc<HandOver<C>> {
        Arc::new(HandOver {
            change,
            parties,
            taken: Steps::new(steps.iter().map(|step| step.who.len())),
            steps,
            phase: Lock::new(Phase::Open),
            finished: AtomicBool::new(false),
        })
    }

    /// The change that this hand-over carries out.
    pub(crate) fn change(&self) -> &C {
        &self.change
    }

    /// Runs the hand-over on the workers. If they do not answer before the owner changes, the old owner remains.
    pub(crate) fn run(self: &Arc<Self>, ask: &impl Ask) -> Result<Outcome, AskError> {
        let time = |step: &Step<C::Step>| match step.ends {
            Ends::OrCancel(limit) | Ends::OrTimeout(limit) => limit,
            Ends::Immediate | Ends::ChangesOwner => Duration::ZERO,
        };
        let time_limit = self.steps.iter().map(time);
        let time_limit = time_limit.fold(Duration::ZERO, Duration::saturating_add);
        let this = Arc::clone(self);
        let answers = ask.run_until_all(&self.parties, time_limit, move |graph, at| {
            this.run_steps(graph, at)
        });
        let has_moved = self.call_off();
        if answers.is_ok() && has_moved {
            return Ok(Outcome::Done);
        }
        self.end(ask, has_moved);
        match answers {
            _ if has_moved => Ok(Outcome::Moved),
            Ok(_) => Ok(Outcome::Cancelled),
            Err(why) => Err(why),
        }
    }

    /// Ends the hand-over on every worker, now or when the worker answers again.
    pub(crate) fn end(self: &Arc<Self>, ask: &impl Ask, has_moved: bool) {
        for &worker in &self.parties {
            let this = Arc::clone(self);
            let _ = ask.run_on_one(worker, move |graph| this.change.end(graph, has_moved));
        }
    }

    /// Cancels the hand-over unless the owner has changed; returns true if it has.
    fn call_off(&self) -> bool {
        let mut phase = self.phase.lock();
        if *phase == Phase::Open {
            *phase = Phase::Cancelled;
        }
        self.finished.store(true, Ordering::Relaxed);
        *phase == Phase::Moved
    }

    /// Does the steps that a worker can do now. Returns `Some` when the worker is done.
    fn run_steps(&self, graph: &mut Graph, at: &mut Progress<C::Memory>) -> Option<()> {
        loop {
            if self.finished.load(Ordering::Relaxed) {
                return Some(());
            }
            let Some(step) = self.steps.get(at.step) else {
                return Some(());
            };
            if !step.who.contains(&graph.worker()) {
                at.step += 1;
                continue;
            }
            if !self.taken.is_open(at.step) || !self.take(step, graph, at) {
                return None;
            }
            (at.step, at.since) = (at.step + 1, None);
            self.taken.taken();
        }
    }

    /// True if a step is over for a worker.
    fn take(&self, step: &Step<C::Step>, graph: &mut Graph, at: &mut Progress<C::Memory>) -> bool {
        let (what, memory) = (step.what, &mut at.memory);
        match step.ends {
            Ends::Immediate | Ends::ChangesOwner => {
                let mut phase = self.phase.lock();
                // A step that was cancelled must not let others continue with the next one.
                if *phase == Phase::Cancelled {
                    return false;
                }
                self.change.take(what, graph, memory);
                if matches!(step.ends, Ends::ChangesOwner) {
                    *phase = Phase::Moved;
                }
                true
            }
            Ends::OrCancel(limit) => {
                let taken = self.change.take(what, graph, memory);
                if !taken && is_past(&mut at.since, graph, limit) {
                    self.call_off();
                }
                taken
            }
            Ends::OrTimeout(limit) => {
                let taken = self.change.take(what, graph, memory);
                let late = !taken && is_past(&mut at.since, graph, limit);
                if late {
                    self.change.on_timeout(what, graph, memory);
                }
                taken || late
            }
        }
    }
}
