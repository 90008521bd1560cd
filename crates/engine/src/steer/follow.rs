//! Has a port's own table follow buckets that have changed worker, while packets come: none is lost, and none of a flow
//! overtakes another.
//!
//! A port that has been told gives later packets of a bucket to another queue, but earlier ones still wait in the queue by
//! which they came before, or are on their way from its worker to the owner. So, for the buckets of one owner after those of another:
//!
//! 1. Park: the owner lets packets of the buckets wait that come by its own queues. Those that others send to it go on.
//! 2. The port is told.
//! 3. The workers by which packets came before take from those queues what waits there, and wait until the owner has
//!    taken what they have sent to it, for a bounded time.
//! 4. Open: what waits at the owner goes on.
//!
//! Only the owner parks, so whoever empties an old queue never rests for that.

use super::around::Around;
use super::hand_over::Deadline;
use super::moving::Ask;
use super::pumps::handler;
use super::steps::Steps;
use super::{Parked, Table, lock};
use crate::clock::Time;
use crate::graph::Graph;
use crate::handler::Use;
use crate::plan::Plan;
use crate::router::AskError;
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
    each.filter_map(|(node, e)| Some((node, (e.class.port_table)(&e.config)?)))
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
    let port = (receiver.class.port_table)(&receiver.config).ok_or_else(none)?;
    let table = port.table().ok_or_else(none)?;
    let around = Around::find(plan, table.name()).ok_or_else(none)?;
    let handler = |wanted| handler(plan, node, "drain", wanted).ok_or_else(none);
    let (drain, drains) = (handler(Use::Write)?, handler(Use::Read)?);
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
            drains,
            owner,
            buckets: astray.iter().map(|a| a.bucket).collect(),
            steps: Steps::new([workers_of(&queues)]),
            queues,
            late: AtomicBool::new(false),
            over: Mutex::new(false),
        });
        let parked = turn.run(ask, plan.workers, &*port, &astray)?;
        followed.buckets += astray.len();
        followed.parked += parked.packets;
        followed.longest = followed.longest.max(parked.longest);
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
    drain: usize,
    drains: usize,
    owner: usize,
    buckets: Arc<[u16]>,
    /// Queues by which packets came before, with their workers.
    queues: BTreeSet<(usize, usize)>,
    /// What came by the old queues has arrived.
    steps: Steps,
    late: AtomicBool,
    /// Workers need do no more for it.
    over: Mutex<bool>,
}

/// Where one worker stands.
#[derive(Default)]
struct Hand {
    begun: Option<Time>,
    marked: bool,
    /// What its Steers had sent to the owner when the old queues had delivered all.
    sent: Option<Vec<usize>>,
    deadline: Deadline,
    done: bool,
    opened: bool,
}

impl Turn {
    fn run(
        self: &Arc<Turn>,
        ask: &impl Ask,
        workers: usize,
        port: &dyn PortTable,
        astray: &[Astray],
    ) -> Result<Parked, AskError> {
        let around = &self.around;
        around.table.settled(false);
        let this = Arc::clone(self);
        let parks = ask.one(self.owner, move |graph| this.park(graph));
        let told = parks.and_then(|()| {
            let told = port.redirect(astray);
            told.map_err(AskError::Refused)
        });
        let opened = told.and_then(|()| {
            let patience = around.table.limit().saturating_mul(STALLED);
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
        match opened {
            Ok(parked) => Ok(around.waited(parked)),
            Err(why) => {
                around.tell_open(ask, &self.buckets, self.owner, workers);
                Err(why)
            }
        }
    }

    fn park(&self, graph: &mut Graph) {
        for &node in &*self.around.steers {
            graph.steering(node, |steering| steering.park(&self.buckets));
        }
    }

    /// What a worker can do now. Returns what has waited there, when all is done.
    fn work(&self, graph: &mut Graph, hand: &mut Hand) -> Option<Parked> {
        if *lock(&self.over) {
            return Some(Parked::default());
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
            return Some(Parked::default());
        }
        if !self.steps.is_open(1) {
            return None;
        }
        if !std::mem::replace(&mut hand.opened, true) {
            hand.deadline = Deadline::default();
            self.around.open_here(graph, &self.buckets, self.owner);
        }
        self.around.settle_here(graph, &mut hand.deadline)
    }

    /// Whether what came by this worker's old queues has arrived at the owner, or its time is over.
    fn has_delivered(&self, graph: &mut Graph, hand: &mut Hand) -> bool {
        let now = graph.now();
        if now.since(*hand.begun.get_or_insert(now)) < INSIDE {
            return false;
        }
        if !std::mem::replace(&mut hand.marked, true) {
            let me = graph.worker();
            for (queue, _) in self.queues.iter().filter(|queue| queue.1 == me) {
                // Who has no copy any more, or no such queue, has nothing to deliver.
                let _ = graph.write(self.node, self.drain, &queue.to_string());
            }
        }
        if hand.sent.is_none() {
            let left = graph.read(self.node, self.drains, "");
            if left.is_none_or(|left| left.is_ok_and(|left| left.is_empty())) {
                let sent = |&node: &usize| graph.steering(node, |s| s.sent(self.owner));
                let each = self.around.steers.iter().map(sent);
                hand.sent = Some(each.map(Option::unwrap_or_default).collect());
            }
        }
        let arrived = hand.sent.as_ref().is_some_and(|sent| {
            let mut each = self.around.steers.iter().zip(sent);
            each.all(|(&node, &sent)| {
                let there = graph.steering(node, |s| s.has_arrived(self.owner, sent));
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
