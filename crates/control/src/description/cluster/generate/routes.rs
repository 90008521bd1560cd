//! Routing: the tables, and the elements between them and VLBInput.

use super::{port_name, prefix};
use crate::description::cluster::description::{Connected, Description, Port, Route};
use std::fmt::Write;
use std::net::IpAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// A destination on another server: an input of VLBInput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RemoteDestination {
    pub(super) server: usize,
    /// External port of that server; `None` for the server itself.
    pub(super) port: Option<usize>,
    /// Number of the port's gateway, from 1; 0 if the next hop is the packet's destination.
    pub(super) gateway: usize,
}

/// All destinations on other servers, in the order of VLBInput's inputs.
pub(super) struct RemoteDestinations {
    all: Vec<(RemoteDestination, [bool; 2])>,
}

impl Family {
    fn of(address: IpAddr) -> Family {
        match address {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }

    pub(super) fn number(self) -> u8 {
        match self {
            Family::V4 => 4,
            Family::V6 => 6,
        }
    }

    /// Class of the element that resolves neighbours.
    pub(super) fn neighbours(self) -> &'static str {
        match self {
            Family::V4 => "arp",
            Family::V6 => "nd6",
        }
    }

    /// Element that the file gives for a port.
    pub(super) fn own(self, port: &Port) -> Option<&str> {
        match self {
            Family::V4 => port.elements4.as_deref(),
            Family::V6 => port.elements6.as_deref(),
        }
    }
}

impl RemoteDestinations {
    pub(super) fn new(description: &Description, server: usize) -> RemoteDestinations {
        let mut remote = RemoteDestinations { all: Vec::new() };
        // A server without ports of a family gets no packets of the family.
        let ports = &description.servers[server].ports;
        let here = [Family::V4, Family::V6].map(|family| ports.iter().any(|p| has(p, family)));
        let here = |address| here[Family::of(address) as usize];
        let connected = description.connected().filter(|at| here(at.address));
        let routes = description
            .routes
            .iter()
            .filter(|route| here(route.prefix.0));
        for at in connected.filter(|at| at.server != server) {
            let family = Family::of(at.address);
            remote.add(itself(at.server), family);
            remote.add(attached(&at), family);
        }
        for route in routes.filter(|route| route.server != server) {
            remote.add(through(route), Family::of(route.prefix.0));
        }
        // A kernel's routes can lead to each gateway.
        let gateways = description
            .gateways()
            .filter(|_| description.namespace.is_some());
        for at in gateways.filter(|at| at.server != server && here(at.address)) {
            let destination = RemoteDestination {
                server: at.server,
                port: Some(at.port),
                gateway: at.gateway,
            };
            remote.add(destination, Family::of(at.address));
        }
        remote
    }

    fn add(&mut self, target: RemoteDestination, family: Family) {
        let known = self.all.iter().position(|(known, _)| *known == target);
        let at = known.unwrap_or_else(|| {
            self.all.push((target, [false; 2]));
            self.all.len() - 1
        });
        self.all[at].1[family as usize] = true;
    }

    /// All destinations.
    pub(super) fn all(&self) -> impl Iterator<Item = RemoteDestination> {
        self.all.iter().map(|(target, _)| *target)
    }

    /// Destinations of packets of a family.
    pub(super) fn of_family(&self, family: Family) -> impl Iterator<Item = RemoteDestination> {
        let taken = self
            .all
            .iter()
            .filter(move |target| target.1[family as usize]);
        taken.map(|(target, _)| *target)
    }

    fn input(&self, target: RemoteDestination) -> usize {
        self.all()
            .position(|known| known == target)
            .unwrap_or_default()
    }

    /// Index among the destinations of the family.
    fn index_in_family(&self, target: RemoteDestination, family: Family) -> usize {
        let mut remote = self.of_family(family);
        remote.position(|known| known == target).unwrap_or_default()
    }
}

fn itself(server: usize) -> RemoteDestination {
    RemoteDestination {
        server,
        port: None,
        gateway: 0,
    }
}

fn attached(at: &Connected) -> RemoteDestination {
    RemoteDestination {
        server: at.server,
        port: Some(at.port),
        gateway: 0,
    }
}

fn through(route: &Route) -> RemoteDestination {
    RemoteDestination {
        server: route.server,
        port: Some(route.port),
        gateway: route.gateway,
    }
}

/// True if a port has addresses of a family.
pub(super) fn has(port: &Port, family: Family) -> bool {
    match family {
        Family::V4 => port.v4.is_some(),
        Family::V6 => port.v6.is_some(),
    }
}

/// The routing table of a server for a family, and the destinations of its outputs.
pub(super) struct Table<'a> {
    description: &'a Description,
    server: usize,
    remote: &'a RemoteDestinations,
    family: Family,
    /// First port with addresses of the family.
    first: &'a Port,
}

impl<'a> Table<'a> {
    /// `None` if no port has addresses of the family.
    pub(super) fn new(
        description: &'a Description,
        server: usize,
        remote: &'a RemoteDestinations,
        family: Family,
    ) -> Option<Table<'a>> {
        let mut ports = description.servers[server].ports.iter();
        Some(Table {
            first: ports.find(|port| has(port, family))?,
            description,
            server,
            remote,
            family,
        })
    }

    /// External ports here.
    fn ports(&self) -> &'a [Port] {
        &self.description.servers[self.server].ports
    }

    /// The output for the router itself.
    fn local_output(&self) -> usize {
        self.ports().len()
    }

    /// The output for a destination on another server.
    fn remote_output(&self, target: RemoteDestination) -> usize {
        self.local_output() + 1 + self.remote.index_in_family(target, self.family)
    }

    /// The output for packets without route.
    fn none(&self) -> usize {
        self.local_output() + 1 + self.remote.of_family(self.family).count()
    }

    /// The output for packets that a kernel's routes drop.
    fn unreachable_output(&self) -> usize {
        self.none() + 1
    }

    /// Names of all outputs, in their order. Names stay the same when numbers change.
    fn names(&self) -> String {
        let own = &self.description.servers[self.server].ports;
        let mut names: Vec<String> = (0..own.len()).map(|port| format!("p{port}")).collect();
        names.push("here".to_owned());
        let remote = self.remote.of_family(self.family);
        names.extend(remote.map(|target| match (target.port, target.gateway) {
            (None, _) => format!("s{}", target.server),
            (Some(port), 0) => format!("s{}p{port}", target.server),
            (Some(port), gateway) => format!("s{}p{port}g{gateway}", target.server),
        }));
        names.extend(["none".to_owned(), "nowhere".to_owned()]);
        names.join(" ")
    }

    /// Next hop of a gateway as the table takes it; `None` if there is no such gateway of this family.
    pub(super) fn hop(&self, (server, port, gateway): (usize, usize, usize)) -> Option<String> {
        let of = self.description.servers.get(server)?.ports.get(port)?;
        let address = of.gateways.get(gateway.checked_sub(1)?)?;
        if Family::of(*address) != self.family || !has(of, self.family) {
            return None;
        }
        if server == self.server {
            return Some(format!("{address} {port}"));
        }
        let destination = RemoteDestination {
            server,
            port: Some(port),
            gateway,
        };
        let mut remote = self.remote.of_family(self.family);
        remote.find(|known| *known == destination)?;
        Some(format!("- {}", self.remote_output(destination)))
    }

    /// Next hop of routes that drop packets, as the table takes it.
    pub(super) fn drop(&self) -> String {
        format!("- {}", self.unreachable_output())
    }

    /// Prefixes of the file's routes and of attached networks.
    pub(super) fn prefixes(&self) -> impl Iterator<Item = String> {
        let lines = self.lines().into_iter();
        lines.filter_map(|(line, _)| Some(line.split_whitespace().next()?.to_owned()))
    }

    /// The routes.
    pub(super) fn write(&self, out: &mut String) {
        let v = self.family.number();
        let class = match self.family {
            Family::V4 => "RadixIPLookup",
            Family::V6 => "LookupIP6Route",
        };
        let _ = writeln!(
            out,
            "// ---- Routes of IPv{v}: the longest prefix wins\n\nrt{v} :: {class}("
        );
        for (route, comment) in self.lines() {
            let _ = writeln!(out, "    {:40}// {comment}", format!("{route},"));
        }
        if self.description.namespace.is_some() {
            // Names keep the kernel's routes valid when outputs get other numbers.
            let _ = writeln!(out, "    OUTPUTS {},", self.names());
        }
        let _ = writeln!(out, "    NOROUTE {});", self.none());
        if let (Family::V4, Some((ip, _))) = (self.family, self.first.v4) {
            let _ = writeln!(out, "here4 :: Here4({ip}) -> rt4;");
        }
        out.push('\n');
    }

    /// Text for the outputs of a table.
    pub(super) fn outputs(&self, out: &mut String) {
        let (v, family) = (self.family.number(), self.family);
        let _ = writeln!(
            out,
            "// ---- Routed IPv{v} packets: to external ports, to the router itself, to other servers, no route\n"
        );
        for (number, port) in self.ports().iter().enumerate() {
            let to = match has(port, family) {
                true => format!("[0] {}", port_name(port, family)),
                false => "Discard".to_owned(),
            };
            let _ = writeln!(out, "rt{v}[{number}] -> {to};");
        }
        let here = self.local_output();
        let _ = match family {
            Family::V4 => writeln!(out, "rt4[{here}] -> here4;"),
            Family::V6 => writeln!(out, "rt6[{here}] -> [3] {};", port_name(self.first, family)),
        };
        for target in self.remote.of_family(family) {
            remote_text(
                out,
                self.description,
                (target, family),
                self.remote_output(target),
                self.remote.input(target),
            );
        }
        if self.description.namespace.is_some() {
            let _ = writeln!(
                out,
                "rt{v}[{}] -> Discard;  // as a kernel's route says",
                self.unreachable_output()
            );
        }
        let none = self.none();
        let _ = match (family, self.first.v4) {
            (Family::V4, Some((ip, _))) => writeln!(
                out,
                "rt4[{none}] -> ICMPError({ip}, unreachable, net, INTERFACES $ALL4) -> rt4;\n"
            ),
            _ => writeln!(
                out,
                "rt6[{none}] -> ICMP6Error($HOSTS6, unreachable, noroute) -> Paint(0) -> rt6;\n"
            ),
        };
    }

    /// Routes, each with its prefix.
    fn lines(&self) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        let connected = self.description.connected();
        for at in connected.filter(|at| Family::of(at.address) == self.family) {
            lines.extend(self.attached(&at));
        }
        if self.family == Family::V4 {
            let here = self.local_output();
            let never = "everybody on a link: never further (RFC 1812, 5.3.5.1)";
            lines.push((format!("255.255.255.255/32 {here}"), never.to_owned()));
            let groups = "groups: this router forwards none";
            lines.push((format!("224.0.0.0/4 {here}"), groups.to_owned()));
        }
        let routes = self.description.routes.iter();
        let routes = routes.filter(|route| Family::of(route.prefix.0) == self.family);
        lines.extend(routes.map(|route| self.route(route)));
        lines
    }

    /// Routes to an address of the router and to the network on its link, each with a comment.
    fn attached(&self, at: &Connected) -> [(String, String); 2] {
        let server = &self.description.servers[at.server];
        let name = format!("{} of {}", server.ports[at.port].name, server.name);
        let whole = if self.family == Family::V4 { 32 } else { 128 };
        let (own, link) = match at.server == self.server {
            true => (self.local_output(), at.port),
            false => (
                self.remote_output(itself(at.server)),
                self.remote_output(attached(at)),
            ),
        };
        // Link-local and own IPv6 addresses are separated before the table; messages about packets arrive here.
        [
            (
                format!("{}/{whole} {own}", at.address),
                format!("the router itself, at {name}"),
            ),
            (
                format!("{} {link}", prefix(at.address, at.length)),
                format!("attached to {name}"),
            ),
        ]
    }

    fn route(&self, route: &Route) -> (String, String) {
        let to = &self.description.servers[route.server];
        let port = &to.ports[route.port];
        let gateway = route.gateway.checked_sub(1);
        let gateway = gateway.and_then(|at| port.gateways.get(at));
        let gateway = gateway.map_or(String::new(), |gateway| format!("{gateway} "));
        let prefix = prefix(route.prefix.0, route.prefix.1);
        let comment = format!("by {gateway}at {} of {}", port.name, to.name);
        let line = match route.server == self.server {
            true => format!("{prefix} {gateway}{}", route.port),
            false => format!("{prefix} {}", self.remote_output(through(route))),
        };
        (line, comment)
    }
}

/// Click text between a table's output and an input of VLBInput.
fn remote_text(
    out: &mut String,
    description: &Description,
    (target, family): (RemoteDestination, Family),
    output: usize,
    input: usize,
) {
    let (v, server) = (family.number(), &description.servers[target.server]);
    let Some(port) = target.port else {
        let _ = writeln!(
            out,
            "rt{v}[{output}] -> [{input}] enter;  // {} itself",
            server.name
        );
        return;
    };
    let via = match target.gateway {
        0 => String::new(),
        gateway => format!("_via{gateway}"),
    };
    // Numbers, since concatenated names could collide.
    let name = format!("far_{}_{port}{via}_{v}", target.server);
    let port = &server.ports[port];
    let mtu = port.mtu;
    let made = match (family, port.v4, port.v6) {
        (Family::V4, Some((ip, length)), _) => format!("Remote4({mtu}, {ip}, {ip}/{length})"),
        (_, _, Some((ip, _))) => format!("Remote6({mtu}, {ip})"),
        _ => return,
    };
    let _ = writeln!(
        out,
        "rt{v}[{output}] -> {name} :: {made} -> [{input}] enter;  // {} of {}\n{name}[1] -> rt{v};",
        port.name, server.name
    );
}
