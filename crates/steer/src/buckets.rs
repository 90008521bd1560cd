//! Moves buckets between workers, with the state of their flows.
//!
//! Buckets are moved per old owner:
//!
//! 1. Hold: every Steer of the table holds new packets of the buckets. It waits until the old owner has taken all
//!    earlier packets from its rings. If the old owner stalls, the move is cancelled and held packets go to it,
//!    because packets must be where the state of their flow is.
//! 2. Drain: the earlier packets leave all elements downstream, stage by stage (a queue, the burst of a sender). This
//!    takes a bounded time; an element that exceeds it is reported.
//! 3. Transfer: the old owner gives up the state of the buckets, and the new one takes it.
//! 4. Release: held packets go to the new owner first, then new ones.

use super::dependents::Dependents;
use super::graph::{Marks, Sent, Shard, give_buckets, steering, take_buckets};
use super::hand_over::{Ask, Change, Ends, HandOver, Outcome, Step, is_past};
use super::{Held, Table, Tables};
use engine::clock::Time;
use engine::graph::Graph;
use engine::handler::AskError;
use engine::plan::Plan;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use sync::Lock;

/// Time limit for a worker to empty its rings, in multiples of the table's limit. The size of the rings bounds the
/// time that is needed.
pub(crate) const STALL_LIMITS: u32 = 20;

/// Result of a move.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoveResult {
    /// Number of buckets that have another owner now.
    pub buckets: usize,
    /// Packets that had to wait, including those that still wait.
    pub held: Held,
    /// Number of buckets that could not be moved: the old owner had not taken earlier packets, or the new owner had
    /// not taken the waiting ones.
    pub unmoved: usize,
    /// Elements that still held earlier packets when the table's limit was reached: later packets may overtake these.
    pub late: Vec<String>,
}

impl std::fmt::Display for MoveResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} buckets moved; {}", self.buckets, self.held)?;
        if self.unmoved > 0 {
            let stay = self.unmoved;
            write!(f, "; {stay} stay, as a worker is behind with its packets")?;
        }
        if self.held.waiting > 0 {
            write!(f, "; {} packets still wait", self.held.waiting)?;
        }
        if !self.late.is_empty() {
            write!(f, "; still held packets of before: {}", self.late.join(" "))?;
        }
        Ok(())
    }
}

/// Parses buckets and their new owner from `0-3 7 1`: the last number is the worker.
pub(crate) fn parse_move(text: &str) -> Result<(Vec<u16>, usize), String> {
    let wrong = || format!("buckets and a worker are expected, such as `0-3 7 1`, not `{text}`");
    let (buckets, worker) = text.trim().rsplit_once(' ').ok_or_else(wrong)?;
    let worker = worker.parse().map_err(|_| wrong())?;
    let mut all = Vec::new();
    for word in buckets.split_whitespace() {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        match (first.parse::<u16>(), last.parse::<u16>()) {
            (Ok(first), Ok(last)) if first <= last => all.extend(first..=last),
            _ => return Err(wrong()),
        }
    }
    Ok((all, worker))
}

/// Moves buckets of a table to worker `to`. The table is given by its name or by an element that steers by it.
/// Meanwhile the caller must not move other buckets of the table or replace the plan.
pub fn move_buckets(
    ask: &impl Ask,
    plan: &Plan,
    table: &str,
    buckets: &[u16],
    to: usize,
) -> Result<MoveResult, AskError> {
    let around = Dependents::find(plan, table)
        .ok_or_else(|| AskError::NoElement(format!("there is no table and no Steer `{table}`")))?;
    if around.table.workers().is_empty() {
        // After the start, buckets are assigned only when the workers have built their graphs.
        ask.run_until_all(&around.workers, Duration::ZERO, |_, _: &mut ()| Some(()))?;
    }
    around.wait_for_release(ask)?;
    let mut moved = MoveResult::default();
    let mut late = BTreeSet::new();
    for (owner, buckets) in around.check(buckets, to)? {
        let count = buckets.len();
        if moved.held.waiting > 0 {
            moved.unmoved += count;
            continue;
        }
        let (outcome, held) = hand_over(ask, &around, owner, to, buckets, &mut late)?;
        match outcome {
            Outcome::Cancelled => moved.unmoved += count,
            _ => moved.buckets += count,
        }
        moved.held = moved.held.with(held);
    }
    let names = late.into_iter();
    moved.late = names.map(|node| plan.elements[node].name.clone()).collect();
    Ok(moved)
}

/// Hands over the buckets of one owner.
fn hand_over(
    ask: &impl Ask,
    around: &Dependents,
    owner: usize,
    to: usize,
    buckets: Vec<u16>,
    late: &mut BTreeSet<usize>,
) -> Result<(Outcome, Held), AskError> {
    let table = &around.table;
    let limit = table.limit();
    let all = |what, ends| Step {
        what,
        who: around.workers.to_vec(),
        ends,
    };
    let one = |what, worker, ends| Step {
        what,
        who: vec![worker],
        ends,
    };
    let mut steps = vec![all(
        Part::Hold,
        Ends::OrCancel(limit.saturating_mul(STALL_LIMITS)),
    )];
    // One drain more than there are stages, because elements that hold packets only sometimes are not counted as
    // stages.
    steps.extend((0..=around.stages).map(|_| all(Part::Drain, Ends::OrTimeout(limit))));
    steps.push(one(Part::Give, owner, Ends::Immediate));
    steps.push(one(Part::Take, to, Ends::ChangesOwner));
    steps.push(all(Part::Release, Ends::OrTimeout(limit)));
    let mut parties = around.workers.to_vec();
    parties.sort_by_key(|&worker| worker != owner);
    let buckets = Buckets {
        dependents: around.clone(),
        owner,
        to,
        buckets,
        state: Lock::default(),
        late: Lock::default(),
        held: Lock::default(),
    };
    let hand_over = HandOver::new(buckets, parties, steps);
    table.settled(false);
    let outcome = hand_over.run(ask)?;
    let buckets = hand_over.change();
    if outcome != Outcome::Cancelled {
        table.set_owner(&buckets.buckets, to);
        late.append(&mut buckets.late.lock());
    }
    let held = match outcome {
        Outcome::Done => *buckets.held.lock(),
        _ => around.await_held(ask)?,
    };
    table.settled(held.waiting == 0);
    Ok((outcome, held))
}

/// Buckets of one owner, during their move.
struct Buckets {
    dependents: Dependents,
    owner: usize,
    to: usize,
    buckets: Vec<u16>,
    /// State of flows, between the old owner and the new one.
    state: Lock<Vec<Shard>>,
    /// Elements that still held earlier packets at the time limit.
    late: Lock<BTreeSet<usize>>,
    /// Number of packets that workers have held.
    held: Lock<Held>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Hold,
    Drain,
    Give,
    Take,
    Release,
}

/// State of a worker between attempts at a step.
#[derive(Default)]
struct Memory {
    /// Number of packets sent to the old owner before the hold began.
    sent: Option<Sent>,
    /// Marks of the packets that were held downstream when the step began.
    marks: Option<Marks>,
    /// True if the time limit has passed.
    late: bool,
    released: bool,
}

impl Buckets {
    fn note_held(&self, held: Held) {
        let mut all = self.held.lock();
        *all = all.with(held);
    }
}

impl Change for Buckets {
    type Step = Part;
    type Memory = Memory;

    fn take(&self, step: Part, graph: &mut Graph, memory: &mut Memory) -> bool {
        let (steers, downstream_nodes) =
            (&self.dependents.steers, &self.dependents.downstream_nodes);
        match step {
            Part::Hold => {
                let sent = memory.sent.get_or_insert_with(|| {
                    for &node in steers.iter() {
                        steering(graph, node, |s| s.hold(&self.buckets));
                    }
                    Sent::now(graph, steers, self.owner..self.owner + 1)
                });
                sent.has_arrived(graph)
            }
            Part::Drain => {
                let marks = &mut memory.marks;
                let marks = marks.get_or_insert_with(|| Marks::now(graph, downstream_nodes));
                let done = memory.late || marks.have_passed(graph);
                if done {
                    memory.marks = None;
                }
                done
            }
            Part::Give => {
                *self.state.lock() = give_buckets(graph, downstream_nodes, &self.buckets);
                true
            }
            Part::Take => {
                take_buckets(graph, std::mem::take(&mut self.state.lock()));
                true
            }
            Part::Release => {
                if !std::mem::replace(&mut memory.released, true) {
                    self.dependents.release_here(graph, &self.buckets, self.to);
                }
                let held = self.dependents.held_here(graph);
                if held.waiting == 0 {
                    self.note_held(held);
                }
                held.waiting == 0
            }
        }
    }

    fn on_timeout(&self, step: Part, graph: &mut Graph, memory: &mut Memory) {
        if step == Part::Release {
            self.note_held(self.dependents.held_here(graph));
        }
        if let Some(marks) = memory.marks.take() {
            memory.late = true;
            self.late.lock().extend(marks.nodes());
        }
    }

    fn end(&self, graph: &mut Graph, has_moved: bool) {
        if has_moved {
            return self.dependents.release_here(graph, &self.buckets, self.to);
        }
        if graph.worker() == self.owner {
            take_buckets(graph, std::mem::take(&mut self.state.lock()));
        }
        self.dependents
            .release_here(graph, &self.buckets, self.owner);
    }
}

impl Dependents {
    /// Releases buckets on this worker.
    fn release_here(&self, graph: &mut Graph, buckets: &[u16], to: usize) {
        for &node in &*self.steers {
            steering(graph, node, |s| s.release(buckets, to));
        }
    }

    /// Number of packets that this worker holds, and has held.
    fn held_here(&self, graph: &mut Graph) -> Held {
        let each = self.steers.iter();
        let each = each.filter_map(|&node| steering(graph, node, |s| s.held()));
        each.fold(Held::default(), Held::with)
    }

    /// Waits until no worker holds a packet, at most for the table's limit. Returns the numbers of held packets.
    fn await_held(&self, ask: &impl Ask) -> Result<Held, AskError> {
        let (around, limit) = (self.clone(), self.table.limit());
        let held = ask.run_until_all(
            &self.workers,
            limit,
            move |graph, since: &mut Option<Time>| {
                let held = around.held_here(graph);
                (held.waiting == 0 || is_past(since, graph, limit)).then_some(held)
            },
        )?;
        Ok(held.into_iter().fold(Held::default(), Held::with))
    }

    /// Waits until packets held since an earlier move have been released. Call it before another move.
    pub(crate) fn wait_for_release(&self, ask: &impl Ask) -> Result<(), AskError> {
        if self.table.is_settled() {
            return Ok(());
        }
        let held = self.await_held(ask)?;
        self.table.settled(held.waiting == 0);
        if held.waiting == 0 {
            return Ok(());
        }
        let name = self.table.name();
        let why = format!("packets of an earlier move of `{name}` still wait for their workers");
        Err(AskError::Refused(why))
    }
}

/// The bucket tables of a plan that steering elements use, by name.
pub fn tables(plan: &Plan) -> Vec<Arc<Table>> {
    let used = |table: &Arc<Table>| {
        let mut each = plan.elements.iter().filter_map(super::table_of);
        each.any(|t| Arc::ptr_eq(&t, table))
    };
    let all = plan.router_wide::<Tables>().all();
    all.into_iter().filter(used).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_is_written_as_buckets_and_a_worker() {
        assert_eq!(parse_move("0-2 7 1"), Ok((vec![0, 1, 2, 7], 1)));
        assert!(parse_move("3").is_err() && parse_move("3-1 0").is_err());
        assert!(parse_move("a 0").unwrap_err().contains("such as"));
    }
}
