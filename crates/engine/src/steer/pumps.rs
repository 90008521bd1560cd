//! Hands a port's receive queue from worker to worker while packets come: none is lost, and none overtakes
//! another.
//!
//! The old worker rests from the queue, and what it has received goes on to the owners of its buckets. When they
//! have taken it, the new worker begins. What comes meanwhile waits in the port.

use super::hand_over::Deadline;
use super::moving::Ask;
use super::{LIMIT, Steering};
use crate::graph::Graph;
use crate::handler::Use;
use crate::plan::Plan;
use crate::router::AskError;
use std::sync::Arc;

/// What a worker has sent, by element that steers and by worker.
type Sent = Vec<Vec<usize>>;

/// Which worker has which queue, by the element that receives; what a plan's receivers say.
pub fn pumps(plan: &Plan) -> Vec<(usize, Vec<(usize, usize)>)> {
    let receives = |&node: &usize| plan.elements[node].device().is_some_and(|d| d.receives);
    let nodes = (0..plan.elements.len()).filter(receives);
    nodes
        .filter_map(|node| Some((node, owners(plan, node)?)))
        .collect()
}

/// Queues of a receiver with their workers; `None` if it cannot say.
fn owners(plan: &Plan, node: usize) -> Option<Vec<(usize, usize)>> {
    let handler = handler(plan, node, "pump", Use::Read)?;
    let text = plan.elements[node].control(handler, "").ok()?;
    let pair = |line: &str| {
        let (queue, worker) = line.split_once(' ')?;
        Some((queue.parse().ok()?, worker.parse().ok()?))
    };
    text.lines().map(pair).collect()
}

fn handler(plan: &Plan, node: usize, name: &str, wanted: Use) -> Option<usize> {
    let handlers = (plan.elements[node].class.handlers)();
    let fits = |h: &crate::handler::HandlerInfo| h.name == name && h.access.allows(wanted);
    handlers.iter().position(fits)
}

/// Has worker `to` poll a queue of the receiver `element`. Nobody else may move queues or buckets, or replace the
/// plan, meanwhile. Returns whether all was taken in time that the old worker had received; if not, packets of
/// before may come behind later ones.
pub fn move_queue(
    ask: &impl Ask,
    plan: &Plan,
    element: &str,
    queue: usize,
    to: usize,
) -> Result<bool, AskError> {
    let none = || AskError::NoElement(format!("there is no receiver `{element}`"));
    let node = plan.find(element).ok_or_else(none)?;
    // Workers that have just been started may not have built their graphs: they answer when they have.
    ask.each(|_| ())?;
    let from = owners(plan, node).ok_or_else(none)?;
    let (Some(hold), Some(pump)) = (
        handler(plan, node, "hold", Use::Write),
        handler(plan, node, "pump", Use::Write),
    ) else {
        return Err(none());
    };
    let Some(&(_, from)) = from.iter().find(|owned| owned.0 == queue) else {
        let why = format!("`{element}` has no queue {queue}");
        return Err(AskError::Refused(why));
    };
    if from == to {
        return Ok(true);
    }
    let workers = &plan.elements[node].workers;
    if !workers.contains(&to) {
        let may = super::ranges(workers);
        let why = format!("worker {to} has no copy of `{element}`: workers {may} have");
        return Err(AskError::Refused(why));
    }
    let steers = (0..plan.elements.len())
        .filter(|&n| (plan.elements[n].class.steers)(&plan.elements[n].config).is_some());
    let steers: Arc<[usize]> = steers.collect();
    let write = |worker, handler, value: String| {
        let done = ask.one(worker, move |graph| {
            let done = graph.write(node, handler, &value);
            done.unwrap_or_else(|| Err("the configuration was replaced meanwhile".to_owned()))
        });
        done?.map_err(AskError::Refused)
    };
    // The new worker looks out for it before the old one lets go, so it is somebody's at any time.
    let give = |owner| {
        let told = [to, from].map(|worker| write(worker, pump, format!("{queue} {owner}")));
        told.into_iter().collect::<Result<(), _>>()
    };
    let handed = write(from, hold, queue.to_string())
        .and_then(|()| wait_sent(ask, from, &steers, plan.workers))
        .and_then(|in_time| give(to).map(|()| in_time));
    if handed.is_err() {
        // It stays whose it was, behind what the new worker may have received of it. Who does not answer does so when it
        // can.
        let _ = write(to, hold, queue.to_string())
            .and_then(|()| wait_sent(ask, to, &steers, plan.workers));
        let _ = give(from);
    }
    handed
}

/// Waits until all is taken that a worker has sent to others; `false` if it was not in time.
fn wait_sent(
    ask: &impl Ask,
    from: usize,
    steers: &Arc<[usize]>,
    workers: usize,
) -> Result<bool, AskError> {
    let steers = Arc::clone(steers);
    let look = move |graph: &mut Graph, (sent, deadline): &mut (Option<Sent>, Deadline)| {
        if graph.worker() != from {
            return Some(true);
        }
        let sent = sent.get_or_insert_with(|| {
            let all = |s: &mut dyn Steering| (0..workers).map(|to| s.sent(to)).collect();
            let each = steers.iter().map(|&n| graph.steering(n, all));
            each.map(Option::unwrap_or_default).collect()
        });
        let arrived = steers.iter().zip(sent).all(|(&n, sent)| {
            let there = graph.steering(n, |s| {
                let mut each = sent.iter().enumerate();
                each.all(|(worker, &sent)| s.has_arrived(worker, sent))
            });
            there.unwrap_or(true)
        });
        (arrived || deadline.is_past(LIMIT)).then_some(arrived)
    };
    Ok(ask.until(LIMIT, look)?.into_iter().all(|arrived| arrived))
}
