//! Click text of links over an IP network: the port that they share, and the headers before their frames.

use super::prefix;
use crate::description::cluster::description::{Description, LinkCarrier, Underlay};
use std::fmt::Write;
use std::net::Ipv4Addr;

const CLASS: &str = include_str!("underlay.click");
/// Lengths in bytes of headers: Ethernet, and IPv4 with UDP.
const ETHER: u16 = 14;
const IP_UDP: u16 = 20 + 8;

/// The links of a server that pass through its underlay, each with its number and the peer's address.
fn links(
    description: &Description,
    server: usize,
) -> impl Iterator<Item = (usize, &LinkCarrier, Ipv4Addr)> {
    let links = description.links_of(server).enumerate();
    links.filter_map(|(number, (link, end))| {
        let peer = description.servers[link.ends[1 - end]].underlay.as_ref()?;
        match link.over {
            LinkCarrier::Devices(_) => None,
            _ => Some((number, &link.over, peer.address)),
        }
    })
}

/// Writes the underlay port, if links pass through it, and the classifier of their packets.
pub(super) fn write(out: &mut String, description: &Description, server: usize) {
    let Some(own) = &description.servers[server].underlay else {
        return;
    };
    if links(description, server).next().is_none() {
        return;
    }
    port(out, own);
    let peers: Vec<String> = links(description, server)
        .map(|(_, over, peer)| link_filter(over, peer))
        .collect();
    let _ = writeln!(
        out,
        "// The link by which a frame came; no_match: from an unknown address, or to another port.\n\
         under -> from :: IPClassifier(\n    {});\n",
        peers.join(",\n    ")
    );
}

fn port(out: &mut String, own: &Underlay) {
    let (device, address, length) = (&own.device, own.address, own.length);
    let mut hops = format!("{} 0", prefix(address.into(), length));
    if let Some(gateway) = own.gateway {
        let _ = write!(hops, ", 0.0.0.0/0 {gateway} 0");
    }
    let class = CLASS.replace("NEXT_HOPS", &hops);
    let _ = writeln!(
        out,
        "{class}\nunder :: Underlay({device}, {address}, {address}/{length});"
    );
}

/// Filter for packets of a link, by IP and UDP headers.
fn link_filter(over: &LinkCarrier, peer: Ipv4Addr) -> String {
    let (LinkCarrier::Udp { port } | LinkCarrier::Vxlan { port, .. }) = over else {
        return "none".to_owned();
    };
    format!("src host {peer} and dst udp port {port}")
}

/// Writes the path of a link over the underlay, if it has one: `link<number>` takes frames to send, `transit` gets
/// received ones.
pub(super) fn link(out: &mut String, description: &Description, server: usize, number: usize) {
    let mut all = links(description, server).enumerate();
    let found = all.find(|(_, (other, ..))| *other == number);
    let (Some((place, (_, over, peer))), Some(own)) =
        (found, &description.servers[server].underlay)
    else {
        return;
    };
    let (encap, decap, port) = match over {
        LinkCarrier::Vxlan { port, vni } => (
            format!("VXLANEncap({vni}) -> "),
            format!("Strip({IP_UDP}) -> VXLANDecap({vni})"),
            port,
        ),
        LinkCarrier::Udp { port } => (
            String::new(),
            // Unstrip declares that packets begin with a whole Ethernet header.
            format!("Strip({}) -> Unstrip({ETHER})", IP_UDP + ETHER),
            port,
        ),
        LinkCarrier::Devices(_) => return,
    };
    let _ = writeln!(
        out,
        "link{number} :: Counter -> {encap}UDPIPEncap({}, FLOW, {peer}, {port}, false, DF true) -> under;\n\
         from[{place}] -> {decap} -> [{number}] transit;",
        own.address
    );
}
