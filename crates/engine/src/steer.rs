//! Which worker owns which bucket: the indirection table of receive-side scaling, for any classification
//! and any port.
//!
//! Packets are sorted into buckets ([`Packet::bucket`](crate::packet::Packet::bucket)); a [`Table`] gives
//! every bucket a worker. The elements that steer by one table have copies of it of their own, so that the
//! packet path shares nothing; here is what control sees.

mod around;
mod extensions;
mod follow;
mod graph;
mod hand_over;
mod moving;
mod pumps;
mod steps;

pub use around::mark;
pub(crate) use extensions::port_table_of;
pub use extensions::{
    Follows, FollowsOfClass, KeepsFlows, KeepsFlowsOfClass, Sorts, SortsOfClass, Steers,
    SteersOfClass, sorter_of, splits, table_of,
};
pub use follow::{Astray, Followed, PortTable, follow, port_tables};
pub(crate) use moving::Shard;
pub use moving::{Ask, Moved, move_buckets, parse_move, tables};
pub(crate) use pumps::handler;
pub use pumps::{move_queue, pumps};

pub use crate::packet::BUCKETS_MAX;
use crate::wake::WakeFn;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use wire::FlowKey;

/// Stands for the owner of a bucket that moves.
pub const PARKED: u16 = u16::MAX;

/// Packets of buckets that move which may wait on a worker before its sources rest.
pub const PARKED_MAX: usize = 4096;

/// How long a move waits for what was there before, unless a table says otherwise.
pub const LIMIT: Duration = Duration::from_millis(50);

/// The tables of a router, by name and number of buckets. They outlive reloads.
#[derive(Default)]
pub struct Tables(Mutex<HashMap<(String, usize), Weak<Table>>>);

impl Tables {
    /// The table of that name with so many buckets, made if nobody holds it.
    pub fn get(&self, name: &str, buckets: usize) -> Arc<Table> {
        let mut tables = lock(&self.0);
        tables.retain(|_, table| table.strong_count() > 0);
        let key = (name.to_owned(), buckets);
        if let Some(table) = tables.get(&key).and_then(Weak::upgrade) {
            return table;
        }
        let table = Arc::new(Table::new(name, buckets));
        tables.insert(key, Arc::downgrade(&table));
        table
    }

    /// The tables that somebody holds, by name.
    pub fn all(&self) -> Vec<Arc<Table>> {
        let mut all: Vec<_> = lock(&self.0).values().filter_map(Weak::upgrade).collect();
        all.sort_by(|a, b| (&a.name, a.buckets).cmp(&(&b.name, b.buckets)));
        all
    }
}

/// Packets that a worker has seen of each bucket, and those that found a ring full. One worker writes.
pub struct Counts {
    seen: Box<[AtomicU64; BUCKETS_MAX]>,
    full: Box<[AtomicU64]>,
}

impl Counts {
    fn new(buckets: usize) -> Counts {
        Counts {
            seen: Box::new([const { AtomicU64::new(0) }; BUCKETS_MAX]),
            full: (0..buckets).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Packets by bucket; there is room for any that a packet may name. Only the worker whose counts they are may add to
    /// them, by [`add`].
    #[inline]
    pub fn seen(&self) -> &[AtomicU64; BUCKETS_MAX] {
        &self.seen
    }

    /// As [`seen`](Self::seen), packets that were lost.
    #[inline]
    pub fn full(&self) -> &[AtomicU64] {
        &self.full
    }
}

/// What sorts packets into buckets by their flow. As long as somebody has one, the way does not change.
pub trait Sorter: Send + Sync {
    /// The bucket of a flow's packets.
    fn function(&self) -> Box<dyn Fn(&FlowKey) -> u16>;

    /// Whether both directions of a flow have the same bucket.
    fn is_symmetric(&self) -> bool;

    /// A number that those have in common that sort alike.
    fn kind(&self) -> usize;
}

/// A copy of an element that steers, as who moves buckets sees it.
pub trait Steering {
    /// From now on packets of these buckets wait.
    fn park(&mut self, buckets: &[u16]);

    /// Buckets that were parked belong to worker `to`: what waits of them goes there first, then others do. To say it
    /// twice is no mistake.
    fn open(&mut self, buckets: &[u16], to: usize);

    /// How much this copy has sent to a worker, for [`has_arrived`](Self::has_arrived).
    fn sent(&self, to: usize) -> usize;

    /// Whether a worker has taken what had been sent to it at some time.
    fn has_arrived(&self, to: usize, sent: usize) -> bool;

    /// Packets that still wait, those that had to, and the longest time that one did, since the last
    /// [`park`](Self::park).
    fn parked(&self) -> Parked;
}

/// Packets that had to wait for a move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parked {
    /// Packets that wait now.
    pub waiting: usize,
    /// Packets that had to wait.
    pub packets: u64,
    /// The longest time that one of them did.
    pub longest: Duration,
}

/// Adds to a count that only this thread writes.
#[inline]
pub fn add(count: &AtomicU64, n: u64) {
    count.store(count.load(Relaxed) + n, Relaxed);
}

/// An indirection table, as control sees it.
pub struct Table {
    name: String,
    buckets: usize,
    state: Mutex<State>,
    /// Microseconds.
    limit: AtomicU64,
    /// Packets of an earlier move may still wait.
    unsettled: AtomicBool,
    counts: OnceLock<Vec<Counts>>,
    ways: Mutex<Vec<Weak<dyn Ways>>>,
    followers: Mutex<Vec<Weak<dyn Follower>>>,
    bell: OnceLock<WakeFn>,
    /// Thousandths: how full a port's queue was found.
    port: AtomicU64,
    /// Workers, a bit each, that have found one crowded for long.
    behind: AtomicU64,
    /// Thousandths: how full a way from worker to worker was found.
    ring: AtomicU64,
    /// Some workers rest that could work.
    rest: AtomicBool,
}

/// Who wants to know when buckets are dealt out.
pub trait Follower: Send + Sync {
    /// Buckets have owners now, or other ones as there are other workers.
    fn dealt(&self);
}

/// The ways of packets from worker to worker, where elements steer by a table.
pub trait Ways: Send + Sync {
    /// How full the fullest of them is, from 0 to 1.
    fn fill(&self) -> f64;
}

#[derive(Default)]
struct State {
    /// Workers that may own buckets, ascending; empty before the first copy is built.
    workers: Vec<usize>,
    /// Owners by bucket.
    owners: Vec<usize>,
}

impl Table {
    fn new(name: &str, buckets: usize) -> Table {
        Table {
            name: name.to_owned(),
            buckets,
            state: Mutex::default(),
            limit: AtomicU64::new(LIMIT.as_micros() as u64),
            unsettled: AtomicBool::new(false),
            counts: OnceLock::new(),
            ways: Mutex::default(),
            followers: Mutex::default(),
            bell: OnceLock::new(),
            port: AtomicU64::new(0),
            behind: AtomicU64::new(0),
            ring: AtomicU64::new(0),
            rest: AtomicBool::new(false),
        }
    }

    /// Has workers ring a bell when a way from one to another fills. The first one that is set stays.
    pub fn set_bell(&self, bell: impl FnOnce() -> WakeFn) {
        self.bell.get_or_init(bell);
    }

    /// Rings it. Whoever listens sees to it that many calls cost no more than one.
    #[cold]
    pub fn ring_bell(&self) {
        if let Some(bell) = self.bell.get() {
            bell();
        }
    }

    /// Has the table tell somebody when buckets are dealt out.
    pub fn tell(&self, who: Weak<dyn Follower>) {
        lock(&self.followers).push(who);
    }

    /// Has the table know the ways of an element, for as long as they are in use.
    pub fn watch(&self, ways: Weak<dyn Ways>) {
        lock(&self.ways).push(ways);
    }

    /// How full the fullest way from worker to worker is, from 0 to 1.
    pub fn fill(&self) -> f64 {
        let mut ways = lock(&self.ways);
        ways.retain(|ways| ways.strong_count() > 0);
        let each = ways.iter().filter_map(Weak::upgrade);
        each.map(|ways| ways.fill()).fold(0.0, f64::max)
    }

    /// Notes how full a queue of a worker is, from 0 to 1, of a port whose packets are steered by this table: a quarter at least. If it
    /// `grows` the bell rings: when it is half full, or sooner while there are workers to be called. `lasts` says that it has been
    /// so for long.
    pub fn note_port(&self, worker: usize, fill: f64, grows: bool, lasts: bool) {
        // Of more workers than bits the others are not told apart.
        let bit = 1u64.checked_shl(worker as u32).unwrap_or(0);
        self.behind.fetch_or(if lasts { bit } else { 0 }, Relaxed);
        self.port.fetch_max((fill * 1000.0) as u64, Relaxed);
        if grows && (fill >= 0.5 || self.rest.load(Relaxed)) {
            self.ring_bell();
        }
    }

    /// Notes how full a way from worker to worker is, from 0 to 1, and rings the bell.
    #[cold]
    pub fn note_ring(&self, fill: f64) {
        self.ring.fetch_max((fill * 1000.0) as u64, Relaxed);
        self.ring_bell();
    }

    /// How full the fullest of such ways was found, from 0 to 1, since the last call.
    pub fn take_ring(&self) -> f64 {
        self.ring.swap(0, Relaxed) as f64 / 1000.0
    }

    /// Notes whether some workers rest that could work.
    pub fn set_rest(&self, rest: bool) {
        self.rest.store(rest, Relaxed);
    }

    /// How full the fullest of such queues was found, from 0 to 1, since the last call.
    pub fn take_port(&self) -> f64 {
        self.port.swap(0, Relaxed) as f64 / 1000.0
    }

    /// Whether a queue of a worker has been a quarter full for long, since the last call; for each of so many workers.
    pub fn take_behind(&self, workers: usize) -> Vec<bool> {
        let behind = self.behind.swap(0, Relaxed);
        let bit = |worker: usize| behind.checked_shr(worker as u32).unwrap_or(0) & 1;
        (0..workers).map(|worker| bit(worker) == 1).collect()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of buckets.
    pub fn buckets(&self) -> usize {
        self.buckets
    }

    /// Workers that may own buckets, ascending; empty before a graph is built.
    pub fn workers(&self) -> Vec<usize> {
        lock(&self.state).workers.clone()
    }

    /// How long a move waits for what was there before.
    pub fn limit(&self) -> Duration {
        Duration::from_micros(self.limit.load(Relaxed))
    }

    /// Changes that.
    pub fn set_limit(&self, limit: Duration) {
        let micros = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        self.limit.store(micros, Relaxed);
    }

    /// Notes whether all that waited for a move has gone.
    fn settled(&self, is: bool) {
        self.unsettled.store(!is, Relaxed);
    }

    fn is_settled(&self) -> bool {
        !self.unsettled.load(Relaxed)
    }

    /// Owners by bucket; empty before a graph is built.
    pub fn owners(&self) -> Vec<usize> {
        lock(&self.state).owners.clone()
    }

    /// The owners for copies on `workers`. At first buckets are dealt out in turn; later those of workers that
    /// no longer own any are.
    pub fn deal(&self, workers: &[usize]) -> Vec<usize> {
        let mut state = lock(&self.state);
        let is_new = state.workers != workers;
        if is_new {
            state.owners.resize(self.buckets, usize::MAX);
            let owners = state.owners.iter_mut().enumerate();
            let lost = owners.filter(|(_, owner)| !workers.contains(owner));
            lost.for_each(|(bucket, owner)| *owner = workers[bucket % workers.len()]);
            state.workers = workers.to_vec();
        }
        let owners = state.owners.clone();
        drop(state);
        if is_new {
            let mut followers = lock(&self.followers);
            followers.retain(|who| who.strong_count() > 0);
            let all: Vec<_> = followers.iter().filter_map(Weak::upgrade).collect();
            drop(followers);
            all.iter().for_each(|who| who.dealt());
        }
        owners
    }

    /// Notes that buckets belong to a worker now, for who has moved them there.
    pub fn give(&self, buckets: &[u16], to: usize) {
        let mut state = lock(&self.state);
        for &bucket in buckets {
            if let Some(owner) = state.owners.get_mut(usize::from(bucket)) {
                *owner = to;
            }
        }
    }

    /// What each of `workers` counts; all who steer by the table share them.
    pub fn counts(&self, workers: usize) -> &[Counts] {
        self.counts
            .get_or_init(|| (0..workers).map(|_| Counts::new(self.buckets)).collect())
    }

    /// Packets by bucket since the table was made, of all workers.
    pub fn loads(&self) -> Vec<u64> {
        self.sum(|counts| counts.seen())
    }

    /// Packets by bucket that were lost because a ring to their owner was full.
    pub fn lost(&self) -> Vec<u64> {
        self.sum(Counts::full)
    }

    fn sum(&self, which: fn(&Counts) -> &[AtomicU64]) -> Vec<u64> {
        let mut sums = vec![0; self.buckets];
        for counts in self.counts.get().into_iter().flatten() {
            let each = sums.iter_mut().zip(which(counts));
            each.for_each(|(sum, count)| *sum += count.load(Relaxed));
        }
        sums
    }

    /// The table as text: runs of buckets, each with its owner.
    pub fn show(&self) -> String {
        let owners = self.owners();
        let mut lines = String::new();
        for worker in self.workers() {
            let owned = |b: &usize| owners[*b] == worker;
            let buckets: Vec<usize> = (0..owners.len()).filter(owned).collect();
            lines.push_str(&format!("worker {worker}: {}\n", ranges(&buckets)));
        }
        lines
    }
}

/// Ascending numbers as ranges: `0-3 5`.
pub fn ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b);
    let text = runs.map(|run| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    text.collect::<Vec<_>>().join(" ")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_dealt_out_in_turn_and_those_of_lost_workers_again() {
        let tables = Tables::default();
        let table = tables.get("hash", 5);
        assert_eq!(table.deal(&[0, 2]), [0, 2, 0, 2, 0]);
        assert!(Arc::ptr_eq(&table, &tables.get("hash", 5)));
        assert_eq!(table.deal(&[0, 1]), [0, 1, 0, 1, 0]);
        assert_eq!(table.show(), "worker 0: 0 2 4\nworker 1: 1 3\n");
        assert_eq!(tables.all().len(), 1);
        drop(table);
        assert!(tables.all().is_empty());
    }

    #[test]
    fn a_move_is_written_as_buckets_and_a_worker() {
        assert_eq!(parse_move("0-2 7 1"), Ok((vec![0, 1, 2, 7], 1)));
        assert!(parse_move("3").is_err() && parse_move("3-1 0").is_err());
        assert!(parse_move("a 0").unwrap_err().contains("such as"));
    }

    #[test]
    fn loads_are_added_over_workers() {
        let table = Tables::default().get("t", 2);
        let counts = table.counts(2);
        add(&counts[0].seen()[1], 3);
        add(&counts[1].seen()[1], 4);
        add(&counts[1].full()[0], 1);
        assert_eq!((table.loads(), table.lost()), (vec![0, 7], vec![1, 0]));
    }
}
