//! Deterministic simulation of servers and their store: one seeded scheduler decides on delays, losses, pauses,
//! partitions, restarts and proposals. `SEEDS=10000 cargo test -p agree seeds` runs more seeds than usual.

use crate::Millis;
use crate::agent::{Act, Agent, Identity, Kept};
use crate::memory::{Line, Memory};
use crate::records::{
    EPOCH, LEADER, Leader, MEMBER, Member, PROPOSED, Proposal, STATE, State, WANTED, Wanted, put,
};
use crate::store::{Answer, Event, Request, Revision, Store, Unwatched, Write};
use crate::view::View;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

const SERVERS: usize = 4;
/// Duration of the faults, and of the time after them in which all must converge.
const FAULTS: Millis = 60_000;
const CALM: Millis = 60_000;

/// A pseudo-random number generator (SplitMix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

enum Due {
    /// A server looks for something to do.
    Turn(usize),
    /// A request reaches the store.
    Reach(usize, u64, u64, Request),
    /// An event reaches a server, in the run with this number of restarts.
    Arrive(usize, u64, Event),
    /// A server ends a piece of work.
    Done(usize, u64, Work),
    /// The store reports changes to a watch.
    Report(usize, u64, u64, Revision),
    Fault,
    Propose,
}

enum Work {
    Keep(Kept),
    Check(Proposal),
    Take(Wanted),
}

struct Server {
    agent: Agent,
    line: Line,
    disk: Kept,
    /// Number of restarts: messages of an earlier run are lost.
    life: u64,
    paused_until: Millis,
    cut_until: Millis,
    /// Time of the next turn.
    turn_at: Millis,
    /// Number of the present watch.
    watch: u64,
    /// Highest epoch and version of all descriptions that the server took.
    took: (u64, u64),
    text: String,
}

#[derive(Clone, Copy, Default)]
struct Mutation {
    ignores_epochs: bool,
    forgets_epoch: bool,
}

struct World {
    chance: Chance,
    now: Millis,
    order: u64,
    queue: BinaryHeap<Reverse<(Millis, u64)>>,
    due: BTreeMap<u64, Due>,
    store: Memory,
    servers: Vec<Server>,
    store_down_until: Millis,
    proposals: u64,
    mutation: Mutation,
    history: History,
}

/// All writes so far, as far as the invariants need them.
#[derive(Default)]
struct History {
    seen: Revision,
    epoch: u64,
    leaders: BTreeMap<u64, String>,
    writers: BTreeMap<u64, String>,
    wanted: (u64, u64),
    texts: BTreeMap<u64, String>,
    reported: BTreeMap<String, u64>,
}

impl History {
    /// Checks all new changes of the store.
    fn look(&mut self, store: &Memory) -> Result<(), String> {
        let new = store.since(self.seen).unwrap_or_default();
        self.seen = store.revision;
        for entry in new.into_iter().flat_map(|(_, entries)| entries) {
            let Some(value) = entry.value else { continue };
            match &*entry.key {
                EPOCH => {
                    let epoch = value.parse().unwrap();
                    if epoch <= self.epoch {
                        return Err(format!("the epoch goes from {} to {epoch}", self.epoch));
                    }
                    self.epoch = epoch;
                }
                LEADER => {
                    let leader: Leader = serde_json::from_str(&value).unwrap();
                    let one = self
                        .leaders
                        .entry(leader.epoch)
                        .or_insert_with(|| leader.name.clone());
                    if *one != leader.name {
                        return Err(format!("epoch {} has two leaders", leader.epoch));
                    }
                }
                WANTED => {
                    let wanted: Wanted = serde_json::from_str(&value).unwrap();
                    self.wanted(&wanted)?;
                }
                key => {
                    if let Some(name) = key.strip_prefix(STATE) {
                        let state: State = serde_json::from_str(&value).unwrap();
                        let before = self.reported.insert(name.to_owned(), state.version);
                        if before.is_some_and(|before| before > state.version) {
                            return Err(format!("{name} goes back from {before:?}"));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn wanted(&mut self, wanted: &Wanted) -> Result<(), String> {
        let writer = self
            .writers
            .entry(wanted.epoch)
            .or_insert_with(|| wanted.leader.clone());
        if *writer != wanted.leader || self.leaders.get(&wanted.epoch) != Some(&wanted.leader) {
            return Err(format!("epoch {} has two writers", wanted.epoch));
        }
        let now = (wanted.epoch, wanted.version);
        if now <= self.wanted || wanted.version < self.wanted.1 {
            return Err(format!(
                "what is wanted goes from {:?} to {now:?}",
                self.wanted
            ));
        }
        self.wanted = now;
        let text = self
            .texts
            .entry(wanted.version)
            .or_insert_with(|| wanted.text.clone());
        if *text != wanted.text {
            return Err(format!("version {} has two texts", wanted.version));
        }
        Ok(())
    }
}

fn name(server: usize) -> String {
    ["a", "b", "c", "d"][server].to_owned()
}

fn identity(server: usize) -> Identity {
    Identity {
        name: name(server),
        id: name(server),
        program: "1".to_owned(),
        routes_at: None,
        asked_at: None,
    }
}

impl World {
    fn new(seed: u64, mutation: Mutation) -> World {
        let server = |n| Server {
            agent: Agent::new(identity(n), Kept::default(), 0),
            line: Line::default(),
            disk: Kept::default(),
            life: 0,
            paused_until: 0,
            cut_until: 0,
            turn_at: 0,
            watch: 0,
            took: (0, 0),
            text: String::new(),
        };
        let mut world = World {
            chance: Chance(seed),
            now: 0,
            order: 0,
            queue: BinaryHeap::new(),
            due: BTreeMap::new(),
            store: Memory::new(mutation.ignores_epochs),
            servers: (0..SERVERS).map(server).collect(),
            store_down_until: 0,
            proposals: 0,
            mutation,
            history: History::default(),
        };
        for n in 0..SERVERS {
            world.after(0, Due::Turn(n));
        }
        world.after(1_000, Due::Fault);
        world.after(2_000, Due::Propose);
        world
    }

    fn after(&mut self, wait: Millis, due: Due) {
        self.order += 1;
        self.queue.push(Reverse((self.now + wait, self.order)));
        self.due.insert(self.order, due);
    }

    /// Delay of a message: mostly short, sometimes longer than a lease.
    fn delay(&mut self) -> Millis {
        if self.now < FAULTS && self.chance.one_in(30) {
            return self.chance.below(9_000);
        }
        1 + self.chance.below(20)
    }

    fn lost(&mut self, server: usize) -> bool {
        let down = self.now < self.store_down_until || self.now < self.servers[server].cut_until;
        down || (self.now < FAULTS && self.chance.one_in(50))
    }

    fn run(mut self) -> Result<History, String> {
        while let Some(Reverse((at, order))) = self.queue.pop() {
            if at > FAULTS + CALM {
                break;
            }
            self.now = at;
            if let Some(due) = self.due.remove(&order) {
                self.step(due);
            }
            self.history.look(&self.store)?;
            self.servers_are_right()?;
        }
        self.converged()?;
        Ok(self.history)
    }

    fn step(&mut self, due: Due) {
        match due {
            // The last turn that was set counts, and no other.
            Due::Turn(n) if self.servers[n].turn_at == self.now => self.turn(n),
            Due::Turn(_) => {}
            Due::Reach(n, life, number, request) => self.reach(n, life, number, &request),
            Due::Arrive(n, life, event) => {
                if self.servers[n].life == life {
                    self.servers[n].line.arrived.push_back(event);
                    self.turn(n);
                }
            }
            Due::Report(n, life, watch, after) => self.report(n, life, watch, after),
            Due::Done(n, life, work) => {
                if self.servers[n].life == life {
                    self.done(n, work);
                    self.turn(n);
                }
            }
            Due::Fault => self.fault(),
            Due::Propose => self.propose(),
        }
    }

    fn turn(&mut self, n: usize) {
        let now = self.now;
        if now < self.servers[n].paused_until {
            return self.turn_at(n, self.servers[n].paused_until);
        }
        let server = &mut self.servers[n];
        while let Some(event) = server.line.next() {
            server.agent.hear(event, now);
        }
        while let Some(act) = self.servers[n].agent.next(now) {
            let life = self.servers[n].life;
            let work = match act {
                Act::Ask(number, request) => {
                    self.servers[n].line.ask(number, request);
                    continue;
                }
                Act::Keep(kept) => Work::Keep(kept),
                Act::Check(proposal) => Work::Check(proposal),
                Act::Take(wanted) => Work::Take(wanted),
            };
            let wait = 1 + self.chance.below(300);
            self.after(wait, Due::Done(n, life, work));
        }
        while let Some((number, request)) = self.servers[n].line.asked.pop_front() {
            let life = self.servers[n].life;
            let wait = self.delay();
            self.after(wait, Due::Reach(n, life, number, request));
        }
        let wake = self.servers[n].agent.wake_at();
        self.turn_at(n, wake.clamp(now + 1, now + 100_000));
    }

    fn turn_at(&mut self, n: usize, at: Millis) {
        let server = &mut self.servers[n];
        if server.turn_at != at {
            server.turn_at = at;
            self.after(at - self.now, Due::Turn(n));
        }
    }

    fn reach(&mut self, n: usize, life: u64, number: u64, request: &Request) {
        if self.lost(n) {
            return;
        }
        if let Request::Watch(after) = request {
            self.servers[n].watch = number;
            return self.after(0, Due::Report(n, life, number, *after));
        }
        let answer = match self.store.answer(request, self.now) {
            Some(answer) => answer,
            None => return,
        };
        // The request was done, and its answer is lost, or says that something went wrong.
        if self.lost(n) {
            return;
        }
        let answer = match self.now < FAULTS && self.chance.one_in(50) {
            true => Err("timed out".to_owned()),
            false => Ok::<Answer, String>(answer),
        };
        let wait = self.delay();
        self.after(wait, Due::Arrive(n, life, Event::Answered(number, answer)));
    }

    /// Changes reach a watch in order, or the watch breaks.
    fn report(&mut self, n: usize, life: u64, watch: u64, after: Revision) {
        if self.servers[n].life != life || self.servers[n].watch != watch {
            return;
        }
        self.store.expire(self.now);
        let wait = self.delay().min(50);
        if self.lost(n) {
            let event = Event::Unwatched(watch, Unwatched::Lost);
            return self.after(wait, Due::Arrive(n, life, event));
        }
        let Some(changes) = self.store.since(after) else {
            let event = Event::Unwatched(watch, Unwatched::Compacted);
            return self.after(wait, Due::Arrive(n, life, event));
        };
        let until = changes.last().map_or(after, |(revision, _)| *revision);
        for (revision, entries) in changes {
            self.after(
                wait,
                Due::Arrive(n, life, Event::Changed(watch, revision, entries)),
            );
        }
        let next = 60 + self.chance.below(100);
        self.after(next, Due::Report(n, life, watch, until));
    }

    fn done(&mut self, n: usize, work: Work) {
        let now = self.now;
        let fails = now < FAULTS && self.chance.one_in(20);
        let server = &mut self.servers[n];
        match work {
            Work::Keep(kept) => {
                if fails {
                    return server.agent.kept(Err("the disk is full".to_owned()), now);
                }
                server.disk = kept.clone();
                server.agent.kept(Ok(kept), now);
            }
            Work::Check(proposal) => {
                let bad = proposal
                    .text
                    .strip_prefix("bad ")
                    .is_some_and(|who| who == name(n));
                let error = bad.then(|| "a mistake".to_owned());
                server.agent.checked(proposal.id, error);
            }
            Work::Take(wanted) => {
                if fails {
                    let why = Err("a device does not open".to_owned());
                    return server.agent.took(wanted.version, why, now);
                }
                server.disk = Kept {
                    version: wanted.version,
                    since: now,
                    ..server.disk.clone()
                };
                server.took = server.took.max((wanted.epoch, wanted.version));
                server.text = wanted.text;
                let kept = server.disk.clone();
                server.agent.took(wanted.version, Ok(kept), now);
            }
        }
    }

    fn fault(&mut self) {
        if self.now >= FAULTS {
            return;
        }
        let wait = 200 + self.chance.below(4_000);
        self.after(wait, Due::Fault);
        let n = self.chance.below(SERVERS as u64) as usize;
        let long = self.chance.below(12_000);
        let until = (self.now + long).min(FAULTS);
        match self.chance.below(6) {
            0 | 1 => self.servers[n].paused_until = until,
            2 => self.servers[n].cut_until = until,
            3 => self.store_down_until = (self.now + long / 2).min(FAULTS),
            4 => {
                let server = &mut self.servers[n];
                server.life += 1;
                if self.mutation.forgets_epoch {
                    server.disk.epoch = 0;
                }
                server.agent = Agent::new(identity(n), server.disk.clone(), 0);
                server.line = Line::default();
                self.turn_at(n, self.now + long / 4);
            }
            _ => self.store.compact(),
        }
    }

    /// An operator proposes a description, based on the present version or on an older one.
    fn propose(&mut self) {
        if self.now < FAULTS + 5_000 {
            let wait = 500 + self.chance.below(5_000);
            self.after(wait, Due::Propose);
        }
        if self.now < self.store_down_until {
            return;
        }
        self.proposals += 1;
        let wanted = self.store.value(WANTED);
        let wanted: Option<Wanted> = wanted.map(|text| serde_json::from_str(text).unwrap());
        let version = wanted.map_or(0, |wanted| wanted.version);
        let stale = u64::from(self.chance.one_in(10));
        let text = match self.chance.below(8) {
            0 => format!("bad {}", name(self.chance.below(SERVERS as u64) as usize)),
            _ => format!("text {}", self.proposals),
        };
        let proposal = Proposal {
            id: self.proposals.to_string(),
            base: version.saturating_sub(stale),
            dry_run: self.chance.one_in(8),
            text,
            ..Proposal::default()
        };
        let write = Write {
            changes: vec![put(PROPOSED, &proposal)],
            ..Write::default()
        };
        self.store.answer(&Request::Write(write), self.now);
    }

    /// Checks that no server runs an older version or epoch than it has stored or taken.
    fn servers_are_right(&self) -> Result<(), String> {
        for (n, server) in self.servers.iter().enumerate() {
            if server.took.1 > server.disk.version || server.took.0 > server.disk.epoch {
                return Err(format!("{} has forgotten {:?}", name(n), server.took));
            }
        }
        Ok(())
    }

    fn converged(&self) -> Result<(), String> {
        // By bad luck no proposal may have been good.
        let wanted = self.store.value(WANTED);
        let wanted: Wanted =
            wanted.map_or_else(Wanted::default, |text| serde_json::from_str(text).unwrap());
        let proposed = self.store.value(PROPOSED).ok_or("nothing is proposed")?;
        let proposed: Proposal = serde_json::from_str(proposed).unwrap();
        for (n, server) in self.servers.iter().enumerate() {
            let view = server
                .agent
                .view()
                .ok_or_else(|| format!("{} sees nothing", name(n)))?;
            if (server.disk.version, &server.text) != (wanted.version, &wanted.text) {
                return Err(format!(
                    "{} has not taken version {}",
                    name(n),
                    wanted.version
                ));
            }
            if view.leader().is_none() || view.open_proposal().is_some() {
                return Err(format!(
                    "{} sees no leader, or {} open",
                    name(n),
                    proposed.id
                ));
            }
            if view.alive.len() != SERVERS || !view.away.is_empty() {
                return Err(format!("{} sees somebody away", name(n)));
            }
            let state = view.state(&name(n)).ok_or("a server does not report")?;
            if (state.version, state.epoch) != (wanted.version, view.epoch()) {
                return Err(format!("{} reports {state:?}", name(n)));
            }
        }
        Ok(())
    }
}

mod tests;
