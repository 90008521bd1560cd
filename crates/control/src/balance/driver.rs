//! Reads a running router's load, and moves buckets and queues as the pure functions decide.

use super::doorbell::Doorbell;
use super::follow::Following;
use super::moves::{Bucket, Limits, Move, Proposal, Why, concurrent_moves, propose};
use super::scale::{Crowd, Scaler};
use super::settings::{Mode, Settings};
use super::slower::{Found, Slower};
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

/// Divisor for the minimum number of a table's buckets that may move at a time.
const PARTS: usize = 16;
/// Assumed and minimum time that packets wait during a move.
const WAIT: Duration = Duration::from_millis(5);
const SHORTEST: Duration = Duration::from_millis(1);
/// Maximum number of events in the history.
const REMEMBERED: usize = 100;
/// Fill levels from which a port's queue, and a ring to a worker, count as crowded. Rings always contain some packets.
const PORT_CROWDED: f64 = 0.25;
/// Fill level from which a port's queue counts as nearly full.
const PORT_FULL: f64 = 0.75;
const RING_CROWDED: f64 = 0.5;
/// Fraction of an interval that a measurement must cover to be conclusive.
const WHOLE: f64 = 0.5;
/// Precision of shares for slowed workers: buckets move until a load deviates from its share by at most half of this.
const EXACT: f64 = 0.02;
/// Maximum time for which loads below statistical significance are accumulated.
const LONGEST: Duration = Duration::from_secs(1);

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
pub(super) struct Look {
    pub(super) table: Arc<Table>,
    pub(super) proposal: Proposal,
    /// Number of buckets of each worker.
    pub(super) buckets: Vec<usize>,
    /// Duration of the measurement.
    pub(super) time: Duration,
}

/// Packet counters of a table's buckets at some time.
struct Seen {
    at: Time,
    loads: Vec<u64>,
    lost: u64,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) settings: Settings,
    started: Option<Time>,
    /// Time of the last measurement; `None` before the first.
    looked: Option<Instant>,
    now: Time,
    /// Last packet counters of each table, by name.
    seen: BTreeMap<String, Seen>,
    /// Busy time of each worker in nanoseconds, and the time at which it was read.
    pulses: Option<(Time, Vec<u64>)>,
    pub(super) busy: Vec<f64>,
    scaler: Scaler,
    slower: Slower,
    /// Fill level of the fullest queue since the last complete interval. For each worker, true if its queue was crowded
    /// for long.
    level: f64,
    behind: Vec<bool>,
    /// Active workers, by the last measurement.
    works: Vec<usize>,
    /// Time that packets waited during the last move.
    wait: Duration,
    /// Number of active workers, and of all workers.
    pub(super) active: usize,
    pub(super) all: usize,
    pub(super) looks: Vec<Look>,
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
                wait: WAIT,
                active: usize::MAX,
                ..State::default()
            }),
            doorbell: Arc::default(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Changes a setting ([`Settings::set`]). `now` performs the moves proposed last.
    ///
    /// # Errors
    ///
    /// The setting is invalid; a message.
    pub fn set(&self, router: &impl Workers, text: &str) -> Result<(), String> {
        let mut state = self.lock();
        match text.trim() {
            "now" => {
                state.act(router);
                state.following.look(&router.plan(), router.now());
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
    pub fn step(&self, router: &impl Workers) {
        let mut state = self.lock();
        state.step(router, &self.doorbell);
        state.looked = Some(Instant::now());
    }

    /// True if the doorbell is pending.
    pub(crate) fn is_rung(&self) -> bool {
        self.doorbell.is_rung()
    }

    /// Measures if the interval is over or a worker has rung. Returns the time until the next measurement. A ring wakes
    /// the calling thread, which must be the same for all calls.
    pub fn step_if_due(&self, router: &impl Workers) -> Duration {
        let left = || {
            let state = self.lock();
            let over = state.looked.map(|at| at.elapsed());
            over.map_or(Duration::ZERO, |over| {
                state.settings.interval.saturating_sub(over)
            })
        };
        if self.doorbell.was_rung() || left().is_zero() {
            self.step(router);
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
fn large(loads: &[Vec<Bucket>], works: &[bool]) -> Vec<bool> {
    let total: u64 = loads.iter().flatten().map(|bucket| bucket.load).sum();
    let workers = works.iter().filter(|&&works| works).count() as u64;
    let mut large = vec![false; works.len()];
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
        self.looks.clear();
        self.all = workers.len();
        if workers.len() < 2 {
            self.seen.clear();
            return;
        }
        let crowd = self.look(router, &tables);
        let is_new = self.pulses.as_ref().is_some_and(|(at, _)| *at == self.now);
        let wanted = self.wanted(&workers, crowd, is_new);
        workers.truncate(wanted);
        let works: Vec<bool> = (0..router.count()).map(|w| workers.contains(&w)).collect();
        let loads: Vec<Vec<Bucket>> = tables.iter().map(|t| self.loads(t)).collect();
        let share = self.settings.share;
        self.looks = self.propose_all(&tables, loads.clone(), &works, share);
        let acts = self.settings.mode != Mode::Off;
        let large = large(&loads, &works);
        if is_new && acts && self.compare(&works, &large) {
            // The excess load of a worker is known exactly, so the threshold can be small.
            self.looks = self.propose_all(&tables, loads, &works, share.min(EXACT));
        }
        self.works = workers;
        self.remember(&tables);
        if self.settings.mode != Mode::Off {
            self.act(router);
        }
        self.following.look(&plan, router.now());
        if self.settings.mode != Mode::Off {
            self.follow(router, false);
        }
    }

    fn propose_all(
        &self,
        tables: &[Arc<Table>],
        mut loads: Vec<Vec<Bucket>>,
        works: &[bool],
        share: f64,
    ) -> Vec<Look> {
        let each = (0..tables.len()).map(|at| {
            let look = self.propose(tables, at, &loads, works, share);
            // The next table is balanced as if this table's buckets had moved.
            let moves = look.proposal.moves.iter();
            moves.for_each(|m| loads[at][m.bucket].worker = m.to);
            look
        });
        each.collect()
    }

    /// Finds an overloaded worker while others have time. Returns true if its share is cut from now on.
    fn compare(&mut self, works: &[bool], large: &[bool]) -> bool {
        let found = Found {
            busy: &self.busy,
            behind: &std::mem::take(&mut self.behind),
            works,
            large,
            level: std::mem::take(&mut self.level),
            even: self.looks.iter().all(|look| look.proposal.moves.is_empty()),
        };
        let Some((worker, share)) = self.slower.look(&found) else {
            return false;
        };
        let percent = share * 100.0;
        let text = format!(
            "worker {worker} is overloaded while others have time: it gets {percent:.0}% of their share"
        );
        self.say(self.now, text);
        true
    }

    /// Performs the moves proposed last.
    fn act(&mut self, router: &impl Workers) {
        let looks = std::mem::take(&mut self.looks);
        for look in &looks {
            self.even(router, look);
        }
        self.looks = looks;
        if !self.looks.is_empty() {
            self.active = self.works.len();
            let rest = self.active < self.all;
            self.looks.iter().for_each(|look| look.table.set_rest(rest));
            self.own_queues(router, &router.plan());
        }
    }

    /// Measures the busy time of workers. Returns how crowded rings and ports' queues were.
    fn look(&mut self, router: &impl Workers, tables: &[Arc<Table>]) -> Crowd {
        let now = self.now;
        let pulses: Vec<u64> = (0..router.count()).map(|w| router.busy(w)).collect();
        let whole = self.settings.interval.mul_f64(WHOLE);
        match &self.pulses {
            None => self.busy = vec![0.0; router.count()],
            Some((at, before)) if now.since(*at) >= whole => {
                let time = now.since(*at).as_nanos().max(1) as f64;
                let pairs = pulses.iter().zip(before);
                self.busy = pairs
                    .map(|(n, b)| (n.saturating_sub(*b) as f64 / time).min(1.0))
                    .collect();
            }
            // The doorbell has rung: a worker with full bursts was busy the whole time.
            Some(_) => return self.crowd(tables),
        }
        self.pulses = Some((now, pulses));
        self.crowd(tables)
    }

    fn crowd(&mut self, tables: &[Arc<Table>]) -> Crowd {
        let workers = self.busy.len();
        let (mut level, mut behind) = (self.level, std::mem::take(&mut self.behind));
        behind.resize(workers, false);
        let mut crowd = |table: &Arc<Table>| {
            let lost: u64 = table.lost().iter().sum();
            let before = self.seen.get(table.name()).map(|seen| seen.lost);
            let Pressure {
                port,
                ring,
                behind: found,
            } = table.take_pressure(workers);
            level = level.max(port);
            let pairs = behind.iter_mut().zip(found);
            pairs.for_each(|(was, is)| *was |= is);
            if before.is_some_and(|before| lost > before) {
                Crowd::Lost
            } else if port >= PORT_FULL {
                Crowd::Full
            } else if port >= PORT_CROWDED || ring >= RING_CROWDED {
                Crowd::Some
            } else {
                Crowd::None
            }
        };
        // All tables are read, which also resets their levels.
        let crowd = tables.iter().map(&mut crowd).max().unwrap_or_default();
        (self.level, self.behind) = (level, behind);
        crowd
    }

    /// Number of workers that should be active.
    fn wanted(&mut self, workers: &[usize], crowd: Crowd, is_new: bool) -> usize {
        if let Some(fixed) = self.settings.workers {
            return fixed.clamp(1, self.all);
        }
        if self.settings.mode == Mode::Even {
            return self.all;
        }
        let now = self.active.clamp(1, self.all);
        let busy: Vec<f64> = workers.iter().map(|&w| self.busy[w]).collect();
        self.scaler.look(&busy, crowd, now, is_new)
    }

    /// Load of a table's buckets since they were last balanced.
    fn loads(&self, table: &Table) -> Vec<Bucket> {
        let (now, owners) = (table.loads(), table.owners());
        let before = self.seen.get(table.name());
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
        works: &[bool],
        share: f64,
    ) -> Look {
        let table = &tables[at];
        // Base load of each worker: its buckets in the other tables, with their present owners.
        let mut base = vec![0; works.len()];
        let others = loads.iter().enumerate().filter(|(other, _)| *other != at);
        for bucket in others.flat_map(|(_, buckets)| buckets) {
            base[bucket.worker] += bucket.load;
        }
        let total = loads.iter().flatten().map(|bucket| bucket.load).sum();
        let less = self.slower.less(total);
        base.iter_mut()
            .zip(&less)
            .for_each(|(base, less)| *base += less);
        let may = table.workers();
        let mut works: Vec<bool> = (0..works.len())
            .map(|w| works[w] && may.contains(&w))
            .collect();
        if !works.contains(&true) {
            may.iter().take(1).for_each(|&w| works[w] = true);
        }
        let mut buckets = vec![0; works.len()];
        loads[at].iter().for_each(|b| buckets[b.worker] += 1);
        let seen = self.seen.get(table.name());
        let mut proposal = propose(&loads[at], &base, &works, Limits::of(share));
        // Subtracts the virtual load of slowed workers, which does not consist of packets.
        for loads in [&mut proposal.before, &mut proposal.after] {
            let pairs = loads.iter_mut().zip(&less);
            pairs.for_each(|(load, less)| *load = load.saturating_sub(*less));
        }
        Look {
            table: Arc::clone(table),
            proposal,
            buckets,
            time: seen.map_or(Duration::ZERO, |seen| self.now.since(seen.at)),
        }
    }

    fn even(&mut self, router: &impl Workers, look: &Look) {
        if !look.proposal.moves.is_empty() {
            self.slower.moved();
        }
        let (table, why) = (&*look.table, look.proposal.why);
        let mut by_target: BTreeMap<usize, Vec<&Move>> = BTreeMap::new();
        for m in &look.proposal.moves {
            by_target.entry(m.to).or_default().push(m);
        }
        let (name, seconds) = (table.name(), look.time.as_secs_f64());
        for (to, moves) in by_target {
            let mut moves = &moves[..];
            while !moves.is_empty() {
                // Packets wait while their bucket moves. Only some buckets move at a time, so that the waiting packets
                // fit in memory.
                let rates = moves.iter().map(|m| m.load as f64 / seconds);
                let least = (table.buckets() / PARTS).max(1);
                let n = concurrent_moves(rates, self.wait * 2, least).min(moves.len());
                let (part, others) = moves.split_at(n);
                moves = others;
                let bucket = |m: &&Move| u16::try_from(m.bucket).unwrap_or(u16::MAX);
                let buckets: Vec<u16> = part.iter().map(bucket).collect();
                match router.move_buckets(name, &buckets, to) {
                    Ok(moved) => {
                        if moved.stay > 0 || moved.held.waiting > 0 {
                            self.slower.stays();
                        }
                        self.wait = moved.held.longest.max(SHORTEST);
                        self.moved += moved.buckets as u64;
                        self.moves += 1;
                        self.say(
                            router.now(),
                            format!("{name}: {why}: to worker {to}: {moved}"),
                        );
                    }
                    Err(e) => {
                        self.slower.stays();
                        warn!(table = name, "buckets do not move: {e}");
                        let text = format!("{name}: buckets do not move to worker {to}: {e}");
                        self.say(router.now(), text);
                    }
                }
            }
        }
    }

    /// Moves ports' queues to active workers, and back when their first worker is active again.
    fn own_queues(&mut self, router: &impl Workers, plan: &Plan) {
        for (node, queues) in steer::queue_owners(plan) {
            let (element, works) = (&plan.elements[node], &self.works);
            let workers = element.workers.iter().copied();
            let may: Vec<usize> = workers.filter(|worker| works.contains(worker)).collect();
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
                self.say(router.now(), text);
            }
        }
    }

    /// Resets the loads of tables, except of those with too few packets.
    fn remember(&mut self, tables: &[Arc<Table>]) {
        let now = self.now;
        for (table, look) in tables.iter().zip(&self.looks) {
            let lost = table.lost().iter().sum();
            if look.proposal.why == Why::Chance
                && look.time < LONGEST
                && let Some(seen) = self.seen.get_mut(table.name())
            {
                seen.lost = lost;
                continue;
            }
            let seen = Seen {
                at: now,
                loads: table.loads(),
                lost,
            };
            self.seen.insert(table.name().to_owned(), seen);
        }
    }

    pub(super) fn say(&mut self, now: Time, text: String) {
        let at = now.since(self.started.unwrap_or(now));
        if self.history.len() == REMEMBERED {
            self.history.pop_front();
        }
        self.history.push_back(Event { at, text });
    }
}
