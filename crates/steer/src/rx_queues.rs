//! Moves an RX queue of a port between workers.
//!
//! The new owner starts to wait for the queue. The old one holds the queue, for a bounded time, until its received
//! packets have reached the owners of their buckets, and then releases it. This needs no answer of another worker, so
//! the queue always has an owner, whatever fails. New packets wait in the port.

use super::extensions::ReceivesOfClass;
use super::graph::{Sent, queues};
use super::hand_over::{Ask, Change, Ends, HandOver, Step};
use super::table::LIMIT;
use engine::graph::Graph;
use engine::handler::AskError;
use engine::plan::Plan;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// For each receiver, its element number and pairs of queue and worker.
pub fn queue_owners(plan: &Plan) -> Vec<(usize, Vec<(usize, usize)>)> {
    let nodes = 0..plan.elements.len();
    nodes
        .filter_map(|node| Some((node, owners(plan, node)?)))
        .collect()
}

/// Queues of a receiver, each with its worker; `None` if the element is not a receiver.
fn owners(plan: &Plan, node: usize) -> Option<Vec<(usize, usize)>> {
    let element = &plan.elements[node];
    let class: &ReceivesOfClass = element.class.extension()?;
    Some((class.owners)(&element.config))
}

/// Makes worker `to` poll a queue of the receiver `element`. Meanwhile the caller must not move queues or buckets, or
/// replace the plan. Returns true if the packets that the old worker had received were taken in time; if not, later
/// packets may overtake them.
///
/// # Errors
/// A worker does not answer in time; the queue stays with its owner.
pub fn move_queue(
    ask: &impl Ask,
    plan: &Plan,
    element: &str,
    queue: usize,
    to: usize,
) -> Result<bool, AskError> {
    let none = || AskError::NoElement(format!("there is no receiver `{element}`"));
    let node = plan.find(element).ok_or_else(none)?;
    let workers = &plan.elements[node].workers;
    let owner = || {
        let owners = owners(plan, node).ok_or_else(none)?;
        let owned = owners.into_iter().find(|owned| owned.0 == queue);
        Ok(owned.map(|owned| owned.1))
    };
    let mut from = owner()?;
    if from.is_none() {
        // Workers that have just been started may not have built their graphs: they answer afterwards.
        ask.run_until_all(workers, Duration::ZERO, |_, _: &mut ()| Some(()))?;
        from = owner()?;
    }
    let from = from.ok_or_else(|| {
        let why = format!("`{element}` has no queue {queue}");
        AskError::Refused(why)
    })?;
    if from == to {
        return Ok(true);
    }
    if !workers.contains(&to) {
        let may = super::ranges(workers);
        let why = format!("worker {to} has no copy of `{element}`: workers {may} have");
        return Err(AskError::Refused(why));
    }
    let steers = |&n: &usize| super::table_of(&plan.elements[n]).is_some();
    let change = Queue {
        node,
        queue,
        from,
        to,
        steers: (0..plan.elements.len()).filter(steers).collect(),
        late: AtomicBool::new(false),
    };
    let step = |what, worker, ends| Step {
        what,
        who: vec![worker],
        ends,
    };
    let steps = vec![
        step(Part::Own, from, Ends::Immediate),
        step(Part::LookOut, to, Ends::Immediate),
        step(Part::Hold, from, Ends::OrTimeout(LIMIT)),
        step(Part::Release, from, Ends::ChangesOwner),
    ];
    let hand_over = HandOver::new(change, vec![from, to], steps);
    hand_over.run(ask)?;
    Ok(!hand_over.change().late.load(Relaxed))
}

/// A queue during its move.
struct Queue {
    node: usize,
    queue: usize,
    from: usize,
    to: usize,
    /// Elements that steer the packets of this queue.
    steers: Vec<usize>,
    late: AtomicBool,
}

#[derive(Clone, Copy)]
enum Part {
    /// The old owner has taken the queue: it may have been assigned only a moment ago.
    Own,
    LookOut,
    /// The old owner holds the queue until the packets that it has sent to others have arrived.
    Hold,
    Release,
}

impl Change for Queue {
    type Step = Part;
    type Memory = Option<Sent>;

    fn take(&self, step: Part, graph: &mut Graph, sent: &mut Option<Sent>) -> bool {
        let (node, queue) = (self.node, self.queue);
        match step {
            Part::Own | Part::LookOut => _ = queues(graph, node, |q| q.poll(queue)),
            Part::Hold => {
                let sent = sent.get_or_insert_with(|| {
                    queues(graph, node, |q| q.hold(queue));
                    let workers = graph.plan().workers;
                    Sent::now(graph, &self.steers, 0..workers)
                });
                return sent.has_arrived(graph);
            }
            Part::Release => _ = queues(graph, node, |q| q.release(queue, self.to)),
        }
        true
    }

    fn on_timeout(&self, _: Part, _: &mut Graph, _: &mut Option<Sent>) {
        self.late.store(true, Relaxed);
    }

    fn end(&self, graph: &mut Graph, has_moved: bool) {
        if has_moved {
            return;
        }
        let here = graph.worker() == self.from;
        queues(graph, self.node, |queues| match here {
            true => queues.poll(self.queue),
            false => queues.release(self.queue, self.from),
        });
    }
}
