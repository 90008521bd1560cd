//! Description of a simulation: servers, rates and failures.

use super::failures::Failure;
use super::matrix::Matrix;
use super::server::Server;
use super::source::{Sizes, Trace, backbone};
use crate::map::Map;
use crate::resequencer::Bounds;
use crate::spread::Settings;

/// Traffic of the inputs.
#[derive(Clone, Debug)]
pub enum Traffic {
    /// Traffic by a matrix.
    Matrix {
        /// The matrix.
        matrix: Matrix,
        /// Number of flows of an input, divided over its outputs.
        flows: u32,
        /// Lengths of frames.
        sizes: Sizes,
    },
    /// Packets of a capture, from the first node with external ports to the last.
    Trace(Trace),
}

/// Parameters of a simulation.
#[derive(Clone, Debug)]
pub struct Config {
    /// Traffic of the inputs.
    pub traffic: Traffic,
    /// Part of each input's rate that is offered, 1 for all.
    pub load: f64,
    /// Nanoseconds that are measured.
    pub time: u64,
    /// Nanoseconds before these, in which queues and buckets find their level.
    pub warmup: u64,
    /// Seed of all random choices.
    pub seed: u64,
    /// Processing rate of a node, in units of its external rate; for nodes without external ports, of the greatest
    /// rate.
    pub c: f64,
    /// Nanoseconds that a node takes for a packet, besides waiting.
    pub latency: u64,
    /// Nanoseconds that a link takes, besides sending.
    pub delay: u64,
    /// Rate of cables over the rate that the map gives to links: room for bursts.
    pub headroom: f64,
    /// Nanoseconds that a packet waits in a queue at most, where that is more than `QUEUE_LEAST` bytes.
    pub queue: u64,
    /// Spreading of the nodes; the seed is replaced.
    pub spread: Settings,
    /// Output nodes bring packets into order again, within these bounds.
    pub resequence: Option<Bounds>,
    /// Failures. With any failure, nodes send heartbeats and have at most 64 links; they know each other after some 50
    /// ms.
    pub failures: Vec<Failure>,
    /// Growth of the cluster, step by step. Nodes send heartbeats as with failures.
    pub growth: Vec<Growth>,
}

/// Servers that are added while others work.
#[derive(Clone, Debug)]
pub struct Growth {
    /// Time at which the first servers adopt the new map, in nanoseconds from the start of the run.
    pub at: u64,
    /// The new map: nodes and links of the one before, and then the new ones.
    pub map: Map,
}

/// Minimum number of bytes that each queue holds.
pub(super) const QUEUE_LEAST: u64 = 64 * 1518;

impl Config {
    /// A direction of a cable for a link of a rate.
    pub(super) fn cable(&self, rate: f64) -> Server {
        Server::new(rate * self.headroom, self.queue)
    }

    /// Whatever is asked of a matrix, with servers as in RouteBricks: 24 us each (RB11).
    pub fn new(matrix: Matrix, seed: u64) -> Config {
        Config {
            traffic: Traffic::Matrix {
                matrix,
                flows: 4096,
                sizes: backbone(),
            },
            load: 1.0,
            time: 20_000_000,
            warmup: 10_000_000,
            seed,
            c: 3.15,
            latency: 24_000,
            delay: 1_000,
            headroom: 1.05,
            queue: 5_000_000,
            spread: Settings::default(),
            resequence: None,
            failures: Vec::new(),
            growth: Vec::new(),
        }
    }
}
