//! Buckets move between the workers of a running router.

use super::Router;
use crate::element::Copies;
use crate::graph::Graph;
use crate::handler_info::AskError;
use crate::handler_info::Use;
use crate::plan::{Plan, PlanElement};
use crate::steer::{self, Ask, Followed, Moved};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

/// Refuses a reload after which flows would come to workers that do not have their state. The error is a sentence.
pub(super) fn keeps_flows(old: &Plan, new: &Plan) -> Result<(), String> {
    for now in &new.elements {
        let keeps = now.class.copies == Copies::Owner && steer::splits(now);
        let was = old.find(&now.name).map(|i| &old.elements[i]);
        let Some(was) = was.filter(|was| keeps && was.class.name == now.class.name) else {
            continue;
        };
        let sorted = |e: &PlanElement| e.sorter.as_ref().map(|sorter| sorter.kind());
        let same = match (sorted(was), sorted(now)) {
            (None, None) => was.workers == now.workers || now.workers.is_empty(),
            (was, now) => was == now,
        };
        if !same && let Some(owner) = was.workers.first() {
            let how = match was.sorter {
                Some(_) => "by the buckets that they are sorted into".to_owned(),
                None => format!("on worker {owner}"),
            };
            return Err(format!(
                "`{}` keeps flows {how} now, and would lose them: CLASSIFY, its KEY and BUCKETS, and CORES cannot change \
                before it by reload, the router must be started anew",
                now.name
            ));
        }
    }
    Ok(())
}

impl Ask for Router {
    fn until<S: Default + 'static, R: Send + 'static>(
        &self,
        patience: Duration,
        what: impl Fn(&mut Graph, &mut S) -> Option<R> + Send + Sync + 'static,
    ) -> Result<Vec<R>, AskError> {
        self.ask_until(patience, what)
    }

    fn one_until<S: Default + 'static, R: Send + 'static>(
        &self,
        worker: usize,
        patience: Duration,
        what: impl Fn(&mut Graph, &mut S) -> Option<R> + Send + Sync + 'static,
    ) -> Result<R, AskError> {
        self.ask_one_until(worker, patience, what)
    }

    fn one<R: Send + 'static>(
        &self,
        worker: usize,
        what: impl FnOnce(&mut Graph) -> R + Send + 'static,
    ) -> Result<R, AskError> {
        self.ask(worker, move |inside| what(inside.graph()))
    }
}

impl Router {
    /// Keeps buckets where they are, and the plan.
    pub(super) fn no_moves(&self) -> MutexGuard<'_, ()> {
        self.moving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a worker own these buckets of a table, named by itself or by an element that steers by it. It
    /// blocks until they have moved, about a millisecond. See [`steer`].
    pub fn move_buckets(&self, table: &str, buckets: &[u16], to: usize) -> Result<Moved, AskError> {
        let _moves = self.no_moves();
        steer::move_buckets(self, &self.plan(), table, buckets, to)
    }

    /// Before a reload: buckets of workers that may own none by the new plan go to others that have the state
    /// of flows, too.
    pub(super) fn leave_workers(&self, old: &Plan, new: &Plan) -> Result<(), AskError> {
        for table in steer::tables(old) {
            let steers = new.elements.iter().find(|e| {
                let theirs = steer::table_of(e);
                theirs.is_some_and(|theirs| Arc::ptr_eq(&theirs, &table))
            });
            let Some(element) = steers else { continue };
            let named = element.placement().workers;
            let may = named.unwrap_or_else(|| (0..new.workers).collect());
            let mut stay = table.workers();
            stay.retain(|worker| may.contains(worker));
            let owners = table.owners();
            for (at, &to) in stay.iter().enumerate() {
                let lost =
                    |&bucket: &usize| !may.contains(&owners[bucket]) && bucket % stay.len() == at;
                let buckets = (0..owners.len()).filter(lost).map(|bucket| bucket as u16);
                let buckets: Vec<u16> = buckets.collect();
                let moved = steer::move_buckets(self, old, table.name(), &buckets, to)?;
                if moved.stay > 0 {
                    let table = table.name();
                    return Err(AskError::Refused(format!(
                        "flows of `{table}` cannot leave their workers now ({moved}): try again"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Has a worker poll a receive queue of a port, named by the element that receives from it. It blocks
    /// until that is so, about a millisecond. Returns whether the old worker's packets were taken in time.
    pub fn move_queue(&self, element: &str, queue: usize, to: usize) -> Result<bool, AskError> {
        let _moves = self.no_moves();
        steer::move_queue(self, &self.plan(), element, queue, to)
    }

    /// Has the port of a receiver follow those of these buckets that come by a queue of another worker than their owner, or all
    /// that do. It blocks until it does, about a millisecond. See [`steer`].
    pub fn follow(&self, element: &str, buckets: Option<&[u16]>) -> Result<Followed, AskError> {
        let _moves = self.no_moves();
        steer::follow(self, &self.plan(), element, buckets)
    }

    /// The port follows in order, and is then told what it has refused before: the handler `spread` of receivers.
    fn follow_by_hand(&self, plan: &Plan, node: usize) -> Result<String, AskError> {
        let name = &plan.elements[node].name;
        let _moves = self.no_moves();
        // It may have been replaced while others moved.
        let plan = self.plan();
        let followed = steer::follow(self, &plan, name, None)?;
        let node = plan.find(name).unwrap_or(node);
        let element = &plan.elements[node];
        if let Some(handler) = steer::handler(&plan, node, "spread", Use::Write) {
            let told = element.control(handler, "");
            told.map_err(AskError::Refused)?;
        }
        Ok(followed.to_string())
    }

    /// Queues are handed over in order: what receivers leave to the router, their handler `pump`.
    fn pump_by_hand(&self, name: &str, value: &str) -> Result<String, AskError> {
        let words: Vec<usize> = value
            .split_whitespace()
            .map_while(|word| word.parse().ok())
            .collect();
        let [queue, to] = words[..] else {
            let why = format!("a queue and a worker are expected, such as `0 1`, not `{value}`");
            return Err(AskError::Refused(why));
        };
        match self.move_queue(name, queue, to)? {
            true => Ok(String::new()),
            false => Ok("packets of before were late".to_owned()),
        }
    }

    /// What elements that steer leave to the router: their handler `move`.
    pub(super) fn steer_by_hand(
        &self,
        plan: &Plan,
        node: usize,
        (handler, wanted): (&str, Use),
        value: &str,
    ) -> Option<Result<String, AskError>> {
        let element = &plan.elements[node];
        if (handler, wanted) == ("pump", Use::Write) && element.device().is_some() {
            return Some(self.pump_by_hand(&element.name, value));
        }
        let has_table = || steer::port_table_of(element).is_some();
        if (handler, wanted) == ("spread", Use::Write) && has_table() {
            return Some(self.follow_by_hand(plan, node));
        }
        let table = steer::table_of(element)?;
        if handler != "move" || wanted != Use::Write {
            return None;
        }
        let moved = steer::parse_move(value).map_err(AskError::Refused);
        Some(moved.and_then(|(buckets, to)| {
            let moved = self.move_buckets(table.name(), &buckets, to)?;
            Ok(moved.to_string())
        }))
    }
}
