//! Deterministic simulation of a leader's routes and of the servers that follow them: one seeded scheduler decides on
//! delays, broken streams, restarts, partitions, changes of the leader and of its routes. `SEEDS=10000 cargo test -p
//! agree routes` runs more seeds than usual.

use super::account::Account;
use super::copy::Copy;
use super::message::{Acknowledged, Hello, Message};
use super::session::Session;
use super::table::Table;
use super::{At, Change, Hop, Hops, Prefix};
use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

const SERVERS: usize = 3;
const STEPS: usize = 400;
/// Routes that every leader has from its first complete table on, and whose packets nobody may lose.
const PINNED: u32 = 8;
const PREFIXES: u32 = 3_000;

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

fn prefix(n: u32) -> Prefix {
    Prefix::new(Ipv4Addr::from_bits(n << 8).into(), 24).unwrap()
}

fn hops(n: u64) -> Hops {
    let hop = |gateway| Hop {
        server: 0,
        port: 0,
        gateway,
        weight: 1,
    };
    (1..=(n as u16 % 3)).map(hop).collect()
}

/// A stream between a leader and a server. Bytes under way are lost when it breaks.
struct Stream {
    leader: usize,
    session: Session,
    down: VecDeque<Message>,
    up: VecDeque<Message>,
}

struct Server {
    copy: Copy,
    stream: Option<Stream>,
    /// Epoch that it has heard of by the store.
    store: u64,
    cut: bool,
    /// Prefixes in its tables.
    written: BTreeMap<Prefix, Hops>,
    acknowledged: Option<At>,
    knows_pinned: bool,
}

struct Leader {
    table: Table,
    account: Account,
}

#[derive(Clone, std::marker::Copy, Default)]
struct Mutation {
    admits_old_epochs: bool,
    sweeps_at_once: bool,
}

struct World {
    chance: Chance,
    now: u64,
    leaders: Vec<Leader>,
    servers: Vec<Server>,
    mutation: Mutation,
    /// Number of streams that began with the routes of a former leader.
    continued: usize,
}

impl World {
    fn new(seed: u64, mutation: Mutation) -> World {
        let server = || Server {
            copy: Copy::default(),
            stream: None,
            store: 0,
            cut: false,
            written: BTreeMap::new(),
            acknowledged: None,
            knows_pinned: false,
        };
        let mut world = World {
            chance: Chance(seed),
            now: 0,
            leaders: Vec::new(),
            servers: (0..SERVERS).map(|_| server()).collect(),
            mutation,
            continued: 0,
        };
        world.elect();
        world
    }

    /// A new leader begins, with the routes of the former one if it has followed that one.
    fn elect(&mut self) {
        let epoch = self.leaders.len() as u64 + 1;
        let mut table = Table::with_log(epoch, 200);
        let n = self.chance.below(SERVERS as u64) as usize;
        let copy = &self.servers[n].copy;
        if let Some(at) = copy.exact_at() {
            let routes = copy.routes();
            table.begin(at, routes.map(|(of, to)| (*of, to.clone())).collect());
        }
        let pinned = (0..PINNED).map(|n| (prefix(n), Some(hops(1))));
        table.change(pinned);
        self.leaders.push(Leader {
            table,
            account: Account::new(epoch, self.now),
        });
    }

    /// Runs to the end; returns the number of streams that began with the routes of a former leader.
    fn run(mut self) -> Result<usize, String> {
        for _ in 0..STEPS {
            self.now += self.chance.below(50);
            self.disturb();
            self.change_routes();
            for n in 0..SERVERS {
                self.step(n)?;
            }
        }
        self.converge()?;
        Ok(self.continued)
    }

    fn disturb(&mut self) {
        if self.chance.one_in(60) {
            self.elect();
        }
        let n = self.chance.below(SERVERS as u64) as usize;
        let newest = self.leaders.len() as u64;
        let server = &mut self.servers[n];
        match self.chance.below(40) {
            0 => server.stream = None,
            1 => server.cut = !server.cut,
            2 => {
                // A restart: the tables are lost, the highest epoch is on the disk.
                let seen = server.copy.epoch();
                server.copy = Copy::default();
                server.copy.see(seen);
                (server.stream, server.acknowledged) = (None, None);
                server.written.clear();
                server.knows_pinned = false;
            }
            3..10 => {
                server.store = newest;
                server.copy.see(newest);
            }
            _ => {}
        }
    }

    /// The kernel of every leader that believes to lead changes routes.
    fn change_routes(&mut self) {
        for leader in &mut self.leaders {
            let many = match self.chance.below(30) {
                0 => 2_500,
                1..5 => 1 + self.chance.below(20),
                5 => {
                    leader.table.complete();
                    0
                }
                _ => 0,
            };
            let changes: Vec<Change> = (0..many)
                .map(|_| {
                    let n = PINNED + self.chance.below(u64::from(PREFIXES - PINNED)) as u32;
                    let hops = match self.chance.below(3) {
                        0 => None,
                        n => Some(hops(n)),
                    };
                    (prefix(n), hops)
                })
                .collect();
            if leader.table.change(changes) {
                leader.account.changed(leader.table.at().version, self.now);
            }
        }
    }

    /// Messages move in both directions.
    fn step(&mut self, n: usize) -> Result<(), String> {
        if self.servers[n].cut {
            return Ok(());
        }
        if self.servers[n].stream.is_none() {
            // At times the server connects to another leader than the one it knows.
            let knows = match self.chance.one_in(4) {
                true => self.chance.below(self.leaders.len() as u64) as usize,
                false => self.servers[n].store.max(1) as usize - 1,
            };
            self.connect(n, knows);
        }
        for _ in 0..1 + self.chance.below(3) {
            self.exchange(n)?;
        }
        Ok(())
    }

    fn connect(&mut self, n: usize, leader: usize) {
        let server = &mut self.servers[n];
        let hello = Hello {
            seen: server.copy.epoch(),
            at: server.copy.at(),
            exact: server.copy.exact_at().is_some(),
            ..Hello::default()
        };
        server.copy.connect();
        server.stream = Some(Stream {
            leader,
            session: Session::new(&hello),
            down: VecDeque::new(),
            up: VecDeque::new(),
        });
    }

    fn exchange(&mut self, n: usize) -> Result<(), String> {
        let server = &mut self.servers[n];
        let Some(stream) = &mut server.stream else {
            return Ok(());
        };
        let leader = &mut self.leaders[stream.leader];
        let message = stream.session.next(&leader.table);
        let message = message.unwrap_or_else(|| stream.session.tick(&leader.table));
        stream.down.push_back(message);
        let mut late = self.chance.one_in(3);
        while !late {
            let Some(message) = stream.down.pop_front() else {
                break;
            };
            if self.mutation.admits_old_epochs {
                let seen = server.copy.epoch();
                server.copy.forget(leader.table.at().epoch.min(seen));
            }
            let begins = matches!(message, Message::Begin { .. });
            self.continued += usize::from(matches!(message, Message::Continue { .. }));
            let heard = match server.copy.hear(message) {
                Ok(heard) => heard,
                Err(_) => {
                    server.stream = None;
                    return Ok(());
                }
            };
            for (prefix, hops) in &heard.changes {
                let before = match hops {
                    Some(hops) => server.written.insert(*prefix, hops.clone()),
                    None => server.written.remove(prefix),
                };
                if before == *hops {
                    return Err(format!("{prefix} is written though it does not differ"));
                }
            }
            if begins && self.mutation.sweeps_at_once {
                server.written.clear();
                server.copy.clear();
            }
            if heard.acknowledge {
                let at = server.copy.at();
                if at.is_some() && at < server.acknowledged {
                    return Err(format!(
                        "{n} goes back from {:?} to {at:?}",
                        server.acknowledged
                    ));
                }
                server.acknowledged = server.acknowledged.max(at);
                stream.up.push_back(Message::Acknowledged(Acknowledged {
                    at,
                    routes: server.copy.len() as u64,
                    missing: 0,
                }));
            }
            late = self.chance.one_in(4);
        }
        while let Some(Message::Acknowledged(done)) = stream.up.pop_front() {
            leader.account.hear(&n.to_string(), done, self.now);
        }
        self.look(n)
    }

    /// No packet is lost that the leaders' tables do not ask for, and what is written is what the copy says.
    fn look(&mut self, n: usize) -> Result<(), String> {
        let server = &mut self.servers[n];
        let has_pinned = (0..PINNED).all(|n| server.written.get(&prefix(n)) == Some(&hops(1)));
        if server.knows_pinned && !has_pinned {
            return Err(format!("{n} has lost a route that all leaders have"));
        }
        server.knows_pinned |= has_pinned;
        let copy = server.copy.routes();
        if !copy.eq(server.written.iter()) {
            return Err(format!("{n} has written other routes than it knows"));
        }
        if let (Some(at), Some(stream)) = (server.copy.at(), &server.stream) {
            let table = &self.leaders[stream.leader].table;
            // All that is under way has arrived: the copy is the table.
            let level = table.at() == at && stream.down.is_empty();
            if level && !table.after(None).eq(server.copy.routes()) {
                return Err(format!("{n} claims {at:?} and has other routes"));
            }
        }
        Ok(())
    }

    /// All have the newest leader's routes when faults end.
    fn converge(&mut self) -> Result<(), String> {
        let newest = self.leaders.len();
        self.leaders[newest - 1].table.complete();
        for n in 0..SERVERS {
            let server = &mut self.servers[n];
            (server.cut, server.store) = (false, newest as u64);
            server.copy.see(newest as u64);
        }
        for _ in 0..200 {
            self.now += 10;
            for n in 0..SERVERS {
                if self.servers[n].stream.is_none() {
                    self.connect(n, newest - 1);
                }
                self.exchange(n)?;
            }
        }
        let leader = &mut self.leaders[newest - 1];
        for (n, server) in self.servers.iter().enumerate() {
            if server.copy.at() != Some(leader.table.at())
                || !leader.table.after(None).eq(server.written.iter())
            {
                return Err(format!("{n} has {:?} at the end", server.copy.at()));
            }
        }
        let names = ["0", "1", "2"];
        let states = leader.account.look(names.into_iter(), self.now);
        match states.values().find(|state| state.behind.is_some()) {
            Some(state) => Err(format!("one is named at the end: {state:?}")),
            None => Ok(()),
        }
    }
}

fn seeds() -> u64 {
    std::env::var("SEEDS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(150)
}

#[test]
fn seeds_lose_no_route_that_all_leaders_have_and_converge_when_faults_end() {
    let mut continued = 0;
    for seed in 0..seeds() {
        let ended = World::new(seed, Mutation::default()).run();
        continued += ended.unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
    // Servers do take a new leader's difference.
    assert!(continued as u64 >= seeds(), "{continued}");
}

#[test]
fn seeds_find_a_server_that_admits_old_epochs() {
    let mutation = Mutation {
        admits_old_epochs: true,
        ..Mutation::default()
    };
    let wrong = (0..300).find_map(|seed| World::new(seed, mutation).run().err());
    assert!(wrong.is_some());
}

#[test]
fn seeds_find_a_server_that_sweeps_when_a_snapshot_begins() {
    let mutation = Mutation {
        sweeps_at_once: true,
        ..Mutation::default()
    };
    let wrong = (0..300).find_map(|seed| World::new(seed, mutation).run().err());
    assert!(wrong.is_some_and(|why| why.contains("has lost a route")));
}
