//! Click text of the server's cluster node, and of its internal links.

use super::routes::{Family, RemoteDestination, RemoteDestinations, has};
use super::{identifier, is_plain, port_name, underlay};
use crate::description::cluster::description::{Description, Server};
use arguments::units::{Bandwidth, FromArg};
use cluster::address::PORT_SELF;
use std::fmt::Write;
use std::net::IpAddr;

pub(super) fn write(
    out: &mut String,
    description: &Description,
    server: usize,
    remote: &RemoteDestinations,
) {
    let own = &description.servers[server];
    node(out, description, own);
    let links = description.links_of(server).count();
    let enters = !own.ports.is_empty() && remote.all().next().is_some();
    if enters {
        let inputs: Vec<String> = remote
            .all()
            .map(|target| destination(description, target))
            .collect();
        let _ = writeln!(
            out,
            "// Packets into the cluster: input i is for destination i, output l leads to link l."
        );
        let _ = writeln!(out, "enter :: VLBInput(vlb, {});", inputs.join(", "));
    }
    let ready = ready(description, own);
    let at_once = match ready.is_empty() {
        true => "",
        false => {
            "\n// By further outputs frames leave at once whose neighbour's Ethernet address is known."
        }
    };
    let _ = writeln!(
        out,
        "// Frames from internal links: on to other links, by {links} out of the cluster, by {} heartbeats.{at_once}\n\
         transit :: VLBTransit(vlb{ready});\n\
         // Heartbeats: from them all servers learn which links are up.\n\
         transit[{}] -> beat :: VLBHeartbeat(vlb, INTERVAL {}, DEAD {});\n",
        links + 1,
        links + 1,
        description.heartbeat.interval.unparse(),
        description.heartbeat.dead.unparse(),
    );
    underlay::write(out, description, server);
    for (number, (link, end)) in description.links_of(server).enumerate() {
        let peer = &description.servers[link.ends[1 - end]].name;
        let _ = writeln!(out, "// Internal link {number}, to {peer}");
        let mut first = "";
        match link.device(end).map(quoted_device) {
            Some(device) => {
                first = "[1] "; // heartbeats go before packets
                let queues = queues(description, &device);
                let _ = writeln!(
                    out,
                    "FromDevice({device}, PROMISC true{queues}) -> [{number}] transit;\n\
                     link{number} :: ToDevice({device});"
                );
            }
            None => underlay::link(out, description, server, number),
        }
        let _ = writeln!(
            out,
            "transit[{number}] -> link{number};\nbeat[{number}] -> {first}link{number};"
        );
        if enters {
            let _ = writeln!(out, "enter[{number}] -> link{number};");
        }
        out.push('\n');
    }
    write_egress(out, description, own, links);
}

fn node(out: &mut String, description: &Description, own: &Server) {
    let nodes = description.servers.iter();
    let nodes: Vec<String> = nodes
        .map(|server| format!("{} {}", identifier(&server.name), rate(server.rate())))
        .collect();
    let name = |end: usize| identifier(&description.servers[end].name);
    let links = description.links.iter();
    let links: Vec<String> = links
        .map(|link| {
            let [a, b] = link.ends.map(name);
            format!("{a}-{b} {}", rate(link.rate))
        })
        .collect();
    let mut more = String::new();
    let mut comment = "";
    if description.keys.is_some() {
        more += ", KEY $KEY";
        comment = "// The key is not written here: `ashlar cluster up` and `reload` take it from the cluster's file.\n";
    }
    if let Some(wait) = description.resequence {
        let _ = write!(more, ", RESEQUENCE {}", wait.unparse());
    }
    let _ = writeln!(
        out,
        "// ---- The cluster\n\n{comment}\
         vlb :: VLBNode(NAME {}, NODE {},\n    NODES {},\n    LINKS {},\n    DELTA {}{more});",
        description.name,
        identifier(&own.name),
        nodes.join(" "),
        links.join(" "),
        description.delta.unparse(),
    );
}

/// Click text for packets that leave the cluster at this server.
fn write_egress(out: &mut String, description: &Description, own: &Server, links: usize) {
    if own.ports.is_empty() {
        let _ = writeln!(
            out,
            "transit[{links}] -> Discard;    // no external port here\n"
        );
        return;
    }
    let order = match description.resequence {
        Some(_) => "order :: VLBResequencer(vlb) -> ",
        None => "",
    };
    let _ = writeln!(
        out,
        "// Packets that leave the cluster here: output p is external port p, the last output is this server itself.\n\
         transit[{links}] -> {order}family :: Classifier(12/0800, 12/86dd);"
    );
    for (family, output, class) in [(Family::V4, 0, "VLBOutput"), (Family::V6, 1, "VLBOutput6")] {
        let (v, v4) = (family.number(), family == Family::V4);
        let has = |number: usize| has(&own.ports[number], family);
        let ports = 0..own.ports.len();
        if !ports.clone().any(has) {
            let _ = writeln!(out, "family[{output}] -> Discard;");
            continue;
        }
        let gateways = gateways(own, v4);
        let _ = writeln!(
            out,
            "family[{output}] -> leave{v} :: {class}(vlb{gateways});"
        );
        for number in ports {
            let to = match has(number) {
                true => format!("[1] {}", port_name(&own.ports[number], family)),
                false => "Discard".to_owned(),
            };
            let _ = writeln!(out, "leave{v}[{number}] -> {to};");
        }
        let own_ = own.ports.iter().find(|port| port.v6.is_some());
        let itself = match (v4, own_) {
            (false, Some(port)) => format!("[3] {}", port_name(port, family)),
            // The color tells at which port of this server a packet has arrived.
            _ if description.interfaces => "Paint(0) -> here4".to_owned(),
            _ => "here4".to_owned(),
        };
        let _ = writeln!(out, "leave{v}[{}] -> {itself};", own.ports.len());
    }
    if !ready(description, own).is_empty() {
        for number in 0..own.ports.len() {
            let output = links + 2 + number;
            let _ = writeln!(out, "transit[{output}] -> d{number};");
        }
    }
    out.push('\n');
}

/// Keywords of VLBTransit that name the neighbour tables for frames leaving here; empty if frames have tags.
fn ready(description: &Description, own: &Server) -> String {
    let mut text = String::new();
    if description.keys.is_some() || description.resequence.is_some() {
        return text;
    }
    for (family, keyword, finder) in [(Family::V4, "LEAVE", "arp"), (Family::V6, "LEAVE6", "nd6")] {
        let word = |port| match has(port, family) {
            true => format!("{}/{finder}", port_name(port, family)),
            false => "-".to_owned(),
        };
        if own.ports.iter().any(|port| has(port, family)) {
            let words: Vec<String> = own.ports.iter().map(word).collect();
            let _ = write!(
                text,
                ",\n    {keyword} leave{} {}",
                family.number(),
                words.join(" ")
            );
        }
    }
    text
}

/// Gateways of each port. Gateways of the other family are in the list, too, because numbers are assigned to all
/// gateways.
fn gateways(own: &Server, v4: bool) -> String {
    let mut text = String::new();
    for (number, port) in own.ports.iter().enumerate() {
        if port.gateways.is_empty() {
            continue;
        }
        let word = |gateway: &IpAddr| match (gateway, v4) {
            (IpAddr::V4(_), true) | (IpAddr::V6(_), false) => gateway.to_string(),
            (_, true) => "0.0.0.0".to_owned(),
            (_, false) => "::".to_owned(),
        };
        let words: Vec<String> = port.gateways.iter().map(word).collect();
        let _ = write!(text, ", {number} {}", words.join(" "));
    }
    text
}

fn destination(description: &Description, target: RemoteDestination) -> String {
    let server = identifier(&description.servers[target.server].name);
    match (target.port, target.gateway) {
        (None, _) => format!("{server}/{PORT_SELF}"),
        (Some(port), 0) => format!("{server}/{port}"),
        (Some(port), gateway) => format!("{server}/{port}/{gateway}"),
    }
}

/// A rate in the syntax of elements, from bits per second.
fn rate(bits: u64) -> String {
    Bandwidth::of(bits / 8).unparse()
}

/// Keyword for the receive queues of a cable. Devices distribute frames over queues by IP addresses, which they do not
/// find behind a tag's Ethertype: all tagged frames arrive in one queue. So each cable has one queue, and cables are
/// distributed over workers. A shared-memory link has the sender's queues, one for each of its workers.
fn queues(description: &Description, device: &str) -> &'static str {
    match description.tag() > 0 && !is_memory(device) {
        true => ", QUEUES 1",
        false => "",
    }
}

/// True if the device is shared memory.
pub(crate) fn is_memory(device: &str) -> bool {
    ports::Directory::new().is_shared_memory(device.trim_matches('"'))
}

/// A device name as one argument, even if it contains commas or comment signs.
fn quoted_device(device: &str) -> String {
    match is_plain(device) {
        true => device.to_owned(),
        false => format!("\"{device}\""),
    }
}
