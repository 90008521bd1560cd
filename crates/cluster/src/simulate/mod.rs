//! A cluster in virtual time: the same spreading as on real servers, and models of what they run on.
//!
//! Nodes process packets at a rate and have a queue before that; links have a rate, a delay and a queue in each
//! direction; external outputs have a rate and a queue. All these serve in order of arrival, so a queue is a
//! moment: until when its server is busy. An event is the arrival of a packet at a node; there is one for each node that a
//! packet visits. All follows from the seed.

use std::sync::Arc;

use crate::address::{self, Address, HOPS_MAX, Kind, LEN, NO_NODE, NodeId};
use crate::map::{Fabric, Links, Map, Reach, Ways};
use crate::resequencer::{Bounds, Numbers, Resequencer};
use crate::spread::{Refusal, Settings, Spread};
use crate::transit::{self, Fault, Step};
use chance::Chance;
use config::QUEUE_LEAST;
use failures::{Beat, Watch};
use queue::Queue;
use source::Source;
use tally::Flow;

/// Numbers that look random and follow from a seed.
pub mod chance;
mod config;
mod failures;
mod matrix;
mod queue;
mod report;
mod source;
mod tally;

pub use config::{Config, Traffic};
pub use failures::{Broken, Failure, Noticed};
pub use matrix::Matrix;
pub use report::{Drops, LinkLoads, PAIR_LEAST, Report};
pub use source::{Record, Sizes, Trace, backbone};
pub use tally::{Histogram, Reordering, jain};

#[derive(Clone, Copy, Debug)]
struct Packet {
    born: u64,
    bytes: u32,
    flow: u32,
    sequence: u32,
    /// Internal links that it has passed.
    links: u8,
    /// As in a real frame.
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
    /// An input's next packet is due; by the number of the source.
    Source(u32),
    /// A packet has come to a node by a link.
    Arrive(NodeId, Packet),
    /// A node's resequencer may have something to give out.
    Tick(NodeId),
    /// A node may have to send heartbeats.
    Look(NodeId),
    /// A heartbeat has come to a node.
    Heard(Box<Beat>),
}

/// Something that serves in order of arrival.
#[derive(Clone, Copy, Debug)]
struct Server {
    /// Until when it is busy.
    busy: u64,
    /// Nanoseconds for a byte.
    per_byte: f64,
    /// Nanoseconds that a packet may wait.
    most: u64,
    /// Bytes served while it was measured.
    bytes: u64,
}

impl Server {
    fn new(rate: f64, queue: u64) -> Server {
        let per_byte = 8e9 / rate.max(1.0);
        Server {
            busy: 0,
            per_byte,
            most: queue.max((QUEUE_LEAST as f64 * per_byte) as u64),
            bytes: 0,
        }
    }

    /// When it is done with a packet, or nothing if its queue is full.
    #[inline]
    fn serve(&mut self, now: u64, bytes: u32, measured: bool) -> Option<u64> {
        let start = self.busy.max(now);
        if start - now > self.most {
            return None;
        }
        self.busy = start + (f64::from(bytes) * self.per_byte) as u64;
        if measured {
            self.bytes += u64::from(bytes);
        }
        Some(self.busy)
    }
}

#[derive(Debug)]
struct Node {
    spread: Spread,
    work: Server,
    output: Server,
    order: Option<Order>,
}

/// What brings packets into order again: the input node's part and the output node's.
#[derive(Debug)]
struct Order {
    numbers: Numbers,
    resequencer: Resequencer<Packet>,
    /// When an event will look at it.
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
    /// Whether frames have lanes.
    lanes: bool,
    nodes: Vec<Node>,
    /// Twice for each link: from its first end, and from its second.
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
    /// Of a cluster.
    pub fn new(map: Map, config: Config) -> Simulation {
        let mut chance = Chance::new(config.seed);
        let fabric = Fabric::new(map);
        let map = fabric.map();
        let reach = Reach::new(&fabric, &Links::all(map));
        let ways: Vec<Ways> = (0..map.nodes.len())
            .map(|node| Ways::new(&reach, node as NodeId))
            .collect();
        let most = map.nodes.iter().map(|node| node.rate).fold(1.0, f64::max);
        let settings = Settings {
            seed: chance.bits() as u32,
            ..config.spread.clone()
        };
        let nodes = ways.iter().zip(&map.nodes).map(|(ways, node)| {
            let rate = if node.rate > 0.0 { node.rate } else { most };
            Node {
                spread: Spread::new(settings.clone(), ways, 0),
                work: Server::new(config.c * rate, config.queue),
                output: Server::new(node.rate, config.queue),
                order: config.resequence.map(Order::new),
            }
        });
        let cable = |rate: f64| Server::new(rate * config.headroom, config.queue);
        let links = map.links.iter().flat_map(|link| [cable(link.rate); 2]);
        let ports = matrix::ports(map);
        let mut simulation = Simulation {
            nodes: nodes.collect(),
            links: links.collect(),
            events: Queue::new(),
            sources: Vec::new(),
            flows: Vec::new(),
            sizes: (Vec::new(), 0),
            now: 0,
            watch: Watch::new(map, &config.failures),
            report: Report::new(map.nodes.len(), &ports),
            ways,
            lanes: fabric.branches(),
            fabric,
            config,
        };
        simulation.add_sources(&ports, &mut chance);
        if simulation.watch.is_some() {
            for node in 0..simulation.nodes.len() {
                // Servers do not look in step.
                let first = chance.below(5_000_000);
                simulation.events.add(first, Event::Look(node as NodeId));
            }
        }
        simulation
    }

    fn add_sources(&mut self, ports: &[NodeId], chance: &mut Chance) {
        let map = self.fabric.map();
        let rate = |node: NodeId| map.nodes[usize::from(node)].rate * self.config.load;
        match &self.config.traffic {
            Traffic::Matrix {
                matrix,
                flows,
                sizes,
            } => {
                let mut first = 0;
                let rows = matrix.rows(ports.len(), chance);
                for (from, row) in rows.iter().enumerate() {
                    for &(to, part) in row {
                        let rates = rate(ports[from]) / map.nodes[usize::from(ports[to])].rate;
                        self.report.asked[to] += part * rates;
                    }
                    let row: Vec<_> = row.iter().map(|&(to, part)| (ports[to], part)).collect();
                    let (node, seed) = (ports[from], Chance::new(chance.bits()));
                    if !row.is_empty() && rate(node) > 0.0 {
                        let each = (flows / row.len() as u32).max(1);
                        let numbers = (first, each);
                        let source = Source::matrix(node, rate(node), &row, numbers, seed);
                        self.sources.push(source);
                        first += each * row.len() as u32;
                    }
                }
                self.flows = vec![Flow::default(); first as usize];
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
        for number in 0..self.sources.len() {
            let first = self.sources[number].first();
            self.events.add(first, Event::Source(number as u32));
        }
    }

    /// When inputs cease to send.
    fn end(&self) -> u64 {
        self.config.warmup + self.config.time
    }

    /// Runs for a number of events. Returns the part of the time that has passed, or nothing at the end, when all
    /// packets have left.
    pub fn run(&mut self, events: u32) -> Option<f64> {
        for _ in 0..events {
            let (now, event) = self.events.next()?;
            self.now = now;
            match event {
                Event::Source(number) => self.send(number),
                Event::Arrive(node, packet) => self.process(node, packet),
                Event::Tick(node) => self.tick(node),
                Event::Look(node) => self.look(node),
                Event::Heard(beat) => self.hear(&beat),
            }
        }
        Some((self.now as f64 / self.end() as f64).min(1.0))
    }

    /// Runs to the end, and tells what happened.
    pub fn finish(mut self) -> Report {
        while self.run(1 << 20).is_some() {}
        self.into_report()
    }

    /// What happened.
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
        report.noticed = watch.map_or_else(Vec::new, |watch| watch.noticed);
        report.close(config.time, fabric.map(), &nodes, &links);
        report
    }

    fn measured(&self) -> bool {
        (self.config.warmup..self.end()).contains(&self.now)
    }

    fn send(&mut self, number: u32) {
        let now = self.now;
        let source = &mut self.sources[number as usize];
        let (sizes, sum) = &self.sizes;
        let Some(next) = source.next(sizes, *sum) else {
            return;
        };
        let input = source.node;
        if now >= self.end() {
            return;
        }
        self.events.add(now + next.gap, Event::Source(number));
        let packet = Packet {
            born: now,
            bytes: next.bytes,
            flow: next.flow,
            sequence: next.number,
            links: 0,
            addresses: Address {
                kind: Kind::Data,
                hops: HOPS_MAX,
                node: next.output,
                port: 0,
                gateway: 0,
                input,
                via: NO_NODE,
                cookie: COOKIE,
            }
            .bytes(),
            tag: (0, 0),
        };
        let measured = self.measured();
        self.report.offer(&packet, measured);
        self.enter(input, packet);
    }

    /// A node's work on a packet that has come in by its external port.
    fn enter(&mut self, node: NodeId, mut packet: Packet) {
        let Some(done) = self.work(node, &packet) else {
            return;
        };
        let address = packet.address();
        let (ways, hash) = (&self.ways[usize::from(node)], flow_hash(packet.flow));
        let here = &mut self.nodes[usize::from(node)];
        let choice = here
            .spread
            .choose(done, ways, address.node, packet.bytes, hash);
        match choice {
            Ok(choice) => {
                if let Some(order) = &mut here.order {
                    packet.tag = order.numbers.number(address.node, hash);
                }
                let hops = address::allowance(ways.passes(choice.via, address.node));
                address::set_way(&mut packet.addresses, hops, choice.via);
                if self.lanes {
                    address::set_lane(&mut packet.addresses, hash);
                }
                self.cross(node, choice.link, packet, done);
            }
            Err(Refusal::NoWay) => self.report.drops.no_way += 1,
            Err(Refusal::Full) => self.report.drops.ways_full += 1,
        }
    }

    /// A node's work on a packet that has come by an internal link.
    fn process(&mut self, node: NodeId, mut packet: Packet) {
        let Some(done) = self.work(node, &packet) else {
            return;
        };
        match transit::pass(&packet.addresses, &self.ways[usize::from(node)], COOKIE) {
            Ok(Step::Here) => self.arrive(node, packet, done + self.config.latency),
            Ok(Step::On { link, addresses }) => {
                let spread = &mut self.nodes[usize::from(node)].spread;
                spread.carried(done, link, packet.bytes);
                packet.addresses = addresses;
                self.cross(node, link, packet, done);
            }
            Ok(Step::Heartbeat) => {}
            Err(Fault::NoWay) => self.report.drops.no_way += 1,
            Err(Fault::TooManyHops) => self.report.drops.too_many_hops += 1,
            Err(_) => self.report.drops.faulty += 1,
        }
    }

    /// When a node is done with a packet, if it has room for it.
    fn work(&mut self, node: NodeId, packet: &Packet) -> Option<u64> {
        let measured = self.measured();
        if self
            .watch
            .as_ref()
            .is_some_and(|watch| watch.dead(self.now, node))
        {
            self.report.drops.dead += 1;
            return None;
        }
        let work = &mut self.nodes[usize::from(node)].work;
        let done = work.serve(self.now, packet.bytes, measured);
        self.report.drops.node_full += u64::from(done.is_none());
        done
    }

    /// Sends a packet over a link.
    fn cross(&mut self, node: NodeId, own: u16, mut packet: Packet, done: u64) {
        let (now, measured) = (done + self.config.latency, self.measured());
        let (peer, link) = self.fabric.neighbours(node)[usize::from(own)];
        let direction = usize::from(node > peer);
        if self
            .watch
            .as_ref()
            .is_some_and(|watch| watch.loses(now, node, peer))
        {
            return self.report.drops.dead += 1;
        }
        packet.links += 1;
        let cable = &mut self.links[2 * link as usize + direction];
        match cable.serve(now, packet.bytes, measured) {
            None => self.report.drops.link_full += 1,
            Some(done) => self
                .events
                .add(done + self.config.delay, Event::Arrive(peer, packet)),
        }
    }

    /// A node looks at the time, and sends heartbeats that are due.
    fn look(&mut self, node: NodeId) {
        let (now, end) = (self.now, self.end());
        let Some(watch) = &mut self.watch else {
            return;
        };
        // After the last packet heartbeats would go on for ever.
        if watch.due[usize::from(node)] > now && watch.due[usize::from(node)] != u64::MAX
            || now >= end
        {
            return;
        }
        watch.due[usize::from(node)] = u64::MAX;
        let mut out = Vec::new();
        watch.tick(now, node, &mut self.links, &mut out);
        for (at, beat) in out {
            self.events
                .add(at + self.config.delay, Event::Heard(Box::new(beat)));
        }
        self.follow(node);
    }

    fn hear(&mut self, beat: &Beat) {
        if let Some(watch) = &mut self.watch {
            watch.heard(self.now, beat);
            self.follow(beat.to);
        }
    }

    /// A node's ways follow what it knows of links.
    fn follow(&mut self, node: NodeId) {
        let Some(watch) = &mut self.watch else {
            return;
        };
        if let Some(ways) = watch.changed(self.now, node, &self.fabric) {
            self.ways[usize::from(node)] = ways;
        }
        if let Some(due) = watch.plan(self.now, node) {
            self.events.add(due, Event::Look(node));
        }
    }

    /// A packet has come to its output node.
    fn arrive(&mut self, node: NodeId, packet: Packet, now: u64) {
        let Some(order) = &mut self.nodes[usize::from(node)].order else {
            return self.leave(node, &packet, now);
        };
        let mut out = Vec::new();
        let input = packet.address().input;
        order
            .resequencer
            .take(now, input, packet.tag, packet, &mut |packet| {
                out.push(packet)
            });
        out.iter().for_each(|packet| self.leave(node, packet, now));
        self.plan_tick(node);
    }

    /// A node's resequencer looks whether packets have waited long enough.
    fn tick(&mut self, node: NodeId) {
        // On the clock of packets that have been processed.
        let now = self.now + self.config.latency;
        let Some(order) = &mut self.nodes[usize::from(node)].order else {
            return;
        };
        order.tick = None;
        let mut out = Vec::new();
        order.resequencer.tick(now, &mut |packet| out.push(packet));
        out.iter().for_each(|packet| self.leave(node, packet, now));
        self.plan_tick(node);
    }

    fn plan_tick(&mut self, node: NodeId) {
        let Some(order) = &mut self.nodes[usize::from(node)].order else {
            return;
        };
        if let (None, Some(due)) = (order.tick, order.resequencer.due()) {
            let at = due.saturating_sub(self.config.latency).max(self.now);
            order.tick = Some(at);
            self.events.add(at, Event::Tick(node));
        }
    }

    /// Sends a packet out by its external port.
    fn leave(&mut self, node: NodeId, packet: &Packet, now: u64) {
        let born_measured = (self.config.warmup..self.end()).contains(&packet.born);
        let output = &mut self.nodes[usize::from(node)].output;
        match output.serve(now, packet.bytes, true) {
            None => self.report.drops.output_full += 1,
            Some(left) => {
                let at = packet.flow as usize;
                if at >= self.flows.len() {
                    self.flows.resize(at + 1, Flow::default());
                }
                let flow = &mut self.flows[at];
                self.report.deliver(packet, flow, left, born_measured);
            }
        }
    }
}

/// A flow's hash, as a real one's 5-tuple has one.
fn flow_hash(flow: u32) -> u32 {
    Chance::new(u64::from(flow)).bits() as u32
}

#[cfg(test)]
mod tests;
