//! Checks across the sections of a cluster's file.

use super::{Places, Reader};
use crate::description::cluster::description::{Description, LinkCarrier, Server};
use crate::description::cluster::generate::is_memory;
use crate::description::cluster::rate_text;
use cluster::address::{HOPS_MAX, NodeId};
use cluster::health::LINKS_MAX;
use cluster::map::{Fabric, Links, Reach};
use lang::{Diagnostic, Span};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use wire::{Prefix4, Prefix6};

pub(super) fn check(description: &Description, places: &Places, reader: &mut Reader) {
    servers(description, places, reader);
    destinations(description, reader);
    addresses(places, reader);
    underlays(description, places, reader);
    devices(description, places, reader);
    queues(description, places, reader);
    mtus(description, places, reader);
    routes(description, places, reader);
    interfaces(description, places, reader);
    // Missing paths or capacity may result from errors already reported.
    if !reader.mistakes.iter().any(Diagnostic::is_error) {
        reachable(description, places, reader);
        capacity(description, places, reader);
    }
}

fn servers(description: &Description, places: &Places, r: &mut Reader) {
    let mut seen: HashMap<String, &str> = HashMap::new();
    for (server, &span) in description.servers.iter().zip(&places.servers) {
        let key = super::super::generate::identifier(&server.name);
        if let Some(other) = seen.insert(key, &server.name) {
            let wrong = match other == server.name {
                true => format!("there are two servers `{other}`"),
                false => format!("`{other}` and `{}` are too much alike", server.name),
            };
            let help = "give each a name that differs in a letter or digit";
            r.wrong("cluster-twice", span, wrong, help);
        }
    }
    if description.servers.is_empty() {
        let span = r.span(0..0);
        let wrong = "there is no server".to_owned();
        r.wrong("cluster-missing", span, wrong, "add [[server]] with a name");
    }
    if description.servers.len() > Description::SERVERS_MAX {
        let span = places.servers[Description::SERVERS_MAX];
        let wrong = format!("a cluster has {} servers at most", Description::SERVERS_MAX);
        r.wrong(
            "cluster-size",
            span,
            wrong,
            "remove the servers from here on",
        );
    }
}

/// Checks the number of destinations, which is bounded by the outputs of a routing table.
fn destinations(description: &Description, r: &mut Reader) {
    let (count, most) = (description.destinations(), Description::DESTINATIONS_MAX);
    if count > most {
        let span = r.span(0..0);
        let wrong = format!(
            "servers, ports and gateways are {count} destinations, and {most} are the most"
        );
        let help = "let routes share gateways, or make two clusters";
        r.wrong("cluster-size", span, wrong, help);
    }
}

fn addresses(places: &Places, r: &mut Reader) {
    let mut hosts: HashMap<IpAddr, Span> = HashMap::new();
    let mut networks: HashMap<(IpAddr, u8), Span> = HashMap::new();
    for &(at, place) in &places.addresses {
        if let Some(other) = hosts.insert(at.address, place) {
            let wrong = format!("two ports have the address {}", at.address);
            let mistake = Diagnostic::error("cluster-twice", wrong)
                .at(place)
                .note_at(other, "the other one")
                .help("the cluster is one router: each address is there once");
            r.mistakes.push(mistake);
        } else if let Some(other) =
            networks.insert((first(at.address, at.length), at.length), place)
        {
            let wrong = "two ports are attached to the same network".to_owned();
            let mistake = Diagnostic::error("cluster-twice", wrong)
                .at(place)
                .note_at(other, "the other one")
                .help("give each port's link a prefix of its own");
            r.mistakes.push(mistake);
        }
    }
}

/// Checks the addresses of underlay ports, by which the senders of packets are identified.
fn underlays(description: &Description, places: &Places, r: &mut Reader) {
    let externals = places.addresses.iter();
    let mut hosts: HashMap<IpAddr, Span> =
        externals.map(|(at, place)| (at.address, *place)).collect();
    for &(server, place) in &places.underlays {
        let Some(underlay) = &description.servers[server].underlay else {
            continue;
        };
        if let Some(other) = hosts.insert(underlay.address.into(), place) {
            let wrong = format!("{} is there twice", underlay.address);
            let mistake = Diagnostic::error("cluster-twice", wrong)
                .at(place)
                .note_at(other, "the other one")
                .help("give each underlay port an address of its own");
            r.mistakes.push(mistake);
        }
    }
    let links = description.links.iter().zip(&places.links);
    let mut pairs: HashMap<[usize; 2], Span> = HashMap::new();
    let over = links.filter(|(link, _)| !matches!(link.over, LinkCarrier::Devices(_)));
    for (link, &place) in over {
        if description.keys.is_none() && pairs.is_empty() {
            let wrong =
                "anyone on this link's IP network could send packets as a server does".to_owned();
            let help =
                "write key = \"...\" in [cluster], 32 hexadecimal digits: openssl rand -hex 16";
            r.wrong("cluster-key", place, wrong, help);
        }
        if let Some(other) = pairs.insert(link.ends, place) {
            let wrong = "a second link between two servers over the same IP network".to_owned();
            let mistake = Diagnostic::error("cluster-twice", wrong)
                .at(place)
                .note_at(other, "the other one")
                .help("take it away: the same network carries both");
            r.mistakes.push(mistake);
        }
    }
}

/// First address of a network.
pub(crate) fn first(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => Prefix4::new(v4, length).addr().into(),
        IpAddr::V6(v6) => Prefix6::new(v6, length).addr().into(),
    }
}

fn devices(description: &Description, places: &Places, r: &mut Reader) {
    for (number, server) in description.servers.iter().enumerate() {
        let links = description.links_of(number).count();
        if links > LINKS_MAX {
            let wrong = format!(
                "`{}` has {links} internal links, and {LINKS_MAX} are the most",
                server.name
            );
            let help = "leave links out: servers reach each other by way of others";
            r.wrong("cluster-size", places.servers[number], wrong, help);
        }
        let mut seen: Vec<&str> = server.ports.iter().map(|port| &*port.device).collect();
        let underlay = places
            .underlays
            .iter()
            .find(|(description, _)| *description == number);
        let underlay = underlay.zip(server.underlay.as_ref());
        let underlay = underlay.map(|((_, place), underlay)| (&*underlay.device, place));
        let links = description.links.iter().zip(&places.links);
        let cables = links.filter_map(|(link, place)| {
            let end = link.end(number)?;
            Some((link.device(end)?, place))
        });
        for (device, &place) in underlay.into_iter().chain(cables) {
            if seen.contains(&device) {
                let wrong = format!("`{device}` of `{}` is used twice", server.name);
                let help = "each port and each link has a device of its own";
                r.wrong("cluster-twice", place, wrong, help);
            }
            seen.push(device);
        }
    }
}

/// Checks the numbers of workers at both ends of a shared-memory link, which has one queue per worker. The other end
/// would not serve excess queues.
fn queues(description: &Description, places: &Places, r: &mut Reader) {
    for (link, &place) in description.links.iter().zip(&places.links) {
        let [a, b] = link.ends.map(|end| &description.servers[end]);
        let shared = (0..2).any(|end| link.device(end).is_some_and(is_memory));
        if !shared || a.workers == b.workers {
            continue;
        }
        let said = |server: &Server| match server.workers {
            Some(count) => format!("`{}` has `workers = {count}`", server.name),
            None => format!("`{}` does not say how many it has", server.name),
        };
        let wrong = format!(
            "workers of this link's ends differ: {}, {}",
            said(a),
            said(b)
        );
        let help =
            "give both servers the same `workers`: a link in shared memory has a queue for each";
        r.wrong("cluster-workers", place, wrong, help);
    }
}

fn mtus(description: &Description, places: &Places, r: &mut Reader) {
    let ports = description.servers.iter().flat_map(|server| &server.ports);
    let longest = ports.map(|port| port.mtu).max().unwrap_or_default();
    let needed = u32::from(longest) + u32::from(description.tag());
    for (link, &place) in description.links.iter().zip(&places.link_mtus) {
        if u32::from(link.mtu) >= needed {
            continue;
        }
        let why = match description.tag() {
            0 => format!("the external ports take packets of {longest}"),
            tag => format!("packets of {longest} come with a tag of {tag}"),
        };
        let wrong = format!("this link takes {} bytes, but {why}", link.mtu);
        let help = match &link.over {
            LinkCarrier::Devices(_) => {
                format!("set its MTU to {needed}: packets are never cut inside")
            }
            over => format!(
                "set `mtu` of both underlays to {} if all of their network carries that, or `mtu` of all external \
                 ports to {} at most: packets are never cut inside",
                needed + u32::from(over.overhead()),
                link.mtu.saturating_sub(description.tag()),
            ),
        };
        r.wrong("cluster-mtu", place, wrong, &help);
    }
}

fn reachable(description: &Description, places: &Places, r: &mut Reader) {
    let mut reached = vec![false; description.servers.len()];
    let mut next = vec![0];
    while let Some(at) = next.pop() {
        if reached.get(at).is_some_and(|reached| !reached) {
            reached[at] = true;
            next.extend(
                description
                    .links_of(at)
                    .map(|(link, end)| link.ends[1 - end]),
            );
        }
    }
    for (number, &place) in places.servers.iter().enumerate() {
        if !reached[number] {
            let (first, server) = (
                &description.servers[0].name,
                &description.servers[number].name,
            );
            let wrong = format!("no links lead from `{first}` to `{server}`");
            let help = "add a [[link]] between them, or through other servers";
            r.wrong("cluster-link", place, wrong, help);
        }
    }
    if reached.iter().all(|&reached| reached) {
        check_distances(description, places, r);
    }
}

/// Checks the distances between servers: frames carry a hop limit, and may travel via any third server.
fn check_distances(description: &Description, places: &Places, r: &mut Reader) {
    let (map, most) = (description.map(), HOPS_MAX / 2);
    let links = Links::all(&map);
    let reach = Reach::new(&Fabric::new(map), &links);
    let servers = 0..description.servers.len();
    let pairs = servers.flat_map(|a| (0..a).map(move |b| (b, a)));
    let hops = |&(a, b): &(usize, usize)| reach.hops(a as NodeId, b as NodeId);
    let Some((a, b)) = pairs.max_by_key(hops).filter(|pair| hops(pair) > most) else {
        return;
    };
    let (first, second, hops) = (
        &description.servers[a].name,
        &description.servers[b].name,
        hops(&(a, b)),
    );
    let wrong = format!("`{first}` and `{second}` are {hops} links apart, and {most} are the most");
    let help = "add links that shorten the way";
    r.wrong("cluster-link", places.servers[b], wrong, help);
}

fn capacity(description: &Description, places: &Places, r: &mut Reader) {
    for (number, (server, &place)) in description.servers.iter().zip(&places.servers).enumerate() {
        let (inside, asked) = description.inside(number);
        if inside > 0 && inside < asked - asked / 1000 {
            let wrong = format!(
                "the links of `{}` carry {} in all, and {} may be needed",
                server.name,
                rate_text(inside),
                rate_text(asked)
            );
            let mistake = Diagnostic::warning("cluster-capacity", wrong).at(place).help(
                "not every load that the external ports admit will pass: 2R/N on each link of a full mesh is enough",
            );
            r.mistakes.push(mistake);
        }
    }
}

fn routes(description: &Description, places: &Places, r: &mut Reader) {
    let mut seen: HashMap<(IpAddr, u8), Span> = HashMap::new();
    for (at, place) in &places.addresses {
        seen.insert((first(at.address, at.length), at.length), *place);
    }
    for (route, &place) in description.routes.iter().zip(&places.routes) {
        let (address, length) = route.prefix;
        let key = (first(address, length), length);
        if key.0 != address {
            let wrong = format!("{address}/{length} has bits beyond its length");
            let help = format!("write {}/{length}", key.0);
            r.wrong("cluster-route", place, wrong, &help);
        }
        if let Some(why) = never_forwarded(key.0, length) {
            let wrong = format!("{address}/{length} {why}");
            let help = "remove the route: routers never forward such packets";
            r.wrong("cluster-route", place, wrong, help);
            continue;
        }
        let mut own = places.addresses.iter();
        let host = length == if address.is_ipv4() { 32 } else { 128 };
        if let Some((_, other)) = own.find(|(at, _)| host && at.address == address) {
            let wrong = format!("{address} is the router's own address");
            let mistake = Diagnostic::error("cluster-route", wrong)
                .at(place)
                .note_at(*other, "of this port")
                .help("take the route away: packets to it end at the router");
            r.mistakes.push(mistake);
        } else if let Some(other) = seen.insert(key, place) {
            let wrong = format!("there are two ways to {}/{length}", key.0);
            let mistake = Diagnostic::error("cluster-route", wrong)
                .at(place)
                .note_at(other, "the other one")
                .help("take one away: the longest prefix wins, and equal ones cannot");
            r.mistakes.push(mistake);
        }
    }
}

/// Checks the names of interfaces in the namespace of routes.
fn interfaces(of: &Description, places: &Places, r: &mut Reader) {
    let mut seen: HashSet<String> = HashSet::new();
    let servers = of.servers.iter().enumerate().filter(|_| of.interfaces);
    let all = servers.flat_map(|(n, server)| (0..server.ports.len()).map(move |port| (n, port)));
    for (server, port) in all {
        let (name, place) = (of.interface(server, port), places.servers[server]);
        if name.len() > Description::INTERFACE_MAX {
            let wrong = format!(
                "the interface `{name}` of [cluster.routes] would have a name of more than {} bytes",
                Description::INTERFACE_MAX
            );
            r.wrong(
                "cluster-routes",
                place,
                wrong,
                "give the server and its port shorter names",
            );
        }
        if !seen.insert(name.clone()) {
            let wrong = format!("two ports would have the interface `{name}` of [cluster.routes]");
            let help = "give one of the servers or ports another name";
            r.wrong("cluster-routes", place, wrong, help);
        }
    }
}

/// Reason why routers never forward packets to these addresses; `None` for other addresses.
fn never_forwarded(first: IpAddr, length: u8) -> Option<&'static str> {
    let group = "is for groups, and this router forwards to none";
    match first {
        IpAddr::V4(v4) if v4.is_broadcast() => {
            Some("is everybody on a link: never further (RFC 1812, 5.3.5.1)")
        }
        IpAddr::V4(v4) if length >= 4 && v4.is_multicast() => Some(group),
        IpAddr::V4(v4) if length >= 8 && v4.is_loopback() => Some("never leaves a host"),
        IpAddr::V6(v6) if length >= 8 && v6.is_multicast() => Some(group),
        IpAddr::V6(v6) if length >= 10 && v6.is_unicast_link_local() => {
            Some("never leaves a link (RFC 4291, 2.5.6)")
        }
        _ => None,
    }
}
