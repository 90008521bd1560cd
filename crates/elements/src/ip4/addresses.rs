//! Lists of addresses as arguments.

use arguments::units::FromArg;
use arguments::{Kind, Names};
use std::net::Ipv4Addr;
use wire::Prefix4;

/// List of addresses, separated by spaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Addresses(pub(crate) Vec<Ipv4Addr>);

impl FromArg for Addresses {
    const KIND: &'static str = "IPv4 addresses, separated by spaces";
    const LIST: bool = true;

    fn from_arg(raw: &str, names: &Names) -> Result<Addresses, String> {
        let words =
            lang::args::each_word(raw).flat_map(|word| names.expand_word(word, &[Kind::Ip]));
        words
            .map(|word| Ipv4Addr::from_arg(&word, names))
            .collect::<Result<_, _>>()
            .map(Addresses)
    }

    fn stand_in() -> Addresses {
        Addresses::default()
    }

    fn unparse(&self) -> String {
        let words: Vec<_> = self.0.iter().map(Ipv4Addr::to_string).collect();
        words.join(" ")
    }
}

/// List of interface addresses with prefix length, such as `10.0.0.1/24`, separated by spaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interfaces(Vec<(Ipv4Addr, Prefix4)>);

impl Interfaces {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The addresses.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.0.iter().map(|i| i.0)
    }

    /// Broadcast addresses of the networks, in both forms (see `is_broadcast`).
    pub(crate) fn broadcasts(&self) -> impl Iterator<Item = Ipv4Addr> {
        let both = |net: &Prefix4| Some([net.broadcast()?, net.addr()]);
        self.0.iter().filter_map(move |i| both(&i.1)).flatten()
    }

    /// True if an address lies in one of the networks.
    #[inline]
    pub(crate) fn attached(&self, address: Ipv4Addr) -> bool {
        self.0.iter().any(|i| i.1.contains(address))
    }

    /// True if one network contains both addresses.
    #[inline]
    pub(crate) fn share(&self, a: Ipv4Addr, b: Ipv4Addr) -> bool {
        self.0.iter().any(|i| i.1.contains(a) && i.1.contains(b))
    }

    /// True if an address means every host of one of the networks: all ones, or all zeros as very old
    /// hosts wrote it (RFC 1812, 4.2.3.1 and 5.3.5). Networks of 31 and 32 bits have none (RFC 3021).
    #[inline]
    pub(crate) fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        self.0.iter().any(|(_, net)| match net.broadcast() {
            Some(all_ones) => address == all_ones || address == net.addr(),
            None => false,
        })
    }
}

impl FromArg for Interfaces {
    const KIND: &'static str = "addresses of interfaces such as 10.0.0.1/24, separated by spaces";
    const LIST: bool = true;

    fn from_arg(raw: &str, names: &Names) -> Result<Interfaces, String> {
        let words =
            lang::args::each_word(raw).flat_map(|word| names.expand_word(word, &[Kind::IpNet]));
        let parse = |word: String| {
            let text = names.get(&word, Kind::IpNet).unwrap_or(&word);
            match Prefix4::parse_host(text) {
                Ok((address, len)) => Ok((address, Prefix4::new(address, len))),
                Err(_) => Err(format!("must be {}, not `{word}`", Self::KIND)),
            }
        };
        words.map(parse).collect::<Result<_, _>>().map(Interfaces)
    }

    fn stand_in() -> Interfaces {
        Interfaces::default()
    }

    fn unparse(&self) -> String {
        let words = self.0.iter().map(|(a, net)| format!("{a}/{}", net.len()));
        words.collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcasts_are_known_by_their_networks() {
        let names = Names::default();
        let all = Interfaces::from_arg("10.0.0.1/24 192.0.2.7/31 192.0.2.9/32", &names).unwrap();
        let is = |a: [u8; 4]| all.is_broadcast(Ipv4Addr::from(a));
        assert!(is([10, 0, 0, 255]) && is([10, 0, 0, 0]));
        assert!(!is([10, 0, 0, 1]) && !is([10, 0, 1, 255]));
        assert!(!is([192, 0, 2, 6]) && !is([192, 0, 2, 7]) && !is([192, 0, 2, 9]));
        assert_eq!(all.unparse(), "10.0.0.1/24 192.0.2.7/31 192.0.2.9/32");
        assert!(Interfaces::from_arg("10.0.0.300/24", &names).is_err());
        assert!(Addresses::from_arg("10.0.0.1 10.0.0", &names).is_err());
    }
}
