//! A multistage router in virtual time. Pools, tables and health checks are those of real balancers; boxes and hosts
//! are models.
//!
//! Boxes serve packets at a rate, in order of arrival, from a queue of bounded delay. A packet causes one event at
//! each box after the switch. The switch learns addresses, and floods frames for unknown ones; so does a balancer
//! with returning frames. A run depends on the seed only.

use super::{BUCKETS, Intent, NOBODY};
use crate::simulate::counters;
use crate::simulate::queue::Queue;
use crate::simulate::rng::SimRng;
use crate::simulate::server::Server;
use boxes::{Address, Balancer, Port, Switch, Worker};

mod boxes;
mod config;
mod failures;
mod report;

pub use config::{Change, Config, Failure, Fault, Order, Target};
pub use report::{Drop, Loss, Report};

#[cfg(test)]
mod tests;

#[derive(Clone, Copy, Debug)]
struct Packet {
    /// Number among all packets; a copy has that of its original.
    number: u32,
    flow: u32,
    /// True if the packet goes from the flow's second host to the first.
    is_answer: bool,
    sequence: u32,
    born: u64,
    to: Address,
    /// Box that sent the packet last, and the times at which the packet arrived there and left it.
    from: Port,
    stay: (u64, u64),
}

#[derive(Debug)]
enum Event {
    /// A host's next packet is due.
    Send(u32),
    /// A host answers a packet of a flow.
    Answer(u32),
    /// A frame arrives at the box that is connected to a port of the switch.
    Frame(Port, Packet),
    /// A balancer probes its back ends.
    Probe(u16),
    /// The answer to a probe arrives at a balancer that has started `life` times.
    Echo {
        balancer: u16,
        life: u32,
        of: u16,
        number: u64,
    },
    /// A balancer moves buckets that are idle.
    Sweep(u16),
    /// A planned change, by its place in the list.
    Change(u32),
    /// A failure begins.
    Fail(u32),
    /// A failure ends.
    EndFailure(u32),
}

/// Traffic between two hosts.
#[derive(Debug)]
struct Flow {
    hosts: [u32; 2],
    bucket: u16,
    /// For each direction: number of the next packet, order of the arrived packets, and back end of the last packet.
    next: [u32; 2],
    order: [counters::Flow; 2],
    backend: [u16; 2],
}

/// A host at a front port.
#[derive(Debug)]
struct Host {
    /// The port's cable to the host.
    port: Server,
    /// Destination hosts, each with the cumulative share of packets up to and including it.
    row: Vec<(u32, f64)>,
    /// Flows of the host.
    flows: Vec<u32>,
}

/// A failure of a back end whose losses are counted.
#[derive(Debug)]
struct Open {
    /// Index among the report's losses.
    loss: usize,
    of: u16,
    from: u64,
    until: u64,
    /// Number of packets that hosts had sent before the failure.
    sent: u64,
    /// For each balancer, true if it has taken the back end out, or does not work.
    noticed: Vec<bool>,
}

/// A multistage router in virtual time.
pub struct Simulation {
    config: Config,
    chance: SimRng,
    now: u64,
    events: Queue<Event>,
    balancers: Vec<Balancer>,
    backends: Vec<Worker>,
    switch: Switch,
    hosts: Vec<Host>,
    flows: Vec<Flow>,
    /// A bit for each packet: set if it has reached its host.
    arrived: Vec<u64>,
    /// Weights and intents that the operator has set.
    weights: Vec<u16>,
    intents: Vec<Intent>,
    open: Vec<Open>,
    report: Report,
}

/// Nanoseconds that a host takes to answer.
const HOST_DELAY_NS: u64 = 50_000;
/// Nanoseconds after the end of a failure in which taking the box out does not yet count as a false alarm.
const ALARM_GRACE_NS: u64 = 1_000_000_000;

impl Simulation {
    /// Builds a multistage router whose hosts begin to send.
    pub fn new(config: Config) -> Simulation {
        let mut chance = SimRng::new(config.seed);
        let fronts = config.fronts as usize;
        let rows = config.matrix.rows(fronts, &mut chance);
        let host = |row: Vec<(usize, f64)>| {
            let mut sum = 0.0;
            let ends = row.into_iter().map(|(to, part)| {
                sum += part;
                (to as u32, sum)
            });
            Host {
                port: Server::of_packets(config.front_rate, config.queue),
                row: ends.collect(),
                flows: Vec::new(),
            }
        };
        let backend = |_: &u16| Worker::new(config.backend_rate, config.queue);
        let mut simulation = Simulation {
            hosts: rows.into_iter().map(host).collect(),
            balancers: (0..config.balancers)
                .map(|_| Balancer::new(&config))
                .collect(),
            backends: config.weights.iter().map(backend).collect(),
            switch: Switch::new(&config),
            weights: config.weights.clone(),
            intents: vec![Intent::Used; config.weights.len()],
            report: Report {
                time: config.time,
                backends: vec![0; config.weights.len()],
                ..Report::default()
            },
            events: Queue::new(),
            flows: Vec::new(),
            arrived: Vec::new(),
            open: Vec::new(),
            now: 0,
            chance,
            config,
        };
        simulation.begin();
        simulation
    }

    fn begin(&mut self) {
        for of in 0..self.config.weights.len() as u16 {
            self.switch.learn(Address::Backend(of), Port::Backend(of));
        }
        for front in 0..self.config.fronts {
            let port = Port::Balancer(self.balancer_of(front));
            self.switch.learn(Address::Host(front), port);
            let sends = !self.hosts[front as usize].row.is_empty() && self.config.rate > 0.0;
            if sends {
                let flows = (0..self.config.flows.max(1)).map(|_| self.begin_flow(front));
                self.hosts[front as usize].flows = flows.collect();
                let first = self.gap();
                self.events.add(first, Event::Send(front));
            }
        }
        for balancer in 0..self.config.balancers {
            // Balancers probe at different times, as real ones do.
            let first = self.chance.below(self.config.health.interval.max(1));
            self.events.add(first, Event::Probe(balancer));
            self.events.add(first, Event::Sweep(balancer));
        }
        for at in 0..self.config.failures.len() as u32 {
            let Failure { from, until, .. } = self.config.failures[at as usize];
            self.events.add(from, Event::Fail(at));
            self.events.add(until, Event::EndFailure(at));
        }
        for at in 0..self.config.changes.len() as u32 {
            let due = self.config.changes[at as usize].at;
            self.events.add(due, Event::Change(at));
        }
    }

    fn balancer_of(&self, front: u32) -> u16 {
        (front % u32::from(self.config.balancers)) as u16
    }

    /// Nanoseconds until a host's next packet.
    fn gap(&mut self) -> u64 {
        ((0.5 + self.chance.unit()) * 1e9 / self.config.rate) as u64
    }

    fn begin_flow(&mut self, from: u32) -> u32 {
        let point = self.chance.unit();
        let row = &self.hosts[from as usize].row;
        let to = row.iter().find(|(_, end)| point < *end).or(row.last());
        let to = to.map_or(from, |(to, _)| *to);
        self.flows.push(Flow {
            hosts: [from, to],
            bucket: self.chance.below(BUCKETS as u64) as u16,
            next: [0; 2],
            order: [counters::Flow::default(); 2],
            backend: [NOBODY; 2],
        });
        self.flows.len() as u32 - 1
    }

    /// Runs a number of events. Returns the share of time that has passed; `None` at the end, when all packets have
    /// left.
    pub fn run(&mut self, events: u32) -> Option<f64> {
        for _ in 0..events {
            let (now, event) = self.events.next()?;
            self.now = now;
            match event {
                Event::Send(front) => self.send(front),
                Event::Answer(flow) => self.enter(flow, true),
                Event::Frame(port, packet) => self.frame(port, packet),
                Event::Probe(balancer) => self.probe(balancer),
                Event::Echo {
                    balancer,
                    life,
                    of,
                    number,
                } => self.echo(balancer, life, of, number),
                Event::Sweep(balancer) => self.sweep(balancer),
                Event::Change(at) => self.change(self.config.changes[at as usize]),
                Event::Fail(at) => self.fail(self.config.failures[at as usize]),
                Event::EndFailure(at) => self.end_failure(self.config.failures[at as usize]),
            }
        }
        Some((self.now as f64 / self.config.end() as f64).min(1.0))
    }

    /// Runs the simulation to its end, and returns the report.
    pub fn finish(mut self) -> Report {
        while self.run(1 << 20).is_some() {}
        self.into_report()
    }

    /// Report of the run.
    pub fn into_report(mut self) -> Report {
        let first = self.balancers.first().map(|one| one.pool.owners(0));
        let mut all = self.balancers.iter();
        self.report.agreed = all.all(|one| Some(one.pool.owners(0)) == first);
        self.report
    }

    fn is_measured(&self) -> bool {
        (self.config.warmup..self.config.end()).contains(&self.now)
    }

    fn send(&mut self, front: u32) {
        let slot = self.chance.below(u64::from(self.config.flows.max(1))) as usize;
        let flow = self.hosts[front as usize].flows[slot];
        if self
            .chance
            .below(u64::from(self.config.flow_packets.max(1)))
            == 0
        {
            self.hosts[front as usize].flows[slot] = self.begin_flow(front);
        }
        self.enter(flow, false);
        let next = self.now + self.gap();
        if next < self.config.end() {
            self.events.add(next, Event::Send(front));
        }
    }

    /// Passes a packet from outside to a balancer.
    fn enter(&mut self, number: u32, is_answer: bool) {
        let (now, direction) = (self.now, usize::from(is_answer));
        let flow = &mut self.flows[number as usize];
        let (front, bucket) = (flow.hosts[direction], flow.bucket);
        let mut packet = Packet {
            number: self.report.packets_in as u32,
            flow: number,
            is_answer,
            sequence: flow.next[direction],
            born: now,
            to: Address::Host(front),
            from: Port::Balancer(0),
            stay: (now, now),
        };
        flow.next[direction] += 1;
        self.report.packets_in += 1;
        self.report.offered += u64::from(self.is_measured());
        let at = self.balancer_of(front);
        let balancer = &mut self.balancers[usize::from(at)];
        if balancer.worker.health.has_failure(Fault::Crash) {
            return self.report.drop(Drop::BalancerDown);
        }
        let Some(done) = balancer.worker.serve(now) else {
            return self.report.drop(Drop::BalancerFull);
        };
        balancer.heard[front as usize] = true;
        let count = balancer.count;
        balancer.count = count.wrapping_add(1);
        let (backend, hash) = match self.config.in_turn {
            true => (balancer.pool.turn(0, count), count),
            false => (balancer.pool.owner(0, bucket, now), u32::from(bucket)),
        };
        if backend == NOBODY {
            return self.report.drop(Drop::NoBackend);
        }
        let back = hash as usize % balancer.backs.len();
        let Some(left) = balancer.backs[back].serve(done, 1, false) else {
            return self.report.drop(Drop::BackPortFull);
        };
        let flow = &mut self.flows[number as usize];
        let other = flow.backend[1 - direction];
        self.report.apart += u64::from(other != NOBODY && other != backend);
        flow.backend[direction] = backend;
        packet.to = Address::Backend(backend);
        (packet.from, packet.stay) = (Port::Balancer(at), (now, left));
        self.forward(packet, Address::Host(front));
    }

    /// Passes a frame through the switch.
    fn forward(&mut self, packet: Packet, source: Address) {
        self.switch.learn(source, packet.from);
        let ports = self.switch.ports(packet.to, packet.from);
        if ports.is_empty() {
            return self.report.drop(Drop::NoPort);
        }
        self.report.copies += ports.len() as u64 - 1;
        for port in ports {
            let at = packet.stay.1 + self.config.delay;
            self.events.add(at, Event::Frame(port, packet));
        }
    }

    /// Processes a frame that arrives at a box after the switch.
    fn frame(&mut self, port: Port, packet: Packet) {
        let (from, until) = packet.stay;
        let lost = |health: &boxes::Health| health.has_lost(from, until);
        match packet.from {
            Port::Backend(of) if lost(&self.backends[usize::from(of)].health) => {
                return self.count_loss(of, Drop::BackendDown);
            }
            Port::Balancer(of) if lost(&self.balancers[usize::from(of)].worker.health) => {
                return self.report.drop(Drop::BalancerDown);
            }
            _ => {}
        }
        if self.switch.health.has_failure(Fault::Crash) {
            return self.report.drop(Drop::SwitchDown);
        }
        match port {
            Port::Backend(of) => self.route(of, packet),
            Port::Balancer(of) => self.send_out(of, packet),
        }
    }

    /// Has a back end route a packet.
    fn route(&mut self, part: u16, mut packet: Packet) {
        if packet.to != Address::Backend(part) {
            return self.report.drop(Drop::Other);
        }
        let measured = self.is_measured();
        let backend = &mut self.backends[usize::from(part)];
        if backend.health.has_failure(Fault::Crash) {
            return self.count_loss(part, Drop::BackendDown);
        }
        let Some(done) = backend.serve(self.now) else {
            return self.report.drop(Drop::BackendFull);
        };
        if backend.health.has_failure(Fault::OneWay) {
            return self.count_loss(part, Drop::Cable);
        }
        self.report.backends[usize::from(part)] += u64::from(measured);
        let hosts = self.flows[packet.flow as usize].hosts;
        packet.to = Address::Host(hosts[1 - usize::from(packet.is_answer)]);
        (packet.from, packet.stay) = (Port::Backend(part), (self.now, done));
        self.forward(packet, Address::Backend(part));
    }

    /// Counts a packet that a failing back end loses.
    fn count_loss(&mut self, part: u16, why: Drop) {
        self.report.drop(why);
        let last = self.open.iter().rev().find(|open| open.of == part);
        if let Some(open) = last {
            self.report.losses[open.loss].lost += 1;
        }
    }

    /// Has a balancer send a packet out of the router.
    fn send_out(&mut self, part: u16, packet: Packet) {
        let balancer = &mut self.balancers[usize::from(part)];
        if balancer.worker.health.has_failure(Fault::Crash) {
            return self.report.drop(Drop::BalancerDown);
        }
        let Some(done) = balancer.worker.serve(self.now) else {
            return self.report.drop(Drop::BalancerFull);
        };
        let known = match packet.to {
            Address::Host(front) => (self.balancer_of(front) == part
                && self.balancers[usize::from(part)].heard[front as usize])
                .then_some(front),
            Address::Backend(_) => None,
        };
        if let Some(front) = known {
            return self.deliver(front, packet, done);
        }
        let (all, step) = (self.config.fronts, usize::from(self.config.balancers));
        let mut copies = 0;
        for front in (u32::from(part)..all).step_by(step) {
            self.deliver(front, packet, done);
            copies += 1;
        }
        match copies {
            0 => self.report.drop(Drop::NoPort),
            copies => self.report.copies += copies - 1,
        }
    }

    /// Sends a frame out of a front port.
    fn deliver(&mut self, front: u32, packet: Packet, at: u64) {
        let Some(done) = self.hosts[front as usize].port.serve(at, 1, false) else {
            return self.report.drop(Drop::FrontPortFull);
        };
        if packet.to != Address::Host(front) {
            return self.report.drop(Drop::Other);
        }
        let (word, bit) = (packet.number as usize / 64, 1 << (packet.number % 64));
        if self.arrived.len() <= word {
            self.arrived.resize(word + 1024, 0);
        }
        if self.arrived[word] & bit != 0 {
            self.report.doubled += 1;
            return;
        }
        self.arrived[word] |= bit;
        self.report.packets_out += 1;
        self.report.carried += u64::from(self.is_measured());
        self.report.latency.add(done - packet.born);
        let flow = &mut self.flows[packet.flow as usize];
        let order = &mut flow.order[usize::from(packet.is_answer)];
        self.report
            .reordering
            .record_departure(order, packet.sequence);
        if self.config.answers && !packet.is_answer {
            self.events
                .add(done + HOST_DELAY_NS, Event::Answer(packet.flow));
        }
    }

    fn probe(&mut self, at: u16) {
        let (now, interval) = (self.now, self.config.health.interval.max(1));
        let balancer = &mut self.balancers[usize::from(at)];
        let hung_until = balancer.worker.health.hung_until();
        if hung_until > now {
            return self.events.add(hung_until, Event::Probe(at));
        }
        if now < self.config.end() {
            self.events.add(now + interval, Event::Probe(at));
        }
        if balancer.worker.health.has_failure(Fault::Crash) {
            return;
        }
        let life = balancer.life;
        for of in 0..self.backends.len() as u16 {
            let balancer = &mut self.balancers[usize::from(at)];
            let (number, change) = balancer.watches[usize::from(of)].probe(now);
            let sent = balancer.worker.serve_first(now) + self.config.delay;
            if let Some(change) = change {
                self.changed(at, of, change);
            }
            let backend = &mut self.backends[usize::from(of)];
            let health = &backend.health;
            let is_lost = health.has_failure(Fault::Crash)
                || health.has_failure(Fault::OneWay)
                || self.switch.health.has_failure(Fault::Crash);
            if !is_lost {
                let back = backend.serve_first(sent) + self.config.delay;
                let echo = Event::Echo {
                    balancer: at,
                    life,
                    of,
                    number,
                };
                self.events.add(back, echo);
            }
        }
    }

    fn echo(&mut self, at: u16, life: u32, part: u16, number: u64) {
        let balancer = &mut self.balancers[usize::from(at)];
        let health = &balancer.worker.health;
        if balancer.life != life || health.has_failure(Fault::Crash) {
            return;
        }
        if health.hung_until() > self.now {
            let echo = Event::Echo {
                balancer: at,
                life,
                of: part,
                number,
            };
            return self.events.add(health.hung_until(), echo);
        }
        let backend = &self.backends[usize::from(part)].health;
        // True if the probe was in the back end or at the switch when the back end crashed.
        let was_there = (self.now.saturating_sub(2 * self.config.delay), self.now);
        if backend.has_lost(was_there.0, was_there.1)
            || self.switch.health.has_failure(Fault::Crash)
        {
            return;
        }
        self.switch
            .learn(Address::Backend(part), Port::Backend(part));
        let change = balancer.watches[usize::from(part)].heard(number, self.now);
        if let Some(change) = change {
            self.changed(at, part, change);
        }
    }
}
