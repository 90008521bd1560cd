//! The sections `[[balancer.peer]]` of a balancer's file: other balancers of the same router, and their front ports.

use super::cross_checks::overlapping;
use super::description::{Description, Inside, Peer, Port};
use super::file::{is_name, port};
use crate::description::reader::{Fields, Reader};
use lang::Span;
use wire::{EtherAddr, Prefix4};

const PEERS_MAX: usize = 15;

/// Parses the sections of peers. Errors are recorded in `r`.
pub(super) fn read(r: &mut Reader, fields: &mut Fields, inside: Inside) -> Vec<(Peer, Span)> {
    let mut all = Vec::new();
    for fields in fields.tables(r, "peer", "[[balancer.peer]]") {
        let span = fields.span;
        all.extend(peer(r, fields, inside).map(|peer| (peer, span)));
    }
    if let Some((_, span)) = all.get(PEERS_MAX) {
        let wrong = format!("there are more than {PEERS_MAX} other balancers");
        let help = "use fewer balancers for these back ends";
        r.wrong("balancer-peer", *span, wrong, help);
    }
    all
}

fn peer(r: &mut Reader, mut fields: Fields, inside: Inside) -> Option<Peer> {
    let help = "write name = \"right\": the other balancer's name in `ashlar balance show`";
    let name = fields.needed(r, "name", help);
    let name = name.filter(|word| is_name(r, word));
    let ether_help = "write ether = \"02:00:00:00:00:f2\", the address of its port to the switch";
    let ether = fields.needed(r, "ether", ether_help);
    let address_help =
        "write address = \"10.255.0.2\", its own on the network behind the balancers";
    let address = fields.needed(r, "address", address_help);
    let mut ports = Vec::new();
    for fields in fields.tables(r, "port", "[[balancer.peer.port]]") {
        ports.extend(port(r, fields, (ports.len(), inside, false)).map(|(port, _)| port));
    }
    fields.end(r);
    let ether = ether.and_then(|word| {
        let found = word.text.parse::<EtherAddr>().ok();
        let found = found.filter(|ether| ether.is_unicast());
        if found.is_none() {
            let wrong = format!("`{}` is the Ethernet address of no port", word.text);
            r.wrong("balancer-value", word.span, wrong, ether_help);
        }
        found
    });
    let address = address.and_then(|word| {
        let found = word.text.parse().ok();
        if found.is_none() {
            let wrong = format!("`{}` is no IPv4 address", word.text);
            r.wrong("balancer-value", word.span, wrong, address_help);
        }
        found
    });
    Some(Peer {
        name: name?.text,
        ether: ether?,
        address: address?,
        ports,
    })
}

/// Records errors that concern several sections.
pub(super) fn check(r: &mut Reader, description: &Description, places: &[(Peer, Span)]) {
    let (own, length) = description.address;
    let behind = Prefix4::new(own, length);
    if let (Some((_, place)), "least-loaded") = (places.first(), &*description.algorithm) {
        let wrong = "least-loaded with other balancers: each would level its own load".to_owned();
        let help = "write algorithm = \"flows\", which gives all balancers the same table";
        r.wrong("balancer-peer", *place, wrong, help);
    }
    for (at, (peer, place)) in places.iter().enumerate() {
        let before: Vec<&Peer> = places[..at].iter().map(|(peer, _)| peer).collect();
        let mut wrong = |wrong: String, help: &str| r.wrong("balancer-peer", *place, wrong, help);
        let is_taken = before.iter().any(|other| {
            other.name == peer.name || other.ether == peer.ether || other.address == peer.address
        });
        let is_backend = description
            .backends
            .iter()
            .any(|one| one.ether == peer.ether || one.address == peer.address);
        if is_taken || is_backend || peer.name == description.name || peer.address == own {
            wrong(
                format!("`{}` has a name or an address of another box", peer.name),
                "give each balancer and back end a name, an `ether` and an `address` of its own",
            );
        }
        if !behind.contains(peer.address) {
            wrong(
                format!("{} is not in {behind}", peer.address),
                "balancers hear each other on the network behind them: write the peer's address there",
            );
        }
        let earlier = before.iter().flat_map(|other| &other.ports);
        let others: Vec<&Port> = description.ports.iter().chain(earlier).collect();
        for port in &peer.ports {
            for other in &others {
                if let Some((one, two)) = overlapping(port, other) {
                    wrong(
                        format!(
                            "the networks {one} of `{}` of `{}` and {two} of `{}` overlap",
                            port.name, peer.name, other.name
                        ),
                        "each network is behind one front port of one balancer",
                    );
                }
                if port.vlan.is_some() && port.vlan == other.vlan {
                    wrong(
                        format!("`{}` and `{}` have the same VLAN", other.name, port.name),
                        "give each front port of the router a VLAN of its own",
                    );
                }
            }
        }
    }
}
