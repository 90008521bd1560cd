//! The simulated boxes: balancers, back ends and the switch, with their queues and failures.

use super::config::{Config, Fault};
use crate::balance::{Member, Pool, Watch};
use crate::simulate::server::Server;

/// Factor by which a slow box is slower.
const SLOW_FACTOR: u32 = 4;

/// Failure state that every box has: a balancer, a back end or the switch.
#[derive(Debug)]
pub(super) struct Health {
    /// For each kind of failure, the number of failures that last now.
    faults: [u32; Fault::ALL.len()],
    hung_until: u64,
    /// Time at which the box last lost its content.
    crashed_at: Option<u64>,
}

impl Health {
    pub(super) fn new() -> Health {
        Health {
            faults: [0; Fault::ALL.len()],
            hung_until: 0,
            crashed_at: None,
        }
    }

    pub(super) fn has_failure(&self, fault: Fault) -> bool {
        self.faults[fault as usize] > 0
    }

    pub(super) fn fail(&mut self, how: Fault, now: u64, until: u64) {
        self.faults[how as usize] += 1;
        match how {
            Fault::Crash => self.crashed_at = Some(now),
            Fault::Hang => self.hung_until = self.hung_until.max(until),
            Fault::OneWay | Fault::Slow => {}
        }
    }

    /// Ends a failure. Returns true if no other failure of its kind lasts.
    pub(super) fn end_failure(&mut self, how: Fault) -> bool {
        self.faults[how as usize] -= 1;
        self.faults[how as usize] == 0
    }

    /// True if a packet that was in the box from one moment to another was lost in a crash.
    pub(super) fn has_lost(&self, from: u64, until: u64) -> bool {
        self.crashed_at
            .is_some_and(|at| (from..until).contains(&at))
    }

    /// Time until which a hanging box does nothing.
    pub(super) fn hung_until(&self) -> u64 {
        self.hung_until
    }
}

/// A box that handles packets.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) health: Health,
    work: Server,
}

impl Worker {
    pub(super) fn new(rate: f64, queue: u64) -> Worker {
        Worker {
            health: Health::new(),
            work: Server::of_packets(rate, queue),
        }
    }

    fn cost(&self) -> u32 {
        if self.health.has_failure(Fault::Slow) {
            SLOW_FACTOR
        } else {
            1
        }
    }

    /// Time at which a packet leaves the box; `None` if the queue is full. A hanging box serves waiting packets after
    /// the hang.
    pub(super) fn serve(&mut self, now: u64) -> Option<u64> {
        self.work.busy = self.work.busy.max(self.health.hung_until);
        self.work.serve(now, self.cost(), false)
    }

    /// Serves a packet like `serve`, but before all waiting packets.
    pub(super) fn serve_first(&mut self, now: u64) -> u64 {
        match self.health.hung_until > now {
            true => self.health.hung_until,
            false => self.work.serve_first(now, self.cost()),
        }
    }
}

/// A balancer.
pub(super) struct Balancer {
    pub(super) worker: Worker,
    pub(super) pool: Pool,
    pub(super) watches: Vec<Watch>,
    pub(super) backs: Vec<Server>,
    /// For each front port, true if a frame from its host has arrived.
    pub(super) heard: Vec<bool>,
    /// Number of packets sent by round robin.
    pub(super) count: u32,
    /// Number of starts so far: answers to probes from before the last start are ignored.
    pub(super) life: u32,
}

impl Balancer {
    pub(super) fn new(config: &Config) -> Balancer {
        let back = || Server::of_packets(config.back_rate, config.queue);
        Balancer {
            worker: Worker::new(config.balancer_rate, config.queue),
            pool: pool(config, &config.weights),
            watches: watches(config),
            backs: (0..config.backs.max(1)).map(|_| back()).collect(),
            heard: vec![true; config.fronts as usize],
            count: 0,
            life: 0,
        }
    }

    /// Restarts the balancer. It then knows only its file.
    pub(super) fn restart(&mut self, config: &Config, weights: &[u16]) {
        (self.pool, self.watches) = (pool(config, weights), watches(config));
        self.heard.fill(false);
        self.count = 0;
        self.life += 1;
    }
}

fn pool(config: &Config, weights: &[u16]) -> Pool {
    let members = weights.iter().enumerate().map(|(at, &weight)| Member {
        name: format!("r{at}"),
        weight,
    });
    Pool::new(config.settings, members.collect(), Vec::new(), vec![0])
}

fn watches(config: &Config) -> Vec<Watch> {
    let watch = |_: &u16| Watch::new(config.health);
    config.weights.iter().map(watch).collect()
}

/// A port of the switch, by the box at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Port {
    Balancer(u16),
    Backend(u16),
}

/// A station's Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// Address of a back end.
    Backend(u16),
    /// Address of the host at a front port.
    Host(u32),
}

/// A learning switch.
#[derive(Debug)]
pub(super) struct Switch {
    pub(super) health: Health,
    backends: Vec<Option<Port>>,
    hosts: Vec<Option<Port>>,
    ports: Vec<Port>,
}

impl Switch {
    pub(super) fn new(config: &Config) -> Switch {
        let backends = config.weights.len() as u16;
        let ports = (0..config.balancers).map(Port::Balancer);
        Switch {
            health: Health::new(),
            backends: vec![None; usize::from(backends)],
            hosts: vec![None; config.fronts as usize],
            ports: ports.chain((0..backends).map(Port::Backend)).collect(),
        }
    }

    fn known(&mut self, address: Address) -> &mut Option<Port> {
        match address {
            Address::Backend(of) => &mut self.backends[usize::from(of)],
            Address::Host(of) => &mut self.hosts[of as usize],
        }
    }

    pub(super) fn learn(&mut self, address: Address, port: Port) {
        *self.known(address) = Some(port);
    }

    /// Ports to which the switch sends a frame: the learnt one, or all others if the address is unknown. The port of
    /// arrival is never among them.
    pub(super) fn ports(&mut self, to: Address, from: Port) -> Vec<Port> {
        match *self.known(to) {
            Some(port) if port == from => Vec::new(),
            Some(port) => vec![port],
            None => {
                let others = self.ports.iter().copied();
                others.filter(|port| *port != from).collect()
            }
        }
    }

    /// Forgets all addresses.
    pub(super) fn restart(&mut self) {
        self.backends.fill(None);
        self.hosts.fill(None);
    }
}
