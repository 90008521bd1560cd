//! A balancer's parts, as its file describes them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use wire::EtherAddr;

/// A balancer and its back ends: together one router.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Name of the router.
    pub name: String,
    /// Separation of front ports behind the balancer.
    pub inside: Inside,
    /// Names of the back ports, in the syntax of FromDevice; at least 1.
    pub back: Vec<String>,
    /// The balancer's address on the network behind it, and the length of the network's prefix.
    pub address: (Ipv4Addr, u8),
    /// BalancePool's ALGORITHM.
    pub algorithm: String,
    /// BalancePool's KEY.
    pub key: String,
    /// BalancePool's SEED.
    pub seed: u32,
    /// Back ends that speak for the router, by number, the first choice first.
    pub speakers: Vec<usize>,
    /// BalancePool's times.
    pub idle: Duration,
    /// Time after which buckets move even if they are not idle.
    pub deadline: Duration,
    /// Time after the start without planned moves.
    pub settle: Duration,
    /// Parameters of watching back ends.
    pub health: Health,
    /// Front ports.
    pub ports: Vec<Port>,
    /// Other balancers of the router.
    pub peers: Vec<Peer>,
    /// Back ends; a place is a number.
    pub backends: Vec<Backend>,
    /// Packets that some back ends get only.
    pub classes: Vec<Class>,
}

/// Separation of front ports behind the balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// One Ethernet for all; next hops' Ethernet addresses tell the ports apart.
    Flat,
    /// A VLAN for each.
    Vlan,
}

/// Parameters of watching back ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    /// BalanceHealth's KIND.
    pub kind: String,
    /// Time between probes.
    pub interval: Duration,
    /// Probes in a row that may be missing.
    pub misses: u32,
    /// Probes in a row that must come back.
    pub answers: u32,
}

/// A front port.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// Name of the port.
    pub name: String,
    /// Name of the port, in the syntax of FromDevice.
    pub device: String,
    /// The router's IPv4 addresses there with the lengths of their networks' prefixes.
    pub v4: Vec<(Ipv4Addr, u8)>,
    /// IPv6 addresses with the length of their prefix.
    pub v6: Vec<(Ipv6Addr, u8)>,
    /// VLAN of the port behind the balancer.
    pub vlan: Option<u16>,
    /// True if hosts outside are here, for the key `outside`.
    pub outside: bool,
    /// Networks that the router answers for beside its addresses.
    pub proxy: Vec<(Ipv4Addr, u8)>,
    /// The virtual router that this port belongs to, if several balancers share it by VRRP.
    pub vrrp: Option<Vrrp>,
}

/// A virtual router at a front port.
#[derive(Clone, Debug, PartialEq)]
pub struct Vrrp {
    /// Virtual router identifier, 1 to 255.
    pub id: u8,
    /// The port's control-plane interface, at which the daemon is.
    pub control: String,
}

impl Port {
    /// The router's Ethernet address on the port, as Click's arguments have it.
    pub fn ether(&self) -> String {
        match &self.vrrp {
            None => format!("{}:eth", self.device),
            Some(vrrp) => EtherAddr([0, 0, 0x5e, 0, 1, vrrp.id]).to_string(),
        }
    }
}

/// Another balancer in front of the same back ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    /// Name of the balancer.
    pub name: String,
    /// Ethernet address of its back port.
    pub ether: EtherAddr,
    /// Address on the network behind the balancers.
    pub address: Ipv4Addr,
    /// The router's addresses at its front ports: the port's VLAN behind the balancer, and the addresses.
    pub ports: Vec<Port>,
}

/// A back end.
#[derive(Clone, Debug, PartialEq)]
pub struct Backend {
    /// Name of the back end.
    pub name: String,
    /// Ethernet address of its port to the switch.
    pub ether: EtherAddr,
    /// Address on the network behind the balancer.
    pub address: Ipv4Addr,
    /// Weight relative to that of others.
    pub weight: u16,
    /// Networks whose packets always go to this back end.
    pub owns: Vec<(IpAddr, u8)>,
    /// Name of the box's interface to the switch.
    pub device: String,
}

/// Packets that some back ends get only.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// DSCPs of the class.
    pub dscps: Vec<u8>,
    /// VLAN priorities.
    pub priorities: Vec<u8>,
    /// The back ends by number.
    pub backends: Vec<usize>,
}

impl Description {
    /// All front ports of the router: the balancer's own, then those of its peers.
    pub fn all_ports(&self) -> impl Iterator<Item = &Port> {
        let others = self.peers.iter().flat_map(|peer| &peer.ports);
        self.ports.iter().chain(others)
    }

    /// The number of a back end. The error is a sentence.
    pub fn backend(&self, name: &str) -> Result<usize, String> {
        let at = self.backends.iter().position(|of| of.name == name);
        at.ok_or_else(|| {
            let names: Vec<&str> = self.backends.iter().map(|of| &*of.name).collect();
            format!(
                "there is no back end `{name}`: there are {}",
                names.join(", ")
            )
        })
    }
}
