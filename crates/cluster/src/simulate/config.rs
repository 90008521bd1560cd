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
    /// Traffic that follows a traffic matrix.
    Matrix {
        /// The matrix.
        matrix: Matrix,
        /// Number of flows of an input, divided over its outputs.
        flows: u32,
        /// Lengths of frames.
        sizes: Sizes,
    },
    /// Packets of a capture file, from the first node with external ports to the last.
    Trace(Trace),
}

/// Parameters of a simulation.
#[derive(Clone, Debug)]
pub struct Config {
    /// Traffic of the inputs.
    pub traffic: Traffic,
    /// Share of each input's rate that is offered, 0 to 1.
    pub load: f64,
    /// Nanoseconds that are measured.
    pub time: u64,
    /// Nanoseconds of warm-up before the measured time.
    pub warmup: u64,
    /// Seed of all random choices.
    pub seed: u64,
    /// Processing rate of a node, in units of its external rate; for nodes without external ports, of the greatest
    /// rate.
    pub c: f64,
    /// Nanoseconds that a node needs for a packet, without waiting.
    pub latency: u64,
    /// Propagation delay of a link in nanoseconds.
    pub delay: u64,
    /// Ratio of a cable's rate to the rate that the map gives to its link: room for bursts.
    pub headroom: f64,
    /// Maximum time in nanoseconds that a packet waits in a queue; each queue holds at least `QUEUE_LEAST` bytes.
    pub queue: u64,
    /// Settings of load spreading; the seed is replaced.
    pub spread: Settings,
    /// Bounds of the resequencers at output nodes; `None`: output nodes do not restore the order of packets.
    pub resequence: Option<Bounds>,
    /// Failures. With any failure, nodes send heartbeats and have at most 64 links; links come up after some 50 ms.
    pub failures: Vec<Failure>,
    /// Growth of the cluster, step by step. Nodes send heartbeats as with failures.
    pub growth: Vec<Growth>,
}

/// Servers that are added while others work.
#[derive(Clone, Debug)]
pub struct Growth {
    /// Time at which the first servers adopt the new map, in nanoseconds from the start of the run.
    pub at: u64,
    /// The new map: the nodes and links of the previous one, followed by new ones.
    pub map: Map,
}

/// Minimum number of bytes that each queue holds.
pub(super) const QUEUE_LEAST: u64 = 64 * 1518;

impl Config {
    /// One direction of a cable for a link of this rate.
    pub(super) fn cable(&self, rate: f64) -> Server {
        Server::new(rate * self.headroom, self.queue)
    }

    /// Default parameters for a matrix, with RouteBricks' servers: 24 us of latency each (RB11).
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
