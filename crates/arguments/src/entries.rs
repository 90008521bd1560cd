//! Parsing of AddressInfo and PortInfo entries, which define names.

use crate::units::{FromArg, complete};
use crate::{Kind, Names};
use lang::args as text;
use std::net::{Ipv4Addr, Ipv6Addr};

impl Names {
    /// Inserts a network; it also has a broadcast address, and usually a gateway at its first address.
    fn insert_network(&mut self, name: &str, value: &str) {
        let Ok((address, len)) = wire::Prefix4::parse_host(value) else {
            return;
        };
        let hosts = u32::MAX.checked_shr(len.into()).unwrap_or(0);
        let network = address.to_bits() & !hosts;
        let given = |suffix| format!("{name}:{suffix}");
        let broadcast = Ipv4Addr::from_bits(network | hosts).to_string();
        self.insert(&given("bcast"), Kind::Ip, broadcast);
        let gateway = Ipv4Addr::from_bits(network | 1).to_string();
        self.insert(&given("gw"), Kind::Ip, gateway);
    }

    /// Adds an AddressInfo entry: a name, then addresses and prefixes of any kind.
    pub fn insert_entry(&mut self, entry: &str) {
        let words: Vec<&str> = text::each_word(entry).collect();
        let Some((name, values)) = words.split_first() else {
            return;
        };
        for value in values {
            let mut found = entries(value);
            if found.is_empty() {
                found = self.entries_of_name(value);
            }
            if found.is_empty() {
                self.insert(name, Kind::Mistake, *value);
            }
            for (kind, value) in found {
                if kind == Kind::IpNet {
                    self.insert_network(name, &value);
                }
                self.insert(name, kind, value);
            }
        }
    }

    /// Addresses and prefixes that a name stands for.
    pub fn entries_of_name(&self, name: &str) -> Vec<(Kind, String)> {
        let kinds = [Kind::Ip, Kind::IpNet, Kind::Ip6, Kind::Ip6Net, Kind::Ether];
        let meanings = kinds.into_iter();
        meanings
            .filter_map(|kind| Some((kind, self.get(name, kind)?.to_owned())))
            .collect()
    }

    /// Adds a PortInfo entry, as in /etc/services: a name, a port (`80`, `80/tcp`), further names. Invalid words are
    /// ignored here; PortInfo itself reports them.
    pub fn insert_port_entry(&mut self, entry: &str) {
        let words: Vec<&str> = port_words(entry).collect();
        let [name, port, aliases @ ..] = words.as_slice() else {
            return;
        };
        let Some((port, kinds)) = port_entry(port) else {
            return;
        };
        for name in [name].into_iter().chain(aliases) {
            for &kind in kinds {
                self.insert(name, kind, port.to_string());
            }
        }
    }
}

/// The words of a PortInfo entry, up to a comment.
pub fn port_words(entry: &str) -> impl Iterator<Item = &str> {
    text::each_word(entry).take_while(|word| !word.starts_with('#'))
}

/// Port and protocols of a PortInfo entry: `80` for both protocols, `80/tcp` or `80/udp` for one. A port of
/// another protocol, such as `80/sctp`, is a port of neither.
pub fn port_entry(value: &str) -> Option<(u32, &'static [Kind])> {
    let (port, protocol) = match value.split_once('/') {
        Some((port, protocol)) => (port, protocol.to_ascii_lowercase()),
        None => (value, String::new()),
    };
    let kinds: &[Kind] = match protocol.as_str() {
        "" => &[Kind::TcpPort, Kind::UdpPort],
        "tcp" | "6" => &[Kind::TcpPort],
        "udp" | "17" => &[Kind::UdpPort],
        _ => &[],
    };
    Some((u32::from_arg(port, &Names::default()).ok()?, kinds))
}

/// Kinds and values of a word of an AddressInfo entry: `10.0.0.1/8` is an address and a prefix, `10.0.0.0/8` a prefix
/// only.
pub fn entries(value: &str) -> Vec<(Kind, String)> {
    let address = value.split('/').next().unwrap_or(value);
    let with_prefix = value.contains('/');
    let mut found = Vec::new();
    if let Ok(host) = address.parse::<Ipv4Addr>() {
        if !with_prefix {
            found.push((Kind::Ip, address.to_owned()));
        } else if let Ok(net) = value.parse::<wire::Prefix4>() {
            if net.addr() != host {
                found.push((Kind::Ip, address.to_owned()));
            }
            found.push((Kind::IpNet, value.to_owned()));
        }
    } else if let Ok(host) = address.parse::<Ipv6Addr>() {
        if !with_prefix {
            found.push((Kind::Ip6, address.to_owned()));
        } else if let Ok(net) = value.parse::<wire::Prefix6>() {
            if net.addr() != host {
                found.push((Kind::Ip6, address.to_owned()));
            }
            found.push((Kind::Ip6Net, value.to_owned()));
        }
    } else if value.parse::<wire::EtherAddr>().is_ok() {
        found.push((Kind::Ether, value.to_owned()));
    } else if with_prefix {
        // `18.26.4/24` is a network, and no address.
        let network = complete(value);
        if network.parse::<wire::Prefix4>().is_ok() {
            found.push((Kind::IpNet, network.into_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_without_a_host_is_no_address() {
        let mut names = Names::default();
        names.insert_entry("a 10.0.0.2 10.0.0.0/16 ::5 fd00::/8");
        assert_eq!(names.get("a", Kind::Ip), Some("10.0.0.2"));
        assert_eq!(names.get("a", Kind::IpNet), Some("10.0.0.0/16"));
        assert_eq!(names.get("a", Kind::Ip6), Some("::5"));
        names.insert_entry("b 10.0.0.0/16 fd00::1/8");
        assert_eq!(names.get("b", Kind::Ip), None);
        assert_eq!(names.get("b", Kind::Ip6), Some("fd00::1"));
    }

    #[test]
    fn a_network_has_a_broadcast_address_and_a_gateway() {
        let mut names = Names::default();
        names.insert_entry("net 10.0.0.77/26");
        assert_eq!(names.get("net:bcast", Kind::Ip), Some("10.0.0.127"));
        assert_eq!(names.get("net:gw", Kind::Ip), Some("10.0.0.65"));
        assert_eq!(names.get("net:ip", Kind::Ip), Some("10.0.0.77"));
        names.insert_entry("short 18.26.4/24");
        assert_eq!(names.get("short", Kind::IpNet), Some("18.26.4.0/24"));
        assert_eq!(names.get("short", Kind::Ip), None);
        assert_eq!(names.get("short:bcast", Kind::Ip), Some("18.26.4.255"));
        names.insert_entry("other net 02:00:00:00:00:01");
        assert_eq!(names.get("other", Kind::Ip), Some("10.0.0.77"));
        assert_eq!(names.get("other:bcast", Kind::Ip), Some("10.0.0.127"));
        assert_eq!(names.get("other", Kind::Ether), Some("02:00:00:00:00:01"));
    }

    #[test]
    fn comments_in_port_entries_are_no_names() {
        let mut names = Names::default();
        names.insert_port_entry("www 80/tcp http # HyperText");
        assert_eq!(names.get("http", Kind::TcpPort), Some("80"));
        assert_eq!(names.get("http", Kind::UdpPort), None);
        assert_eq!(names.get("HyperText", Kind::TcpPort), None);
        names.insert_port_entry("# nothing but a comment");
        names.insert_port_entry("sip 5060/sctp");
        assert_eq!(names.get("sip", Kind::UdpPort), None);
    }
}
