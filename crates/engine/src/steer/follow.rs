//! Has a port's own table follow buckets that have changed worker, while packets come: none is lost, and none of a flow
//! overtakes another.
//!
//! A port that has been told gives later packets of a bucket to another queue, but earlier ones still wait in the queue by
//! which they came before, or are on their way from its worker to others. So, for the buckets of one owner after those of another:
//!
//! 1. Keep: the owner lets wait all that comes by its queues that are to have the packets, before it is sorted. What others send
//!    to it goes on.
//! 2. The port is told.
//! 3. The workers by which packets came before take from those queues what waits there, and wait until all workers have
//!    taken what they have sent to them, for a bounded time.
//! 4. What waits at the owner goes on.
//!
//! All of a queue waits, as a port need not sort as Steer does: it may not look into tunnels, or hash by addresses only, or have
//! refused a rule. So a flow of any bucket may change queue when an entry of the port's table does.
//!
//! Only the owner keeps, so whoever empties an old queue never rests for that.

use super::around::Around;
use super::hand_over::Deadline;
use super::moving::Ask;
use super::pumps::handler;
use super::steps::Steps;
use super::{Steering, Table, lock};
use crate::clock::Time;
use crate::graph::Graph;
use crate::handler_info::AskError;
use crate::handler_info::Use;
use crate::plan::Plan;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How many times the table's limit old queues may take to deliver what waited in them.
const STALLED: u32 = 20;
/// What a device has sorted as its table was before may take so long until it is in a queue.
const INSIDE: Duration = Duration::from_micros(100);
/// Time between two questions whether a port has done what it was told.
const ASK: Duration = Duration::from_micros(200);

/// The table of a port that gives packets to queues by their buckets, by itself, so that they need not cross.
pub trait PortTable: Send + Sync {
    /// The table by which its packets are steered.
    fn table(&self) -> Option<&Arc<Table>>;

    /// Buckets whose packets come by a queue of another worker than their owner, though the owner has a queue, too.
    fn astray(&self) -> Vec<Astray>;

    /// Has the port give packets of these buckets to other queues. The error is a sentence; then nothing has changed.
    fn redirect(&self, buckets: &[Astray]) -> Result<(), String>;

    /// Whether the port has done what it was told.
    fn is_done(&self) -> bool;
}

/// A bucket whose packets come by a queue of another worker than its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Astray {
    /// Its number.
    pub bucket: u16,
    /// Buckets that have this number in common go to another queue together: the port's table is smaller than this one.
    pub entry: usize,
    /// Its owner.
    pub owner: usize,
    /// The queue by which its packets come, and the worker that polls it.
    pub from: (usize, usize),
    /// A queue that the owner polls.
    pub to: usize,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// Buckets that come by a queue of their owner now.
    pub buckets: usize,
    /// Packets that had to wait.
    pub parked: u64,
    /// The longest time that one of them did.
    pub longest: Duration,
    /// An old queue had not delivered what waited in it when its time was over: that may come behind later packets.
    pub late: bool,
}

impl std::fmt::Display for Followed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (buckets, parked, micros) = (self.buckets, self.parked, self.longest.as_micros());
        write!(
            f,
            "the port follows {buckets} buckets; {parked} packets waited, the longest {micros} us"
        )?;
        match self.late {
            true => write!(f, "; packets of before were late"),
            false => Ok(()),
        }
    }
}

/// The receivers of a plan whose ports have tables of their own, by element.
pub fn port_tables(plan: &Plan) -> Vec<(usize, Arc<dyn PortTable>)> {
    let each = plan.elements.iter().enumerate();
    each.filter_map(|(node, e)| Some((node, super::port_table_of(e)?)))
        .collect()
}

/// Has the port of the receiver `element` follow those of these buckets that are astray, or all. Nobody else may move queues
/// or buckets, or replace the plan, meanwhile.
pub fn follow(
    ask: &impl Ask,
    plan: &Plan,
    element: &str,
    buckets: Option<&[u16]>,
) -> Result<Followed, AskError> {
    let none = || {
        AskError::NoElement(format!(
            "there is no receiver `{element}` that sorts packets"
        ))
    };
    let node = plan.find(element).ok_or_else(none)?;
    let receiver = &plan.elements[node];
    let port = super::port_table_of(receiver).ok_or_else(none)?;
    let table = port.table().ok_or_else(none)?;
    let around = Around::find(plan, table.name()).ok_or_else(none)?;
    let handler = |name, wanted| handler(plan, node, name, wanted).ok_or_else(none);
    let both = |name| Ok((handler(name, Use::Write)?, handler(name, Use::Read)?));
    let (drain, keep) = (both("drain")?, both("keep")?);
    if !port.is_done() {
        let why = "the port has still to do what it was told before: try again";
        return Err(AskError::Refused(why.to_owned()));
    }
    around.settle(ask)?;
    let mut by_owner: BTreeMap<usize, Vec<Astray>> = BTreeMap::new();
    let astray = port.astray();
    let named = |one: &&Astray| buckets.is_none_or(|buckets| buckets.contains(&one.bucket));
    let entries: BTreeSet<usize> = astray.iter().filter(named).map(|one| one.entry).collect();
    for one in astray {
        if entries.contains(&one.entry) {
            by_owner.entry(one.owner).or_default().push(one);
        }
    }
    let mut followed = Followed::default();
    for (owner, astray) in by_owner {
        let queues = astray.iter().map(|a| a.from).collect();
        let turn = Arc::new(Turn {
            around: around.clone(),
            node,
            drain,
            keep,
            owner,
            to: astray.iter().map(|a| a.to).collect(),
            steps: Steps::new([workers_of(&queues)]),
            queues,
            late: AtomicBool::new(false),
            since: Mutex::default(),
            over: Mutex::new(false),
        });
        let kept = turn.run(ask, &*port, &astray)?;
        followed.buckets += astray.len();
        followed.parked += kept.packets;
        followed.longest = followed.longest.max(kept.longest);
        followed.late |= turn.late.load(Relaxed);
    }
    Ok(followed)
}

fn workers_of(queues: &BTreeSet<(usize, usize)>) -> usize {
    let workers: BTreeSet<usize> = queues.iter().map(|queue| queue.1).collect();
    workers.len()
}

/// The buckets of one owner.
struct Turn {
    around: Around,
    node: usize,
    /// The receiver's handlers, to write and to read.
    drain: (usize, usize),
    keep: (usize, usize),
    owner: usize,
    /// Its queues that are to have the packets.
    to: BTreeSet<usize>,
    /// Queues by which packets came before, with their workers.
    queues: BTreeSet<(usize, usize)>,
    /// What came by the old queues has arrived.
    steps: Steps,
    late: AtomicBool,
    /// Since when packets wait.
    since: Mutex<Time>,
    /// Workers need do no more for it.
    over: Mutex<bool>,
}

/// Where one worker stands.
#[derive(Default)]
struct Hand {
    begun: Option<Time>,
    marked: bool,
    /// What its Steers had sent to each worker when the old queues had delivered all.
    sent: Option<Vec<Vec<usize>>>,
    deadline: Deadline,
    done: bool,
    gives: Option<Kept>,
}

/// What has waited on a worker.
#[derive(Clone, Copy, Default)]
struct Kept {
    packets: u64,
    longest: Duration,
}

impl Turn {
    fn run(
        self: &Arc<Turn>,
        ask: &impl Ask,
        port: &dyn PortTable,
        astray: &[Astray],
    ) -> Result<Kept, AskError> {
        let this = Arc::clone(self);
        let keeps = ask.one(self.owner, move |graph| {
            *lock(&this.since) = graph.now();
            this.keep(graph, "on");
        });
        let told = keeps.and_then(|()| {
            let told = port.redirect(astray);
            told.map_err(AskError::Refused)
        });
        let kept = told.and_then(|()| {
            let patience = self.around.table.limit().saturating_mul(STALLED);
            let begun = Instant::now();
            while !port.is_done() && begun.elapsed() < patience {
                std::thread::sleep(ASK);
            }
            if !port.is_done() {
                self.late.store(true, Relaxed);
            }
            let this = Arc::clone(self);
            ask.until(patience.saturating_mul(2), move |graph, hand| {
                this.work(graph, hand)
            })
        });
        *lock(&self.over) = true;
        if kept.is_err() {
            // Now, or when it comes to answer.
            let this = Arc::clone(self);
            let _ = ask.one(self.owner, move |graph| this.keep(graph, "off"));
        }
        Ok(kept?.into_iter().fold(Kept::default(), |a, b| Kept {
            packets: a.packets + b.packets,
            longest: a.longest.max(b.longest),
        }))
    }

    /// Has what comes by the new queues wait, or go.
    fn keep(&self, graph: &mut Graph, what: &str) {
        for queue in &self.to {
            // Who has no copy any more has nothing that waits.
            let _ = graph.write(self.node, self.keep.0, &format!("{queue} {what}"));
        }
    }

    /// Packets that wait here.
    fn kept(&self, graph: &mut Graph) -> u64 {
        let kept = graph.read(self.node, self.keep.1, "");
        kept.and_then(|kept| kept.ok()?.parse().ok())
            .unwrap_or_default()
    }

    /// What a worker can do now. Returns what has waited there, when all is done.
    fn work(&self, graph: &mut Graph, hand: &mut Hand) -> Option<Kept> {
        if *lock(&self.over) {
            return Some(Kept::default());
        }
        let me = graph.worker();
        if !hand.done && self.queues.iter().any(|queue| queue.1 == me) {
            if !self.has_delivered(graph, hand) {
                return None;
            }
            hand.done = true;
            self.steps.taken();
        }
        if me != self.owner {
            return Some(Kept::default());
        }
        if !self.steps.is_open(1) {
            return None;
        }
        let left = self.kept(graph);
        let Some(gives) = hand.gives else {
            let longest = match left {
                0 => Duration::ZERO,
                _ => graph.now().since(*lock(&self.since)),
            };
            hand.deadline = Deadline::default();
            hand.gives = Some(Kept {
                packets: left,
                longest,
            });
            self.keep(graph, "off");
            return None;
        };
        // What is left after that goes first all the same.
        let limit = self.around.table.limit();
        (left == 0 || hand.deadline.is_past(graph, limit)).then_some(gives)
    }

    /// Whether what came by this worker's old queues has arrived, or its time is over.
    fn has_delivered(&self, graph: &mut Graph, hand: &mut Hand) -> bool {
        let now = graph.now();
        if now.since(*hand.begun.get_or_insert(now)) < INSIDE {
            return false;
        }
        if !std::mem::replace(&mut hand.marked, true) {
            let me = graph.worker();
            for (queue, _) in self.queues.iter().filter(|queue| queue.1 == me) {
                // Who has no copy any more, or no such queue, has nothing to deliver.
                let _ = graph.write(self.node, self.drain.0, &queue.to_string());
            }
        }
        if hand.sent.is_none() {
            let left = graph.read(self.node, self.drain.1, "");
            if left.is_none_or(|left| left.is_ok_and(|left| left.is_empty())) {
                let workers = graph.plan().workers;
                let all = |s: &mut dyn Steering| (0..workers).map(|to| s.sent(to)).collect();
                let each = self.around.steers.iter();
                let each = each.map(|&node| graph.steering(node, all));
                hand.sent = Some(each.map(Option::unwrap_or_default).collect());
            }
        }
        let arrived = hand.sent.as_ref().is_some_and(|sent| {
            let mut each = self.around.steers.iter().zip(sent);
            each.all(|(&node, sent)| {
                let there = graph.steering(node, |s| {
                    let mut each = sent.iter().enumerate();
                    each.all(|(worker, &sent)| s.has_arrived(worker, sent))
                });
                there.unwrap_or(true)
            })
        });
        let limit = self.around.table.limit().saturating_mul(STALLED);
        if !arrived && hand.deadline.is_past(graph, limit) {
            self.late.store(true, Relaxed);
            return true;
        }
        arrived
    }
}
