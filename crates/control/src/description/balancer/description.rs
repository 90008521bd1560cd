//! Description of a balancer, from its file.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use wire::EtherAddr;

/// Description of a balancer and its back ends, which together form one router.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Name of the router.
    pub name: String,
    /// Separation of front ports in the internal network.
    pub inside: Inside,
    /// Names of the back ports, in the syntax of FromDevice; at least 1.
    pub back: Vec<String>,
    /// Address of the balancer in the internal network, with prefix length.
    pub address: (Ipv4Addr, u8),
    /// BalancePool's ALGORITHM.
    pub algorithm: String,
    /// BalancePool's KEY.
    pub key: String,
    /// BalancePool's SEED.
    pub seed: u32,
    /// Back ends that may be the speaker, by number, in order of preference.
    pub speakers: Vec<usize>,
    /// Time without packets after which a bucket may move.
    pub idle: Duration,
    /// Time after which buckets move even if they are not idle.
    pub deadline: Duration,
    /// Time after the start without planned moves of buckets.
    pub settle: Duration,
    /// Settings for health checks of back ends.
    pub health: Health,
    /// Front ports.
    pub ports: Vec<Port>,
    /// Other balancers of the router.
    pub peers: Vec<Peer>,
    /// Back ends; the index is the back end's number.
    pub backends: Vec<Backend>,
    /// Traffic classes with dedicated back ends.
    pub classes: Vec<Class>,
}

/// Separation of front ports in the internal network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// One Ethernet segment for all ports; a frame's next hop determines its port.
    Flat,
    /// A separate VLAN for each front port.
    Vlan,
}

/// Settings for health checks of back ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    /// BalanceHealth's KIND.
    pub kind: String,
    /// Interval between probes.
    pub interval: Duration,
    /// Number of consecutive probes that may stay unanswered.
    pub misses: u32,
    /// Number of consecutive answered probes after which a failed back end is up again.
    pub answers: u32,
}

/// A front port.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// Name of the port.
    pub name: String,
    /// Name of the port, in the syntax of FromDevice.
    pub device: String,
    /// IPv4 addresses of the router on the port, with prefix length.
    pub v4: Vec<(Ipv4Addr, u8)>,
    /// IPv6 addresses of the router on the port, with prefix length.
    pub v6: Vec<(Ipv6Addr, u8)>,
    /// VLAN of the port in the internal network.
    pub vlan: Option<u16>,
    /// True if outside hosts are on this port, for the key `outside`.
    pub outside: bool,
    /// Networks for which the router answers ARP requests besides its own addresses.
    pub proxy: Vec<(Ipv4Addr, u8)>,
    /// VRRP virtual router of this port, if several balancers share the port.
    pub vrrp: Option<Vrrp>,
}

/// VRRP virtual router of a front port.
#[derive(Clone, Debug, PartialEq)]
pub struct Vrrp {
    /// Virtual router identifier, 1 to 255.
    pub id: u8,
    /// Control-plane interface of the port, on which the VRRP daemon runs.
    pub control: String,
}

impl Port {
    /// Ethernet address of the router on the port, in the syntax of configurations.
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
    /// Ethernet address of the peer's back port.
    pub ether: EtherAddr,
    /// Address of the peer in the internal network.
    pub address: Ipv4Addr,
    /// Front ports of the peer: their internal VLAN and addresses.
    pub ports: Vec<Port>,
}

/// A back end.
#[derive(Clone, Debug, PartialEq)]
pub struct Backend {
    /// Name of the back end.
    pub name: String,
    /// Ethernet address of the back end's port to the switch.
    pub ether: EtherAddr,
    /// Address of the back end in the internal network.
    pub address: Ipv4Addr,
    /// Weight of the back end relative to others.
    pub weight: u16,
    /// Networks whose packets always go to this back end.
    pub owns: Vec<(IpAddr, u8)>,
    /// Name of the back end's network interface to the switch.
    pub device: String,
}

/// Traffic class with dedicated back ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// DSCPs of the class.
    pub dscps: Vec<u8>,
    /// VLAN priorities of the class, 0 to 7.
    pub priorities: Vec<u8>,
    /// Back ends of the class, by number.
    pub backends: Vec<usize>,
}

impl Description {
    /// All front ports of the router: the balancer's own, then those of its peers.
    pub fn all_ports(&self) -> impl Iterator<Item = &Port> {
        let others = self.peers.iter().flat_map(|peer| &peer.ports);
        self.ports.iter().chain(others)
    }

    /// Number of the back end with this name.
    ///
    /// # Errors
    ///
    /// There is no such back end; a message.
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
