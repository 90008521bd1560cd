//! Moves buckets from worker to worker while packets come: none is lost, none of a flow overtakes another,
//! and the state of their flows goes along.
//!
//! The buckets of one owner after those of another, by the workers themselves ([`hand_over`](super::hand_over)):
//!
//! 1. Park: every copy that steers by the table lets packets of the buckets wait.
//! 2. Wait until the old owner has taken from its rings what came before. If it stalls, the move is called off:
//!    what has waited goes to the old owner, too, for packets must not come where the state of their flow no
//!    longer is.
//! 3. Wait until that has left whatever lies behind, stage by stage (a queue, the burst of a sender). That takes
//!    a bounded time; what is late is named.
//! 4. The old owner gives the state of the buckets up, the new one takes it.
//! 5. Open: what has waited goes to the new owner, then everything does.
//!
//! If a worker does not answer before the new owner has the state, the old one gets it back, and what has waited.

use super::around::Around;
use super::hand_over::{Deadline, HandOver};
use super::{Parked, Table, Tables};
use crate::graph::Graph;
use crate::handler_info::AskError;
use crate::plan::Plan;
use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// What a move was like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Buckets that have another owner now.
    pub buckets: usize,
    /// Packets that had to wait.
    pub parked: u64,
    /// The longest time that one of them did.
    pub longest: Duration,
    /// Buckets that stay where they are: their owner did not take what had been sent to it before, or the new one
    /// what had waited for it.
    pub stay: usize,
    /// Packets that still waited after the table's limit. They go before later ones all the same.
    pub waiting: usize,
    /// Elements that still held packets of before after the table's limit: those may come behind later ones.
    pub late: Vec<String>,
}

impl std::fmt::Display for Moved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let micros = self.longest.as_micros();
        write!(
            f,
            "{} buckets moved; {} packets waited, the longest {micros} us",
            self.buckets, self.parked
        )?;
        if self.stay > 0 {
            let stay = self.stay;
            write!(f, "; {stay} stay, as a worker is behind with its packets")?;
        }
        if self.waiting > 0 {
            write!(f, "; {} packets still wait", self.waiting)?;
        }
        if !self.late.is_empty() {
            write!(f, "; still held packets of before: {}", self.late.join(" "))?;
        }
        Ok(())
    }
}

/// Buckets and the worker that is to own them, from `0-3 7 1`: the last number is the worker.
pub fn parse_move(text: &str) -> Result<(Vec<u16>, usize), String> {
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

/// Runs something on workers, between batches.
pub trait Ask {
    /// Runs `what` on each worker, there again and again until it has an answer, and gives the answers by worker. It
    /// remembers in an `S` what it has found on a worker. All together may take `patience`, and the time that an
    /// answer may take beside.
    fn until<S: Default + 'static, R: Send + 'static>(
        &self,
        patience: Duration,
        what: impl Fn(&mut Graph, &mut S) -> Option<R> + Send + Sync + 'static,
    ) -> Result<Vec<R>, AskError>;

    /// Runs `what` on each worker and gives the answers by worker.
    fn each<R: Send + 'static>(
        &self,
        what: impl Fn(&mut Graph) -> R + Send + Sync + 'static,
    ) -> Result<Vec<R>, AskError> {
        self.until(Duration::ZERO, move |graph, _: &mut ()| Some(what(graph)))
    }

    /// As [`until`](Self::until), on one worker. Who can have it do so should: here others answer, too.
    fn one_until<S: Default + 'static, R: Send + 'static>(
        &self,
        worker: usize,
        patience: Duration,
        what: impl Fn(&mut Graph, &mut S) -> Option<R> + Send + Sync + 'static,
    ) -> Result<R, AskError> {
        let all = self.until(patience, move |graph, state| {
            match graph.worker() == worker {
                true => what(graph, state).map(Some),
                false => Some(None),
            }
        });
        let mut answers = all?.into_iter().flatten();
        answers.next().ok_or(AskError::NoAnswer(worker))
    }

    /// Runs `what` on one worker.
    fn one<R: Send + 'static>(
        &self,
        worker: usize,
        what: impl FnOnce(&mut Graph) -> R + Send + 'static,
    ) -> Result<R, AskError>;
}

/// State of a bucket: the element, the bucket, what the element gave.
pub(crate) type Shard = (usize, u16, Box<dyn Any + Send>);

/// Moves buckets of the table of that name, or of the element of that name, to worker `to`. Nobody else
/// may move buckets of the table or replace the plan meanwhile.
pub fn move_buckets(
    ask: &impl Ask,
    plan: &Plan,
    table: &str,
    buckets: &[u16],
    to: usize,
) -> Result<Moved, AskError> {
    let around = Around::find(plan, table)
        .ok_or_else(|| AskError::NoElement(format!("there is no table and no Steer `{table}`")))?;
    if around.table.workers().is_empty() {
        // The workers have just been started: buckets are dealt out when they have built their graphs.
        ask.each(|_| ())?;
    }
    around.settle(ask)?;
    let (mut moved, mut late) = (Moved::default(), BTreeSet::new());
    for (owner, buckets) in around.check(buckets, to)? {
        if moved.waiting > 0 {
            moved.stay += buckets.len();
            continue;
        }
        let count = buckets.len();
        let hand_over = Arc::new(HandOver::new(&around, (owner, buckets), to, plan.workers));
        let parked = match hand_over.run(ask)? {
            Some((parked, behind)) => {
                late.extend(behind);
                moved.buckets += count;
                parked
            }
            None => {
                moved.stay += count;
                around.open(ask, hand_over.buckets(), owner, plan.workers)?
            }
        };
        moved.parked += parked.packets;
        moved.waiting += parked.waiting;
        moved.longest = moved.longest.max(parked.longest);
    }
    let names = late.into_iter();
    moved.late = names.map(|node| plan.elements[node].name.clone()).collect();
    Ok(moved)
}

impl Around {
    /// Opens, and waits until nothing waits any more, as long as the table's limit.
    pub(super) fn open(
        &self,
        ask: &impl Ask,
        buckets: &Arc<[u16]>,
        to: usize,
        workers: usize,
    ) -> Result<Parked, AskError> {
        self.table.settled(false);
        if let Err(why) = ask.each(self.opening(buckets, to)) {
            self.tell_open(ask, buckets, to, workers);
            return Err(why);
        }
        self.await_parked(ask)
    }

    fn opening(
        &self,
        buckets: &Arc<[u16]>,
        to: usize,
    ) -> impl Fn(&mut Graph) + Send + Sync + use<> {
        let (around, buckets) = (self.clone(), buckets.clone());
        move |graph| around.open_here(graph, &buckets, to)
    }

    /// Opens on a worker.
    pub(super) fn open_here(&self, graph: &mut Graph, buckets: &[u16], to: usize) {
        for &node in &*self.steers {
            graph.steering(node, |steering| steering.open(buckets, to));
        }
    }

    /// Has each worker open the buckets, now or when it comes to answer, where some have not been told or do not
    /// answer.
    pub(super) fn tell_open(
        &self,
        ask: &impl Ask,
        buckets: &Arc<[u16]>,
        to: usize,
        workers: usize,
    ) {
        self.table.settled(false);
        for worker in 0..workers {
            let _ = ask.one(worker, self.opening(buckets, to));
        }
    }

    /// Waits until nothing waits any more, as long as the table's limit.
    fn await_parked(&self, ask: &impl Ask) -> Result<Parked, AskError> {
        let around = self.clone();
        let settle =
            move |graph: &mut Graph, deadline: &mut Deadline| around.settle_here(graph, deadline);
        Ok(self.waited(ask.until(self.table.limit(), settle)?))
    }

    /// What waits on a worker, once that is nothing or the table's limit is over.
    pub(super) fn settle_here(&self, graph: &mut Graph, deadline: &mut Deadline) -> Option<Parked> {
        let each = self
            .steers
            .iter()
            .filter_map(|&node| graph.steering(node, |s| s.parked()));
        let parked = each.fold(Parked::default(), Parked::with);
        (parked.waiting == 0 || deadline.is_past(graph, self.table.limit())).then_some(parked)
    }

    /// What has waited on all workers; notes whether nothing does any more.
    pub(super) fn waited(&self, parked: Vec<Parked>) -> Parked {
        let parked = parked.into_iter().fold(Parked::default(), Parked::with);
        self.table.settled(parked.waiting == 0);
        parked
    }

    /// What waits since an earlier move must have gone before another one.
    pub(super) fn settle(&self, ask: &impl Ask) -> Result<(), AskError> {
        if self.table.is_settled() || self.await_parked(ask)?.waiting == 0 {
            return Ok(());
        }
        let name = self.table.name();
        let why = format!("packets of an earlier move of `{name}` still wait for their workers");
        Err(AskError::Refused(why))
    }
}

impl Parked {
    fn with(self, other: Parked) -> Parked {
        Parked {
            waiting: self.waiting + other.waiting,
            packets: self.packets + other.packets,
            longest: self.longest.max(other.longest),
        }
    }
}

/// The tables of a plan by which something steers, by name.
pub fn tables(plan: &Plan) -> Vec<Arc<Table>> {
    let used = |table: &Arc<Table>| {
        let mut each = plan.elements.iter().filter_map(super::table_of);
        each.any(|t| Arc::ptr_eq(&t, table))
    };
    let all = plan.common::<Tables>().all();
    all.into_iter().filter(used).collect()
}
