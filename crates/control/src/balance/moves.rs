//! Choice of the buckets that change worker: a pure function from loads to moves.
//!
//! Inactive workers lose all their buckets. Then buckets move from the most loaded worker to the least loaded one, each
//! time the bucket whose load is closest to the difference from the mean. So few buckets move. If no single move helps,
//! two buckets are exchanged.

use std::collections::BTreeMap;
use std::time::Duration;
use steer::HELD_MAX;

/// Owner and load of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Worker that owns the bucket.
    pub worker: usize,
    /// Number of packets in the interval.
    pub load: u64,
}

/// Thresholds for the deviation of a worker's load from the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Relative deviation from the mean at which moving begins.
    pub share: f64,
    /// Relative deviation at which moving stops. It is below `share`, so that a balanced table does not start to move
    /// again.
    pub target: f64,
}

impl Limits {
    /// Limits with the start threshold `share` and half of it as target.
    pub fn of(share: f64) -> Limits {
        Limits {
            share,
            target: share / 2.0,
        }
    }
}

/// Number of buckets that may move at a time if their packets wait for `wait`, at least `least`. `rates` contains the
/// packets per second of each bucket.
pub fn concurrent_moves(
    rates: impl IntoIterator<Item = f64>,
    wait: Duration,
    least: usize,
) -> usize {
    let mut packets = 0.0;
    let fits = |rate: &f64| {
        packets += rate * wait.as_secs_f64();
        packets <= HELD_MAX as f64
    };
    rates.into_iter().take_while(fits).count().max(least)
}

/// Proposed move of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Number of the bucket.
    pub bucket: usize,
    /// Present owner.
    pub from: usize,
    /// New owner.
    pub to: usize,
    /// Number of packets in the last interval.
    pub load: u64,
}

/// Reason why buckets should move, or not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// There was no load.
    Idle,
    /// No worker deviates from the mean by more than the threshold.
    Even,
    /// Deviations are not statistically significant for so few packets.
    Chance,
    /// The worker with the greatest relative deviation from the mean, and this deviation.
    Uneven(usize, f64),
    /// The worker is inactive, and gives up its buckets.
    Leaves(usize),
}

/// Proposed moves and resulting loads.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// Moves in the order of buckets, each at most once.
    pub moves: Vec<Move>,
    /// Present load of each worker.
    pub before: Vec<u64>,
    /// Load of each worker after the moves, assuming constant loads of buckets.
    pub after: Vec<u64>,
    /// Buckets whose load alone exceeds a worker's fair share, heaviest first. A bucket is never split.
    pub oversized: Vec<usize>,
    /// Reason for the proposal.
    pub why: Reason,
}

/// Proposes moves. `base` contains each worker's load apart from these buckets, in packets; `works` is true for active
/// workers.
pub fn propose(buckets: &[Bucket], base: &[u64], works: &[bool], limits: Limits) -> Proposal {
    let mut state = State::new(buckets, base, works);
    let before = state.loads.clone();
    let active: Vec<usize> = (0..works.len()).filter(|&w| works[w]).collect();
    let mean = mean(&state.loads, &active);
    let left = buckets.iter().find(|b| !works[b.worker]).map(|b| b.worker);
    let why = match left {
        _ if active.is_empty() => Reason::Idle,
        Some(worker) => Reason::Leaves(worker),
        None => reason(&state.loads, &active, mean, limits),
    };
    if matches!(why, Reason::Leaves(_)) {
        state.empty_inactive(&active);
    }
    if matches!(why, Reason::Leaves(_) | Reason::Uneven(..)) {
        state.level_loads(active, limits.target);
    }
    let above = |b: &usize| buckets[*b].load as f64 > mean && mean > 0.0;
    let mut oversized: Vec<usize> = (0..buckets.len()).filter(above).collect();
    oversized.sort_by_key(|&b| std::cmp::Reverse(buckets[b].load));
    Proposal {
        moves: state.moves(buckets),
        before,
        after: state.loads,
        oversized,
        why,
    }
}

fn mean(loads: &[u64], workers: &[usize]) -> f64 {
    workers.iter().map(|&w| loads[w] as f64).sum::<f64>() / workers.len().max(1) as f64
}

/// Worker with the greatest relative deviation from the mean, and this deviation.
fn max_deviation(loads: &[u64], workers: &[usize], mean: f64) -> Option<(usize, f64)> {
    let off = |w: usize| (loads[w] as f64 - mean).abs() / mean;
    let worst = workers.iter().copied().max_by(|&a, &b| {
        // The first worker counts if deviations are equal.
        off(a).total_cmp(&off(b)).then(b.cmp(&a))
    });
    worst.map(|w| (w, off(w)))
}

fn reason(loads: &[u64], active: &[usize], mean: f64, limits: Limits) -> Reason {
    if mean <= 0.0 {
        return Reason::Idle;
    }
    match max_deviation(loads, active, mean) {
        Some((worker, off)) if off > limits.share => {
            // Three standard deviations of independent packets.
            let chance = 3.0 / mean.sqrt();
            match off > chance {
                true => Reason::Uneven(worker, off),
                false => Reason::Chance,
            }
        }
        _ => Reason::Even,
    }
}

/// Load and number of a bucket with packets.
type Load = (u64, usize);

struct State {
    loads: Vec<u64>,
    /// Buckets with packets by worker, lightest first.
    loaded: Vec<Vec<Load>>,
    /// Buckets without packets, by worker.
    idle_buckets: Vec<Vec<usize>>,
    owner: Vec<usize>,
}

impl State {
    fn new(buckets: &[Bucket], base: &[u64], works: &[bool]) -> State {
        let mut state = State {
            loads: base.to_vec(),
            loaded: vec![Vec::new(); works.len()],
            idle_buckets: vec![Vec::new(); works.len()],
            owner: buckets.iter().map(|b| b.worker).collect(),
        };
        for (at, bucket) in buckets.iter().enumerate() {
            state.loads[bucket.worker] += bucket.load;
            match bucket.load {
                0 => state.idle_buckets[bucket.worker].push(at),
                load => state.loaded[bucket.worker].push((load, at)),
            }
        }
        state.loaded.iter_mut().for_each(|l| l.sort_unstable());
        state
    }

    fn assign(&mut self, (load, bucket): Load, to: usize) {
        let from = self.owner[bucket];
        self.loaded[from].retain(|&(_, b)| b != bucket);
        let at = self.loaded[to].partition_point(|&other| other < (load, bucket));
        self.loaded[to].insert(at, (load, bucket));
        self.loads[from] -= load;
        self.loads[to] += load;
        self.owner[bucket] = to;
    }

    /// Moves all buckets of inactive workers: the heaviest to the lightest worker, those without packets to the worker
    /// with the fewest buckets.
    fn empty_inactive(&mut self, active: &[usize]) {
        let leaving = |w: &usize| !active.contains(w);
        let leaving: Vec<usize> = (0..self.loads.len()).filter(leaving).collect();
        let mut all: Vec<Load> = Vec::new();
        leaving.iter().for_each(|&w| all.extend(&self.loaded[w]));
        all.sort_by_key(|&(load, bucket)| (std::cmp::Reverse(load), bucket));
        for bucket in all {
            let lightest = active.iter().copied().min_by_key(|&w| (self.loads[w], w));
            self.assign(bucket, lightest.unwrap_or(0));
        }
        for worker in leaving {
            for bucket in std::mem::take(&mut self.idle_buckets[worker]) {
                let count = |w: usize| self.idle_buckets[w].len() + self.loaded[w].len();
                let fewest = active.iter().copied().min_by_key(|&w| (count(w), w));
                let to = fewest.unwrap_or(0);
                self.idle_buckets[to].push(bucket);
                self.owner[bucket] = to;
            }
        }
    }

    /// Evens out the loads of the workers in `pool`. Each step reduces the sum of squared loads.
    fn level_loads(&mut self, mut pool: Vec<usize>, target: f64) {
        while pool.len() > 1 {
            let mean = mean(&self.loads, &pool);
            match max_deviation(&self.loads, &pool, mean) {
                Some((_, off)) if mean > 0.0 && off > target => {}
                _ => return,
            }
            let by_load = |w: &usize| (self.loads[*w], *w);
            let (Some(heavy), Some(light)) = (
                pool.iter().copied().max_by_key(by_load),
                pool.iter().copied().min_by_key(by_load),
            ) else {
                return;
            };
            if !self.improve(heavy, light, mean) {
                // No move from the heaviest worker reduces the sum: it is excluded.
                pool.retain(|&w| w != heavy);
            }
        }
    }

    /// Moves a bucket from `heavy` to `light`, or exchanges two. Returns false if nothing reduces the sum.
    fn improve(&mut self, heavy: usize, light: usize, mean: f64) -> bool {
        let gap = self.loads[heavy] - self.loads[light];
        let much = self.loads[heavy] as f64 - mean;
        let wanted = much.min(mean - self.loads[light] as f64);
        let off = |load: u64| (load as f64 - wanted).abs();
        let fits = self.loaded[heavy].iter().filter(|b| b.0 < gap);
        let single = fits
            .min_by(|a, b| off(a.0).total_cmp(&off(b.0)))
            .copied()
            .filter(|b| (b.0 as f64) < 2.0 * wanted);
        if let Some(bucket) = single {
            self.assign(bucket, light);
            return true;
        }
        match self.exchange(heavy, light, gap, wanted) {
            Some((there, back)) => {
                self.assign(there, light);
                self.assign(back, heavy);
                true
            }
            None => {
                // The lightest bucket, if `light` stays below the present load of `heavy`.
                let least = self.loaded[heavy].first().copied();
                let helps = least.filter(|b| b.0 < gap);
                helps.map(|bucket| self.assign(bucket, light)).is_some()
            }
        }
    }

    /// Best pair to exchange: a bucket of `heavy` and a lighter one of `light`.
    fn exchange(&self, heavy: usize, light: usize, gap: u64, wanted: f64) -> Option<(Load, Load)> {
        let mut best: Option<(f64, Load, Load)> = None;
        for &there in &self.loaded[heavy] {
            // The best candidates are next to this position on both sides.
            let at = self.loaded[light].partition_point(|b| b.0 as f64 <= there.0 as f64 - wanted);
            for &back in self.loaded[light][at.saturating_sub(1)..].iter().take(2) {
                let gained = there.0.saturating_sub(back.0);
                let off = (gained as f64 - wanted).abs();
                if gained > 0 && gained < gap && best.is_none_or(|(least, ..)| off < least) {
                    best = Some((off, there, back));
                }
            }
        }
        best.map(|(_, there, back)| (there, back))
    }

    fn moves(&self, buckets: &[Bucket]) -> Vec<Move> {
        let all = buckets.iter().zip(&self.owner).enumerate();
        let moved = all.filter(|(_, (was, owner))| was.worker != **owner);
        moved
            .map(|(bucket, (was, &to))| Move {
                bucket,
                from: was.worker,
                to,
                load: was.load,
            })
            .collect()
    }
}

impl Proposal {
    /// Moved buckets, by source and destination worker.
    pub fn by_pair(&self) -> BTreeMap<(usize, usize), Vec<usize>> {
        let mut pairs: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for m in &self.moves {
            pairs.entry((m.from, m.to)).or_default().push(m.bucket);
        }
        pairs
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reason::Idle => f.write_str("nothing came"),
            Reason::Even => f.write_str("the workers are even"),
            Reason::Chance => f.write_str("the workers differ by no more than chance"),
            Reason::Uneven(worker, off) => {
                write!(f, "worker {worker} is {:.0}% off the mean", off * 100.0)
            }
            Reason::Leaves(worker) => write!(f, "worker {worker} is to rest"),
        }
    }
}
