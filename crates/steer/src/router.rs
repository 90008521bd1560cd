//! Moves of ownership in a running router.

use super::extensions::{port_table_of, splits};
use super::{
    Ask, FollowResult, MoveResult, buckets::parse_move, follow, move_buckets, move_queue, table_of,
    tables,
};
use engine::element::Copies;
use engine::graph::Graph;
use engine::handler::AskError;
use engine::plan::{Pass, Plan};
use router::{Router, RouterExtension};
use std::sync::Arc;
use std::time::Duration;

/// The pass of the planner for plans that steer. It attaches [`SortedBy`](crate::SortedBy) and
/// [`SteeredBy`](crate::SteeredBy) to elements.
pub static PASS: Pass = Pass(|plan| {
    super::splittable::mark(plan);
    super::dependents::mark(plan);
});

/// Extension of classes that steer, receive or keep flows. It does their part of a reload, and the handlers `move`,
/// `queue_owners` and `rss`.
pub static ROUTER: RouterExtension = RouterExtension {
    check_reload: keeps_flows,
    before_reload: leave_workers,
    write,
};

/// Moves of buckets and queues between workers.
pub trait Moves {
    /// Makes a worker own these buckets of a table, given by its name or by an element that steers by it. Blocks
    /// until they have moved, about a millisecond.
    fn move_buckets(&self, table: &str, buckets: &[u16], to: usize)
    -> Result<MoveResult, AskError>;

    /// Makes a worker poll an RX queue of a port, given by the element that receives from it. Blocks until it does,
    /// about a millisecond. Returns true if the old worker's packets were taken in time.
    fn move_queue(&self, element: &str, queue: usize, to: usize) -> Result<bool, AskError>;

    /// Makes the port of a receiver follow the misdelivered ones of these buckets (`None`: all). Blocks until it
    /// does, about a millisecond.
    fn follow(&self, element: &str, buckets: Option<&[u16]>) -> Result<FollowResult, AskError>;
}

impl Moves for Router {
    fn move_buckets(
        &self,
        table: &str,
        buckets: &[u16],
        to: usize,
    ) -> Result<MoveResult, AskError> {
        let _change = self.lock_changes();
        move_buckets(self, &self.plan(), table, buckets, to)
    }

    fn move_queue(&self, element: &str, queue: usize, to: usize) -> Result<bool, AskError> {
        let _change = self.lock_changes();
        move_queue(self, &self.plan(), element, queue, to)
    }

    fn follow(&self, element: &str, buckets: Option<&[u16]>) -> Result<FollowResult, AskError> {
        let _change = self.lock_changes();
        follow(self, &self.plan(), element, buckets)
    }
}

impl Ask for Router {
    fn run_until_all<S: Default + 'static, R: Send + 'static>(
        &self,
        workers: &[usize],
        time_limit: Duration,
        job: impl Fn(&mut Graph, &mut S) -> Option<R> + Send + Sync + 'static,
    ) -> Result<Vec<R>, AskError> {
        self.ask_until(workers, time_limit, job)
    }

    fn run_on_one<R: Send + 'static>(
        &self,
        worker: usize,
        job: impl FnOnce(&mut Graph) -> R + Send + 'static,
    ) -> Result<R, AskError> {
        self.ask(worker, move |local| job(local.graph()))
    }
}

/// Refuses a reload after which flows would reach workers that do not have their state. The error is a sentence.
fn keeps_flows(old: &Plan, new: &Plan) -> Result<(), String> {
    for now in &new.elements {
        let keeps = now.class.copies == Copies::Owner && splits(now);
        let was = old.find(&now.name).map(|i| &old.elements[i]);
        let Some(was) = was.filter(|was| keeps && was.class.name == now.class.name) else {
            continue;
        };
        let same = match (was.split, now.split) {
            (None, None) => was.workers == now.workers || now.workers.is_empty(),
            (was, now) => was == now,
        };
        if !same && let Some(owner) = was.workers.first() {
            let how = match was.split {
                Some(_) => "by the buckets that they are sorted into".to_owned(),
                None => format!("on worker {owner}"),
            };
            return Err(format!(
                "`{}` keeps flows {how} now, and would lose them: CLASSIFY, its KEY and BUCKETS, and CORES cannot \
                change before it by reload, the router must be started anew",
                now.name
            ));
        }
    }
    Ok(())
}

/// Before a reload, moves the buckets of workers that may own none by the new plan to other workers, with the state of
/// their flows.
fn leave_workers(router: &Router, old: &Plan, new: &Plan) -> Result<(), AskError> {
    for table in tables(old) {
        let steers = new.elements.iter().find(|e| {
            let theirs = table_of(e);
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
            let moved = move_buckets(router, old, table.name(), &buckets, to)?;
            if moved.unmoved > 0 {
                let table = table.name();
                return Err(AskError::Refused(format!(
                    "flows of `{table}` cannot leave their workers now ({moved}): try again"
                )));
            }
        }
    }
    Ok(())
}

/// Executes handler writes that concern the router as a whole.
fn write(
    router: &Router,
    plan: &Plan,
    node: usize,
    handler: &str,
    value: &str,
) -> Option<Result<String, AskError>> {
    let element = &plan.elements[node];
    Some(match handler {
        "move" => {
            let table = table_of(element)?;
            let moved = parse_move(value).map_err(AskError::Refused);
            moved.and_then(|(buckets, to)| {
                let moved = router.move_buckets(table.name(), &buckets, to)?;
                Ok(moved.to_string())
            })
        }
        "queue_owners" => set_queue_owner(router, &element.name, value),
        "rss" => {
            port_table_of(element)?;
            follow_all(router, &element.name)
        }
        _ => return None,
    })
}

/// Executes a handler value `QUEUE WORKER`: the worker becomes the owner of the queue.
fn set_queue_owner(router: &Router, receiver: &str, value: &str) -> Result<String, AskError> {
    let words = value.split_whitespace().map(|word| word.parse().ok());
    let words: Vec<Option<usize>> = words.collect();
    let [Some(queue), Some(to)] = words[..] else {
        let why = format!("a queue and a worker are expected, such as `0 1`, not `{value}`");
        return Err(AskError::Refused(why));
    };
    match router.move_queue(receiver, queue, to)? {
        true => Ok(String::new()),
        false => Ok("packets of before were late".to_owned()),
    }
}

/// Makes the port follow the present owners, then offers it again the rules that it has refused.
fn follow_all(router: &Router, receiver: &str) -> Result<String, AskError> {
    let _change = router.lock_changes();
    let plan = router.plan();
    let followed = follow(router, &plan, receiver, None)?;
    let port = plan.find(receiver);
    if let Some(port) = port.and_then(|node| port_table_of(&plan.elements[node])) {
        port.tell_again().map_err(AskError::Refused)?;
    }
    Ok(followed.to_string())
}
