//! Hands a port's receive queue from worker to worker while packets come: none is lost, and none overtakes
//! another.
//!
//! The new worker looks out for the queue. The old one rests from it until what it has received has gone on to the owners of
//! its buckets, for a short time at most, and lets go of it by itself: nobody need answer for that, so the queue is somebody's
//! whatever fails. What comes meanwhile waits in the port.

use super::hand_over::Deadline;
use super::moving::Ask;
use super::{LIMIT, Steering, lock};
use crate::graph::Graph;
use crate::handler_info::AskError;
use crate::handler_info::Use;
use crate::plan::Plan;
use std::sync::{Arc, Mutex};

/// What a worker has sent, by element that steers and by worker.
type Sent = Vec<Vec<usize>>;

/// How far the old worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It has the queue.
    Has,
    /// It has let go of it; what it had received was taken in time, or not.
    Gone(bool),
    /// It is to keep the queue: who asked has given up.
    Keeps,
}

/// A queue of a receiver, and who is to let go of it.
struct Hand {
    node: usize,
    hold: usize,
    pump: usize,
    queue: usize,
    steers: Vec<usize>,
    stage: Mutex<Stage>,
}

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

/// The number of a handler of an element.
pub(crate) fn handler(plan: &Plan, node: usize, name: &str, wanted: Use) -> Option<usize> {
    let handlers = (plan.elements[node].class.handlers)();
    let fits = |h: &crate::element::handler::HandlerInfo| h.name == name && h.access.allows(wanted);
    handlers.iter().position(fits)
}

/// Has worker `to` poll a queue of the receiver `element`. Nobody else may move queues or buckets, or replace the
/// plan, meanwhile. Returns whether all was taken in time that the old worker had received; if not, packets of
/// before may come behind later ones. If it fails the queue stays where it is.
pub fn move_queue(
    ask: &impl Ask,
    plan: &Plan,
    element: &str,
    queue: usize,
    to: usize,
) -> Result<bool, AskError> {
    let none = || AskError::NoElement(format!("there is no receiver `{element}`"));
    let node = plan.find(element).ok_or_else(none)?;
    let owner = || {
        let owners = owners(plan, node).ok_or_else(none)?;
        let owned = owners.into_iter().find(|owned| owned.0 == queue);
        Ok(owned.map(|owned| owned.1))
    };
    let (Some(hold), Some(pump)) = (
        handler(plan, node, "hold", Use::Write),
        handler(plan, node, "pump", Use::Write),
    ) else {
        return Err(none());
    };
    let mut from = owner()?;
    if from.is_none() {
        // Workers that have just been started may not have built their graphs: they answer when they have.
        ask.each(|_| ())?;
        from = owner()?;
    }
    let from = from.ok_or_else(|| {
        let why = format!("`{element}` has no queue {queue}");
        AskError::Refused(why)
    })?;
    if from == to {
        return Ok(true);
    }
    let workers = &plan.elements[node].workers;
    if !workers.contains(&to) {
        let may = super::ranges(workers);
        let why = format!("worker {to} has no copy of `{element}`: workers {may} have");
        return Err(AskError::Refused(why));
    }
    let steers = |&n: &usize| super::table_of(&plan.elements[n]).is_some();
    let hand = Arc::new(Hand {
        node,
        hold,
        pump,
        queue,
        steers: (0..plan.elements.len()).filter(steers).collect(),
        stage: Mutex::new(Stage::Has),
    });
    let pumps = |worker, owner| {
        let hand = Arc::clone(&hand);
        let told = ask.one(worker, move |graph| hand.pumps(graph, owner));
        told?.map_err(AskError::Refused)
    };
    // It may have been given the queue a moment ago.
    pumps(from, from)?;
    let told = pumps(to, to).and_then(|()| {
        let works = Arc::clone(&hand);
        let done = ask.one_until(from, LIMIT, move |graph, state| {
            works.work(graph, state, to)
        });
        done.or_else(|why| hand.end().ok_or(why))
    });
    if told.is_err() {
        // It need not look out any more. If it does not answer, it hears that when it does.
        let _ = pumps(to, from);
    }
    told
}

impl Hand {
    /// Says to a worker who polls the queue.
    fn pumps(&self, graph: &mut Graph, owner: usize) -> Result<(), String> {
        self.write(graph, self.pump, &format!("{} {owner}", self.queue))
    }

    fn write(&self, graph: &mut Graph, handler: usize, value: &str) -> Result<(), String> {
        let done = graph.write(self.node, handler, value);
        done.unwrap_or_else(|| Err("the configuration was replaced meanwhile".to_owned()))
    }

    /// Has the old worker keep the queue. If it has let go of it already: whether packets were in time.
    fn end(&self) -> Option<bool> {
        let mut stage = lock(&self.stage);
        if let Stage::Gone(in_time) = *stage {
            return Some(in_time);
        }
        *stage = Stage::Keeps;
        None
    }

    /// What the old worker does between batches, until the queue is `to`'s or stays: it rests from the queue, waits until
    /// all is taken that it has sent to others, and lets go. Returns whether that was in time.
    fn work(
        &self,
        graph: &mut Graph,
        (sent, deadline): &mut (Option<Sent>, Deadline),
        to: usize,
    ) -> Option<bool> {
        if *lock(&self.stage) == Stage::Has && sent.is_none() {
            let _ = self.write(graph, self.hold, &self.queue.to_string());
        }
        let workers = graph.plan().workers;
        let sent = sent.get_or_insert_with(|| {
            let all = |s: &mut dyn Steering| (0..workers).map(|to| s.sent(to)).collect();
            let each = self.steers.iter().map(|&n| graph.steering(n, all));
            each.map(Option::unwrap_or_default).collect()
        });
        let arrived = self.steers.iter().zip(sent).all(|(&n, sent)| {
            let there = graph.steering(n, |s| {
                let mut each = sent.iter().enumerate();
                each.all(|(worker, &sent)| s.has_arrived(worker, sent))
            });
            there.unwrap_or(true)
        });
        let mut stage = lock(&self.stage);
        let owner = match *stage {
            Stage::Keeps => graph.worker(),
            _ if arrived || deadline.is_past(graph, LIMIT) => to,
            _ => return None,
        };
        if owner == to {
            *stage = Stage::Gone(arrived);
        }
        let _ = self.pumps(graph, owner);
        Some(arrived)
    }
}
