//! The node of the cluster, and its internal links.

use super::routes::{Family, Way, Ways, has};
use super::{identifier, is_plain, port_name, underlay};
use crate::description::cluster::description::{Description, Server};
use arguments::units::{Bandwidth, FromArg};
use cluster::address::PORT_SELF;
use std::fmt::Write;
use std::net::IpAddr;

pub(super) fn write(out: &mut String, of: &Description, server: usize, ways: &Ways) {
    let own = &of.servers[server];
    node(out, of, own);
    let links = of.links_of(server).count();
    let enters = !own.ports.is_empty() && ways.all().next().is_some();
    if enters {
        let inputs: Vec<String> = ways.all().map(|way| destination(of, way)).collect();
        let _ = writeln!(
            out,
            "// Packets into the cluster: input i is for destination i, output l leads to link l."
        );
        let _ = writeln!(out, "enter :: VLBInput(vlb, {});", inputs.join(", "));
    }
    let ready = ready(of, own);
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
        of.heartbeat.interval.show(),
        of.heartbeat.dead.show(),
    );
    underlay::write(out, of, server);
    for (number, (link, end)) in of.links_of(server).enumerate() {
        let peer = &of.servers[link.ends[1 - end]].name;
        let _ = writeln!(out, "// Internal link {number}, to {peer}");
        let mut first = "";
        match link.device(end).map(spelled) {
            Some(device) => {
                first = "[1] "; // heartbeats go before packets
                let queues = queues(of, &device);
                let _ = writeln!(
                    out,
                    "FromDevice({device}, PROMISC true{queues}) -> [{number}] transit;\n\
                     link{number} :: ToDevice({device});"
                );
            }
            None => underlay::link(out, of, server, number),
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
    leave(out, of, own, links);
}

fn node(out: &mut String, of: &Description, own: &Server) {
    let nodes = of.servers.iter();
    let nodes: Vec<String> = nodes
        .map(|server| format!("{} {}", identifier(&server.name), rate(server.rate())))
        .collect();
    let name = |end: usize| identifier(&of.servers[end].name);
    let links = of.links.iter();
    let links: Vec<String> = links
        .map(|link| {
            let [a, b] = link.ends.map(name);
            format!("{a}-{b} {}", rate(link.rate))
        })
        .collect();
    let mut more = String::new();
    let mut comment = "";
    if of.keys.is_some() {
        more += ", KEY $KEY";
        comment = "// The key is not written here: `ashlar cluster up` and `reload` take it from the cluster's file.\n";
    }
    if let Some(wait) = of.resequence {
        let _ = write!(more, ", RESEQUENCE {}", wait.show());
    }
    let _ = writeln!(
        out,
        "// ---- The cluster\n\n{comment}\
         vlb :: VLBNode(NAME {}, NODE {},\n    NODES {},\n    LINKS {},\n    DELTA {}{more});",
        of.name,
        identifier(&own.name),
        nodes.join(" "),
        links.join(" "),
        of.delta.show(),
    );
}

/// Text for packets that leave the cluster here.
fn leave(out: &mut String, of: &Description, own: &Server, links: usize) {
    if own.ports.is_empty() {
        let _ = writeln!(
            out,
            "transit[{links}] -> Discard;    // no external port here\n"
        );
        return;
    }
    let order = match of.resequence {
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
            _ => "here4".to_owned(),
        };
        let _ = writeln!(out, "leave{v}[{}] -> {itself};", own.ports.len());
    }
    if !ready(of, own).is_empty() {
        for number in 0..own.ports.len() {
            let output = links + 2 + number;
            let _ = writeln!(out, "transit[{output}] -> d{number};");
        }
    }
    out.push('\n');
}

/// Keywords of VLBTransit that name the neighbour tables for frames leaving here; empty if frames have tags.
fn ready(of: &Description, own: &Server) -> String {
    let mut text = String::new();
    if of.keys.is_some() || of.resequence.is_some() {
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

/// Gateways of each port. Those of the other family are in the list too, as they have numbers.
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

fn destination(of: &Description, way: Way) -> String {
    let server = identifier(&of.servers[way.server].name);
    match (way.port, way.gateway) {
        (None, _) => format!("{server}/{PORT_SELF}"),
        (Some(port), 0) => format!("{server}/{port}"),
        (Some(port), gateway) => format!("{server}/{port}/{gateway}"),
    }
}

/// A rate in the syntax of elements, from bits per second.
fn rate(bits: u64) -> String {
    Bandwidth::of(bits / 8).show()
}

/// Keyword for the receive queues of a cable. Ports spread frames over queues by IP addresses, and find none behind a
/// tag's ethertype: all tagged frames come by one queue. So each cable has one queue, and cables are shared out over
/// workers. The queues of shared memory are the sender's, one for each of its workers.
fn queues(of: &Description, device: &str) -> &'static str {
    match of.tag() > 0 && !is_memory(device) {
        true => ", QUEUES 1",
        false => "",
    }
}

/// True if the device is shared memory.
pub(crate) fn is_memory(device: &str) -> bool {
    ports::Directory::new().is_shared_memory(device.trim_matches('"'))
}

/// A device name as one argument, even if it contains commas or comment signs.
fn spelled(device: &str) -> String {
    match is_plain(device) {
        true => device.to_owned(),
        false => format!("\"{device}\""),
    }
}
