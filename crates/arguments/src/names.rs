//! Names that arguments may use in place of addresses and ports.

use lang::args as text;
use std::collections::HashMap;

/// Names that arguments may use for addresses: AddressInfo entries and the addresses of devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    values: HashMap<(String, Kind), String>,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An IPv4 address.
    Ip,
    /// An IPv4 prefix.
    IpNet,
    /// An IPv6 address.
    Ip6,
    /// An IPv6 prefix.
    Ip6Net,
    /// An Ethernet address.
    Ether,
    /// A TCP port.
    TcpPort,
    /// A UDP port.
    UdpPort,
}

impl Kind {
    fn suffix(self) -> &'static [&'static str] {
        match self {
            Kind::Ip => &["ip", "ip4"],
            Kind::IpNet => &["ipnet", "ip4net", "net"],
            Kind::Ip6 => &["ip6"],
            Kind::Ip6Net => &["ip6net"],
            Kind::Ether => &["eth", "ether", "ethernet"],
            Kind::TcpPort | Kind::UdpPort => &[],
        }
    }
}

impl Names {
    /// Gives a name a value of some kind, written as an argument would be.
    pub fn insert(&mut self, name: &str, kind: Kind, value: impl Into<String>) {
        self.values.insert((name.to_owned(), kind), value.into());
    }

    /// Adds an AddressInfo entry: a name, then addresses and prefixes of any kind. Words that are
    /// none are left to AddressInfo itself to complain of.
    pub fn insert_entry(&mut self, entry: &str) {
        let words: Vec<&str> = text::each_word(entry).collect();
        let Some((name, values)) = words.split_first() else {
            return;
        };
        for value in values {
            for (kind, value) in entries(value) {
                self.insert(name, kind, value);
            }
        }
    }

    /// Adds a PortInfo entry, as in /etc/services: a name, a port (`80`, `80/tcp`), further names. Words
    /// that are none are left to PortInfo itself to complain of.
    pub fn insert_port_entry(&mut self, entry: &str) {
        let words: Vec<&str> = text::each_word(entry).collect();
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

    /// Names that do not stand for the same as in `before`.
    pub fn changed_since(&self, before: &Names) -> Vec<String> {
        let (now, before) = (&self.values, &before.values);
        let keys = now.keys().chain(before.keys());
        let differ = keys.filter(|&key| now.get(key) != before.get(key));
        let mut names: Vec<String> = differ.map(|(name, _)| name.clone()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// The value of `name` or `name:kind`.
    pub fn get(&self, name: &str, kind: Kind) -> Option<&str> {
        let bare = kind
            .suffix()
            .iter()
            .find_map(|s| name.strip_suffix(s)?.strip_suffix(':'));
        self.values
            .get(&(bare.unwrap_or(name).to_owned(), kind))
            .map(String::as_str)
    }
}

/// What the port of a PortInfo entry stands for: `80` for both protocols, `80/tcp` or `80/udp` for one.
pub fn port_entry(value: &str) -> Option<(u16, &'static [Kind])> {
    let (port, kinds): (_, &[Kind]) = match value.split_once('/') {
        None | Some((_, "tcp,udp" | "udp,tcp")) => {
            (value.split('/').next()?, &[Kind::TcpPort, Kind::UdpPort])
        }
        Some((port, "tcp")) => (port, &[Kind::TcpPort]),
        Some((port, "udp")) => (port, &[Kind::UdpPort]),
        Some(_) => return None,
    };
    Some((port.parse().ok()?, kinds))
}

/// What a word of an AddressInfo entry gives: `10.0.0.1/8` is an address and a prefix.
pub fn entries(value: &str) -> Vec<(Kind, String)> {
    let address = value.split('/').next().unwrap_or(value);
    let with_prefix = value.contains('/');
    let mut found = Vec::new();
    if address.parse::<std::net::Ipv4Addr>().is_ok() {
        found.push((Kind::Ip, address.to_owned()));
        if with_prefix && value.parse::<wire::Prefix4>().is_ok() {
            found.push((Kind::IpNet, value.to_owned()));
        }
    } else if address.parse::<std::net::Ipv6Addr>().is_ok() {
        found.push((Kind::Ip6, address.to_owned()));
        if with_prefix && value.parse::<wire::Prefix6>().is_ok() {
            found.push((Kind::Ip6Net, value.to_owned()));
        }
    } else if value.parse::<wire::EtherAddr>().is_ok() {
        found.push((Kind::Ether, value.to_owned()));
    }
    found
}
