//! Number of servers for a router of N ports, and their topology (RouteBricks, 3.3).
//!
//! Each server takes as many external ports as it can process. While its internal ports reach all others, servers form
//! a full mesh; otherwise a k-ary n-fly, whose inner servers have no external port. The cost is compared with that of
//! servers around a strictly non-blocking network of switches ([`clos`]).

use std::fmt;

use crate::address::NODES_MAX;
use crate::map::Map;

/// Servers around switches: the design that the paper rejected.
pub mod clos;
mod n_fly;

/// A kind of network card.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nic {
    /// Number of ports of a card.
    pub ports: u32,
    /// Rate of each, in bits per second.
    pub rate: f64,
}

/// Capacity of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Processing rate of the server in bits per second. A packet counts once at each server that it passes.
    pub processing: f64,
    /// Number of slots for network cards.
    pub slots: u32,
    /// Available kinds of cards.
    pub nics: Vec<Nic>,
    /// Time that a packet takes through a server, in nanoseconds.
    pub latency: u64,
}

/// Requirements.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// External ports.
    pub ports: u32,
    /// Rate of each, in bits per second.
    pub rate: f64,
    /// Processing rate of a server per external port, in units of the port's rate: 2 for uniform traffic, 3 in the
    /// worst case.
    pub c: f64,
    /// The available servers.
    pub server: Server,
}

/// Topology of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One server without links.
    Single,
    /// Each server linked to each other.
    Mesh,
    /// Columns of servers; each has links to `k` of the next column. Packets pass all stages between two servers with
    /// external ports.
    Fly {
        /// Number of links of a server to the next column.
        k: u32,
        /// Number of columns without external ports.
        stages: u32,
    },
}

/// A plan and its cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Requirements.
    pub wanted: Wanted,
    /// External ports of a server, the last may have fewer.
    pub ports_per_server: u32,
    /// Number of servers with external ports.
    pub port_servers: u32,
    /// Topology of the servers.
    pub topology: Topology,
    /// Rate of each link between two servers, each direction, in bits per second.
    pub link: f64,
    /// The kind of card that the links use.
    pub nic: Nic,
    /// Number of the card's ports in parallel that form one link.
    pub trunk: u32,
    /// PCI slots used on a server with external ports: by external cards, and by internal cards.
    pub slots: (u32, u32),
}

/// Reason why no plan exists.
#[derive(Clone, Debug, PartialEq)]
pub enum Refused {
    /// A number is zero, negative or not a number.
    InvalidNumber(&'static str),
    /// A server cannot process one port.
    Slow {
        /// Rate that a server would have to process, in bits per second.
        needs: f64,
    },
    /// No card has a port of the external rate, or no slot is left for links.
    Slots,
    /// Internal ports reach fewer than two other servers.
    FanOut,
    /// More servers than node numbers.
    Large {
        /// Number of servers.
        servers: u64,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Refused::InvalidNumber(what) => write!(f, "{what} must be greater than 0"),
            Refused::Slow { needs } => write!(
                f,
                "a server cannot process even one port, which takes {:.1} Gbit/s: plan with a lower rate or faster \
                    servers",
                needs / 1e9
            ),
            Refused::Slots => f.write_str(
                "the slots of a server do not hold its external ports and one internal card: give it more slots, or \
                    cards with more ports",
            ),
            Refused::FanOut => f.write_str(
                "a server's internal ports reach fewer than two others at the rate that links need: give it more slots",
            ),
            Refused::Large { servers } => {
                write!(f, "{servers} servers; a cluster has at most {NODES_MAX} nodes with external ports")
            }
        }
    }
}

impl Wanted {
    /// Number of external ports per server: limited by its processing, by its slots, and by the number of ports.
    fn ports_per_server(&self) -> Result<(u32, u32), Refused> {
        let needs = self.c * self.rate;
        // A rate of exactly 6R is two ports of 3R, whatever the rounding of the quotient.
        let processed = (self.server.processing / needs * (1.0 + 1e-9)) as u32;
        if processed == 0 {
            return Err(Refused::Slow { needs });
        }
        let fast = self.server.nics.iter().filter(|nic| nic.rate >= self.rate);
        let per_card = fast.map(|nic| nic.ports).max().ok_or(Refused::Slots)?;
        let alone = self.ports <= processed;
        let slots = self.server.slots - u32::from(!alone && self.server.slots > 0);
        let ports = processed
            .min(self.ports)
            .min(slots.saturating_mul(per_card));
        match ports {
            0 => Err(Refused::Slots),
            _ => Ok((ports, ports.div_ceil(per_card))),
        }
    }

    fn check_numbers(&self) -> Result<(), Refused> {
        let positive = |value: f64, what| match value > 0.0 && value.is_finite() {
            true => Ok(()),
            false => Err(Refused::InvalidNumber(what)),
        };
        positive(f64::from(self.ports), "the number of ports")?;
        positive(self.rate, "the rate of a port")?;
        positive(self.c, "c")?;
        positive(self.server.processing, "the rate of processing")?;
        for nic in &self.server.nics {
            positive(f64::from(nic.ports), "the number of a card's ports")?;
            positive(nic.rate, "the rate of a card's ports")?;
        }
        Ok(())
    }
}

/// Cards of one kind for a number of links of a rate.
#[derive(Clone, Copy)]
struct Wiring {
    nic: Nic,
    trunk: u32,
    slots: u32,
}

/// The kind of card that needs the fewest slots for `links` links of a rate.
fn wire(server: &Server, links: u32, rate: f64) -> Option<Wiring> {
    let wirings = server.nics.iter().map(|&nic| {
        let trunk = (rate / nic.rate * (1.0 - 1e-9)).ceil().max(1.0) as u32;
        let slots = trunk.saturating_mul(links).div_ceil(nic.ports);
        Wiring { nic, trunk, slots }
    });
    wirings.min_by(|a, b| {
        (a.slots, a.nic.rate)
            .partial_cmp(&(b.slots, b.nic.rate))
            .expect("rates are finite")
    })
}

/// Plans a router.
pub fn plan(wanted: &Wanted) -> Result<Plan, Refused> {
    wanted.check_numbers()?;
    let (ports_per_server, external) = wanted.ports_per_server()?;
    let port_servers = wanted.ports.div_ceil(ports_per_server);
    if port_servers as usize > NODES_MAX {
        let servers = u64::from(port_servers);
        return Err(Refused::Large { servers });
    }
    let node_rate = f64::from(ports_per_server) * wanted.rate;
    let free = wanted.server.slots - external.min(wanted.server.slots);
    let made = |topology, link, wiring: Wiring| Plan {
        wanted: wanted.clone(),
        ports_per_server,
        port_servers,
        topology,
        link,
        nic: wiring.nic,
        trunk: wiring.trunk,
        slots: (external, wiring.slots),
    };
    if port_servers == 1 {
        let none = Wiring {
            nic: wanted.server.nics[0],
            trunk: 0,
            slots: 0,
        };
        return Ok(made(Topology::Single, 0.0, none));
    }
    let link = 2.0 * node_rate / f64::from(port_servers);
    if let Some(wiring) = wire(&wanted.server, port_servers - 1, link).filter(|w| w.slots <= free) {
        return Ok(made(Topology::Mesh, link, wiring));
    }
    let (k, stages) =
        n_fly::shape(&wanted.server, free, node_rate, port_servers).ok_or(Refused::FanOut)?;
    let link = 2.0 * node_rate / f64::from(k);
    let wiring = wire(&wanted.server, k, link).ok_or(Refused::FanOut)?;
    Ok(made(Topology::Fly { k, stages }, link, wiring))
}

impl Plan {
    /// Number of servers without external ports, which only carry the others' packets.
    pub fn transit_servers(&self) -> u32 {
        match self.topology {
            Topology::Fly { stages, .. } => stages * self.port_servers,
            _ => 0,
        }
    }

    /// Number of servers.
    pub fn servers(&self) -> u32 {
        self.port_servers + self.transit_servers()
    }

    /// Number of cables between servers. A cable carries both directions in a mesh; in an n-fly the two directions of
    /// a port go to different servers.
    pub fn links(&self) -> u64 {
        let m = u64::from(self.port_servers);
        match self.topology {
            Topology::Single => 0,
            Topology::Mesh => m * (m - 1) / 2,
            Topology::Fly { k, stages } => m * u64::from(k) * u64::from(stages + 1),
        }
    }

    /// Number of links by which a server sends.
    pub fn fan_out(&self) -> u32 {
        match self.topology {
            Topology::Single => 0,
            Topology::Mesh => self.port_servers - 1,
            Topology::Fly { k, .. } => k,
        }
    }

    /// Rate that a server with external ports must process in the worst case, in bits per second: 3R for each port.
    pub fn port_load(&self) -> f64 {
        let phases = if self.port_servers == 1 { 1.0 } else { 3.0 };
        phases * f64::from(self.ports_per_server) * self.wanted.rate
    }

    /// Rate that a server without external ports must process in the worst case, in bits per second: both phases of
    /// one server's ports.
    pub fn transit_load(&self) -> f64 {
        match self.topology {
            Topology::Fly { .. } => 2.0 * f64::from(self.ports_per_server) * self.wanted.rate,
            _ => 0.0,
        }
    }

    /// Number of servers without external ports if only processing counted and all servers were fully used: the load
    /// of both phases at each stage, divided by a server's processing rate.
    pub fn transit_by_processing(&self) -> u32 {
        let Topology::Fly { stages, .. } = self.topology else {
            return 0;
        };
        let all = 2.0 * f64::from(self.wanted.ports) * self.wanted.rate;
        stages * (all / self.wanted.server.processing * (1.0 - 1e-9)).ceil() as u32
    }

    /// Number of servers that a packet passes: on the direct path, and through an intermediate server.
    pub fn passes(&self) -> (u32, u32) {
        match self.topology {
            Topology::Single => (1, 1),
            Topology::Mesh => (2, if self.port_servers > 2 { 3 } else { 2 }),
            Topology::Fly { stages, .. } => (stages + 2, 2 * stages + 3),
        }
    }

    /// Latency of the direct path and of the path through an intermediate server, in nanoseconds.
    pub fn latency(&self) -> (u64, u64) {
        let (direct, balanced) = self.passes();
        let each = self.wanted.server.latency;
        (u64::from(direct) * each, u64::from(balanced) * each)
    }

    /// Map of such a cluster, with links in both directions. Nodes with external ports come first.
    pub fn map(&self) -> Map {
        let rate = f64::from(self.ports_per_server) * self.wanted.rate;
        match self.topology {
            Topology::Fly { k, stages } => n_fly::map(self.port_servers, rate, k, stages),
            _ => Map::mesh(self.port_servers as usize, rate),
        }
    }
}

#[cfg(test)]
mod tests;
