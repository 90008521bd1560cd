//! Report of a simulated cluster.

use super::counters::{Flow, Histogram, Reordering, jain};
use super::server::Server;
use super::{FailureEffect, Node, Packet};
use crate::address::{HOPS_MAX, NodeId};
use crate::map::Map;
use crate::spread::Counts;

/// Minimum number of offered bytes of a pair to be judged: some dozens of packets.
pub const PAIR_LEAST: u64 = 48_000;

/// Number of dropped packets of the whole run, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// Number of packets dropped because a node's processing queue was full.
    pub node_full: u64,
    /// Packets dropped because the input node found no path with room.
    pub ways_full: u64,
    /// Number of packets dropped because the queue of an internal link was full.
    pub link_full: u64,
    /// Number of packets dropped because the queue of an external output was full.
    pub output_full: u64,
    /// Number of packets without any path of links to the output node.
    pub no_path: u64,
    /// Number of packets dropped because they had passed too many links.
    pub too_many_hops: u64,
    /// Number of packets lost by a broken link or node.
    pub dead: u64,
    /// Packets dropped because of wrong addresses, or because they came back to a node.
    pub faulty: u64,
}

impl Drops {
    /// Names and packets.
    pub fn list(&self) -> [(&'static str, u64); 8] {
        [
            ("node_full", self.node_full),
            ("ways_full", self.ways_full),
            ("link_full", self.link_full),
            ("output_full", self.output_full),
            ("no_path", self.no_path),
            ("too_many_hops", self.too_many_hops),
            ("dead", self.dead),
            ("faulty", self.faulty),
        ]
    }

    /// Sum of all drops.
    pub fn sum(&self) -> u64 {
        self.list().iter().map(|(_, packets)| packets).sum()
    }
}

/// Loads of links, counted per direction, relative to the rate that the map gives them (2R/N in a mesh).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkLoads {
    /// Mean load.
    pub mean: f64,
    /// Median: half of all links have less load.
    pub p50: f64,
    /// 99th percentile: 1 % of all links have more load.
    pub p99: f64,
    /// Greatest load.
    pub most: f64,
    /// Bytes that the most loaded link carried beyond its rate; negative if fewer.
    pub excess: f64,
}

/// A stage of a growing cluster, during which the number of servers with external ports is constant. A packet belongs
/// to the stage in which it arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stage {
    /// Number of servers that sent and received.
    pub servers: usize,
    /// Start of the stage, in nanoseconds from the start of the run.
    pub from: u64,
    /// Number of bytes offered.
    pub offered: u64,
    /// Offered bytes that were delivered.
    pub delivered: u64,
}

/// Report of a run. Packets count from the start of the measurement; drops and packet balance cover the whole run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Nanoseconds that were measured.
    pub time: u64,
    /// Number of packets that came in during the whole run.
    pub packets_in: u64,
    /// Number of packets that left during the whole run.
    pub packets_out: u64,
    /// Number of bytes offered.
    pub offered: u64,
    /// Offered bytes that were delivered.
    pub delivered: u64,
    /// Packets dropped.
    pub drops: Drops,
    /// Loads of links.
    pub links: LinkLoads,
    /// Processing rate of the busiest node, in units of its external rate (c).
    pub c_most: f64,
    /// Mean processing rate of the nodes with external ports, in the same units.
    pub c_mean: f64,
    /// Packets by the number of internal links that they passed.
    pub hops: [u64; HOPS_MAX as usize + 2],
    /// Nanoseconds from the arrival of a packet to its leaving.
    pub latency: Histogram,
    /// Reordering of packets.
    pub reordering: Reordering,
    /// Smallest delivered share of a pair's offer. It covers outputs that are not overloaded, and pairs that offered
    /// at least [`PAIR_LEAST`] bytes; `None` if there is no such pair.
    pub pair_least: Option<f64>,
    /// Jain's fairness index over the delivered shares of these pairs.
    pub pair_fairness: Option<f64>,
    /// Jain's index over the inputs of an overloaded output; the smallest one of all such outputs.
    pub input_fairness: Option<f64>,
    /// Number of packets on the direct path, and number of packets through an intermediate node.
    pub straight: (u64, u64),
    /// Choices of paths by the input nodes.
    pub spread: Counts,
    /// Jain's fairness index over the bytes delivered by pairs that offered any.
    pub fairness: f64,
    /// The stages of a cluster that grows, measured or not.
    pub stages: Vec<Stage>,
    /// Effects of each failure.
    pub noticed: Vec<FailureEffect>,
    /// Number of times that a node took a working link for broken.
    pub false_alarms: u64,
    ports: usize,
    /// Numbers of nodes' external ports.
    port: Vec<u16>,
    /// Load that the matrix offers to each output, relative to its rate.
    asked: Vec<f64>,
    /// Bytes of each pair: offered, delivered.
    pairs: Vec<[u64; 2]>,
}

impl Report {
    pub(super) fn new(nodes: usize, ports: &[NodeId]) -> Report {
        let mut port = vec![0; nodes];
        for (number, &node) in ports.iter().enumerate() {
            port[usize::from(node)] = number as u16;
        }
        Report {
            fairness: 1.0,
            ports: ports.len(),
            port,
            asked: vec![0.0; ports.len()],
            pairs: vec![[0; 2]; ports.len() * ports.len()],
            ..Report::default()
        }
    }

    /// Records the load that the matrix offers to each output, relative to its rate.
    pub(super) fn ask(&mut self, requested: &[f64]) {
        for (known, requested) in self.asked.iter_mut().zip(requested) {
            *known = known.max(*requested);
        }
    }

    /// Begins a stage in which `servers` servers send and receive.
    pub(super) fn begin_stage(&mut self, from: u64, servers: usize) {
        self.stages.push(Stage {
            servers,
            from,
            ..Stage::default()
        });
    }

    fn stage(&mut self, packet: &Packet) -> Option<&mut Stage> {
        let mut stages = self.stages.iter_mut().rev();
        stages.find(|stage| stage.from <= packet.born)
    }

    fn pair(&mut self, packet: &Packet) -> &mut [u64; 2] {
        let address = packet.address();
        let [from, to] =
            [address.input, address.node].map(|n| usize::from(self.port[usize::from(n)]));
        &mut self.pairs[from * self.ports + to]
    }

    #[inline]
    pub(super) fn record_offered(&mut self, packet: &Packet, measured: bool) {
        self.packets_in += 1;
        let bytes = u64::from(packet.bytes);
        if let Some(stage) = self.stage(packet) {
            stage.offered += bytes;
        }
        if measured {
            self.offered += bytes;
            self.pair(packet)[0] += bytes;
        }
    }

    #[inline]
    pub(super) fn deliver(&mut self, packet: &Packet, flow: &mut Flow, left: u64, measured: bool) {
        self.packets_out += 1;
        let bytes = u64::from(packet.bytes);
        if let Some(stage) = self.stage(packet) {
            stage.delivered += bytes;
        }
        if measured {
            self.delivered += bytes;
            self.pair(packet)[1] += bytes;
            self.hops[usize::from(packet.links)] += 1;
            self.latency.add(left - packet.born);
            self.reordering.record_departure(flow, packet.sequence);
        }
    }

    /// Draws the conclusions.
    pub(super) fn close(&mut self, time: u64, map: &Map, nodes: &[Node], links: &[Server]) {
        self.time = time;
        self.close_links(time, map, links);
        let worked = nodes
            .iter()
            .zip(&map.nodes)
            .filter(|(_, node)| node.rate > 0.0);
        let c: Vec<f64> = worked
            .map(|(node, of)| node.work.bytes as f64 * 8e9 / (of.rate * time as f64))
            .collect();
        self.c_most = c.iter().copied().fold(0.0, f64::max);
        self.c_mean = c.iter().sum::<f64>() / c.len().max(1) as f64;
        for node in nodes {
            let counts = node.spread.counts();
            for (sum, count) in [
                (&mut self.spread.direct, counts.direct),
                (&mut self.spread.straight, counts.straight),
                (&mut self.spread.phase1, counts.phase1),
                (&mut self.spread.kept, counts.kept),
                (&mut self.spread.moved, counts.moved),
            ] {
                *sum += count;
            }
            self.straight.0 += counts.direct + counts.straight;
            self.straight.1 += counts.phase1;
        }
        self.close_pairs();
    }

    fn close_links(&mut self, time: u64, map: &Map, links: &[Server]) {
        let rated = map.links.iter().flat_map(|link| [link.rate; 2]);
        let excess = |(link, rate): (&Server, f64)| link.bytes as f64 - rate * time as f64 / 8e9;
        self.links.excess = links
            .iter()
            .zip(rated.clone())
            .map(excess)
            .fold(f64::MIN, f64::max);
        let load = |(link, rate): (&Server, f64)| link.bytes as f64 * 8e9 / (rate * time as f64);
        let mut loads: Vec<f64> = links.iter().zip(rated).map(load).collect();
        loads.sort_unstable_by(f64::total_cmp);
        let Some(&most) = loads.last() else {
            return self.links.excess = 0.0;
        };
        let at = |share: f64| loads[((loads.len() - 1) as f64 * share) as usize];
        self.links = LinkLoads {
            mean: loads.iter().sum::<f64>() / loads.len() as f64,
            p50: at(0.5),
            p99: at(0.99),
            most,
            ..self.links
        };
    }

    /// Computes fairness per pair; overloaded outputs are judged separately.
    fn close_pairs(&mut self) {
        let mut parts = Vec::new();
        for (to, &asked) in self.asked.iter().enumerate() {
            let column = (0..self.ports).map(|from| self.pairs[from * self.ports + to]);
            let column = column.filter(|[offered, _]| *offered > 0);
            if asked > 1.001 {
                let fair = jain(column.map(|[_, delivered]| delivered as f64));
                self.input_fairness =
                    Some(self.input_fairness.map_or(fair, |least| least.min(fair)));
            } else {
                let enough = column.filter(|[offered, _]| *offered >= PAIR_LEAST);
                parts.extend(enough.map(|[offered, delivered]| delivered as f64 / offered as f64));
            }
        }
        let sent = self.pairs.iter().filter(|[offered, _]| *offered > 0);
        self.fairness = jain(sent.map(|[_, delivered]| *delivered as f64));
        self.pair_least = parts.iter().copied().reduce(f64::min);
        self.pair_fairness = self.pair_least.map(|_| jain(parts.into_iter()));
    }
}
