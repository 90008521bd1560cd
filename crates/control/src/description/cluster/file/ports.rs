//! External ports and their addresses.

use super::fields::{MTU_DEFAULT, RATE_HELP, external, mtu, named, rate};
use super::{Reading, Word};
use crate::description::addresses::{is_host4, network};
use crate::description::cluster::description::{Connected, Port};
use crate::description::reader::Fields;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::{Prefix4, Prefix6};

const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

impl Reading {
    pub(super) fn port(
        &mut self,
        mut fields: Fields,
        at: (usize, usize),
        usual: Option<u64>,
    ) -> Port {
        let span = fields.span;
        let r = &mut self.reader;
        let name = named(fields.word(r, "name"), r);
        let device = fields.needed(
            r,
            "device",
            "write device = \"eth0\", as FromDevice takes it",
        );
        let device = device.and_then(|word| external(r, word));
        let rate = rate(&mut fields, r).or(usual);
        if rate.is_none() {
            r.wrong(
                "cluster-missing",
                span,
                "the rate of this port is not known".to_owned(),
                RATE_HELP,
            );
        }
        let mtu = mtu(&mut fields, r);
        let addresses = fields.words(r, "addresses");
        let link_local = fields.word(r, "link-local");
        let gateways = fields.words(r, "gateways");
        let elements4 = fields.word(r, "elements4");
        let elements6 = fields.word(r, "elements6");
        fields.end(r);
        let mut port = Port {
            name: name.unwrap_or_else(|| format!("p{}", at.1)),
            device: device.unwrap_or_else(|| format!("device {at:?}")),
            rate: rate.unwrap_or_default(),
            mtu: mtu.map_or(MTU_DEFAULT, |(mtu, _)| mtu),
            v4: None,
            v6: None,
            link_local: LINK_LOCAL,
            elements4: None,
            elements6: None,
            gateways: Vec::new(),
        };
        if let Some(word) = link_local {
            match word.text.parse::<Ipv6Addr>() {
                Ok(address) if address.is_unicast_link_local() => port.link_local = address,
                _ => {
                    let wrong = format!("`{}` is no link-local address", word.text);
                    r.wrong("cluster-value", word.span, wrong, "write fe80::1");
                }
            }
        }
        if addresses.is_empty() {
            let wrong = "this port has no address".to_owned();
            let help =
                "write addresses = [\"10.0.1.1/24\", \"fd00:1::1/64\"], one of each family at most";
            r.wrong("cluster-missing", span, wrong, help);
        }
        for word in addresses {
            self.address(&mut port, word, at);
        }
        if let (Some(_), Some((mtu @ ..1280, span))) = (port.v6, mtu) {
            let wrong = format!("IPv6 needs links of 1280 bytes, and this one takes {mtu}");
            let help = "raise the MTU, or remove the IPv6 address (RFC 8200, 5)";
            self.reader.wrong("cluster-mtu", span, wrong, help);
        }
        for word in gateways {
            self.gateway(&mut port, word);
        }
        port.elements4 = elements4.and_then(|word| self.element(word, "IPv4", port.v4.is_some()));
        port.elements6 = elements6.and_then(|word| self.element(word, "IPv6", port.v6.is_some()));
        port
    }

    /// The element of a port for packets of a family, which the port may not have.
    fn element(&mut self, word: Word, family: &str, is_there: bool) -> Option<String> {
        let (wrong, help) = match is_class(&word.text) {
            false => (
                format!("`{}` is no class of elements", word.text),
                "write a class that `elements` of [cluster] declares, such as \"Edge\" or \"Edge(10.0.0.1)\"",
            ),
            true if !is_there => (
                format!("this port has no {family} address, so no such packets pass"),
                "give the port an address, or take the element away",
            ),
            true => return Some(word.text),
        };
        self.reader
            .wrong("cluster-elements", word.span, wrong, help);
        None
    }

    fn address(&mut self, port: &mut Port, word: Word, (server, at): (usize, usize)) {
        let Some((address, length)) = network(&word.text) else {
            let wrong = format!("`{}` is no address with a prefix length", word.text);
            let help = "write it as 10.0.1.1/24 or fd00:1::1/64";
            return self.reader.wrong("cluster-value", word.span, wrong, help);
        };
        let taken = match address {
            IpAddr::V4(v4) => port.v4.replace((v4, length)).is_some(),
            IpAddr::V6(v6) => port.v6.replace((v6, length)).is_some(),
        };
        if taken {
            let wrong = "this port has two addresses of one family".to_owned();
            let help = "one IPv4 and one IPv6 address for each port";
            self.reader.wrong("cluster-address", word.span, wrong, help);
        }
        if !is_host(address, length) {
            let wrong = format!("`{}` is no address of a host", word.text);
            let help = "write the router's own address in that network";
            self.reader.wrong("cluster-address", word.span, wrong, help);
        }
        if length == if address.is_ipv4() { 32 } else { 128 } {
            let wrong = format!("only the router itself is in {address}/{length}");
            let help = "write the prefix length of the network on this port's link, such as 10.0.1.1/24 or \
                fd00:1::1/64";
            self.reader.wrong("cluster-address", word.span, wrong, help);
        }
        let connected = Connected {
            server,
            port: at,
            address,
            length,
        };
        self.places.addresses.push((connected, word.span));
    }

    fn gateway(&mut self, port: &mut Port, word: Word) {
        let address = word.text.parse::<IpAddr>().ok();
        let near = match address {
            Some(IpAddr::V4(v4)) => port.v4.is_some_and(|of| same_network(of, v4)),
            Some(IpAddr::V6(v6)) => {
                let here = port.v6.is_some_and(|of| same_network6(of, v6));
                here || port.v6.is_some() && v6.is_unicast_link_local()
            }
            None => false,
        };
        let (Some(address), true) = (address, near) else {
            let wrong = format!("`{}` is no neighbour on this port's networks", word.text);
            let help = "a gateway's address lies in one of the port's networks";
            return self.reader.wrong("cluster-gateway", word.span, wrong, help);
        };
        if address == IpAddr::V6(port.link_local) {
            let wrong = format!("`{address}` is this port's own link-local address");
            let help = "write the gateway's own, or give the port another by `link-local`";
            return self.reader.wrong("cluster-gateway", word.span, wrong, help);
        }
        port.gateways.push(address);
    }
}

/// True for a class's name, alone or with arguments.
fn is_class(text: &str) -> bool {
    let name = text.split('(').next().unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let named = name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(fits);
    let rest = &text[name.len()..];
    named && (rest.is_empty() || rest.ends_with(')') && !rest.contains(';') && !rest.contains("->"))
}

fn is_host(address: IpAddr, length: u8) -> bool {
    match address {
        IpAddr::V4(v4) => is_host4(v4, length),
        IpAddr::V6(v6) => {
            let anycast = length < 127 && Prefix6::new(v6, length).addr() == v6;
            let other = v6.is_unspecified() || v6.is_multicast() || v6.is_loopback();
            !(anycast || other || v6.is_unicast_link_local())
        }
    }
}

pub(super) fn same_network((of, length): (Ipv4Addr, u8), address: Ipv4Addr) -> bool {
    of != address && Prefix4::new(of, length) == Prefix4::new(address, length)
}

fn same_network6((of, length): (Ipv6Addr, u8), address: Ipv6Addr) -> bool {
    of != address && Prefix6::new(of, length) == Prefix6::new(address, length)
}
