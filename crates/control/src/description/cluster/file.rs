//! Parser of the cluster's sections of a [file](crate::description::file). The file is the same on all servers.
//! docs/cluster.md describes the fields.

use super::description::{
    Connected, Description, Elements, Gateway, Heartbeat, Port, Route, Server,
};
use super::generate::identifier;
use crate::description::addresses::network;
use crate::description::reader::{Fields, Reader, Word};
use fields::{keys, named, rate, server, time, workers};
use lang::Span;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

mod cross_checks;
mod fields;
mod links;
mod ports;

pub(crate) use cross_checks::first;

/// Parses the sections of a cluster. Errors are recorded in the reader.
pub(crate) fn read(reader: Reader, top: &mut Fields) -> (Reader, Description) {
    let mut reading = Reading {
        reader,
        places: Places::default(),
    };
    let description = reading.description(top);
    cross_checks::check(&description, &reading.places, &mut reading.reader);
    (reading.reader, description)
}

/// Positions of values in the file, for errors found after all sections are read.
#[derive(Default)]
struct Places {
    servers: Vec<Span>,
    links: Vec<Span>,
    /// Position of each link's MTU, or of the link without one.
    link_mtus: Vec<Span>,
    routes: Vec<Span>,
    /// Position of each port's address.
    addresses: Vec<(Connected, Span)>,
    /// Position of each underlay's address, by server.
    underlays: Vec<(usize, Span)>,
}

struct Reading {
    reader: Reader,
    places: Places,
}

const DELTA: Duration = Duration::from_millis(100);
const HEARTBEAT: Heartbeat = Heartbeat {
    interval: Duration::from_millis(5),
    dead: Duration::from_millis(40),
};

/// Maximum time for which routes of a former leader stay.
const HOLD_MAX: Duration = Duration::from_secs(3600);

/// Minimum interval of VLBHeartbeat.
const HEARTBEAT_MIN: Duration = Duration::from_micros(100);

impl Reading {
    fn description(&mut self, top: &mut Fields) -> Description {
        let r = &mut self.reader;
        let cluster = top.table(r, "cluster", "[cluster]");
        if cluster.is_none() {
            let wrong = "there is no table [cluster]".to_owned();
            let help = "begin with [cluster] and name = \"...\"";
            r.wrong("cluster-missing", top.span, wrong, help);
        }
        let empty = toml::de::DeTable::new();
        let missing = cluster.is_none();
        let cluster = cluster.unwrap_or_else(|| Fields::new("[cluster]", top.span, &empty));
        let (mut description, rate) = self.cluster(cluster, missing);
        for server in top.tables(&mut self.reader, "server", "[[server]]") {
            self.places.servers.push(server.span);
            let number = description.servers.len();
            let server = self.server(server, number, rate);
            description.servers.push(server);
        }
        let map = description.map();
        for link in top.tables(&mut self.reader, "link", "[[link]]") {
            let span = link.span;
            if let Some((link, mtu)) = self.link(link, &description, &map) {
                self.places.links.push(span);
                self.places.link_mtus.push(mtu);
                description.links.push(link);
            }
        }
        for route in top.tables(&mut self.reader, "route", "[[route]]") {
            let span = route.span;
            if let Some(route) = self.route(route, &description) {
                self.places.routes.push(span);
                description.routes.push(route);
            }
        }
        description
    }

    fn cluster(&mut self, mut fields: Fields, missing: bool) -> (Description, Option<u64>) {
        let span = fields.span;
        let r = &mut self.reader;
        let help = "write name = \"...\": frames of other clusters are known by it";
        let name = match missing {
            true => None,
            false => named(fields.needed(r, "name", help), r),
        };
        let rate = rate(&mut fields, r);
        let delta = time(&mut fields, r, "delta");
        let resequence = time(&mut fields, r, "resequence");
        let keys = keys(&mut fields, r);
        let heartbeat = time(&mut fields, r, "heartbeat");
        let dead = time(&mut fields, r, "dead");
        let elements = fields.word(r, "elements");
        let elements = elements.map(|word| Elements {
            line: r.first_line(&word),
            text: word.text,
        });
        let routes = fields.table(r, "routes", "[cluster.routes]");
        let routes = routes.map(|routes| kernel_routes(routes, r));
        let routes = routes.unwrap_or_default();
        fields.end(r);
        let times = Heartbeat {
            interval: heartbeat.map_or(HEARTBEAT.interval, |(time, _)| time),
            dead: dead.map_or(HEARTBEAT.dead, |(time, _)| time),
        };
        if let Some((_, span)) = heartbeat.filter(|(time, _)| *time < HEARTBEAT_MIN) {
            let wrong = "heartbeats would leave no time for packets".to_owned();
            let help = "let `heartbeat` be at least 100us";
            r.wrong("cluster-heartbeat", span, wrong, help);
        }
        if times.dead < times.interval.saturating_mul(3) {
            let span = dead.or(heartbeat).map_or(span, |(_, span)| span);
            let wrong = "a link would count as dead before three heartbeats".to_owned();
            let help = "let `dead` be at least three times `heartbeat`, such as 40ms and 5ms";
            r.wrong("cluster-heartbeat", span, wrong, help);
        }
        let description = Description {
            name: name.unwrap_or_default(),
            delta: delta.map_or(DELTA, |(delta, _)| delta),
            keys,
            resequence: resequence.map(|(wait, _)| wait),
            heartbeat: times,
            elements,
            servers: Vec::new(),
            links: Vec::new(),
            routes: Vec::new(),
            namespace: routes.namespace,
            hold: routes.hold,
            interfaces: routes.interfaces,
        };
        (description, rate)
    }

    fn server(&mut self, mut fields: Fields, number: usize, usual: Option<u64>) -> Server {
        let span = fields.span;
        let help = "write name = \"...\"";
        let name = named(
            fields.needed(&mut self.reader, "name", help),
            &mut self.reader,
        );
        let socket = fields.word(&mut self.reader, "socket");
        let workers = workers(&mut fields, &mut self.reader);
        let underlay = fields.table(&mut self.reader, "underlay", "[server.underlay]");
        let underlay = underlay.and_then(|fields| self.underlay(fields, number));
        let mut ports = Vec::new();
        for port in fields.tables(&mut self.reader, "port", "[[server.port]]") {
            let span = port.span;
            let at = (number, ports.len());
            let port = self.port(port, at, usual);
            let like = |other: &Port| identifier(&other.name) == identifier(&port.name);
            let same = |other: &Port| like(other) || other.device == port.device;
            if ports.iter().any(same) {
                let wrong = "two ports of this server have the same name or device".to_owned();
                let help = "give each a name and a device of its own";
                self.reader.wrong("cluster-twice", span, wrong, help);
            }
            ports.push(port);
        }
        fields.end(&mut self.reader);
        if ports.len() > Description::PORTS_MAX {
            let wrong = format!(
                "a server has {} external ports at most",
                Description::PORTS_MAX
            );
            self.reader
                .wrong("cluster-size", span, wrong, "add a server");
        }
        Server {
            name: name.unwrap_or_else(|| format!("server {}", number + 1)),
            socket: socket.map(|word| PathBuf::from(word.text)),
            workers,
            ports,
            underlay,
        }
    }

    fn route(&mut self, mut fields: Fields, description: &Description) -> Option<Route> {
        let r = &mut self.reader;
        let prefix = fields.needed(r, "prefix", "write prefix = \"203.0.113.0/24\"");
        let via = fields.needed(r, "via", "write via = \"10.0.1.254\", a gateway of a port");
        let on = fields.word(r, "server");
        let port = fields.word(r, "port");
        fields.end(r);
        let on = match on {
            Some(word) => Some(server(r, description, &word)?),
            None => None,
        };
        let (prefix, via) = (prefix?, via?);
        let Some(network) = network(&prefix.text) else {
            let wrong = format!("`{}` is no prefix", prefix.text);
            r.wrong(
                "cluster-value",
                prefix.span,
                wrong,
                "write it as 203.0.113.0/24",
            );
            return None;
        };
        let address = via.text.parse::<IpAddr>().ok();
        if address.is_some_and(|via| via.is_ipv4() != network.0.is_ipv4()) {
            let wrong = "prefix and gateway are of different families".to_owned();
            r.wrong(
                "cluster-route",
                via.span,
                wrong,
                "IPv4 by IPv4, IPv6 by IPv6",
            );
            return None;
        }
        let named = |at: &Gateway| &*description.servers[at.server].ports[at.port].name;
        let mut found = description.gateways().filter(|at| {
            let fits = port.as_ref().is_none_or(|port| named(at) == port.text);
            Some(at.address) == address && on.is_none_or(|on| at.server == on) && fits
        });
        match (found.next(), found.next()) {
            (Some(at), None) => Some(Route {
                prefix: network,
                server: at.server,
                port: at.port,
                gateway: at.gateway,
            }),
            (None, _) => {
                let wrong = format!("no port has the gateway `{}`", via.text);
                let help = "add it to the `gateways` of the port on whose link it is";
                r.wrong("cluster-gateway", via.span, wrong, help);
                None
            }
            _ => {
                let wrong = format!("several ports have the gateway `{}`", via.text);
                let help = "say which one by `server` and `port`";
                r.wrong("cluster-gateway", via.span, wrong, help);
                None
            }
        }
    }
}

/// The section `[cluster.routes]`, by the fields of the description.
#[derive(Default)]
struct KernelRoutes {
    namespace: Option<String>,
    hold: Duration,
    interfaces: bool,
}

fn kernel_routes(mut fields: Fields, r: &mut Reader) -> KernelRoutes {
    let help = "write namespace = \"routes\", a network namespace of each server that may lead";
    let name = fields.needed(r, "namespace", help);
    let mut hold = fields.value::<Duration>(r, "hold");
    if let Some((_, place)) = hold.take_if(|(hold, _)| *hold > HOLD_MAX) {
        let wrong = "`hold` is more than an hour".to_owned();
        r.wrong(
            "cluster-value",
            place,
            wrong,
            "write a shorter time, such as 120s",
        );
    }
    let interfaces = fields.value::<bool>(r, "interfaces");
    fields.end(r);
    KernelRoutes {
        namespace: name.and_then(|name| namespace(name, r)),
        hold: hold.map_or(Duration::ZERO, |(hold, _)| hold),
        interfaces: interfaces.is_some_and(|(interfaces, _)| interfaces),
    }
}

fn namespace(name: Word, r: &mut Reader) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if name.text.is_empty() || name.text.starts_with('.') || !name.text.chars().all(fits) {
        let wrong = format!("`{}` is no name of a network namespace", name.text);
        let help =
            "write the name by which `ip netns add NAME` makes it, of letters, digits and _-.";
        r.wrong("cluster-value", name.span, wrong, help);
        return None;
    }
    Some(name.text)
}

#[cfg(test)]
mod tests;
