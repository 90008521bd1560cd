//! One owner's buckets go to another worker: what workers do for that, each for itself, between batches.
//!
//! Control tells all of them once, and sleeps until they have done it. Each takes its part in a step as soon as the
//! steps before are over, which a count says ([`Steps`]): so a step costs turns of the workers that take it, and not a
//! turn of each worker and two changes of thread, on processors that the workers have.

use super::around::Around;
use super::moving::{Ask, Shard};
use super::steps::Steps;
use super::{Parked, lock};
use crate::clock::Time;
use crate::graph::Graph;
use crate::handler_info::AskError;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How many times the table's limit a worker may take to empty its rings, whose size bounds it.
const STALLED: u32 = 20;

/// State on its way from the old owner to the new one. A worker that comes late finds here what has become of it.
#[derive(Default)]
struct Given {
    shards: Vec<Shard>,
    /// The new owner has it.
    taken: bool,
    /// The new owner is not to have it.
    undone: bool,
}

/// The move of one owner's buckets.
pub(super) struct HandOver {
    around: Around,
    owner: usize,
    to: usize,
    buckets: Arc<[u16]>,
    workers: usize,
    steps: Steps,
    given: Mutex<Given>,
    /// Elements that still held packets of before when their time was over.
    late: Mutex<BTreeSet<usize>>,
    /// Workers need do no more for it.
    over: AtomicBool,
}

/// What a worker takes part in, in this order.
enum Step {
    /// All: their Steers let packets of the buckets wait, and what they sent before has arrived.
    Park,
    /// All, for each stage: what was held behind has gone.
    Behind,
    /// The old owner gives up the state.
    Give,
    /// The new owner takes it.
    Take,
    /// All: what has waited goes, and then all does.
    Open,
}

/// Where one worker stands.
#[derive(Default)]
pub(super) struct Hand {
    /// Steps that are over for it.
    step: usize,
    /// What its Steers had sent to the old owner when they parked.
    sent: Option<Vec<usize>>,
    /// What is held behind, of those that held something when the step began.
    marks: Option<Vec<(usize, usize)>>,
    /// The time for that is over.
    late: bool,
    opened: bool,
    deadline: Deadline,
}

/// When to wait no longer, from the first time that there was something to wait for, by the clock of a worker.
#[derive(Default)]
pub(super) struct Deadline(Option<Time>);

impl Deadline {
    /// Whether more than `limit` has passed.
    pub(super) fn is_past(&mut self, graph: &Graph, limit: Duration) -> bool {
        let now = graph.clock().now();
        now.since(*self.0.get_or_insert(now)) >= limit
    }
}

impl HandOver {
    pub(super) fn new(
        around: &Around,
        (owner, buckets): (usize, Vec<u16>),
        to: usize,
        workers: usize,
    ) -> HandOver {
        let all = std::iter::repeat_n(workers, around.stages + 2);
        HandOver {
            around: around.clone(),
            owner,
            to,
            buckets: buckets.into(),
            workers,
            steps: Steps::new(all.chain([1, 1])),
            given: Mutex::default(),
            late: Mutex::default(),
            over: AtomicBool::new(false),
        }
    }

    /// What moves.
    pub(super) fn buckets(&self) -> &Arc<[u16]> {
        &self.buckets
    }

    /// Has workers do it. Returns what has waited and who was late, or `None` if the buckets stay, as the old owner is
    /// behind with its packets; then they have still to be opened. If it fails all is as it was before, but where only
    /// an answer was missing.
    pub(super) fn run(
        self: &Arc<HandOver>,
        ask: &impl Ask,
    ) -> Result<Option<(Parked, BTreeSet<usize>)>, AskError> {
        let table = &self.around.table;
        table.settled(false);
        let patience = table.limit().saturating_mul(STALLED + 2);
        let this = Arc::clone(self);
        let answers = ask.until(patience, move |graph, hand| this.work(graph, hand));
        let undone = self.end();
        let parked = match answers {
            Ok(_) if undone => return Ok(None),
            Err(why) if undone => {
                self.give_back(ask);
                let (around, buckets) = (&self.around, &self.buckets);
                around.tell_open(ask, buckets, self.owner, self.workers);
                return Err(why);
            }
            Ok(parked) => {
                table.give(&self.buckets, self.to);
                self.around.waited(parked)
            }
            // The new owner has taken the state; only an answer is missing.
            Err(_) => {
                table.give(&self.buckets, self.to);
                let (around, buckets) = (&self.around, &self.buckets);
                around.open(ask, buckets, self.to, self.workers)?
            }
        };
        Ok(Some((parked, std::mem::take(&mut lock(&self.late)))))
    }

    /// Has all workers do no more, and keeps the state from the new owner; `false` if that has it already.
    fn end(&self) -> bool {
        let mut given = lock(&self.given);
        given.undone = !given.taken;
        self.over.store(true, Ordering::Relaxed);
        given.undone
    }

    /// The old owner gets the state back that it has given up, now or when it comes to answer.
    fn give_back(self: &Arc<HandOver>, ask: &impl Ask) {
        let this = Arc::clone(self);
        let _ = ask.one(self.owner, move |graph| {
            let shards = std::mem::take(&mut lock(&this.given).shards);
            graph.take_buckets(shards);
        });
    }

    fn step(&self, number: usize) -> Step {
        match number.saturating_sub(self.around.stages + 1) {
            0 if number == 0 => Step::Park,
            0 => Step::Behind,
            1 => Step::Give,
            2 => Step::Take,
            _ => Step::Open,
        }
    }

    /// What a worker can do now. Returns what has waited there, when all is done.
    fn work(&self, graph: &mut Graph, hand: &mut Hand) -> Option<Parked> {
        loop {
            if self.over.load(Ordering::Relaxed) {
                return Some(Parked::default());
            }
            if !self.steps.is_open(hand.step) {
                return None;
            }
            let me = graph.worker();
            let (takes_part, done) = match self.step(hand.step) {
                Step::Park => (true, self.park(graph, hand)),
                Step::Behind => (true, self.wait_behind(graph, hand)),
                Step::Give if me == self.owner => (true, self.give(graph)),
                Step::Take if me == self.to => (true, self.take(graph)),
                Step::Give | Step::Take => (false, true),
                Step::Open => return self.open(graph, hand),
            };
            if !done {
                return None;
            }
            hand.step += 1;
            if takes_part {
                self.steps.taken();
            }
        }
    }

    /// Parks, and waits until the old owner has taken what was sent to it before. If it stalls the move is called off.
    fn park(&self, graph: &mut Graph, hand: &mut Hand) -> bool {
        let (steers, old) = (&self.around.steers, self.owner);
        let sent = hand.sent.get_or_insert_with(|| {
            let each = steers.iter().map(|&node| {
                let sent = graph.steering(node, |steering| {
                    steering.park(&self.buckets);
                    steering.sent(old)
                });
                sent.unwrap_or_default()
            });
            each.collect()
        });
        let there = steers.iter().zip(sent).all(|(&node, sent)| {
            let there = graph.steering(node, |s| s.has_arrived(old, *sent));
            there.unwrap_or(true)
        });
        let limit = self.around.table.limit();
        if there {
            hand.deadline = Deadline::default();
        } else if hand.deadline.is_past(graph, limit.saturating_mul(STALLED)) {
            self.end();
        }
        there
    }

    /// Waits until what is held behind now has gone, as long as the table's limit for all stages.
    fn wait_behind(&self, graph: &mut Graph, hand: &mut Hand) -> bool {
        if hand.late {
            return true;
        }
        let marks = match hand.marks.take() {
            None => graph.marks(&self.around.behind),
            Some(marks) => graph.not_past(&marks),
        };
        if marks.is_empty() {
            return true;
        }
        hand.late = hand.deadline.is_past(graph, self.around.table.limit());
        if hand.late {
            lock(&self.late).extend(marks.iter().map(|mark| mark.0));
        } else {
            hand.marks = Some(marks);
        }
        hand.late
    }

    fn give(&self, graph: &mut Graph) -> bool {
        let mut given = lock(&self.given);
        if !given.undone {
            given.shards = graph.give_buckets(&self.around.behind, &self.buckets);
        }
        // A step that was not taken must not let others go on to the next one.
        !given.undone
    }

    fn take(&self, graph: &mut Graph) -> bool {
        let mut given = lock(&self.given);
        if !given.undone {
            given.taken = true;
            graph.take_buckets(std::mem::take(&mut given.shards));
        }
        !given.undone
    }

    /// Opens, and waits until nothing waits any more, as long as the table's limit.
    fn open(&self, graph: &mut Graph, hand: &mut Hand) -> Option<Parked> {
        if !std::mem::replace(&mut hand.opened, true) {
            hand.deadline = Deadline::default();
            self.around.open_here(graph, &self.buckets, self.to);
        }
        self.around.settle_here(graph, &mut hand.deadline)
    }
}
