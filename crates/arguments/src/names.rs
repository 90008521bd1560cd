//! Names that arguments may use in place of addresses and ports.

use crate::units::FromArg;
use lang::args as text;
use std::collections::{BTreeSet, HashMap};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Names that arguments may use for addresses: AddressInfo entries and the addresses of devices; as the elements of
/// one compound element see them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    values: Arc<HashMap<(String, Kind), Meaning>>,
    /// The compound element, with a slash behind its name; empty for the router itself.
    place: String,
}

/// Values of one name, by the compound element that declares it. There may be thousands of declarations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Meaning {
    /// Value by compound element, written as [`Names::place`].
    places: HashMap<String, String>,
    /// Value where no compound element declares the name.
    default: Option<String>,
}

/// Type of a name's value.
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
    /// Bytes of the longest packet that a device takes.
    Mtu,
    /// A TCP port.
    TcpPort,
    /// A UDP port.
    UdpPort,
    /// Not an address. AddressInfo reports the mistake.
    Mistake,
}

impl Kind {
    fn suffix(self) -> &'static [&'static str] {
        match self {
            Kind::Ip => &["ip", "ip4"],
            Kind::IpNet => &["ipnet", "ip4net", "net"],
            Kind::Ip6 => &["ip6"],
            Kind::Ip6Net => &["ip6net"],
            Kind::Ether => &["eth", "ether", "ethernet"],
            Kind::Mtu => &["mtu"],
            Kind::TcpPort | Kind::UdpPort | Kind::Mistake => &[],
        }
    }
}

impl Names {
    /// The names as an element sees them: those of its enclosing compound elements, innermost first.
    pub fn seen_by(&self, element: &str) -> Names {
        let end = element.rfind('/').map_or(0, |slash| slash + 1);
        Names {
            values: Arc::clone(&self.values),
            place: element[..end].to_owned(),
        }
    }

    /// Puts the names that follow into the compound element around this element.
    pub fn enter(&mut self, element: &str) {
        let end = element.rfind('/').map_or(0, |slash| slash + 1);
        self.place = element[..end].to_owned();
    }

    /// Gives a name a value of some kind, written as an argument would be.
    pub fn insert(&mut self, name: &str, kind: Kind, value: impl Into<String>) {
        let place = self.place.clone();
        self.meaning(name, kind).places.insert(place, value.into());
    }

    /// Like [`insert`](Self::insert), for places where no compound element declares the name.
    pub fn insert_default(&mut self, name: &str, kind: Kind, value: impl Into<String>) {
        self.meaning(name, kind).default = Some(value.into());
    }

    fn meaning(&mut self, name: &str, kind: Kind) -> &mut Meaning {
        let values = Arc::make_mut(&mut self.values);
        values.entry((name.to_owned(), kind)).or_default()
    }

    /// A network also has a broadcast address, and usually a gateway at its first address.
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
            let found = entries(value);
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

    /// Adds a PortInfo entry, as in /etc/services: a name, a port (`80`, `80/tcp`), further names. Words
    /// that are none are left to PortInfo itself to complain of.
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

    /// The value of `name` or `name:kind` here, or of `compound/name` anywhere.
    pub fn get(&self, name: &str, kind: Kind) -> Option<&str> {
        let bare = kind
            .suffix()
            .iter()
            .find_map(|s| name.strip_suffix(s)?.strip_suffix(':'));
        let name = bare.unwrap_or(name);
        if let Some(slash) = name.rfind('/') {
            let (place, name) = name.split_at(slash + 1);
            let there = self.values.get(&(name.to_owned(), kind));
            if let Some(text) = there.and_then(|meaning| meaning.places.get(place)) {
                return Some(text);
            }
        }
        let meaning = self.values.get(&(name.to_owned(), kind))?;
        // From the compound element around outwards.
        let mut place = &*self.place;
        loop {
            match (meaning.places.get(place), place.strip_suffix('/')) {
                (Some(text), _) => return Some(text),
                (None, Some(inner)) => place = &place[..inner.rfind('/').map_or(0, |at| at + 1)],
                (None, None) => return meaning.default.as_deref(),
            }
        }
    }

    /// True if the argument uses a name that AddressInfo declares wrongly. AddressInfo reports it, so no other error is
    /// needed.
    pub fn has_mistake(&self, argument: &str) -> bool {
        let name = |word: &str| {
            word.rsplit('/')
                .next()
                .and_then(|name| name.split(':').next().map(str::to_owned))
        };
        let mut names = text::each_word(argument).filter_map(name);
        names.any(|name| self.values.contains_key(&(name, Kind::Mistake)))
    }

    /// The words for which a word of a list stands: for `*/name` that name of each compound element which gives it a
    /// value of one of these kinds, by the elements' names; for any other word itself.
    pub fn each(&self, word: &str, kinds: &[Kind]) -> Vec<String> {
        let Some(name) = word.strip_prefix("*/") else {
            return vec![word.to_owned()];
        };
        let meanings = kinds
            .iter()
            .filter_map(|&kind| self.values.get(&(name.to_owned(), kind)));
        let places: BTreeSet<&String> = meanings.flat_map(|m| m.places.keys()).collect();
        let places = places.into_iter().filter(|place| !place.is_empty());
        let found: Vec<String> = places.map(|place| format!("{place}{name}")).collect();
        match found.is_empty() {
            // Nothing that has the name is a mistake, which is told of the word itself.
            true => vec![word.to_owned()],
            false => found,
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

/// Kinds and values of a word of an AddressInfo entry: `10.0.0.1/8` is an address and a prefix, `10.0.0.0/8` a prefix only.
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
        let network = crate::units::complete(value);
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
    fn a_name_holds_within_its_compound_element_and_the_nearest_one_counts() {
        let mut names = Names::default();
        names.insert_default("a", Kind::Ip, "9.9.9.9");
        names.insert_default("b", Kind::Ip, "8.8.8.8");
        names.insert_entry("a 10.0.0.1");
        names.enter("c/AddressInfo@1");
        names.insert_entry("a 10.0.0.2");
        names.insert_entry("inner 10.0.0.3");
        let seen = |element: &str, name| {
            let names = names.seen_by(element);
            names.get(name, Kind::Ip).map(str::to_owned)
        };
        for (element, name, value) in [
            ("x", "a", Some("10.0.0.1")),
            ("c/x", "a", Some("10.0.0.2")),
            ("c/d/x", "a", Some("10.0.0.2")),
            ("cc/x", "a", Some("10.0.0.1")),
            ("c/d/x", "inner", Some("10.0.0.3")),
            ("x", "inner", None),
            ("c/x", "b", Some("8.8.8.8")),
        ] {
            assert_eq!(seen(element, name).as_deref(), value, "{element} {name}");
        }
    }

    #[test]
    fn names_of_compound_elements_are_seen_from_everywhere_by_their_paths() {
        let mut names = Names::default();
        names.insert_entry("here 9.9.9.9");
        for (place, entry) in [
            ("a/AddressInfo@1", "here 10.0.1.1/24 fd00:1::1/64"),
            ("b/c/AddressInfo@1", "here 10.0.2.1/24"),
            ("d/AddressInfo@1", "here fd00:4::1"),
        ] {
            names.enter(place);
            names.insert_entry(entry);
        }
        let names = names.seen_by("d/x");
        assert_eq!(names.get("a/here", Kind::Ip), Some("10.0.1.1"));
        assert_eq!(names.get("b/c/here:ip", Kind::Ip), Some("10.0.2.1"));
        assert_eq!(names.get("c/here", Kind::Ip), None);
        assert_eq!(names.get("a/there", Kind::Ip), None);
        assert_eq!(names.each("*/here", &[Kind::Ip]), ["a/here", "b/c/here"]);
        let six = [Kind::Ip6Net, Kind::Ip6];
        assert_eq!(names.each("*/here", &six), ["a/here", "d/here"]);
        assert_eq!(names.each("*/there", &six), ["*/there"]);
        assert_eq!(names.each("10.0.0.0/8", &six), ["10.0.0.0/8"]);
    }

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
    }

    #[test]
    fn what_follows_a_hash_in_an_entry_of_ports_is_no_name() {
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
