//! Reads a running router's load, and moves buckets and queues as the pure functions decide.

use super::doorbell::Doorbell;
use super::moves::{Bucket, Limits, Move, Proposal, Reason, concurrent_moves, propose};
use super::port_updates::Following;
use super::settings::{Mode, Settings};
use super::slow_workers::{IntervalMeasurement, SlowWorkers};
use super::worker_count::{FillLevel, Scaler};
use engine::clock::{Clock, Time};
use engine::plan::Plan;
use router::Router;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};
use steer::{Moves, Pressure, Table};
use sync::Lock;
use tracing::warn;

/// At least this fraction (one of so many parts) of a table's buckets may move at a time.
const MOVE_DIVISOR: usize = 16;
/// Minimum of the assumed time that packets wait during a move.
const MOVE_WAIT_MIN: Duration = Duration::from_millis(5);
const SHORTEST: Duration = Duration::from_millis(1);
/// Maximum number of events in the history.
const HISTORY_MAX: usize = 100;
/// Fill level, 0 to 1, from which a port's queue counts as congested. Rings to workers have a higher level, because
/// they always contain some packets.
const PORT_CROWDED: f64 = 0.25;
/// Fill level from which a port's queue counts as nearly full.
const PORT_FULL: f64 = 0.75;
const RING_CROWDED: f64 = 0.5;
/// Fraction of an interval that a measurement must cover to be conclusive.
const CONCLUSIVE_FRACTION: f64 = 0.5;
/// Precision of shares for slowed workers: buckets move until a load deviates from its share by at most half of this.
const SLOWED_SHARE_PRECISION: f64 = 0.02;
/// Maximum time for which loads below statistical significance are accumulated.
const ACCUMULATE_MAX: Duration = Duration::from_secs(1);

/// A move, or a failure to move.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Time since the start of load balancing.
    pub at: Duration,
    /// Action and its reason, or the failure.
    pub text: String,
}

/// Workers of a running router, between which load is balanced.
pub trait Workers: Moves {
    /// Plan that the workers run.
    fn plan(&self) -> Arc<Plan>;
    /// Number of workers.
    fn count(&self) -> usize;
    /// Current time of the router's clock.
    fn now(&self) -> Time;
    /// Busy time of a worker, in nanoseconds.
    fn busy(&self, worker: usize) -> u64;
}

impl Workers for Router {
    fn plan(&self) -> Arc<Plan> {
        Router::plan(self)
    }

    fn count(&self) -> usize {
        self.workers()
    }

    fn now(&self) -> Time {
        Clock::real().now()
    }

    fn busy(&self, worker: usize) -> u64 {
        self.times(worker).busy.load(Relaxed)
    }
}

/// Load balancer of a router.
pub struct Balance {
    state: Lock<State>,
    doorbell: Arc<Doorbell>,
}

/// Measurement of a table, and the proposed moves.
pub(super) struct TableMeasurement {
    pub(super) table: Arc<Table>,
    pub(super) proposal: Proposal,
    /// Number of buckets of each worker.
    pub(super) buckets: Vec<usize>,
    /// Duration of the measurement.
    pub(super) time: Duration,
}

/// Packet counters of a table's buckets at some time.
struct LastCounters {
    at: Time,
    loads: Vec<u64>,
    lost: u64,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) settings: Settings,
    started: Option<Time>,
    /// Time of the last measurement; `None` before the first.
    measured_at: Option<Instant>,
    now: Time,
    /// Last packet counters of each table, by name.
    last_counters: BTreeMap<String, LastCounters>,
    /// Busy time of each worker in nanoseconds, and the time at which it was read.
    busy_ns: Option<(Time, Vec<u64>)>,
    pub(super) busy: Vec<f64>,
    scaler: Scaler,
    slow_workers: SlowWorkers,
    /// Fill level of the fullest queue since the last complete interval. For each worker, true if its queue was
    /// congested for long.
    fill_level: f64,
    behind: Vec<bool>,
    /// Active workers, by the last measurement.
    active_workers: Vec<usize>,
    /// Time that packets waited during the last move.
    move_wait: Duration,
    /// Number of active workers, and of all workers.
    pub(super) active: usize,
    pub(super) all: usize,
    pub(super) measurements: Vec<TableMeasurement>,
    pub(super) history: VecDeque<Event>,
    pub(super) moved: u64,
    pub(super) moves: u64,
    pub(super) queues: u64,
    pub(super) following: Following,
}

impl Balance {
    /// A load balancer without measurements.
    pub fn new(settings: Settings) -> Balance {
        Balance {
            state: Lock::new(State {
                settings,
                move_wait: MOVE_WAIT_MIN,
                active: usize::MAX,
                ..State::default()
            }),
            doorbell: Arc::default(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Changes a setting ([`Settings::set`]). The text `now` performs the moves proposed last.
    ///
    /// # Errors
    ///
    /// The setting is invalid; a message.
    pub fn set(&self, router: &impl Workers, text: &str) -> Result<(), String> {
        let mut state = self.lock();
        match text.trim() {
            "now" => {
                state.act(router);
                state.following.observe(&router.plan(), router.now());
                state.follow(router, true);
            }
            text => {
                state.settings.set(text)?;
                state.scaler = Scaler::default();
            }
        }
        Ok(())
    }

    /// Measures once, and moves buckets if the settings allow it.
    pub fn run_interval(&self, router: &impl Workers) {
        let mut state = self.lock();
        state.step(router, &self.doorbell);
        state.measured_at = Some(Instant::now());
    }

    /// True if the doorbell is pending.
    pub(crate) fn is_rung(&self) -> bool {
        self.doorbell.is_rung()
    }

    /// Measures if the interval is over or the doorbell is pending. Returns the time until the next measurement. The
    /// doorbell wakes the calling thread, which must be the same for all calls.
    pub fn step_if_due(&self, router: &impl Workers) -> Duration {
        let left = || {
            let state = self.lock();
            let over = state.measured_at.map(|at| at.elapsed());
            over.map_or(Duration::ZERO, |over| {
                state.settings.interval.saturating_sub(over)
            })
        };
        if self.doorbell.was_rung() || left().is_zero() {
            self.run_interval(router);
        }
        left()
    }

    /// Number of active workers, and of all workers.
    pub fn workers(&self) -> (usize, usize) {
        let state = self.lock();
        (state.active.min(state.all), state.all)
    }

    /// Number of moved buckets, of moves, and of moved queues.
    pub fn moves(&self) -> (u64, u64, u64) {
        let state = self.lock();
        (state.moved, state.moves, state.queues)
    }

    /// Past actions, the latest at the end.
    pub fn history(&self) -> Vec<Event> {
        self.lock().history.iter().cloned().collect()
    }
}

/// For each worker, true if one of its buckets alone exceeds a worker's share of all packets.
fn large(loads: &[Vec<Bucket>], is_active: &[bool]) -> Vec<bool> {
    let total: u64 = loads.iter().flatten().map(|bucket| bucket.load).sum();
    let workers = is_active.iter().filter(|&&is_active| is_active).count() as u64;
    let mut large = vec![false; is_active.len()];
    for bucket in loads.iter().flatten() {
        large[bucket.worker] |= bucket.load.saturating_mul(workers) > total;
    }
    large
}

impl State {
    fn step(&mut self, router: &impl Workers, doorbell: &Arc<Doorbell>) {
        self.now = router.now();
        self.started.get_or_insert(self.now);
        let plan = router.plan();
        let mut tables = steer::tables(&plan);
        for table in &tables {
            let doorbell = Arc::clone(doorbell);
            table.set_doorbell(|| Box::new(move || doorbell.ring()));
        }
        // Newly started workers, or those with a new plan, assign their buckets later.
        tables.retain(|table| !table.workers().is_empty());
        let workers: BTreeSet<usize> = tables.iter().flat_map(|t| t.workers()).collect();
        let mut workers = Vec::from_iter(workers);
        self.measurements.clear();
        self.all = workers.len();
        if workers.len() < 2 {
            self.last_counters.clear();
            return;
        }
        let fill = self.measure(router, &tables);
        let is_new = self.busy_ns.as_ref().is_some_and(|(at, _)| *at == self.now);
        let wanted = self.target_workers(&workers, fill, is_new);
        workers.truncate(wanted);
        let is_active: Vec<bool> = (0..router.count()).map(|w| workers.contains(&w)).collect();
        let loads: Vec<Vec<Bucket>> = tables.iter().map(|t| self.loads(t)).collect();
        let share = self.settings.share;
        self.measurements = self.propose_all(&tables, loads.clone(), &is_active, share);
        let acts = self.settings.mode != Mode::Off;
        let large = large(&loads, &is_active);
        if is_new && acts && self.cut_slow_worker(&is_active, &large) {
            // The excess load of a worker is known exactly, so the threshold can be small.
            self.measurements = self.propose_all(
                &tables,
                loads,
                &is_active,
                share.min(SLOWED_SHARE_PRECISION),
            );
        }
        self.active_workers = workers;
        self.reset_counters(&tables);
        if self.settings.mode != Mode::Off {
            self.act(router);
        }
        self.following.observe(&plan, router.now());
        if self.settings.mode != Mode::Off {
            self.follow(router, false);
        }
    }

    fn propose_all(
        &self,
        tables: &[Arc<Table>],
        mut loads: Vec<Vec<Bucket>>,
        is_active: &[bool],
        share: f64,
    ) -> Vec<TableMeasurement> {
        let each = (0..tables.len()).map(|at| {
            let measurement = self.propose(tables, at, &loads, is_active, share);
            // The next table is balanced as if this table's buckets had moved.
            let moves = measurement.proposal.moves.iter();
            moves.for_each(|m| loads[at][m.bucket].worker = m.to);
            measurement
        });
        each.collect()
    }

    /// Finds an overloaded worker while others have time. Returns true if its share is cut from now on.
    fn cut_slow_worker(&mut self, is_active: &[bool], large: &[bool]) -> bool {
        let found = IntervalMeasurement {
            busy: &self.busy,
            congested: &std::mem::take(&mut self.behind),
            active: is_active,
            large,
            fill_level: std::mem::take(&mut self.fill_level),
            even: self
                .measurements
                .iter()
                .all(|measurement| measurement.proposal.moves.is_empty()),
        };
        let Some((worker, share)) = self.slow_workers.evaluate(&found) else {
            return false;
        };
        let percent = share * 100.0;
        let text = format!(
            "worker {worker} is overloaded while others have time: it gets {percent:.0}% of their share"
        );
        self.log(self.now, text);
        true
    }

    /// Performs the moves proposed last.
    fn act(&mut self, router: &impl Workers) {
        let measurements = std::mem::take(&mut self.measurements);
        for measurement in &measurements {
            self.apply_moves(router, measurement);
        }
        self.measurements = measurements;
        if !self.measurements.is_empty() {
            self.active = self.active_workers.len();
            let rest = self.active < self.all;
            self.measurements
                .iter()
                .for_each(|measurement| measurement.table.set_rest(rest));
            self.assign_queues(router, &router.plan());
        }
    }

    /// Measures the busy time of workers. Returns how congested rings and ports' queues were.
    fn measure(&mut self, router: &impl Workers, tables: &[Arc<Table>]) -> FillLevel {
        let now = self.now;
        let busy_ns: Vec<u64> = (0..router.count()).map(|w| router.busy(w)).collect();
        let whole = self.settings.interval.mul_f64(CONCLUSIVE_FRACTION);
        match &self.busy_ns {
            None => self.busy = vec![0.0; router.count()],
            Some((at, before)) if now.since(*at) >= whole => {
                let time = now.since(*at).as_nanos().max(1) as f64;
                let pairs = busy_ns.iter().zip(before);
                self.busy = pairs
                    .map(|(n, b)| (n.saturating_sub(*b) as f64 / time).min(1.0))
                    .collect();
            }
            // The doorbell is pending, and the interval too short to measure busy times.
            Some(_) => return self.read_fill_levels(tables),
        }
        self.busy_ns = Some((now, busy_ns));
        self.read_fill_levels(tables)
    }

    fn read_fill_levels(&mut self, tables: &[Arc<Table>]) -> FillLevel {
        let workers = self.busy.len();
        let (mut level, mut behind) = (self.fill_level, std::mem::take(&mut self.behind));
        behind.resize(workers, false);
        let mut fill = |table: &Arc<Table>| {
            let lost: u64 = table.lost_packets().iter().sum();
            let before = self.last_counters.get(table.name()).map(|seen| seen.lost);
            let Pressure {
                port,
                ring,
                congested: found,
            } = table.take_pressure(workers);
            level = level.max(port);
            let pairs = behind.iter_mut().zip(found);
            pairs.for_each(|(was, is)| *was |= is);
            if before.is_some_and(|before| lost > before) {
                FillLevel::Lost
            } else if port >= PORT_FULL {
                FillLevel::Full
            } else if port >= PORT_CROWDED || ring >= RING_CROWDED {
                FillLevel::Some
            } else {
                FillLevel::None
            }
        };
        // All tables are read, which also resets their levels.
        let fill = tables.iter().map(&mut fill).max().unwrap_or_default();
        (self.fill_level, self.behind) = (level, behind);
        fill
    }

    /// Number of workers that should be active.
    fn target_workers(&mut self, workers: &[usize], fill: FillLevel, is_new: bool) -> usize {
        if let Some(fixed) = self.settings.workers {
            return fixed.clamp(1, self.all);
        }
        if self.settings.mode == Mode::Even {
            return self.all;
        }
        let now = self.active.clamp(1, self.all);
        let busy: Vec<f64> = workers.iter().map(|&w| self.busy[w]).collect();
        self.scaler.target_workers(&busy, fill, now, is_new)
    }

    /// Load of a table's buckets since they were last balanced.
    fn loads(&self, table: &Table) -> Vec<Bucket> {
        let (now, owners) = (table.loads(), table.owners());
        let before = self.last_counters.get(table.name());
        let load = |bucket: usize| {
            let before = before.and_then(|seen| seen.loads.get(bucket));
            before.map_or(0, |before| now[bucket].saturating_sub(*before))
        };
        let each = owners.iter().enumerate().take(now.len());
        each.map(|(bucket, &worker)| Bucket {
            worker,
            load: load(bucket),
        })
        .collect()
    }

    fn propose(
        &self,
        tables: &[Arc<Table>],
        at: usize,
        loads: &[Vec<Bucket>],
        is_active: &[bool],
        share: f64,
    ) -> TableMeasurement {
        let table = &tables[at];
        // Base load of each worker: its buckets in the other tables, with their present owners.
        let mut base = vec![0; is_active.len()];
        let others = loads.iter().enumerate().filter(|(other, _)| *other != at);
        for bucket in others.flat_map(|(_, buckets)| buckets) {
            base[bucket.worker] += bucket.load;
        }
        let total = loads.iter().flatten().map(|bucket| bucket.load).sum();
        let less = self.slow_workers.virtual_loads(total);
        base.iter_mut()
            .zip(&less)
            .for_each(|(base, less)| *base += less);
        let may = table.workers();
        let mut is_active: Vec<bool> = (0..is_active.len())
            .map(|w| is_active[w] && may.contains(&w))
            .collect();
        if !is_active.contains(&true) {
            may.iter().take(1).for_each(|&w| is_active[w] = true);
        }
        let mut buckets = vec![0; is_active.len()];
        loads[at].iter().for_each(|b| buckets[b.worker] += 1);
        let seen = self.last_counters.get(table.name());
        let mut proposal = propose(&loads[at], &base, &is_active, Limits::of(share));
        // Subtracts the virtual load of slowed workers, which does not consist of packets.
        for loads in [&mut proposal.before, &mut proposal.after] {
            let pairs = loads.iter_mut().zip(&less);
            pairs.for_each(|(load, less)| *load = load.saturating_sub(*less));
        }
        TableMeasurement {
            table: Arc::clone(table),
            proposal,
            buckets,
            time: seen.map_or(Duration::ZERO, |seen| self.now.since(seen.at)),
        }
    }

    fn apply_moves(&mut self, router: &impl Workers, measurement: &TableMeasurement) {
        if !measurement.proposal.moves.is_empty() {
            self.slow_workers.invalidate();
        }
        let (table, why) = (&*measurement.table, measurement.proposal.why);
        let mut by_target: BTreeMap<usize, Vec<&Move>> = BTreeMap::new();
        for m in &measurement.proposal.moves {
            by_target.entry(m.to).or_default().push(m);
        }
        let (name, seconds) = (table.name(), measurement.time.as_secs_f64());
        for (to, moves) in by_target {
            let mut moves = &moves[..];
            while !moves.is_empty() {
                // Packets wait while their bucket moves. Only some buckets move at a time, so that the waiting packets
                // fit in memory.
                let rates = moves.iter().map(|m| m.load as f64 / seconds);
                let least = (table.buckets() / MOVE_DIVISOR).max(1);
                let n = concurrent_moves(rates, self.move_wait * 2, least).min(moves.len());
                let (part, others) = moves.split_at(n);
                moves = others;
                let bucket = |m: &&Move| u16::try_from(m.bucket).unwrap_or(u16::MAX);
                let buckets: Vec<u16> = part.iter().map(bucket).collect();
                match router.move_buckets(name, &buckets, to) {
                    Ok(moved) => {
                        if moved.unmoved > 0 || moved.held.waiting > 0 {
                            self.slow_workers.record_failed_move();
                        }
                        self.move_wait = moved.held.longest.max(SHORTEST);
                        self.moved += moved.buckets as u64;
                        self.moves += 1;
                        self.log(
                            router.now(),
                            format!("{name}: {why}: to worker {to}: {moved}"),
                        );
                    }
                    Err(e) => {
                        self.slow_workers.record_failed_move();
                        warn!(table = name, "buckets do not move: {e}");
                        let text = format!("{name}: buckets do not move to worker {to}: {e}");
                        self.log(router.now(), text);
                    }
                }
            }
        }
    }

    /// Moves ports' queues to active workers, and back when their first worker is active again.
    fn assign_queues(&mut self, router: &impl Workers, plan: &Plan) {
        for (node, queues) in steer::queue_owners(plan) {
            let (element, active) = (&plan.elements[node], &self.active_workers);
            let workers = element.workers.iter().copied();
            let may: Vec<usize> = workers.filter(|worker| active.contains(worker)).collect();
            let to = |(queue, owner): (usize, usize)| {
                let at_home = |worker: &usize| element.queues_of(*worker).contains(&queue);
                let home = may.iter().copied().find(at_home);
                let stays = may.contains(&owner) || may.is_empty();
                let to = home.or_else(|| (!stays).then(|| may[queue % may.len()]))?;
                (to != owner).then_some((queue, owner, to))
            };
            for (queue, owner, to) in queues.into_iter().filter_map(to) {
                let name = &element.name;
                let text = match router.move_queue(name, queue, to) {
                    Ok(in_time) => {
                        self.queues += 1;
                        let late = if in_time {
                            ""
                        } else {
                            "; packets of before were late"
                        };
                        format!("{name}: queue {queue} from worker {owner} to {to}{late}")
                    }
                    Err(e) => format!("{name}: queue {queue} does not move to worker {to}: {e}"),
                };
                self.log(router.now(), text);
            }
        }
    }

    /// Resets the loads of tables, except of those with too few packets.
    fn reset_counters(&mut self, tables: &[Arc<Table>]) {
        let now = self.now;
        for (table, measurement) in tables.iter().zip(&self.measurements) {
            let lost = table.lost_packets().iter().sum();
            if measurement.proposal.why == Reason::Chance
                && measurement.time < ACCUMULATE_MAX
                && let Some(seen) = self.last_counters.get_mut(table.name())
            {
                seen.lost = lost;
                continue;
            }
            let seen = LastCounters {
                at: now,
                loads: table.loads(),
                lost,
            };
            self.last_counters.insert(table.name().to_owned(), seen);
        }
    }

    pub(super) fn log(&mut self, now: Time, text: String) {
        let at = now.since(self.started.unwrap_or(now));
        if self.history.len() == HISTORY_MAX {
            self.history.pop_front();
        }
        self.history.push_back(Event { at, text });
    }
}
