//! Moves buckets from worker to worker while packets come: none is lost, none of a flow overtakes another,
//! and the state of their flows goes along.
//!
//! The buckets of one owner after those of another:
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

use super::{Parked, Table, Tables, lock};
use crate::element::{Flow, Runs};
use crate::graph::Graph;
use crate::plan::Plan;
use crate::router::AskError;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Stages behind each other that are told apart at most.
const STAGES: usize = 8;
/// How many times the table's limit a worker may take to empty its rings, whose size bounds it.
const STALLED: u32 = 20;

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
    /// Runs `what` on each worker and gives the answers by worker.
    fn each<R: Send + 'static>(
        &self,
        what: impl Fn(&mut Graph) -> R + Send + Sync + 'static,
    ) -> Result<Vec<R>, AskError>;

    /// Runs `what` on one worker.
    fn one<R: Send + 'static>(
        &self,
        worker: usize,
        what: impl FnOnce(&mut Graph) -> R + Send + 'static,
    ) -> Result<R, AskError>;
}

/// State of a bucket: the element, the bucket, what the element gave.
pub(crate) type Shard = (usize, u16, Box<dyn Any + Send>);

/// What of a plan has to do with a table.
struct Around {
    table: Arc<Table>,
    /// Elements that steer by it.
    steers: Arc<[usize]>,
    /// Elements behind those.
    behind: Arc<[usize]>,
    /// Stages behind each other that may hold packets.
    stages: usize,
}

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
        let moving = Moving::new(&around, owner, buckets, to);
        let to = match moving.hand_over(ask, plan.workers)? {
            Some(behind) => {
                late.extend(behind);
                moved.buckets += moving.buckets.len();
                to
            }
            None => {
                moved.stay += moving.buckets.len();
                owner
            }
        };
        let parked = around.open(ask, &moving.buckets, to, plan.workers)?;
        moved.parked += parked.packets;
        moved.waiting += parked.waiting;
        moved.longest = moved.longest.max(parked.longest);
    }
    let names = late.into_iter();
    moved.late = names.map(|node| plan.elements[node].name.clone()).collect();
    Ok(moved)
}

/// State on its way from the old owner to the new one. A worker that answers late finds here what has become of it.
#[derive(Default)]
struct Given {
    shards: Vec<Shard>,
    /// The new owner has it.
    taken: bool,
    /// The new owner is not to have it.
    undone: bool,
}

/// The move of one owner's buckets.
struct Moving<'a> {
    around: &'a Around,
    owner: usize,
    buckets: Arc<[u16]>,
    to: usize,
    given: Arc<Mutex<Given>>,
}

impl<'a> Moving<'a> {
    fn new(around: &'a Around, owner: usize, buckets: Vec<u16>, to: usize) -> Moving<'a> {
        Moving {
            around,
            owner,
            buckets: buckets.into(),
            to,
            given: Arc::default(),
        }
    }

    /// Takes the buckets to the new owner, which they then are noted to belong to; the elements behind that were late,
    /// or `None` if the buckets stay. They have still to be opened. If it fails all is as it was before.
    fn hand_over(&self, ask: &impl Ask, workers: usize) -> Result<Option<Vec<usize>>, AskError> {
        let late = match self.steps(ask) {
            Ok(None) => return Ok(None),
            Ok(Some(late)) => late,
            Err(why) if self.undo() => {
                self.give_back(ask);
                self.around
                    .tell_open(ask, &self.buckets, self.owner, workers);
                return Err(why);
            }
            // The new owner has taken the state; only its answer is missing.
            Err(_) => Vec::new(),
        };
        self.around.table.give(&self.buckets, self.to);
        Ok(Some(late))
    }

    fn steps(&self, ask: &impl Ask) -> Result<Option<Vec<usize>>, AskError> {
        if !self.around.park(ask, &self.buckets, self.owner)? {
            return Ok(None);
        }
        let late = self.around.wait_behind(ask)?;
        let (behind, given) = (Arc::clone(&self.around.behind), Arc::clone(&self.given));
        let buckets = Arc::clone(&self.buckets);
        ask.one(self.owner, move |graph| {
            lock(&given).shards = graph.give_buckets(&behind, &buckets);
        })?;
        let given = Arc::clone(&self.given);
        ask.one(self.to, move |graph| {
            let mut given = lock(&given);
            if !given.undone {
                given.taken = true;
                graph.take_buckets(std::mem::take(&mut given.shards));
            }
        })?;
        Ok(Some(late))
    }

    /// Keeps the state from the new owner; `false` if that has it already.
    fn undo(&self) -> bool {
        let mut given = lock(&self.given);
        given.undone = !given.taken;
        given.undone
    }

    /// The old owner gets the state back that it has given up, now or when it comes to answer.
    fn give_back(&self, ask: &impl Ask) {
        let given = Arc::clone(&self.given);
        let _ = ask.one(self.owner, move |graph| {
            let shards = std::mem::take(&mut lock(&given).shards);
            graph.take_buckets(shards);
        });
    }
}

impl Around {
    fn find(plan: &Plan, name: &str) -> Option<Around> {
        let tables = plan.elements.iter().map(|e| (e.class.steers)(&e.config));
        let tables: Vec<Option<Arc<Table>>> = tables.collect();
        let named = |table: &&Arc<Table>| table.name() == name;
        let of_element = || tables[plan.find(name)?].as_ref();
        let table = tables.iter().flatten().find(named).or_else(of_element)?;
        let is_ours = |node: &usize| {
            tables[*node]
                .as_ref()
                .is_some_and(|t| Arc::ptr_eq(t, table))
        };
        let steers: Vec<usize> = (0..tables.len()).filter(is_ours).collect();
        let behind = behind(plan, &steers, &tables);
        Some(Around {
            table: Arc::clone(table),
            stages: stages(plan, &behind),
            steers: steers.into(),
            behind: behind.into_iter().collect(),
        })
    }

    /// The buckets that are to move, by their owners; refuses what there is not.
    fn check(&self, buckets: &[u16], to: usize) -> Result<BTreeMap<usize, Vec<u16>>, AskError> {
        let (owners, workers) = (self.table.owners(), self.table.workers());
        if !workers.contains(&to) {
            let may = super::ranges(&workers);
            let why = format!(
                "worker {to} cannot own buckets of `{}`: workers {may} can",
                self.table.name()
            );
            return Err(AskError::Refused(why));
        }
        let mut from: BTreeMap<usize, Vec<u16>> = BTreeMap::new();
        for bucket in buckets.iter().copied().collect::<BTreeSet<u16>>() {
            match owners.get(usize::from(bucket)) {
                None => {
                    let last = owners.len().saturating_sub(1);
                    let why = format!("there is no bucket {bucket}: they are numbered 0 to {last}");
                    return Err(AskError::Refused(why));
                }
                Some(&owner) if owner == to => (),
                Some(&owner) => from.entry(owner).or_default().push(bucket),
            }
        }
        Ok(from)
    }

    /// Parks, and waits until the old owner has taken what was sent to it before; whether it has in time.
    fn park(&self, ask: &impl Ask, buckets: &Arc<[u16]>, old: usize) -> Result<bool, AskError> {
        let (steers, buckets) = (self.steers.clone(), buckets.clone());
        let sent: Arc<[Vec<usize>]> = ask
            .each(move |graph| {
                let each = steers.iter().map(|&node| {
                    let sent = graph.steering(node, |steering| {
                        steering.park(&buckets);
                        steering.sent(old)
                    });
                    sent.unwrap_or_default()
                });
                each.collect()
            })?
            .into();
        let until = Instant::now() + self.table.limit() * STALLED;
        loop {
            let (steers, sent) = (self.steers.clone(), sent.clone());
            let arrived = ask.each(move |graph| {
                let sent = &sent[graph.worker()];
                steers.iter().zip(sent).all(|(&node, &sent)| {
                    let there = graph.steering(node, |s| s.has_arrived(old, sent));
                    there.unwrap_or(true)
                })
            })?;
            if arrived.iter().all(|&there| there) {
                return Ok(true);
            }
            if Instant::now() >= until {
                return Ok(false);
            }
        }
    }

    /// Waits until everything behind has let go what it held; returns the elements that have not in time.
    fn wait_behind(&self, ask: &impl Ask) -> Result<Vec<usize>, AskError> {
        let until = Instant::now() + self.table.limit();
        for _ in 0..=self.stages {
            let behind = self.behind.clone();
            let mut held: Arc<[Vec<(usize, usize)>]> =
                ask.each(move |graph| graph.marks(&behind))?.into();
            while held.iter().any(|marks| !marks.is_empty()) {
                if Instant::now() >= until {
                    let late: BTreeSet<usize> = held.iter().flatten().map(|mark| mark.0).collect();
                    return Ok(late.into_iter().collect());
                }
                held = ask
                    .each(move |graph| graph.not_past(&held[graph.worker()]))?
                    .into();
            }
        }
        Ok(Vec::new())
    }

    /// Opens, and waits until nothing waits any more, as long as the table's limit.
    fn open(
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
        let (steers, buckets) = (self.steers.clone(), buckets.clone());
        move |graph| {
            for &node in &*steers {
                graph.steering(node, |steering| steering.open(&buckets, to));
            }
        }
    }

    /// Has each worker open the buckets, now or when it comes to answer, where some have not been told or do not
    /// answer.
    fn tell_open(&self, ask: &impl Ask, buckets: &Arc<[u16]>, to: usize, workers: usize) {
        self.table.settled(false);
        for worker in 0..workers {
            let _ = ask.one(worker, self.opening(buckets, to));
        }
    }

    /// Waits until nothing waits any more, as long as the table's limit.
    fn await_parked(&self, ask: &impl Ask) -> Result<Parked, AskError> {
        let until = Instant::now() + self.table.limit();
        loop {
            let steers = self.steers.clone();
            let parked = ask.each(move |graph| {
                let each = steers
                    .iter()
                    .filter_map(|&node| graph.steering(node, |s| s.parked()));
                each.fold(Parked::default(), Parked::with)
            })?;
            let parked = parked.into_iter().fold(Parked::default(), Parked::with);
            if parked.waiting == 0 {
                self.table.settled(true);
            }
            if parked.waiting == 0 || Instant::now() >= until {
                return Ok(parked);
            }
        }
    }

    /// What waits since an earlier move must have gone before another one.
    fn settle(&self, ask: &impl Ask) -> Result<(), AskError> {
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

/// Elements that packets reach from `steers`, up to those that steer by another table.
fn behind(plan: &Plan, steers: &[usize], tables: &[Option<Arc<Table>>]) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut to_do = steers.to_vec();
    while let Some(node) = to_do.pop() {
        for edge in plan.edges.iter().filter(|e| e.from.0 == node) {
            let to = edge.to.0;
            if !steers.contains(&to) && found.insert(to) && tables[to].is_none() {
                to_do.push(to);
            }
        }
    }
    found
}

/// How many elements at most lie behind each other among these that take packets in and give them away later.
fn stages(plan: &Plan, behind: &BTreeSet<usize>) -> usize {
    let holds = |node: usize| {
        let element = &plan.elements[node];
        let queue = element.class.ports.output_flow(0) == Flow::Pull && !element.input_pull();
        let sends = element.device().is_some_and(|device| !device.receives);
        usize::from(queue || sends || element.runs == Runs::AsTask)
    };
    let mut depth: BTreeMap<usize, usize> =
        behind.iter().map(|&node| (node, holds(node))).collect();
    // In a circle depths would grow for ever.
    for _ in 0..behind.len() {
        let before = depth.clone();
        for edge in &plan.edges {
            if let (Some(&from), Some(to)) = (before.get(&edge.from.0), depth.get_mut(&edge.to.0)) {
                *to = (*to).max(from + holds(edge.to.0)).min(STAGES);
            }
        }
        if depth == before {
            break;
        }
    }
    depth.into_values().max().unwrap_or(0)
}

/// The tables of a plan by which something steers, by name.
pub fn tables(plan: &Plan) -> Vec<Arc<Table>> {
    let used = |table: &Arc<Table>| {
        let mut each = plan
            .elements
            .iter()
            .filter_map(|e| (e.class.steers)(&e.config));
        each.any(|t| Arc::ptr_eq(&t, table))
    };
    let all = plan.common::<Tables>().all();
    all.into_iter().filter(used).collect()
}
