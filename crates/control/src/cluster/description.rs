//! Description of a cluster, whatever its source.

use cluster::address::{NODES_MAX, NodeId};
use cluster::auth::Keys;
use cluster::map::{self, Map};
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

/// A cluster: one router of many servers.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Name, which tells frames apart from those of other clusters.
    pub name: String,
    /// Silence after which a flow may take another path.
    pub delta: Duration,
    /// The secrets by which internal frames are signed; required where links pass through foreign networks.
    pub keys: Option<Keys>,
    /// Time that the output node waits for overtaken packets; `None` if it does not restore order.
    pub resequence: Option<Duration>,
    /// Signs of life on internal links.
    pub heartbeat: Heartbeat,
    /// Servers; their place is their number as a node.
    pub servers: Vec<Server>,
    /// Internal links; their place is their number.
    pub links: Vec<Link>,
    /// Routes beyond the connected networks.
    pub routes: Vec<Route>,
}

/// Signs of life on internal links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Time between two heartbeats.
    pub interval: Duration,
    /// Silence after which a link counts as dead.
    pub dead: Duration,
}

/// A server.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Name of the server.
    pub name: String,
    /// Control socket; `None` for the default that follows from the router's name.
    pub socket: Option<PathBuf>,
    /// Number of workers, if the file gives it.
    pub workers: Option<u8>,
    /// External ports; their place is their number.
    pub ports: Vec<Port>,
    /// The port by which it reaches other servers over an IP network.
    pub underlay: Option<Underlay>,
}

/// A port on an IP network that internal links pass through, and others use, too.
#[derive(Clone, Debug, PartialEq)]
pub struct Underlay {
    /// Name of the port, in the syntax of FromDevice.
    pub device: String,
    /// The server's address there.
    pub address: Ipv4Addr,
    /// Length of the network's prefix.
    pub length: u8,
    /// The router that leads to other networks.
    pub gateway: Option<Ipv4Addr>,
    /// Longest packet that passes between servers, in bytes.
    pub mtu: u16,
}

/// An external port.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// Name of the port, unique within the server.
    pub name: String,
    /// Name of the port, in the syntax of FromDevice.
    pub device: String,
    /// Bits per second.
    pub rate: u64,
    /// Longest packet that the port's link takes, in bytes.
    pub mtu: u16,
    /// The router's IPv4 address there, and the length of the network's prefix.
    pub v4: Option<(Ipv4Addr, u8)>,
    /// IPv6 address with the length of its prefix.
    pub v6: Option<(Ipv6Addr, u8)>,
    /// Link-local address.
    pub link_local: Ipv6Addr,
    /// Routers on its link. Internal frames name them by their place, counted from 1.
    pub gateways: Vec<IpAddr>,
}

/// An internal link.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// The servers at its ends, by number.
    pub ends: [usize; 2],
    /// Carrier of its frames.
    pub over: Over,
    /// Bits per second, each way.
    pub rate: u64,
    /// Longest packet that the link takes, in bytes without the Ethernet header.
    pub mtu: u16,
}

/// Carrier of an internal link's frames.
#[derive(Clone, Debug, PartialEq)]
pub enum Over {
    /// A cable: the port at each end as FromDevice spells it.
    Devices([String; 2]),
    /// UDP between the underlay ports.
    Udp {
        /// The port that datagrams go to.
        port: u16,
    },
    /// VXLAN between the underlay ports (RFC 7348).
    Vxlan {
        /// The UDP port that datagrams go to.
        port: u16,
        /// Number of the network.
        vni: u32,
    },
}

/// A route through a gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Destination: an address and the length of the prefix.
    pub prefix: (IpAddr, u8),
    /// The output node.
    pub server: usize,
    /// External port.
    pub port: usize,
    /// The gateway there, from 1; 0: the network is attached.
    pub gateway: usize,
}

/// A network that is attached to a port, with the port's own address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connected {
    /// The server.
    pub server: usize,
    /// External port.
    pub port: usize,
    /// The port's address.
    pub address: IpAddr,
    /// Length of the network's prefix.
    pub length: u8,
}

impl Server {
    /// Rate of all external ports, in bits per second.
    pub fn rate(&self) -> u64 {
        let rates = self.ports.iter().map(|port| port.rate);
        rates.fold(0, u64::saturating_add)
    }
}

impl Over {
    /// Bytes of an IPv4 packet on the underlay that are before the packet in an internal frame: headers of IPv4 and
    /// UDP, of VXLAN, and the frame's own.
    pub fn overhead(&self) -> u16 {
        match self {
            Over::Devices(_) => 0,
            Over::Udp { .. } => 20 + 8 + 14,
            Over::Vxlan { .. } => 20 + 8 + 8 + 14,
        }
    }
}

impl Link {
    /// The port of a server, if the link is a cable; by which of its ends the server is.
    pub fn device(&self, end: usize) -> Option<&str> {
        match &self.over {
            Over::Devices(devices) => Some(&devices[end]),
            _ => None,
        }
    }

    /// Index of a server among the ends of the link.
    pub fn end(&self, server: usize) -> Option<usize> {
        self.ends.iter().position(|&end| end == server)
    }
}

impl Description {
    /// Servers, at most.
    pub const SERVERS_MAX: usize = NODES_MAX;
    /// Maximum number of external ports of a server: the greatest number stands for the server itself.
    pub const PORTS_MAX: usize = ::cluster::address::PORT_SELF as usize;
    /// Bytes that are added to internal frames that carry a tag.
    pub const TAG: u16 = ::cluster::tag::ADDED as u16;
    /// Destinations that a routing table can tell apart: ports, gateways and servers.
    pub const DESTINATIONS_MAX: usize = 250;

    /// The number of a server.
    pub fn server(&self, name: &str) -> Option<usize> {
        self.servers.iter().position(|server| server.name == name)
    }

    /// The number of a server that must be there. The error is a sentence.
    pub fn number(&self, name: &str) -> Result<usize, String> {
        self.server(name).ok_or_else(|| {
            let names: Vec<&str> = self.servers.iter().map(|server| &*server.name).collect();
            format!(
                "there is no server `{name}`: there are {}",
                names.join(", ")
            )
        })
    }

    /// Number of destinations that a table distinguishes: external ports, the gateways of routes, and servers.
    pub fn destinations(&self) -> usize {
        let ports: usize = self.servers.iter().map(|server| server.ports.len()).sum();
        let routes = self.routes.iter();
        let gateways: HashSet<_> = routes
            .map(|route| (route.server, route.port, route.gateway))
            .collect();
        self.servers.len() + ports + gateways.len()
    }

    /// Bytes that each internal frame is longer than the packet's own frame.
    pub fn tag(&self) -> u16 {
        match self.keys.is_some() || self.resequence.is_some() {
            true => Description::TAG,
            false => 0,
        }
    }

    /// Nodes and links as the switching sees them.
    pub fn map(&self) -> Map {
        let link = |link: &Link| map::Link {
            ends: link.ends.map(|end| end as NodeId),
            rate: link.rate as f64,
        };
        Map {
            nodes: self.servers.iter().map(node).collect(),
            links: self.links.iter().map(link).collect(),
        }
    }

    /// A server's links in their order, each with the end that is this server's.
    pub fn links_of(&self, server: usize) -> impl Iterator<Item = (&Link, usize)> {
        let links = self.links.iter();
        links.filter_map(move |link| Some((link, link.end(server)?)))
    }

    /// Bits per second that a server's links carry together, and the load that they must carry: every load that the
    /// external ports admit passes if each node can send all that it receives to the others, and again as much for them
    /// (RouteBricks, 3.2): 2R (N-1)/N between equal servers.
    pub fn inside(&self, server: usize) -> (u64, u64) {
        let links = self.links_of(server).map(|(link, _)| link.rate);
        let all: u128 = self.servers.iter().map(|of| u128::from(of.rate())).sum();
        let own = u128::from(self.servers[server].rate());
        let asked = 2 * own * (all - own) / all.max(1);
        (
            links.fold(0, u64::saturating_add),
            u64::try_from(asked).unwrap_or(u64::MAX),
        )
    }

    /// The networks attached to all external ports, IPv4 first at each.
    pub fn connected(&self) -> impl Iterator<Item = Connected> {
        let servers = self.servers.iter().enumerate();
        servers.flat_map(|(server, of)| {
            let ports = of.ports.iter().enumerate();
            ports.flat_map(move |(port, of)| {
                let v4 = of.v4.map(|(address, length)| (address.into(), length));
                let v6 = of.v6.map(|(address, length)| (address.into(), length));
                [v4, v6]
                    .into_iter()
                    .flatten()
                    .map(move |(address, length)| Connected {
                        server,
                        port,
                        address,
                        length,
                    })
            })
        })
    }

    /// The router's name of a server, which its control socket follows from.
    pub fn router_name(&self, server: &Server) -> String {
        format!("{}-{}", self.name, server.name)
    }

    /// Control socket of a server's router.
    pub fn socket(&self, server: &Server) -> PathBuf {
        let usual = || crate::socket::path_of(&self.router_name(server));
        server.socket.clone().unwrap_or_else(usual)
    }
}

fn node(server: &Server) -> map::Node {
    map::Node {
        rate: server.rate() as f64,
    }
}
