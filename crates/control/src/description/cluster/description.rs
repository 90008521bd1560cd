//! Description of a cluster, independent of its source.

use cluster::address::{NODES_MAX, NodeId};
use cluster::auth::Keys;
use cluster::map::{self, Map};
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

/// Description of a cluster: several servers that form one router.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Name of the cluster; its frames carry a hash of the name.
    pub name: String,
    /// Gap between packets after which a flow may take another path.
    pub delta: Duration,
    /// Keys that authenticate internal frames; required if links cross foreign networks.
    pub keys: Option<Keys>,
    /// Maximum time that the output node waits for reordered packets; `None` without resequencing.
    pub resequence: Option<Duration>,
    /// Settings for heartbeats on internal links.
    pub heartbeat: Heartbeat,
    /// Classes of elements that ports name.
    pub elements: Option<Elements>,
    /// Servers; the index is the node number.
    pub servers: Vec<Server>,
    /// Internal links; the index is the link number.
    pub links: Vec<Link>,
    /// Routes other than those to connected networks.
    pub routes: Vec<Route>,
    /// Network namespace whose kernel tables are routes, too, on the server that leads; `None` without one.
    pub namespace: Option<String>,
    /// Time for which a new leader keeps the former one's routes that its kernel does not have.
    pub hold: Duration,
    /// True if the namespace has an interface for each external port of all servers, through which a daemon there
    /// reaches the port's neighbours.
    pub interfaces: bool,
}

/// Classes of elements in Click's language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elements {
    /// The text.
    pub text: String,
    /// Line of the cluster's file in which the text begins.
    pub line: usize,
}

/// Settings for heartbeats on internal links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Interval between heartbeats.
    pub interval: Duration,
    /// Time without heartbeat after which a link counts as dead.
    pub dead: Duration,
}

/// Server of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Name of the server.
    pub name: String,
    /// Path of the control socket; `None` for the default path of the router's name.
    pub socket: Option<PathBuf>,
    /// Number of workers; `None` for the default.
    pub workers: Option<u8>,
    /// External ports; the index is the port number.
    pub ports: Vec<Port>,
    /// Port to other servers over an IP network; `None` without one.
    pub underlay: Option<Underlay>,
}

/// Port to an IP network that carries internal links, and perhaps other traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Underlay {
    /// Name of the port, in the syntax of FromDevice.
    pub device: String,
    /// IP address of the server on the network.
    pub address: Ipv4Addr,
    /// Prefix length of the network.
    pub length: u8,
    /// Gateway to other networks.
    pub gateway: Option<Ipv4Addr>,
    /// Maximum length of an IP packet between servers, in bytes.
    pub mtu: u16,
}

/// An external port.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// Name of the port, unique within the server.
    pub name: String,
    /// Name of the port, in the syntax of FromDevice.
    pub device: String,
    /// Rate in bits per second.
    pub rate: u64,
    /// Maximum length of an IP packet on the port, in bytes.
    pub mtu: u16,
    /// IPv4 address of the router on the port, with prefix length.
    pub v4: Option<(Ipv4Addr, u8)>,
    /// IPv6 address of the router on the port, with prefix length.
    pub v6: Option<(Ipv6Addr, u8)>,
    /// IPv6 link-local address of the router on the port.
    pub link_local: Ipv6Addr,
    /// Element through which all IPv4 packets from and to the link pass, as a class with its arguments.
    pub elements4: Option<String>,
    /// The same for IPv6.
    pub elements6: Option<String>,
    /// Gateways on the port's link. Internal frames refer to them by number, from 1.
    pub gateways: Vec<IpAddr>,
}

/// An internal link.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Servers at both ends, by number.
    pub ends: [usize; 2],
    /// Carrier of the link's frames.
    pub over: LinkCarrier,
    /// Rate in each direction, in bits per second.
    pub rate: u64,
    /// Maximum length of a packet on the link, in bytes without the Ethernet header.
    pub mtu: u16,
}

/// Carrier of an internal link's frames.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkCarrier {
    /// A cable. The ports at both ends have the syntax of FromDevice.
    Devices([String; 2]),
    /// UDP between the underlay ports.
    Udp {
        /// UDP destination port.
        port: u16,
    },
    /// VXLAN between the underlay ports (RFC 7348).
    Vxlan {
        /// UDP destination port.
        port: u16,
        /// VXLAN network identifier (VNI).
        vni: u32,
    },
}

/// A route through a gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Destination prefix: address and length.
    pub prefix: (IpAddr, u8),
    /// Number of the output node.
    pub server: usize,
    /// Number of the external port at the output node.
    pub port: usize,
    /// Number of the gateway at the port, from 1; 0 if the network is attached.
    pub gateway: usize,
}

/// A gateway on an external port's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Number of the server.
    pub server: usize,
    /// Number of the external port.
    pub port: usize,
    /// Number of the gateway at the port, from 1.
    pub gateway: usize,
    /// Its address.
    pub address: IpAddr,
}

/// Network attached to an external port, with the port's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connected {
    /// Number of the server.
    pub server: usize,
    /// Number of the external port.
    pub port: usize,
    /// The port's address.
    pub address: IpAddr,
    /// Prefix length of the network.
    pub length: u8,
}

impl Server {
    /// True if a port has elements of its own.
    pub fn uses_elements(&self) -> bool {
        let mut ports = self.ports.iter();
        ports.any(|port| port.elements4.is_some() || port.elements6.is_some())
    }

    /// Total rate of all external ports, in bits per second.
    pub fn rate(&self) -> u64 {
        let rates = self.ports.iter().map(|port| port.rate);
        rates.fold(0, u64::saturating_add)
    }
}

impl LinkCarrier {
    /// Length in bytes of all headers in front of the packet in an encapsulated internal frame: IPv4, UDP, VXLAN if
    /// used, and the frame's own.
    pub fn overhead(&self) -> u16 {
        match self {
            LinkCarrier::Devices(_) => 0,
            LinkCarrier::Udp { .. } => 20 + 8 + 14,
            LinkCarrier::Vxlan { .. } => 20 + 8 + 8 + 14,
        }
    }
}

impl Link {
    /// Port at one end of the link; `None` unless the link is a cable.
    pub fn device(&self, end: usize) -> Option<&str> {
        match &self.over {
            LinkCarrier::Devices(devices) => Some(&devices[end]),
            _ => None,
        }
    }

    /// Index of a server among the ends of the link; `None` if the link does not end there.
    pub fn end(&self, server: usize) -> Option<usize> {
        self.ends.iter().position(|&end| end == server)
    }
}

impl Description {
    /// Maximum number of servers.
    pub const SERVERS_MAX: usize = NODES_MAX;
    /// Maximum number of external ports of a server; the highest port number stands for the server itself.
    pub const PORTS_MAX: usize = ::cluster::address::PORT_SELF as usize;
    /// Length added to internal frames with a tag, in bytes.
    pub const TAG: u16 = ::cluster::tag::ADDED as u16;
    /// Maximum number of destinations in a routing table: ports, gateways and servers.
    pub const DESTINATIONS_MAX: usize = 250;

    /// Number of the server with this name.
    pub fn server(&self, name: &str) -> Option<usize> {
        self.servers.iter().position(|server| server.name == name)
    }

    /// Number of the server with this name.
    ///
    /// # Errors
    ///
    /// There is no such server; a message.
    pub fn number(&self, name: &str) -> Result<usize, String> {
        self.server(name).ok_or_else(|| {
            let names: Vec<&str> = self.servers.iter().map(|server| &*server.name).collect();
            format!(
                "there is no server `{name}`: there are {}",
                names.join(", ")
            )
        })
    }

    /// Number of destinations in a routing table: external ports, servers, and gateways, which are those of routes, or
    /// all if a kernel has further routes.
    pub fn destinations(&self) -> usize {
        let ports: usize = self.servers.iter().map(|server| server.ports.len()).sum();
        let gateways = match self.namespace {
            Some(_) => self.gateways().count(),
            None => {
                let routes = self.routes.iter();
                let gateways: HashSet<_> = routes
                    .map(|route| (route.server, route.port, route.gateway))
                    .collect();
                gateways.len()
            }
        };
        self.servers.len() + ports + gateways
    }

    /// All gateways of all ports.
    pub fn gateways(&self) -> impl Iterator<Item = Gateway> {
        let servers = self.servers.iter().enumerate();
        servers.flat_map(|(server, of)| {
            let ports = of.ports.iter().enumerate();
            ports.flat_map(move |(port, of)| {
                let numbered = (1..).zip(&of.gateways);
                numbered.map(move |(gateway, &address)| Gateway {
                    server,
                    port,
                    gateway,
                    address,
                })
            })
        })
    }

    /// Length added to each internal frame by its tag, in bytes.
    pub fn tag(&self) -> u16 {
        match self.keys.is_some() || self.resequence.is_some() {
            true => Description::TAG,
            false => 0,
        }
    }

    /// Map of nodes and links for switching.
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

    /// Links of a server in their order, each with the index of the server's end.
    pub fn links_of(&self, server: usize) -> impl Iterator<Item = (&Link, usize)> {
        let links = self.links.iter();
        links.filter_map(move |link| Some((link, link.end(server)?)))
    }

    /// Total rate of a server's links, and the rate that they must carry, in bits per second. Any load that the
    /// external ports admit fits if each node can send to the others all that it receives, and as much again for them
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

    /// Networks attached to all external ports, IPv4 first for each port.
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

    /// Maximum length of an interface's name in bytes.
    pub const INTERFACE_MAX: usize = 15;

    /// Name of the interface that stands for an external port in the namespace of routes: SERVER-PORT.
    pub fn interface(&self, server: usize, port: usize) -> String {
        let server = &self.servers[server];
        format!("{}-{}", server.name, server.ports[port].name)
    }

    /// Name of a server's router, from which its control socket's path derives.
    pub fn router_name(&self, server: &Server) -> String {
        format!("{}-{}", self.name, server.name)
    }

    /// Control socket of a server's router.
    pub fn socket(&self, server: &Server) -> PathBuf {
        let usual = || crate::host::socket::path_of(&self.router_name(server));
        server.socket.clone().unwrap_or_else(usual)
    }
}

fn node(server: &Server) -> map::Node {
    map::Node {
        rate: server.rate() as f64,
    }
}
