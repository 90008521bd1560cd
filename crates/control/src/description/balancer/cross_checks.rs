//! Checks of a balancer's file across its sections: duplicate names, overlapping networks.

use super::description::{Backend, Description, Port};
use crate::description::reader::Reader;
use lang::Span;
use std::net::IpAddr;
use wire::{Prefix4, Prefix6};

/// Positions in the file: of `[balancer]`, of each front port, and of each back end.
type Places<'a> = (Span, &'a [Span], &'a [Span]);

/// Records errors that concern several sections.
pub(super) fn check_sections(r: &mut Reader, description: &Description, places: Places) {
    let (place, ports, backends) = places;
    let at = |places: &[Span], at: usize| places.get(at).copied().unwrap_or(place);
    for (number, one) in description.backends.iter().enumerate() {
        backend(r, description, one, (number, at(backends, number)));
    }
    for (number, one) in description.ports.iter().enumerate() {
        port(r, description, one, (number, at(ports, number)));
    }
    owners(r, description, &|number| at(backends, number));
    if description.key == "outside" && !description.ports.iter().any(|port| port.outside) {
        let wrong = "the key is the host outside, and no port is outside".to_owned();
        let help = "write outside = true at the ports where these hosts are";
        r.wrong("balancer-value", place, wrong, help);
    }
}

/// Checks a back end against the preceding ones.
fn backend(
    r: &mut Reader,
    description: &Description,
    one: &Backend,
    (number, span): (usize, Span),
) {
    let (own, length) = description.address;
    let network = Prefix4::new(own, length);
    let before = &description.backends[..number];
    let twice = [
        ("name", before.iter().any(|other| other.name == one.name)),
        ("ether", before.iter().any(|other| other.ether == one.ether)),
        (
            "address",
            before.iter().any(|other| other.address == one.address),
        ),
    ];
    for (what, _) in twice.iter().filter(|(_, is_so)| *is_so) {
        let wrong = format!("another back end has the `{what}` of `{}`", one.name);
        r.wrong(
            "balancer-backend",
            span,
            wrong,
            "give each back end one of its own",
        );
    }
    if one.address == own || !network.contains(one.address) {
        let wrong = format!("{} is no address of a back end in {network}", one.address);
        let help = "back ends and the balancer have addresses of their own in the network that [balancer] names";
        r.wrong("balancer-backend", span, wrong, help);
    }
}

/// Checks a front port against the preceding and the following ones.
fn port(r: &mut Reader, description: &Description, port: &Port, (number, span): (usize, Span)) {
    if let Some(vrrp) = port.vrrp.as_ref().filter(|vrrp| vrrp.control.len() > 15) {
        let wrong = format!(
            "the control-plane interface `{}` has a name that Linux refuses",
            vrrp.control
        );
        let help = "its name has 1 to 15 characters: write control = \"lan0\"";
        r.wrong("balancer-port", span, wrong, help);
    }
    let (own, length) = description.address;
    let network = Prefix4::new(own, length);
    for other in &description.ports[..number] {
        if other.name == port.name || other.device == port.device {
            let wrong = format!(
                "two front ports are `{}`",
                if other.name == port.name {
                    &port.name
                } else {
                    &port.device
                }
            );
            r.wrong(
                "balancer-port",
                span,
                wrong,
                "each has a name and a device of its own",
            );
        }
        if port.vlan.is_some() && other.vlan == port.vlan {
            let wrong = format!("`{}` and `{}` have the same VLAN", other.name, port.name);
            r.wrong(
                "balancer-port",
                span,
                wrong,
                "give each front port a VLAN of its own",
            );
        }
        let control = |port: &Port| port.vrrp.as_ref().map(|vrrp| vrrp.control.clone());
        if control(port).is_some() && control(port) == control(other) {
            let wrong = format!(
                "`{}` and `{}` have the same control-plane interface",
                other.name, port.name
            );
            let help = "give each an interface of its own: control = \"lan0\"";
            r.wrong("balancer-port", span, wrong, help);
        }
        let overlap = overlapping(port, other);
        if let Some((one, two)) = overlap {
            let wrong = format!(
                "the networks {one} of `{}` and {two} of `{}` overlap",
                port.name, other.name
            );
            let help =
                "each network is behind one front port: the balancer resolves addresses there";
            r.wrong("balancer-port", span, wrong, help);
        }
    }
    for (address, length) in &port.v4 {
        let net = Prefix4::new(*address, *length);
        if net.contains(own) || network.contains(*address) {
            let wrong = format!(
                "{net} of `{}` overlaps with {network}, the network behind the balancer",
                port.name
            );
            r.wrong(
                "balancer-port",
                span,
                wrong,
                "take another network for one of them",
            );
        }
    }
    if description.back.contains(&port.device) {
        let wrong = format!("`{}` is a back port, too", port.device);
        r.wrong(
            "balancer-port",
            span,
            wrong,
            "front ports and back ports are different devices",
        );
    }
}

/// A network or address with its owner.
struct Claim {
    first: u128,
    last: u128,
    text: String,
    /// Back end that owns the network; `None` for the router and the internal network.
    owner: Option<usize>,
}

impl Claim {
    fn new((address, length): (IpAddr, u8), owner: Option<usize>) -> Claim {
        let (bits, length) = match address {
            IpAddr::V4(v4) => (u128::from(v4.to_ipv6_mapped()), length + 96),
            IpAddr::V6(v6) => (u128::from(v6), length),
        };
        let host = u128::MAX.checked_shr(length.into()).unwrap_or(0);
        let text = match length {
            128 => address.to_string(),
            _ => format!(
                "{address}/{}",
                if address.is_ipv4() {
                    length - 96
                } else {
                    length
                }
            ),
        };
        Claim {
            first: bits & !host,
            last: bits | host,
            text,
            owner,
        }
    }
}

/// Checks that no address of a back end belongs to another machine.
fn owners(r: &mut Reader, description: &Description, place: &dyn Fn(usize) -> Span) {
    let (own, length) = description.address;
    let mut claims = vec![Claim::new((own.into(), length), None)];
    for port in &description.ports {
        let four = port
            .v4
            .iter()
            .map(|(ip, _)| Claim::new(((*ip).into(), 32), None));
        let six = port
            .v6
            .iter()
            .map(|(ip, _)| Claim::new(((*ip).into(), 128), None));
        claims.extend(four.chain(six));
    }
    for (number, one) in description.backends.iter().enumerate() {
        let nets = one.owns.iter();
        claims.extend(nets.map(|net| Claim::new(*net, Some(number))));
    }
    claims.sort_by_key(|claim| claim.first);
    for (at, one) in claims.iter().enumerate() {
        let after = claims[at + 1..].iter();
        for other in after.take_while(|other| other.first <= one.last) {
            let Some(number) = other.owner.or(one.owner) else {
                continue;
            };
            let whose = |claim: &Claim| match claim.owner {
                Some(number) => {
                    format!(
                        "{}, which `{}` owns,",
                        claim.text, description.backends[number].name
                    )
                }
                None => format!("{} of the router itself", claim.text),
            };
            let wrong = format!("{} and {} overlap", whose(one), whose(other));
            let help = "an address belongs to one back end, to the router or to the network behind";
            r.wrong("balancer-backend", place(number), wrong, help);
        }
    }
}

/// Overlapping networks of two ports; `None` if no networks overlap.
pub(super) fn overlapping(a: &Port, b: &Port) -> Option<(String, String)> {
    let four = |port: &Port| -> Vec<Prefix4> {
        port.v4
            .iter()
            .map(|(ip, n)| Prefix4::new(*ip, *n))
            .collect()
    };
    for x in four(a) {
        for y in four(b) {
            if x.contains(y.addr()) || y.contains(x.addr()) {
                return Some((x.to_string(), y.to_string()));
            }
        }
    }
    let six = |port: &Port| -> Vec<Prefix6> {
        port.v6
            .iter()
            .map(|(ip, n)| Prefix6::new(*ip, *n))
            .collect()
    };
    for x in six(a) {
        for y in six(b) {
            if x.contains(y.addr()) || y.contains(x.addr()) {
                return Some((x.to_string(), y.to_string()));
            }
        }
    }
    None
}
