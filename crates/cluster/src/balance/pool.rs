//! The bucket tables of a balancer: they follow its back ends and what operators intend.

use super::load_levelling::level;
use super::members::{BackEnd, Class, Intent, Member, State, candidates, is_down};
use super::message::{Setting, TableState};
use super::rendezvous::{Candidate, NOBODY, digest, key, owners, retarget};
use super::round_robin::{RoundRobin, TURNS};
use super::table::Table;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};
use sync::Lock;

/// Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Silence after which a bucket may move.
    pub idle: u64,
    /// Time after which buckets of a planned change move though they are not idle.
    pub deadline: u64,
    /// Time after the start in which no planned moves happen.
    pub settle: u64,
}

/// Outcome of a planned change of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All buckets have been idle.
    Idle,
    /// The deadline has passed, and this number of buckets was moved although not idle.
    Forced(usize),
}

/// Candidates of a table and the owners computed from them.
struct Wanted {
    candidates: Vec<Option<Candidate>>,
    targets: Vec<u16>,
}

struct PoolState {
    members: Vec<BackEnd>,
    wanted: Vec<Wanted>,
    /// Time at which the remaining buckets move in any case; `None` if nothing moves.
    deadline: Option<u64>,
    /// Requested time until the deadline, which begins with the next sweep.
    allowed: Option<u64>,
    /// Time of the next load levelling, and the first bucket that it considers.
    level: (u64, usize),
}

/// Back ends and tables. Workers ask for owners without a lock.
pub struct Pool {
    settings: Settings,
    classes: Vec<Class>,
    /// Table of packets without a class, then those of the classes.
    tables: Vec<Table>,
    /// Round-robin order by table, in which each back end appears in proportion to its weight.
    turns: Vec<RoundRobin>,
    /// Back ends that speak for the router, the first choice first.
    speakers: Vec<u16>,
    /// The back end that speaks for the router, or [`NOBODY`].
    speaker: AtomicU16,
    /// A bit for each back end that is up.
    up: Box<[AtomicU64]>,
    /// Bytes sent to each back end since load was last levelled; `None` if buckets do not follow load.
    loads: Option<Box<[AtomicU64]>>,
    /// See [`Settings::idle`]; while the pool settles, no silence is long enough.
    idle: AtomicU64,
    /// Time at which the pool has settled; [`NEVER`] before the first sweep.
    settled_at: AtomicU64,
    inside: Lock<PoolState>,
}

/// Nanoseconds between two times that load is levelled.
const LEVEL_INTERVAL_NS: u64 = 1_000_000_000;
/// Time beyond every measured silence.
const NEVER: u64 = u64::MAX;
impl Pool {
    /// A pool in which all back ends are up. The first of `speakers` that is up speaks for the router.
    pub fn new(
        settings: Settings,
        members: Vec<Member>,
        classes: Vec<Class>,
        speakers: Vec<u16>,
    ) -> Pool {
        let one = |member| BackEnd {
            member,
            intent: Intent::Used,
            stamp: 0,
            within: None,
            up: true,
            since: 0,
        };
        let members: Vec<BackEnd> = members.into_iter().map(one).collect();
        let words = members.len().div_ceil(64).max(1);
        let sets = std::iter::once(None).chain(classes.iter().map(Some));
        let wanted: Vec<Wanted> = sets
            .map(|class| {
                let candidates = candidates(&members, class);
                let candidates = candidates.unwrap_or_else(|| vec![None; members.len()]);
                let targets = owners(&candidates);
                Wanted {
                    candidates,
                    targets,
                }
            })
            .collect();
        let pool = Pool {
            settings,
            tables: wanted.iter().map(|of| Table::new(&of.targets)).collect(),
            turns: wanted.iter().map(|_| RoundRobin::default()).collect(),
            classes,
            speakers,
            speaker: AtomicU16::new(NOBODY),
            up: (0..words).map(|_| AtomicU64::new(0)).collect(),
            idle: AtomicU64::new(NEVER),
            settled_at: AtomicU64::new(NEVER),
            inside: Lock::new(PoolState {
                members,
                wanted,
                deadline: None,
                allowed: None,
                level: (0, 0),
            }),
            loads: None,
        };
        pool.publish(&pool.lock_state());
        pool
    }

    /// Makes buckets follow load: in each second, some idle buckets leave back ends with much load for others.
    pub fn level_load(&mut self) {
        let count = self.lock_state().members.len();
        self.loads = Some((0..count).map(|_| AtomicU64::new(0)).collect());
    }

    /// Counts bytes that were sent to a back end.
    #[inline]
    pub fn carry(&self, backend: u16, bytes: u64) {
        if let Some(load) = self
            .loads
            .as_ref()
            .and_then(|all| all.get(usize::from(backend)))
        {
            load.fetch_add(bytes, Relaxed);
        }
    }

    /// Round-robin order of back ends for packets of a class (0: packets without a class). An entry may be
    /// [`NOBODY`].
    #[inline]
    pub fn turns(&self, class: u8) -> &[AtomicU16; TURNS] {
        self.turns[usize::from(class)].order()
    }

    /// Back end for the `count`-th packet of a class, or [`NOBODY`].
    #[inline]
    pub fn turn(&self, class: u8, count: u32) -> u16 {
        self.turns(class)[count as usize % TURNS].load(Relaxed)
    }

    /// Table of a class (0: of packets without one).
    #[inline]
    pub fn table(&self, class: u8) -> &Table {
        &self.tables[usize::from(class)]
    }

    /// True if all packets are of class 0.
    pub fn has_one_class(&self) -> bool {
        self.classes.is_empty()
    }

    fn lock_state(&self) -> MutexGuard<'_, PoolState> {
        self.inside.lock()
    }

    /// Owner of a bucket in the table of a class (0: packets without one), or [`NOBODY`].
    #[inline]
    pub fn owner(&self, class: u8, bucket: u16, now: u64) -> u16 {
        let idle = self.idle.load(Relaxed);
        self.tables[usize::from(class)].owner(bucket, now, idle)
    }

    /// The back end that speaks for the router, or [`NOBODY`].
    #[inline]
    pub fn speaker(&self) -> u16 {
        self.speaker.load(Relaxed)
    }

    /// True if a back end is up.
    #[inline]
    pub fn up(&self, backend: u16) -> bool {
        let word = self.up.get(usize::from(backend / 64));
        word.is_some_and(|word| word.load(Relaxed) >> (backend % 64) & 1 != 0)
    }

    /// Number of the back end with this name.
    pub fn number(&self, name: &str) -> Option<u16> {
        let inside = self.lock_state();
        let at = inside
            .members
            .iter()
            .position(|one| one.member.name == name);
        at.map(|at| at as u16)
    }

    /// Present states of all back ends.
    pub fn states(&self) -> Vec<State> {
        let inside = self.lock_state();
        let counts = self.tables[0].count(inside.members.len());
        let members = inside.members.iter().zip(counts);
        members
            .map(|(one, buckets)| State {
                member: one.member.clone(),
                intent: one.intent,
                up: one.up,
                since: one.since,
                buckets,
            })
            .collect()
    }

    /// Present owners of a table's buckets.
    pub fn owners(&self, class: usize) -> Vec<u16> {
        let table = self.tables.get(class);
        let each = table.map(|table| (0..super::BUCKETS).map(|at| table.get(at).0).collect());
        each.unwrap_or_default()
    }

    /// Planned owners of a table's buckets.
    pub fn targets(&self, class: usize) -> Vec<u16> {
        let inside = self.lock_state();
        let wanted = inside.wanted.get(class);
        wanted.map(|of| of.targets.clone()).unwrap_or_default()
    }

    /// Sets the state of a back end as [`set_states`](Self::set_states) does, and returns the number of buckets that
    /// moved at once.
    pub fn set_up(&self, backend: u16, up: bool, now: u64) -> usize {
        self.set_states(&[(backend, up)], now).iter().sum()
    }

    /// Sets the states of back ends that change together: up if they forward packets. The buckets of a back end that
    /// goes down move at once, except if no other is up: then all stay where they are until one is. A back end that
    /// comes up gets its buckets as after a planned change, but those of back ends that are down at once. Returns the
    /// number of buckets that moved at once, for each change.
    pub fn set_states(&self, states: &[(u16, bool)], now: u64) -> Vec<usize> {
        let mut inside = self.lock_state();
        let mut changed = false;
        for &(of, up) in states {
            if let Some(one) = inside.members.get_mut(usize::from(of))
                && one.up != up
            {
                (one.up, one.since, changed) = (up, now, true);
            }
        }
        if !changed {
            return vec![0; states.len()];
        }
        self.change(&mut inside, None);
        let moved = |&(of, up): &(u16, bool)| {
            let leaves = |owner| {
                if up {
                    is_down(&inside.members, owner)
                } else {
                    owner == of
                }
            };
            self.tables.iter().map(|table| table.force(leaves)).sum()
        };
        states.iter().map(moved).collect()
    }

    /// Sets an operator's intent for a back end. Buckets that are not idle move after `deadline` nanoseconds; `None`:
    /// as the settings say.
    pub fn intend(&self, backend: u16, intent: Intent, deadline: Option<u64>) {
        let mut inside = self.lock_state();
        if let Some(one) = inside.members.get_mut(usize::from(backend)) {
            one.intent = intent;
            (one.stamp, one.within) = (one.stamp.saturating_add(1), deadline);
            self.change(&mut inside, deadline);
        }
    }

    /// Sets the weight of a back end.
    pub fn set_weight(&self, backend: u16, weight: u16, deadline: Option<u64>) {
        let mut inside = self.lock_state();
        if let Some(one) = inside.members.get_mut(usize::from(backend)) {
            one.member.weight = weight;
            (one.stamp, one.within) = (one.stamp.saturating_add(1), deadline);
            self.change(&mut inside, deadline);
        }
    }

    /// Adopts a setting that an operator made at another balancer for the back end with key `backend_key`, if it is
    /// newer. Returns the back end's number in that case.
    pub fn learn(&self, backend_key: u64, new: Setting) -> Option<u16> {
        let mut inside = self.lock_state();
        let mut all = inside.members.iter();
        let at = all.position(|one| key(&one.member.name) == backend_key)?;
        let one = &mut inside.members[at];
        if new <= one.setting() {
            return None;
        }
        one.stamp = new.stamp;
        one.member.weight = new.weight;
        one.intent = match new.is_drained {
            true => Intent::Drained,
            false => Intent::Used,
        };
        one.within = new.within_ms.map(|ms| u64::from(ms) * 1_000_000);
        let within = one.within;
        self.change(&mut inside, within);
        Some(at as u16)
    }

    /// Settings of back ends by operators, with the keys of the back ends' names.
    pub fn settings_by_hand(&self) -> Vec<(u64, Setting)> {
        let inside = self.lock_state();
        let all = inside.members.iter();
        all.map(|one| (key(&one.member.name), one.setting()))
            .collect()
    }

    /// Planned state of all tables.
    pub fn tables(&self) -> Vec<TableState> {
        let inside = self.lock_state();
        let is_moving = inside.deadline.is_some() || inside.allowed.is_some();
        let all = inside.wanted.iter();
        all.map(|of| TableState {
            digest: digest(&of.candidates),
            is_moving,
        })
        .collect()
    }

    /// For a word of 64 buckets of a table, sets the buckets that must not move even if idle, and moves the buckets
    /// in `moved` at once.
    pub fn hold(&self, table: usize, word: usize, held: u64, moved: u64) {
        self.tables[table].hold(word, held, moved);
    }

    /// A pair for a bucket of a table: true if the bucket still has to move, and true if it also is busy.
    pub fn waits(&self, table: usize, bucket: usize, now: u64) -> (bool, bool) {
        self.tables[table].waits(bucket, now, self.idle.load(Relaxed))
    }

    /// Computes the tables again after a change of back ends.
    fn change(&self, inside: &mut PoolState, deadline: Option<u64>) {
        let sets = std::iter::once(None).chain(self.classes.iter().map(Some));
        let PoolState {
            members, wanted, ..
        } = inside;
        for ((class, of), table) in sets.zip(wanted).zip(&self.tables) {
            let Some(new) = candidates(members, class) else {
                continue;
            };
            let changed: Vec<u16> = (0..)
                .zip(of.candidates.iter().zip(&new))
                .filter(|(_, (old, new))| old != new)
                .map(|(at, _)| at)
                .collect();
            if changed.is_empty() {
                continue;
            }
            retarget(&mut of.targets, &new, &changed);
            of.candidates = new;
            table.set_targets(&of.targets);
        }
        inside.allowed = Some(deadline.unwrap_or(self.settings.deadline));
        self.publish(inside);
    }

    /// Publishes to workers the states of back ends, the speaker, and the turns.
    fn publish(&self, inside: &PoolState) {
        for (turns, of) in self.turns.iter().zip(&inside.wanted) {
            turns.fill(&of.candidates);
        }
        for (word, members) in self.up.iter().zip(inside.members.chunks(64)) {
            let bits = (0..).zip(members).map(|(at, one)| u64::from(one.up) << at);
            word.store(bits.fold(0, |all, bit| all | bit), Relaxed);
        }
        let is = |fits: fn(&BackEnd) -> bool| {
            let mut all = self.speakers.iter().copied();
            all.find(|&of| inside.members.get(usize::from(of)).is_some_and(fits))
        };
        let best = is(|one| one.up && one.intent == Intent::Used).or_else(|| is(|one| one.up));
        if let Some(best) = best {
            self.speaker.store(best, Relaxed);
        }
    }

    /// Moves buckets that have been idle, and after the deadline all. Call it several times in each
    /// [`Settings::idle`]. Returns how a change ended, if one did.
    pub fn sweep(&self, now: u64) -> Option<Ended> {
        if self.settled_at.load(Relaxed) == NEVER {
            let at = now.saturating_add(self.settings.settle);
            self.settled_at.store(at, Relaxed);
        }
        if now >= self.settled_at.load(Relaxed) {
            self.idle.store(self.settings.idle, Relaxed);
        }
        let mut inside = self.lock_state();
        self.level(&mut inside, now);
        if let Some(allowed) = inside.allowed.take() {
            inside.deadline = Some(now.saturating_add(allowed));
        }
        let deadline = inside.deadline?;
        drop(inside);
        let idle = self.idle.load(Relaxed);
        let moving: usize = self.tables.iter().map(|table| table.sweep(now, idle)).sum();
        let ended = if moving == 0 {
            Ended::Idle
        } else if now >= deadline {
            let forced = self.tables.iter().map(|table| table.force(|_| true));
            Ended::Forced(forced.sum())
        } else {
            return None;
        };
        let mut inside = self.lock_state();
        // A deadline that another change has set meanwhile is kept.
        if inside.allowed.is_none() {
            inside.deadline = None;
        }
        Some(ended)
    }

    /// Moves some buckets away from back ends with much load. A bucket that has not moved since the last time stays,
    /// as its flows are active. Does nothing during a planned change.
    fn level(&self, inside: &mut PoolState, now: u64) {
        let Some(loads) = &self.loads else {
            return;
        };
        if now < inside.level.0 || inside.deadline.is_some() || inside.allowed.is_some() {
            return;
        }
        inside.level.0 = now.saturating_add(LEVEL_INTERVAL_NS);
        let loads: Vec<u64> = loads.iter().map(|load| load.swap(0, Relaxed)).collect();
        if self.idle.load(Relaxed) == NEVER {
            return;
        }
        for (of, table) in inside.wanted.iter_mut().zip(&self.tables) {
            for (at, target) in of.targets.iter_mut().enumerate() {
                let (owner, _) = table.get(at);
                let takes = of.candidates.get(usize::from(owner));
                if takes.is_some_and(Option::is_some) {
                    *target = owner;
                }
            }
            inside.level.1 += level(&mut of.targets, &of.candidates, &loads, inside.level.1);
            table.set_targets(&of.targets);
        }
    }

    /// Continues an earlier pool. Back ends of the same name keep their health and the operator's intent; buckets
    /// stay until they are idle. Weights and back ends are those of the new file.
    pub fn follow(&mut self, old: &Pool) {
        self.settled_at = AtomicU64::new(old.settled_at.load(Relaxed));
        self.idle = AtomicU64::new(match old.idle.load(Relaxed) {
            NEVER => NEVER,
            _ => self.settings.idle,
        });
        let new_number: Vec<u16> = {
            let (mut inside, was) = (self.lock_state(), old.lock_state());
            for one in &mut inside.members {
                let known = was
                    .members
                    .iter()
                    .find(|old| old.member.name == one.member.name);
                if let Some(known) = known {
                    (one.up, one.since, one.intent) = (known.up, known.since, known.intent);
                    (one.stamp, one.within) = (known.stamp, known.within);
                    if one.member.weight != known.member.weight {
                        one.stamp = one.stamp.saturating_add(1);
                    }
                }
            }
            let number = |old: &BackEnd| {
                let mut all = inside.members.iter();
                let at = all.position(|one| one.member.name == old.member.name);
                at.map_or(NOBODY, |at| at as u16)
            };
            was.members.iter().map(number).collect()
        };
        let renumbered = |owner: u16| {
            new_number
                .get(usize::from(owner))
                .copied()
                .unwrap_or(NOBODY)
        };
        // A new class starts with the owners of packets without a class.
        for at in 0..self.tables.len() {
            let from = if old.tables.len() == self.tables.len() {
                at
            } else {
                0
            };
            let owners: Vec<u16> = old.owners(from).into_iter().map(renumbered).collect();
            self.tables[at] = Table::new(&owners);
        }
        let mut inside = self.lock_state();
        let sets = std::iter::once(None).chain(self.classes.iter().map(Some));
        let PoolState {
            members, wanted, ..
        } = &mut *inside;
        for ((class, of), table) in sets.zip(wanted).zip(&self.tables) {
            if let Some(new) = candidates(members, class) {
                of.targets = owners(&new);
                of.candidates = new;
            } else {
                // Buckets of back ends that are gone need another one, though all are down.
                let all = owners(&of.candidates);
                let kept = |at: usize| Some(table.get(at).0).filter(|owner| *owner != NOBODY);
                of.targets = (0..)
                    .zip(&all)
                    .map(|(at, other)| kept(at).unwrap_or(*other))
                    .collect();
            }
            table.set_targets(&of.targets);
            table.force(|owner| is_down(members, owner));
        }
        self.speaker.store(renumbered(old.speaker()), Relaxed);
        inside.allowed = Some(self.settings.deadline);
        self.publish(&inside);
    }
}
