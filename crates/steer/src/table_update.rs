//! Changes a port's indirection table so that it follows buckets that have changed worker.
//!
//! A port that is told to put a bucket's packets into another queue still has earlier packets in the old queue, or on
//! their way from its worker to others. So table entries are changed per owner:
//!
//! 1. Hold: the owner keeps the packets of those queues that will receive the buckets, without sorting them. Packets
//!    from other workers pass.
//! 2. The port gets its new table.
//! 3. Drain: the workers of the old queues receive the packets that wait there, and send them to the owners. Then
//!    they wait, for a bounded time, until all workers have taken these packets.
//! 4. Release: the packets that the owner kept continue.
//!
//! The whole queue is kept, because a port need not sort as Steer does: it may ignore tunnels, hash by addresses
//! only, or have refused a rule. So a flow of any bucket may change queue when an entry of the port's table changes.
//!
//! Only the owner keeps packets, so a worker that empties an old queue never waits for a hold.

use super::Held;
use super::buckets::STALL_LIMITS;
use super::dependents::Dependents;
use super::extensions::port_table_of;
use super::graph::{Sent, queues};
use super::hand_over::{Ask, Change, Ends, HandOver, Step};
use super::port_table::{Misdelivered, PortTable};
use engine::clock::Time;
use engine::graph::Graph;
use engine::handler::AskError;
use engine::plan::Plan;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use sync::Lock;

/// Time that a device may need to deliver packets that it sorted by its old table.
const DEVICE_LATENCY: Duration = Duration::from_micros(100);
/// Time between two queries to a port about the progress of a change.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// Result of changing a port's table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FollowResult {
    /// Number of buckets whose packets now arrive by a queue of their owner.
    pub buckets: usize,
    /// Packets that had to wait for the change.
    pub held: Held,
    /// True if an old queue did not deliver its packets in time: later packets may overtake these.
    pub late: bool,
}

impl std::fmt::Display for FollowResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the port follows {} buckets; {}",
            self.buckets, self.held
        )?;
        match self.late {
            true => write!(f, "; packets of before were late"),
            false => Ok(()),
        }
    }
}

/// The receivers of a plan whose ports have indirection tables, by element.
pub fn port_tables(plan: &Plan) -> Vec<(usize, Arc<dyn PortTable>)> {
    let each = plan.elements.iter().enumerate();
    each.filter_map(|(node, e)| Some((node, port_table_of(e)?)))
        .collect()
}

/// Changes the port of receiver `element` so that misdelivered ones of `buckets` arrive at their owners; `None`: all
/// buckets. Meanwhile the caller must not move queues or buckets, or replace the plan.
pub fn follow(
    ask: &impl Ask,
    plan: &Plan,
    element: &str,
    buckets: Option<&[u16]>,
) -> Result<FollowResult, AskError> {
    let none = || {
        AskError::NoElement(format!(
            "there is no receiver `{element}` that sorts packets"
        ))
    };
    let node = plan.find(element).ok_or_else(none)?;
    let port = port_table_of(&plan.elements[node]).ok_or_else(none)?;
    let table = port.table().ok_or_else(none)?;
    let around = Dependents::find(plan, table.name()).ok_or_else(none)?;
    if !port.is_done() {
        let why = "the port is still busy with earlier requests: try again";
        return Err(AskError::Refused(why.to_owned()));
    }
    around.wait_for_release(ask)?;
    let mut by_owner: BTreeMap<usize, Vec<Misdelivered>> = BTreeMap::new();
    let misdelivered = port.misdelivered();
    let named = |one: &&Misdelivered| buckets.is_none_or(|buckets| buckets.contains(&one.bucket));
    let entries: BTreeSet<usize> = misdelivered
        .iter()
        .filter(named)
        .map(|one| one.entry)
        .collect();
    for one in misdelivered {
        if entries.contains(&one.entry) {
            by_owner.entry(one.owner).or_default().push(one);
        }
    }
    let mut followed = FollowResult::default();
    for (owner, misdelivered) in by_owner {
        let entries = Entries {
            dependents: around.clone(),
            node,
            owner,
            to: misdelivered.iter().map(|one| one.to).collect(),
            queues: misdelivered.iter().map(|one| one.from).collect(),
            late: AtomicBool::new(false),
            since: Lock::default(),
            held: Lock::default(),
        };
        let (held, late) = entries.follow(ask, &*port, &misdelivered)?;
        followed.buckets += misdelivered.len();
        followed.held = followed.held.with(held);
        followed.late |= late;
    }
    Ok(followed)
}

/// Entries of a port's table that will lead to one owner's queues.
struct Entries {
    dependents: Dependents,
    node: usize,
    owner: usize,
    /// The owner's queues that will receive the packets.
    to: BTreeSet<usize>,
    /// Queues that received the packets before, each with its worker.
    queues: BTreeSet<(usize, usize)>,
    late: AtomicBool,
    /// Time at which the hold of packets began.
    since: Lock<Time>,
    held: Lock<Held>,
}

#[derive(Clone, Copy)]
enum Part {
    /// Packets of the old queues have arrived.
    Drain,
    Release,
    /// The kept packets have been released.
    Gone,
}

/// State of a worker between attempts at a step.
#[derive(Default)]
struct Memory {
    begun: Option<Time>,
    marked: bool,
    /// Packets sent to other workers when the old queues were empty.
    sent: Option<Sent>,
}

impl Entries {
    /// Hands over the entries. Returns the number of held packets, and true if a worker or the port was late.
    fn follow(
        self,
        ask: &impl Ask,
        port: &dyn PortTable,
        misdelivered: &[Misdelivered],
    ) -> Result<(Held, bool), AskError> {
        let (owner, limit) = (self.owner, self.dependents.table.limit());
        let time_limit = limit.saturating_mul(STALL_LIMITS);
        let workers: BTreeSet<usize> = self.queues.iter().map(|queue| queue.1).collect();
        let step = |what, who, ends| Step { what, who, ends };
        let steps = vec![
            step(
                Part::Drain,
                workers.iter().copied().collect(),
                Ends::OrTimeout(time_limit),
            ),
            step(Part::Release, vec![owner], Ends::ChangesOwner),
            // Packets that are still held then leave first.
            step(Part::Gone, vec![owner], Ends::OrTimeout(limit)),
        ];
        let parties = std::iter::once(owner).chain(workers).collect();
        let hand_over = HandOver::new(self, parties, steps);
        let this = Arc::clone(&hand_over);
        let holds = ask.run_on_one(owner, move |graph| this.change().hold(graph));
        let told = holds.and_then(|()| port.redirect(misdelivered).map_err(AskError::Refused));
        if let Err(why) = told {
            hand_over.end(ask, false);
            return Err(why);
        }
        let begun = Instant::now();
        while !port.is_done() && begun.elapsed() < time_limit {
            std::thread::sleep(POLL_INTERVAL);
        }
        let entries = hand_over.change();
        if !port.is_done() {
            entries.late.store(true, Relaxed);
        }
        hand_over.run(ask)?;
        Ok((*entries.held.lock(), entries.late.load(Relaxed)))
    }

    fn hold(&self, graph: &mut Graph) {
        *self.since.lock() = graph.now();
        self.keep_packets(graph, true);
    }

    /// Keeps packets of the new queues, or releases them if `on` is false. A worker without a copy keeps nothing.
    fn keep_packets(&self, graph: &mut Graph, on: bool) {
        queues(graph, self.node, |queues| {
            self.to
                .iter()
                .for_each(|&queue| queues.keep_packets(queue, on));
        });
    }

    /// Number of packets that this worker keeps.
    fn kept_packets(&self, graph: &mut Graph) -> usize {
        queues(graph, self.node, |queues| queues.kept_packets()).unwrap_or(0)
    }

    /// True if packets of this worker's old queues have arrived.
    fn is_drained(&self, graph: &mut Graph, memory: &mut Memory) -> bool {
        let now = graph.now();
        if now.since(*memory.begun.get_or_insert(now)) < DEVICE_LATENCY {
            return false;
        }
        let me = graph.worker();
        if memory.sent.is_none() {
            // A worker without a copy, or without such a queue, has nothing to deliver.
            let drained = queues(graph, self.node, |queues| {
                if !std::mem::replace(&mut memory.marked, true) {
                    let ours = self.queues.iter().filter(|queue| queue.1 == me);
                    ours.for_each(|queue| queues.drain(queue.0));
                }
                queues.is_drained()
            });
            if drained.unwrap_or(true) {
                let workers = graph.plan().workers;
                memory.sent = Some(Sent::now(graph, &self.dependents.steers, 0..workers));
            }
        }
        let sent = memory.sent.as_ref();
        sent.is_some_and(|sent| sent.has_arrived(graph))
    }
}

impl Change for Entries {
    type Step = Part;
    type Memory = Memory;

    fn take(&self, step: Part, graph: &mut Graph, memory: &mut Memory) -> bool {
        match step {
            Part::Drain => self.is_drained(graph, memory),
            Part::Release => {
                let kept = self.kept_packets(graph);
                if kept > 0 {
                    *self.held.lock() = Held {
                        waiting: 0,
                        packets: kept as u64,
                        longest: graph.now().since(*self.since.lock()),
                    };
                }
                self.keep_packets(graph, false);
                true
            }
            Part::Gone => self.kept_packets(graph) == 0,
        }
    }

    fn on_timeout(&self, step: Part, _: &mut Graph, _: &mut Memory) {
        if matches!(step, Part::Drain) {
            self.late.store(true, Relaxed);
        }
    }

    fn end(&self, graph: &mut Graph, _: bool) {
        if graph.worker() == self.owner {
            self.keep_packets(graph, false);
        }
    }
}
