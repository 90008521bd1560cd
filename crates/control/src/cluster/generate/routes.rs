//! Where packets go: the tables, and what stands between them and VLBInput.

use super::{port_name, prefix};
use crate::cluster::description::{Connected, Description, Port};
use std::fmt::Write;
use std::net::IpAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// A destination on another server: an input of VLBInput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) server: usize,
    /// An external port there; none: the server itself.
    pub(super) port: Option<usize>,
    /// Of the port, from 1; 0: the packet's own destination.
    pub(super) gateway: usize,
}

/// All destinations on other servers, in the order of VLBInput's inputs.
pub(super) struct Ways {
    all: Vec<(Way, [bool; 2])>,
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
}

impl Ways {
    pub(super) fn new(of: &Description, server: usize) -> Ways {
        let mut ways = Ways { all: Vec::new() };
        // Packets of a family that no port here has cannot come in here.
        let ports = &of.servers[server].ports;
        let here = [Family::V4, Family::V6].map(|family| ports.iter().any(|p| has(p, family)));
        let here = |address| here[Family::of(address) as usize];
        let connected = of.connected().filter(|at| here(at.address));
        let routes = of.routes.iter().filter(|route| here(route.prefix.0));
        for at in connected.filter(|at| at.server != server) {
            let family = Family::of(at.address);
            ways.add(itself(at.server), family);
            ways.add(attached(&at), family);
        }
        for route in routes.filter(|route| route.server != server) {
            let way = Way {
                server: route.server,
                port: Some(route.port),
                gateway: route.gateway,
            };
            ways.add(way, Family::of(route.prefix.0));
        }
        ways
    }

    fn add(&mut self, way: Way, family: Family) {
        let known = self.all.iter().position(|(known, _)| *known == way);
        let at = known.unwrap_or_else(|| {
            self.all.push((way, [false; 2]));
            self.all.len() - 1
        });
        self.all[at].1[family as usize] = true;
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = Way> {
        self.all.iter().map(|(way, _)| *way)
    }

    /// Those that packets of a family take.
    pub(super) fn remote(&self, family: Family) -> impl Iterator<Item = Way> {
        let taken = self.all.iter().filter(move |way| way.1[family as usize]);
        taken.map(|(way, _)| *way)
    }

    fn input(&self, way: Way) -> usize {
        self.all()
            .position(|known| known == way)
            .unwrap_or_default()
    }

    /// Its place among those of the family.
    fn place(&self, way: Way, family: Family) -> usize {
        let mut remote = self.remote(family);
        remote.position(|known| known == way).unwrap_or_default()
    }
}

fn itself(server: usize) -> Way {
    Way {
        server,
        port: None,
        gateway: 0,
    }
}

fn attached(at: &Connected) -> Way {
    Way {
        server: at.server,
        port: Some(at.port),
        gateway: 0,
    }
}

fn has(port: &Port, family: Family) -> bool {
    match family {
        Family::V4 => port.v4.is_some(),
        Family::V6 => port.v6.is_some(),
    }
}

/// The table of a family.
pub(super) fn table(
    out: &mut String,
    of: &Description,
    server: usize,
    ways: &Ways,
    family: Family,
) {
    let own = &of.servers[server];
    let Some(port) = own.ports.iter().find(|port| has(port, family)) else {
        return;
    };
    let v = family.number();
    let class = match family {
        Family::V4 => "DirectIPLookup",
        Family::V6 => "LookupIP6Route",
    };
    let _ = writeln!(
        out,
        "// ---- Where IPv{v} packets go: the longest prefix wins\n\nrt{v} :: {class}("
    );
    for (route, comment) in lines(of, server, ways, family) {
        let _ = writeln!(out, "    {:40}// {comment}", format!("{route},"));
    }
    let none = own.ports.len() + 1 + ways.remote(family).count();
    let _ = writeln!(out, "    NOROUTE {none});");
    if let (Family::V4, Some((ip, _))) = (family, port.v4) {
        let _ = writeln!(out, "here4 :: Here4({ip}) -> rt4;");
    }
    out.push('\n');
}

/// What the outputs of a table lead to.
pub(super) fn outputs(
    out: &mut String,
    of: &Description,
    server: usize,
    ways: &Ways,
    family: Family,
) {
    let own = &of.servers[server];
    let Some(first) = own.ports.iter().find(|port| has(port, family)) else {
        return;
    };
    let v = family.number();
    let here = own.ports.len();
    let _ = writeln!(
        out,
        "// ---- Routed IPv{v} packets: to the ports here, to the router itself, to other servers, nowhere\n"
    );
    for (number, port) in own.ports.iter().enumerate() {
        let to = match has(port, family) {
            true => format!("[0] {}", port_name(port, family)),
            false => "Discard".to_owned(),
        };
        let _ = writeln!(out, "rt{v}[{number}] -> {to};");
    }
    let _ = match family {
        Family::V4 => writeln!(out, "rt4[{here}] -> here4;"),
        Family::V6 => writeln!(out, "rt6[{here}] -> [3] {};", port_name(first, family)),
    };
    for (place, way) in ways.remote(family).enumerate() {
        far(out, of, (way, family), here + 1 + place, ways.input(way));
    }
    let none = here + 1 + ways.remote(family).count();
    let _ = match (family, first.v4) {
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

/// Routes with what they are about.
fn lines(of: &Description, server: usize, ways: &Ways, family: Family) -> Vec<(String, String)> {
    let here = of.servers[server].ports.len();
    let far = |way| here + 1 + ways.place(way, family);
    let (whole, mut lines) = (if family == Family::V4 { 32 } else { 128 }, Vec::new());
    let all = of.connected().filter(|at| Family::of(at.address) == family);
    for at in all {
        let name = format!(
            "{} of {}",
            of.servers[at.server].ports[at.port].name, of.servers[at.server].name
        );
        let (own, link) = match at.server == server {
            true => (here, at.port),
            false => (far(itself(at.server)), far(attached(&at))),
        };
        // Link-local and own IPv6 addresses are told apart before the table; messages about packets come here.
        lines.push((
            format!("{}/{whole} {own}", at.address),
            format!("the router itself, at {name}"),
        ));
        lines.push((
            format!("{} {link}", prefix(at.address, at.length)),
            format!("attached to {name}"),
        ));
    }
    if family == Family::V4 {
        let never = "everybody on a link: never further (RFC 1812, 5.3.5.1)";
        lines.push((format!("255.255.255.255/32 {here}"), never.to_owned()));
        let groups = "groups: this router forwards none";
        lines.push((format!("224.0.0.0/4 {here}"), groups.to_owned()));
    }
    for route in of
        .routes
        .iter()
        .filter(|route| Family::of(route.prefix.0) == family)
    {
        let (to, port) = (
            &of.servers[route.server],
            &of.servers[route.server].ports[route.port],
        );
        let gateway = route
            .gateway
            .checked_sub(1)
            .and_then(|at| port.gateways.get(at));
        let gateway = gateway
            .map(|gateway| format!("{gateway} "))
            .unwrap_or_default();
        let prefix = prefix(route.prefix.0, route.prefix.1);
        let comment = format!("by {gateway}at {} of {}", port.name, to.name);
        let line = match route.server == server {
            true => format!("{prefix} {gateway}{}", route.port),
            false => {
                let way = Way {
                    server: route.server,
                    port: Some(route.port),
                    gateway: route.gateway,
                };
                format!("{prefix} {}", far(way))
            }
        };
        lines.push((line, comment));
    }
    lines
}

/// What stands between a table's output and an input of VLBInput.
fn far(
    out: &mut String,
    of: &Description,
    (way, family): (Way, Family),
    output: usize,
    input: usize,
) {
    let (v, server) = (family.number(), &of.servers[way.server]);
    let Some(port) = way.port else {
        let _ = writeln!(
            out,
            "rt{v}[{output}] -> [{input}] enter;  // {} itself",
            server.name
        );
        return;
    };
    let via = match way.gateway {
        0 => String::new(),
        gateway => format!("_via{gateway}"),
    };
    // By numbers: names that are put together could be alike.
    let name = format!("far_{}_{port}{via}_{v}", way.server);
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
