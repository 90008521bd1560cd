//! A cluster in virtual time: load spreading is the code of real servers; nodes, links and traffic are models.
//!
//! A node processes packets at a rate and has a queue for them. A link has a rate, a delay and a queue in each
//! direction; an external output has a rate and a queue. All serve in order of arrival, so a queue is represented by
//! the time until which its server is busy. Each arrival of a packet at a node is one event. A run depends on the
//! seed only.

use std::sync::Arc;

use crate::address::{Address, LEN, NodeId};
use crate::map::{Fabric, Links, Map, Reach, Ways};
use crate::resequencer::{Bounds, Numbers, Resequencer};
use crate::spread::{Settings, Spread};
use counters::Flow;
use failures::{Beat, Watch};
use queue::Queue;
use rng::SimRng;
use server::Server;
use source::Source;

mod config;
mod control_plane;
pub(crate) mod counters;
mod failures;
mod matrix;
mod path;
pub(crate) mod queue;
mod report;
/// Pseudo-random numbers from a seed.
pub mod rng;
pub(crate) mod server;
mod source;

pub use config::{Config, Growth, Traffic};
pub use counters::{Histogram, Reordering, jain};
pub use failures::{Broken, Failure, FailureEffect, Fault, Users};
pub use matrix::Matrix;
pub use report::{Drops, LinkLoads, PAIR_LEAST, Report, Stage};
pub use source::{Record, Sizes, Trace, backbone};

#[derive(Clone, Copy, Debug)]
struct Packet {
    born: u64,
    /// Time at which the last sending node chose the packet's path.
    chosen: u64,
    bytes: u32,
    flow: u32,
    sequence: u32,
    /// Internal links that the packet has passed.
    links: u8,
    /// Addresses, as in a real frame.
    addresses: [u8; LEN],
    /// Tag of the flow and number, as in a real frame's tag.
    tag: (u16, u16),
}

impl Packet {
    fn address(&self) -> Address {
        Address::parse(&self.addresses, COOKIE)
            .expect("every packet here has addresses of this cluster")
    }
}

const COOKIE: u8 = 0;

#[derive(Clone, Debug)]
enum Event {
    /// The next packet of a source, given by number, is due.
    Source(u32),
    /// A packet arrives at a node by a link.
    Arrive(NodeId, Packet),
    /// A node's resequencer may have packets to release.
    ResequencerTimer(NodeId),
    /// A node may have to send heartbeats.
    Look(NodeId),
    /// A heartbeat arrives at a node.
    Heard(Box<Beat>),
    /// New servers start; holds the number of the growth step.
    Grow(u32),
    /// A node adopts the newest map.
    Adopt(NodeId),
    /// All servers have adopted the newest map.
    Serve,
}

#[derive(Debug)]
struct Node {
    spread: Spread,
    work: Server,
    output: Server,
    order: Option<Order>,
}

impl Node {
    /// A node with its own rate, or with the rate `most` if it has no external port.
    fn new(spread: Spread, (own, most): (f64, f64), config: &Config) -> Node {
        let rate = if own > 0.0 { own } else { most };
        Node {
            spread,
            work: Server::new(config.c * rate, config.queue),
            output: Server::new(own, config.queue),
            order: config.resequence.map(Order::new),
        }
    }
}

/// Restoration of packet order: the numbering at an input node and the resequencer of an output node.
#[derive(Debug)]
struct Order {
    numbers: Numbers,
    resequencer: Resequencer<Packet>,
    /// Time of the scheduled event that releases packets.
    tick: Option<u64>,
}

impl Order {
    fn new(bounds: Bounds) -> Order {
        Order {
            numbers: Numbers::new(0, 0),
            resequencer: Resequencer::new(bounds),
            tick: None,
        }
    }
}

/// A cluster in virtual time.
#[derive(Debug)]
pub struct Simulation {
    config: Config,
    fabric: Arc<Fabric>,
    ways: Vec<Ways>,
    /// True if frames have lanes.
    lanes: bool,
    settings: Settings,
    chance: SimRng,
    nodes: Vec<Node>,
    /// Servers of the links' directions: for each link, that from its first end, then that from its second.
    links: Vec<Server>,
    events: Queue<Event>,
    sources: Vec<Source>,
    flows: Vec<Flow>,
    /// Lengths of frames, and the sum of their weights.
    sizes: (Sizes, u32),
    now: u64,
    watch: Option<Watch>,
    report: Report,
}

impl Simulation {
    /// Simulation of a cluster.
    pub fn new(map: Map, config: Config) -> Simulation {
        let mut chance = SimRng::new(config.seed);
        let fabric = Fabric::new(map);
        let map = fabric.map();
        let reach = Reach::new(&fabric, &Links::all(map));
        let ways: Vec<Ways> = (0..map.nodes.len())
            .map(|node| Ways::new(&reach, node as NodeId))
            .collect();
        let settings = Settings {
            seed: chance.bits() as u32,
            ..config.spread.clone()
        };
        let nodes = ways.iter().zip(&map.nodes).map(|(ways, node)| {
            let spread = Spread::new(settings.clone(), ways, 0);
            Node::new(spread, (node.rate, map.most()), &config)
        });
        let links = map.links.iter();
        let links = links.flat_map(|link| [config.cable(link.rate); 2]);
        let last = config.growth.last().map_or(map, |growth| &growth.map);
        let breaks = !config.failures.is_empty() || !config.growth.is_empty();
        let watch = breaks.then(|| Watch::new(map, &config.failures, config.seed));
        let mut simulation = Simulation {
            nodes: nodes.collect(),
            links: links.collect(),
            events: Queue::new(),
            sources: Vec::new(),
            flows: Vec::new(),
            sizes: (Vec::new(), 0),
            now: 0,
            watch: watch.flatten(),
            report: Report::new(last.nodes.len(), &matrix::ports(last)),
            ways,
            lanes: fabric.branches(),
            settings,
            chance,
            fabric,
            config,
        };
        simulation.begin();
        simulation
    }

    fn begin(&mut self) {
        let ports = matrix::ports(self.fabric.map());
        self.add_sources(&ports);
        if self.watch.is_some() {
            for node in 0..self.nodes.len() {
                // Nodes check their heartbeats at different times.
                let first = self.chance.below(5_000_000);
                self.events.add(first, Event::Look(node as NodeId));
            }
        }
        if !self.config.growth.is_empty() {
            self.report.begin_stage(0, ports.len());
        }
        for (step, growth) in self.config.growth.iter().enumerate() {
            self.events.add(growth.at, Event::Grow(step as u32));
        }
    }

    fn add_sources(&mut self, ports: &[NodeId]) {
        let (map, chance, began) = (self.fabric.map(), &mut self.chance, self.sources.len());
        let rate = |node: NodeId| map.nodes[usize::from(node)].rate * self.config.load;
        match &self.config.traffic {
            Traffic::Matrix {
                matrix,
                flows,
                sizes,
            } => {
                let mut first = self.flows.len() as u32;
                let mut asked = vec![0.0; ports.len()];
                let rows = matrix.rows(ports.len(), chance);
                for (from, row) in rows.iter().enumerate() {
                    for &(to, part) in row {
                        let rates = rate(ports[from]) / map.nodes[usize::from(ports[to])].rate;
                        asked[to] += part * rates;
                    }
                    let row: Vec<_> = row.iter().map(|&(to, part)| (ports[to], part)).collect();
                    let (node, seed) = (ports[from], SimRng::new(chance.bits()));
                    if !row.is_empty() && rate(node) > 0.0 {
                        let each = (flows / row.len() as u32).max(1);
                        let numbers = (first, each);
                        let source = Source::matrix(node, rate(node), &row, numbers, seed);
                        self.sources.push(source);
                        first += each * row.len() as u32;
                    }
                }
                self.report.ask(&asked);
                self.flows.resize(first as usize, Flow::default());
                self.sizes = (sizes.clone(), sizes.iter().map(|(_, weight)| weight).sum());
            }
            Traffic::Trace(trace) => {
                if let (Some(&from), Some(&to)) = (ports.first(), ports.last())
                    && from != to
                {
                    let source = Source::trace(from, rate(from), to, trace.clone());
                    self.sources.push(source);
                }
            }
        }
        for number in began..self.sources.len() {
            let first = self.now + self.sources[number].first();
            self.events.add(first, Event::Source(number as u32));
        }
    }

    /// Time at which inputs stop sending.
    fn end(&self) -> u64 {
        self.config.warmup + self.config.time
    }

    /// Runs a number of events. Returns the share of time that has passed; `None` at the end, when all packets have
    /// left.
    pub fn run(&mut self, events: u32) -> Option<f64> {
        for _ in 0..events {
            let (now, event) = self.events.next()?;
            self.now = now;
            match event {
                Event::Source(number) => self.send(number),
                Event::Arrive(node, packet) => self.process(node, packet),
                Event::ResequencerTimer(node) => self.tick(node),
                Event::Look(node) => self.look(node),
                Event::Heard(beat) => self.receive_heartbeat(beat),
                Event::Grow(step) => self.add_servers(step as usize),
                Event::Adopt(node) => self.adopt(node),
                Event::Serve => self.serve_all(),
            }
        }
        Some((self.now as f64 / self.end() as f64).min(1.0))
    }

    /// Runs the simulation to its end, and returns the report.
    pub fn finish(mut self) -> Report {
        while self.run(1 << 20).is_some() {}
        self.into_report()
    }

    /// Report of the run.
    pub fn into_report(self) -> Report {
        let Simulation {
            mut report,
            config,
            fabric,
            nodes,
            links,
            watch,
            ..
        } = self;
        if let Some(watch) = watch {
            (report.noticed, report.false_alarms) = (watch.noticed, watch.false_alarms);
        }
        report.close(config.time, fabric.map(), &nodes, &links);
        report
    }

    fn measured(&self) -> bool {
        (self.config.warmup..self.end()).contains(&self.now)
    }
}

#[cfg(test)]
mod tests;
