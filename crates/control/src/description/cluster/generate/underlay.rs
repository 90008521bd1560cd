//! Links over an IP network: one port that they share, and headers before their frames.

use super::prefix;
use crate::description::cluster::description::{Description, Over, Underlay};
use std::fmt::Write;
use std::net::Ipv4Addr;

const CLASS: &str = include_str!("underlay.click");
/// Lengths in bytes of headers: Ethernet, and IPv4 with UDP.
const ETHER: u16 = 14;
const IP_UDP: u16 = 20 + 8;

/// The links of a server that pass through its underlay, each with its number and the peer's address.
fn links(of: &Description, server: usize) -> impl Iterator<Item = (usize, &Over, Ipv4Addr)> {
    let links = of.links_of(server).enumerate();
    links.filter_map(|(number, (link, end))| {
        let peer = of.servers[link.ends[1 - end]].underlay.as_ref()?;
        match link.over {
            Over::Devices(_) => None,
            _ => Some((number, &link.over, peer.address)),
        }
    })
}

/// The port, if links pass through it, and what tells their packets apart.
pub(super) fn write(out: &mut String, of: &Description, server: usize) {
    let Some(own) = &of.servers[server].underlay else {
        return;
    };
    if links(of, server).next().is_none() {
        return;
    }
    port(out, own);
    let peers: Vec<String> = links(of, server)
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

/// Filter for packets of a link, as far as IP and UDP show.
fn link_filter(over: &Over, peer: Ipv4Addr) -> String {
    let (Over::Udp { port } | Over::Vxlan { port, .. }) = over else {
        return "none".to_owned();
    };
    format!("src host {peer} and dst udp port {port}")
}

/// Writes the path of a link over the underlay, if it has one: `link<number>` takes frames to send, `transit` gets
/// received ones.
pub(super) fn link(out: &mut String, of: &Description, server: usize, number: usize) {
    let mut all = links(of, server).enumerate();
    let found = all.find(|(_, (other, ..))| *other == number);
    let (Some((place, (_, over, peer))), Some(own)) = (found, &of.servers[server].underlay) else {
        return;
    };
    let (encap, decap, port) = match over {
        Over::Vxlan { port, vni } => (
            format!("VXLANEncap({vni}) -> "),
            format!("Strip({IP_UDP}) -> VXLANDecap({vni})"),
            port,
        ),
        Over::Udp { port } => (
            String::new(),
            // Unstrip declares that packets begin with a whole Ethernet header.
            format!("Strip({}) -> Unstrip({ETHER})", IP_UDP + ETHER),
            port,
        ),
        Over::Devices(_) => return,
    };
    let _ = writeln!(
        out,
        "link{number} :: Counter -> {encap}UDPIPEncap({}, FLOW, {peer}, {port}, false, DF true) -> under;\n\
         from[{place}] -> {decap} -> [{number}] transit;",
        own.address
    );
}
