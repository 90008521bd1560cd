//! Description of a simulation: boxes, rates, changes and failures.

use crate::balance::{HealthSettings, Settings, WEIGHT_MAX};
use crate::simulate::{Matrix, rng::SimRng};
use std::fmt;

/// A box that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A back end.
    Backend(u16),
    /// A balancer.
    Balancer(u16),
    /// The switch between balancers and back ends.
    Switch,
}

/// Kind of failure of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The box loses its queue and all arriving packets, then restarts.
    Crash,
    /// The box does nothing, and continues later with the content of its queue.
    Hang,
    /// Packets from the back end are lost; packets to it arrive.
    OneWay,
    /// The box needs four times as long for a packet.
    Slow,
}

impl Fault {
    /// All faults, with their names.
    pub const ALL: [(Fault, &'static str); 4] = [
        (Fault::Crash, "crash"),
        (Fault::Hang, "hang"),
        (Fault::OneWay, "one-way"),
        (Fault::Slow, "slow"),
    ];

    /// Name of the fault.
    pub fn name(self) -> &'static str {
        let named = Fault::ALL.iter().find(|(fault, _)| *fault == self);
        named.map_or("", |(_, name)| name)
    }
}

/// A box that fails for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The box that fails.
    pub what: Target,
    /// Kind of failure.
    pub how: Fault,
    /// Start of the failure, in nanoseconds from the start of the run.
    pub from: u64,
    /// End of the failure.
    pub until: u64,
}

/// A planned change of a back end, made by the operator at all balancers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The back end gets no new flows.
    Drain,
    /// The back end is used again.
    Use,
    /// The back end has another weight.
    Weight(u16),
}

/// A planned change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Number of the back end that changes.
    pub of: u16,
    /// The change.
    pub order: Order,
    /// Time of the change, in nanoseconds from the start of the run.
    pub at: u64,
}

/// Writes the target as the command line takes it: `r3`, `b0`, `switch`.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Target::Backend(of) => write!(f, "r{of}"),
            Target::Balancer(of) => write!(f, "b{of}"),
            Target::Switch => write!(f, "switch"),
        }
    }
}

/// Writes the failure as the command line takes it, in milliseconds: `r3:hang@100-200`.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let [from, until] = [self.from, self.until].map(|ns| ns as f64 / 1e6);
        write!(f, "{}:{}@{from}-{until}", self.what, self.how.name())
    }
}

/// A simulated multistage router: its boxes, its hosts, and the events of the run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Front ports. Port `n` is at balancer `n` modulo their number; each has one host.
    pub fronts: u32,
    /// Balancers.
    pub balancers: u16,
    /// Weight of each back end.
    pub weights: Vec<u16>,
    /// Packets per second that a front port carries in each direction.
    pub front_rate: f64,
    /// Packets per second that a balancer handles, in both directions together.
    pub balancer_rate: f64,
    /// Back ports of a balancer.
    pub backs: u16,
    /// Packets per second that a back port sends.
    pub back_rate: f64,
    /// Packets per second that a back end forwards.
    pub backend_rate: f64,
    /// Nanoseconds that a packet waits in a queue at most.
    pub queue: u64,
    /// Nanoseconds from box to box through the switch.
    pub delay: u64,
    /// True if balancers use round robin instead of hashing flows.
    pub in_turn: bool,
    /// Idle time, deadline and settling time of the balancers.
    pub settings: Settings,
    /// Parameters of watching back ends.
    pub health: HealthSettings,
    /// Traffic between hosts.
    pub matrix: Matrix,
    /// Packets per second that each host sends, besides its answers.
    pub rate: f64,
    /// A host answers each packet.
    pub answers: bool,
    /// Number of flows of a host at a time.
    pub flows: u32,
    /// Mean number of packets of a flow. Another flow begins where one ends.
    pub flow_packets: u32,
    /// Nanoseconds that are measured.
    pub time: u64,
    /// Nanoseconds of warm-up, before the measured time.
    pub warmup: u64,
    /// Seed of all random choices.
    pub seed: u64,
    /// Failures.
    pub failures: Vec<Failure>,
    /// Planned changes.
    pub changes: Vec<Change>,
}

impl Default for Config {
    /// The paper's boxes: 640,000 packets per second for a back end and for a back port, ports at 1 Gbit/s.
    fn default() -> Config {
        const MS: u64 = 1_000_000;
        Config {
            fronts: 2,
            balancers: 1,
            weights: vec![1; 3],
            front_rate: 1_488_095.0,
            balancer_rate: 1e9,
            backs: 3,
            back_rate: 640_000.0,
            backend_rate: 640_000.0,
            queue: MS,
            delay: 5_000,
            in_turn: false,
            settings: Settings {
                idle: 100 * MS,
                deadline: 30_000 * MS,
                settle: 0,
            },
            health: HealthSettings {
                interval: 10 * MS,
                misses: 3,
                losses: 12,
                answers: 10,
            },
            matrix: Matrix::Uniform,
            rate: 100_000.0,
            answers: false,
            flows: 256,
            flow_packets: 100,
            time: 100 * MS,
            warmup: 10 * MS,
            seed: 1,
            failures: Vec::new(),
            changes: Vec::new(),
        }
    }
}

impl Config {
    /// Time at which hosts stop sending.
    pub fn end(&self) -> u64 {
        self.warmup + self.time
    }

    /// Adds `events` random events of all kinds, spread over the time. Failures last up to 100 ms; a planned change is
    /// undone after as long.
    pub fn add_random(&mut self, events: u32) {
        const LONGEST: u64 = 100_000_000;
        let mut chance = SimRng::new(self.seed ^ 0x6261_6c61_6e63_6572);
        let backends = self.weights.len() as u64;
        let latest = self.time.saturating_sub(LONGEST).max(1);
        for _ in 0..events {
            let from = self.warmup + chance.below(latest);
            let until = from + 1_000_000 + chance.below(LONGEST - 1_000_000);
            let of = chance.below(backends) as u16;
            let balancer = chance.below(u64::from(self.balancers)) as u16;
            let fails = match chance.below(9) {
                0 => (Target::Backend(of), Fault::Crash),
                1 => (Target::Backend(of), Fault::Hang),
                2 => (Target::Backend(of), Fault::OneWay),
                3 => (Target::Backend(of), Fault::Slow),
                4 => (Target::Balancer(balancer), Fault::Crash),
                5 => (Target::Switch, Fault::Crash),
                6 => (Target::Balancer(balancer), Fault::Hang),
                kind => {
                    let weight = 1 + chance.below(u64::from(WEIGHT_MAX.min(4))) as u16;
                    let (there, back) = match kind {
                        7 => (Order::Drain, Order::Use),
                        _ => (
                            Order::Weight(weight),
                            Order::Weight(self.weights[usize::from(of)]),
                        ),
                    };
                    for (order, at) in [(there, from), (back, until)] {
                        self.changes.push(Change { of, order, at });
                    }
                    continue;
                }
            };
            let (what, how) = fails;
            self.failures.push(Failure {
                what,
                how,
                from,
                until,
            });
        }
    }
}
