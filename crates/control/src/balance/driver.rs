//! Looks at a running router's load, and moves buckets and queues as the pure functions say.

use super::moves::{Bucket, Limits, Proposal, Why, propose};
use super::scale::Scaler;
use super::settings::{Mode, Settings};
use engine::plan::Plan;
use engine::router::Router;
use engine::steer::{self, Table};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tracing::warn;

/// Of a table's buckets, one in so many moves at a time.
const PARTS: usize = 16;

/// Events that are remembered.
const REMEMBERED: usize = 100;
/// Share of a ring to a worker from which on it is nearly full.
const NEARLY_FULL: f64 = 0.75;
/// Loads that chance may explain are added up for so long at most.
const LONGEST: Duration = Duration::from_secs(1);

/// Something that was moved, or could not be.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Time since the balancer began.
    pub at: Duration,
    /// What was done and why, or what went wrong.
    pub text: String,
}

/// The balancer of a router.
pub struct Balance {
    state: Mutex<State>,
}

/// A table and what is proposed for it.
pub(super) struct Look {
    pub(super) table: Arc<Table>,
    pub(super) proposal: Proposal,
    /// Buckets of each worker.
    pub(super) buckets: Vec<usize>,
    /// The time in which the loads came.
    pub(super) time: Duration,
}

/// Packets of a table by bucket at some moment.
struct Seen {
    at: Instant,
    loads: Vec<u64>,
    lost: u64,
}

pub(super) struct State {
    pub(super) settings: Settings,
    started: Instant,
    /// By name of the table.
    seen: BTreeMap<String, Seen>,
    /// Nanoseconds that each worker was busy, and when that was read.
    pulses: Option<(Instant, Vec<u64>)>,
    pub(super) busy: Vec<f64>,
    scaler: Scaler,
    /// Workers that should work, as the last look says.
    works: Vec<usize>,
    /// How many work now, and how many could.
    pub(super) active: usize,
    pub(super) all: usize,
    pub(super) looks: Vec<Look>,
    pub(super) history: VecDeque<Event>,
    pub(super) moved: u64,
    pub(super) moves: u64,
    pub(super) queues: u64,
}

impl Balance {
    /// A balancer that has not looked yet.
    pub fn new(settings: Settings) -> Balance {
        Balance {
            state: Mutex::new(State {
                settings,
                started: Instant::now(),
                seen: BTreeMap::new(),
                pulses: None,
                busy: Vec::new(),
                scaler: Scaler::default(),
                works: Vec::new(),
                active: usize::MAX,
                all: 0,
                looks: Vec::new(),
                history: VecDeque::new(),
                moved: 0,
                moves: 0,
                queues: 0,
            }),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time between two looks.
    pub fn interval(&self) -> Duration {
        self.lock().settings.interval
    }

    /// Changes a setting ([`Settings::set`]), or with `now` moves what the last look proposed. The error is a
    /// sentence.
    pub fn set(&self, router: &Router, text: &str) -> Result<(), String> {
        let mut state = self.lock();
        match text.trim() {
            "now" => state.act(router),
            text => {
                state.settings.set(text)?;
                state.scaler = Scaler::default();
            }
        }
        Ok(())
    }

    /// Looks once, and moves what should move if that is wanted.
    pub fn step(&self, router: &Router) {
        self.lock().step(router);
    }

    /// How many workers work, and how many could.
    pub fn workers(&self) -> (usize, usize) {
        let state = self.lock();
        (state.active.min(state.all), state.all)
    }

    /// Buckets that have moved, the moves in which they did, and queues that have.
    pub fn moves(&self) -> (u64, u64, u64) {
        let state = self.lock();
        (state.moved, state.moves, state.queues)
    }

    /// What was done, the last at the end.
    pub fn history(&self) -> Vec<Event> {
        self.lock().history.iter().cloned().collect()
    }
}

impl State {
    fn step(&mut self, router: &Router) {
        let plan = router.plan();
        let mut tables = steer::tables(&plan);
        // Workers that have just been started, or given a plan, deal buckets out when they get to it.
        tables.retain(|table| !table.workers().is_empty());
        let workers: BTreeSet<usize> = tables.iter().flat_map(|t| t.workers()).collect();
        let mut workers = Vec::from_iter(workers);
        self.looks.clear();
        self.all = workers.len();
        if workers.len() < 2 {
            self.seen.clear();
            return;
        }
        let lost = self.look(router, &tables);
        let wanted = self.wanted(&workers, lost);
        workers.truncate(wanted);
        let works: Vec<bool> = (0..router.workers())
            .map(|w| workers.contains(&w))
            .collect();
        let mut loads: Vec<Vec<Bucket>> = tables.iter().map(|t| self.loads(t)).collect();
        for at in 0..tables.len() {
            let look = self.propose(&tables, at, &loads, &works);
            // The next table is seen as if this one's buckets had moved.
            let moves = look.proposal.moves.iter();
            moves.for_each(|m| loads[at][m.bucket].worker = m.to);
            self.looks.push(look);
        }
        self.works = workers;
        self.remember(&tables);
        if self.settings.mode != Mode::Off {
            self.act(router);
        }
    }

    /// Does what the last look proposed.
    fn act(&mut self, router: &Router) {
        let looks = std::mem::take(&mut self.looks);
        for look in &looks {
            self.even(router, &look.table, &look.proposal);
        }
        self.looks = looks;
        if !self.looks.is_empty() {
            self.active = self.works.len();
            self.pump(router, &router.plan());
        }
    }

    /// Reads how busy workers are; returns whether rings to workers are nearly full, or packets found them full.
    fn look(&mut self, router: &Router, tables: &[Arc<Table>]) -> bool {
        let now = Instant::now();
        let each = (0..router.workers()).map(|w| router.pulse(w).busy.load(Relaxed));
        let pulses: Vec<u64> = each.collect();
        if let Some((at, before)) = &self.pulses {
            let time = (now - *at).as_nanos().max(1) as f64;
            let pairs = pulses.iter().zip(before);
            self.busy = pairs
                .map(|(n, b)| (n.saturating_sub(*b) as f64 / time).min(1.0))
                .collect();
        } else {
            self.busy = vec![0.0; router.workers()];
        }
        self.pulses = Some((now, pulses));
        let lost = |t: &Arc<Table>| t.lost().iter().sum::<u64>();
        tables.iter().any(|t| {
            let before = self.seen.get(t.name()).map(|seen| seen.lost);
            before.is_some_and(|before| lost(t) > before) || t.fill() >= NEARLY_FULL
        })
    }

    /// How many of the workers should work.
    fn wanted(&mut self, workers: &[usize], lost: bool) -> usize {
        if let Some(fixed) = self.settings.workers {
            return fixed.clamp(1, self.all);
        }
        if self.settings.mode == Mode::Even {
            return self.all;
        }
        let now = self.active.clamp(1, self.all);
        let busy: Vec<f64> = workers.iter().map(|&w| self.busy[w]).collect();
        self.scaler.workers(&busy, lost, now, &self.settings.scale)
    }

    /// What buckets of a table have brought since they were last evened out.
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
    ) -> Look {
        let table = &tables[at];
        // What workers have to do for other tables counts, as these are now.
        let mut base = vec![0; works.len()];
        let others = loads.iter().enumerate().filter(|(other, _)| *other != at);
        for bucket in others.flat_map(|(_, buckets)| buckets) {
            base[bucket.worker] += bucket.load;
        }
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
        Look {
            table: Arc::clone(table),
            proposal: propose(&loads[at], &base, &works, Limits::of(self.settings.share)),
            buckets,
            time: seen.map_or(Duration::ZERO, |seen| seen.at.elapsed()),
        }
    }

    fn even(&mut self, router: &Router, table: &Table, proposal: &Proposal) {
        let mut by_target: BTreeMap<usize, Vec<u16>> = BTreeMap::new();
        for m in &proposal.moves {
            let bucket = u16::try_from(m.bucket).unwrap_or(u16::MAX);
            by_target.entry(m.to).or_default().push(bucket);
        }
        // What comes for buckets that move must wait. A few at a time, and that fits where it waits; of half the traffic
        // it would not, and then all traffic waits.
        let few = (table.buckets() / PARTS).max(1);
        let parts = by_target
            .iter()
            .flat_map(|(&to, all)| all.chunks(few).map(move |part| (to, part)));
        for (to, buckets) in parts {
            let name = table.name();
            match router.move_buckets(name, buckets, to) {
                Ok(moved) => {
                    self.moved += moved.buckets as u64;
                    self.moves += 1;
                    self.say(format!("{name}: {}: to worker {to}: {moved}", proposal.why));
                }
                Err(e) => {
                    warn!(table = name, "buckets do not move: {e}");
                    self.say(format!("{name}: buckets do not move to worker {to}: {e}"));
                }
            }
        }
    }

    /// Queues of ports go to workers that work, and back home when their first worker works again.
    fn pump(&mut self, router: &Router, plan: &Plan) {
        let works = self.works.clone();
        for (node, queues) in steer::pumps(plan) {
            let element = &plan.elements[node];
            for (queue, owner) in queues {
                let home = element.workers.iter().copied();
                let home = home
                    .into_iter()
                    .find(|&w| element.queues_of(w).contains(&queue));
                let may: Vec<usize> = works
                    .iter()
                    .copied()
                    .filter(|w| element.workers.contains(w))
                    .collect();
                let to = match home {
                    Some(home) if may.contains(&home) => home,
                    _ if may.contains(&owner) || may.is_empty() => continue,
                    _ => may[queue % may.len()],
                };
                if to == owner {
                    continue;
                }
                let name = &element.name;
                match router.move_queue(name, queue, to) {
                    Ok(in_time) => {
                        self.queues += 1;
                        let late = if in_time {
                            ""
                        } else {
                            "; packets of before were late"
                        };
                        self.say(format!(
                            "{name}: queue {queue} from worker {owner} to {to}{late}"
                        ));
                    }
                    Err(e) => self.say(format!(
                        "{name}: queue {queue} does not move to worker {to}: {e}"
                    )),
                }
            }
        }
    }

    /// Loads are counted anew, but where they were too few to tell.
    fn remember(&mut self, tables: &[Arc<Table>]) {
        let now = Instant::now();
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

    fn say(&mut self, text: String) {
        let at = self.started.elapsed();
        if self.history.len() == REMEMBERED {
            self.history.pop_front();
        }
        self.history.push_back(Event { at, text });
    }
}
