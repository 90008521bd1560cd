//! Ownership of buckets: the indirection table of receive-side scaling, for any classification and any port.
//!
//! Packets are sorted into buckets ([`Packet::bucket`](engine::packet::Packet::bucket)); a [`Table`] gives every bucket
//! a worker. The elements that steer by one table have their own copies of it, so that the packet path shares nothing;
//! this module has control's view.

use engine::packet::BUCKETS_MAX;
use engine::wake::WakeFn;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use sync::Lock;

/// Maximum number of held packets of moving buckets on a worker; above it the worker's sources stop polling.
pub const HELD_MAX: usize = 4096;

/// Default time that a move waits for earlier packets.
pub(crate) const LIMIT: Duration = Duration::from_millis(50);

/// The tables of a router, by name and number of buckets. They outlive reloads.
#[derive(Default)]
pub struct Tables(Lock<HashMap<(String, usize), Weak<Table>>>);

impl Tables {
    /// The table of this name with this number of buckets, made if none exists.
    pub fn get(&self, name: &str, buckets: usize) -> Arc<Table> {
        let mut tables = self.0.lock();
        tables.retain(|_, table| table.strong_count() > 0);
        let key = (name.to_owned(), buckets);
        if let Some(table) = tables.get(&key).and_then(Weak::upgrade) {
            return table;
        }
        let table = Arc::new(Table::new(name, buckets));
        tables.insert(key, Arc::downgrade(&table));
        table
    }

    /// The existing tables, by name.
    pub fn all(&self) -> Vec<Arc<Table>> {
        let mut all: Vec<_> = self.0.lock().values().filter_map(Weak::upgrade).collect();
        all.sort_by(|a, b| (&a.name, a.buckets).cmp(&(&b.name, b.buckets)));
        all
    }
}

/// Packets of each bucket that a worker has steered, and those dropped because a ring was full. Only that worker
/// writes.
pub struct Counts {
    packet_counts: Box<[AtomicU64; BUCKETS_MAX]>,
    full: Box<[AtomicU64]>,
}

impl Counts {
    fn new(buckets: usize) -> Counts {
        Counts {
            packet_counts: Box::new([const { AtomicU64::new(0) }; BUCKETS_MAX]),
            full: (0..buckets).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Packet counts by bucket, for every possible bucket. Only the worker to which the counts belong may add to
    /// them, by [`add`].
    #[inline]
    pub fn packet_counts(&self) -> &[AtomicU64; BUCKETS_MAX] {
        &self.packet_counts
    }

    /// Counts of lost packets by bucket, like [`packet_counts`](Self::packet_counts).
    #[inline]
    pub fn full(&self) -> &[AtomicU64] {
        &self.full
    }
}

/// Packets that had to wait for a move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Number of packets that wait now.
    pub waiting: usize,
    /// Number of packets that had to wait.
    pub packets: u64,
    /// Maximum time that a packet had to wait.
    pub longest: Duration,
}

impl Held {
    /// Sum of two workers' held packets, or of one worker's in two moves.
    pub(crate) fn with(self, other: Held) -> Held {
        Held {
            waiting: self.waiting + other.waiting,
            packets: self.packets + other.packets,
            longest: self.longest.max(other.longest),
        }
    }
}

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (packets, micros) = (self.packets, self.longest.as_micros());
        write!(f, "{packets} packets waited, the longest {micros} us")
    }
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
    state: Lock<State>,
    /// Time limit of a move, in microseconds.
    limit: AtomicU64,
    /// True if packets held for an earlier move may still wait.
    unsettled: AtomicBool,
    counts: OnceLock<Vec<Counts>>,
    rings: Lock<Vec<Weak<dyn Rings>>>,
    watchers: Lock<Vec<Weak<dyn Assigned>>>,
    doorbell: OnceLock<WakeFn>,
    /// Maximum fill level of a port's queue since the last query, in thousandths.
    port: AtomicU64,
    /// For each worker, a bit: set if one of its queues has been a quarter full for long.
    crowded_bits: AtomicU64,
    /// Maximum fill level of a ring between workers since the last query, in thousandths.
    ring: AtomicU64,
    /// True if some workers are idle that could take buckets.
    idle_workers: AtomicBool,
}

/// Listener for assignments of buckets to workers.
pub trait Assigned: Send + Sync {
    /// Called when buckets have been assigned, or reassigned to other workers.
    fn assigned(&self);
}

/// The rings by which an element that steers hands packets from worker to worker.
pub trait Rings: Send + Sync {
    /// Fill level of the fullest ring, 0 to 1.
    fn fill(&self) -> f64;
}

/// Load that workers have observed since the last query: fill levels of queues and rings.
#[derive(Clone, Debug, Default)]
pub struct Pressure {
    /// Fill level of a port's fullest queue, 0 to 1; 0 if below a quarter.
    pub port: f64,
    /// Fill level of the fullest ring between workers, 0 to 1.
    pub ring: f64,
    /// For each worker, true if one of its queues has been a quarter full for long.
    pub congested: Vec<bool>,
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
            state: Lock::default(),
            limit: AtomicU64::new(LIMIT.as_micros() as u64),
            unsettled: AtomicBool::new(false),
            counts: OnceLock::new(),
            rings: Lock::default(),
            watchers: Lock::default(),
            doorbell: OnceLock::new(),
            port: AtomicU64::new(0),
            crowded_bits: AtomicU64::new(0),
            ring: AtomicU64::new(0),
            idle_workers: AtomicBool::new(false),
        }
    }

    /// Sets the doorbell, which workers ring when rings or queues of ports fill up. Only the first call has an
    /// effect.
    pub fn set_doorbell(&self, doorbell: impl FnOnce() -> WakeFn) {
        self.doorbell.get_or_init(doorbell);
    }

    /// Rings the doorbell. The listener merges many rings into one action.
    #[cold]
    fn ring_doorbell(&self) {
        if let Some(doorbell) = self.doorbell.get() {
            doorbell();
        }
    }

    /// Adds a listener for assignments of buckets.
    pub fn add_listener(&self, who: Weak<dyn Assigned>) {
        self.watchers.lock().push(who);
    }

    /// Adds the rings of an element, for as long as they are in use.
    pub fn watch(&self, rings: Weak<dyn Rings>) {
        self.rings.lock().push(rings);
    }

    /// Records the fill level of a receive queue of a worker, from 0.25 to 1; the queue's port is steered by this
    /// table. If the level `grows`, the doorbell rings when the queue is half full, or sooner while some workers
    /// sleep. `lasts` is true if the queue has been a quarter full for long.
    pub fn note_port(&self, worker: usize, fill: f64, grows: bool, lasts: bool) {
        // Workers beyond the number of bits are not distinguished.
        let bit = 1u64.checked_shl(worker as u32).unwrap_or(0);
        self.crowded_bits
            .fetch_or(if lasts { bit } else { 0 }, Relaxed);
        self.port.fetch_max((fill * 1000.0) as u64, Relaxed);
        if grows && (fill >= 0.5 || self.idle_workers.load(Relaxed)) {
            self.ring_doorbell();
        }
    }

    /// Records the fill level of a ring between workers, from 0 to 1, and rings the doorbell.
    #[cold]
    pub fn note_ring(&self, fill: f64) {
        self.ring.fetch_max((fill * 1000.0) as u64, Relaxed);
        self.ring_doorbell();
    }

    /// Load that this number of workers has observed since the last call.
    pub fn take_pressure(&self, workers: usize) -> Pressure {
        let noted = |value: &AtomicU64| value.swap(0, Relaxed) as f64 / 1000.0;
        let behind = self.crowded_bits.swap(0, Relaxed);
        let bit = |worker: usize| behind.checked_shr(worker as u32).unwrap_or(0) & 1 == 1;
        let mut rings = self.rings.lock();
        rings.retain(|rings| rings.strong_count() > 0);
        let each = rings.iter().filter_map(Weak::upgrade);
        Pressure {
            port: noted(&self.port),
            ring: each
                .map(|rings| rings.fill())
                .fold(noted(&self.ring), f64::max),
            congested: (0..workers).map(bit).collect(),
        }
    }

    /// Records if some workers are idle that could take buckets.
    pub fn set_rest(&self, rest: bool) {
        self.idle_workers.store(rest, Relaxed);
    }

    /// Name of the table.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of buckets.
    pub fn buckets(&self) -> usize {
        self.buckets
    }

    /// Workers that may own buckets, ascending; empty before a graph is built.
    pub fn workers(&self) -> Vec<usize> {
        self.state.lock().workers.clone()
    }

    /// Time that a move waits for earlier packets.
    pub fn limit(&self) -> Duration {
        Duration::from_micros(self.limit.load(Relaxed))
    }

    /// Sets the time that a move waits for earlier packets.
    pub fn set_limit(&self, limit: Duration) {
        let micros = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        self.limit.store(micros, Relaxed);
    }

    /// Records if all packets held for a move have been released.
    pub(crate) fn settled(&self, is: bool) {
        self.unsettled.store(!is, Relaxed);
    }

    pub(crate) fn is_settled(&self) -> bool {
        !self.unsettled.load(Relaxed)
    }

    /// Owners by bucket; empty before a graph is built.
    pub fn owners(&self) -> Vec<usize> {
        self.state.lock().owners.clone()
    }

    /// Assigns buckets to `workers`, which have copies of the table, and returns the owners. The first call assigns all
    /// buckets in turn; a later call, only the buckets of workers that are no longer in the list.
    pub fn assign(&self, workers: &[usize]) -> Vec<usize> {
        let mut state = self.state.lock();
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
            let mut watchers = self.watchers.lock();
            watchers.retain(|who| who.strong_count() > 0);
            let all: Vec<_> = watchers.iter().filter_map(Weak::upgrade).collect();
            drop(watchers);
            all.iter().for_each(|who| who.assigned());
        }
        owners
    }

    /// Records that buckets have been moved to a worker.
    pub fn set_owner(&self, buckets: &[u16], to: usize) {
        let mut state = self.state.lock();
        for &bucket in buckets {
            if let Some(owner) = state.owners.get_mut(usize::from(bucket)) {
                *owner = to;
            }
        }
    }

    /// Counts of each worker, shared by all elements that steer by the table.
    pub fn counts(&self, workers: usize) -> &[Counts] {
        self.counts
            .get_or_init(|| (0..workers).map(|_| Counts::new(self.buckets)).collect())
    }

    /// Number of packets by bucket since the table was made, over all workers.
    pub fn loads(&self) -> Vec<u64> {
        self.sum(|counts| counts.packet_counts())
    }

    /// Number of packets by bucket that were lost because a ring to their owner was full.
    pub fn lost_packets(&self) -> Vec<u64> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_assigned_in_turn_and_those_of_lost_workers_again() {
        let tables = Tables::default();
        let table = tables.get("hash", 5);
        assert_eq!(table.assign(&[0, 2]), [0, 2, 0, 2, 0]);
        assert!(Arc::ptr_eq(&table, &tables.get("hash", 5)));
        assert_eq!(table.assign(&[0, 1]), [0, 1, 0, 1, 0]);
        assert_eq!(table.show(), "worker 0: 0 2 4\nworker 1: 1 3\n");
        assert_eq!(tables.all().len(), 1);
        drop(table);
        assert!(tables.all().is_empty());
    }

    #[test]
    fn loads_are_added_over_workers() {
        let table = Tables::default().get("t", 2);
        let counts = table.counts(2);
        add(&counts[0].packet_counts()[1], 3);
        add(&counts[1].packet_counts()[1], 4);
        add(&counts[1].full()[0], 1);
        assert_eq!(
            (table.loads(), table.lost_packets()),
            (vec![0, 7], vec![1, 0])
        );
    }
}
