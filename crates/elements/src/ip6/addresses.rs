//! Arguments that are several IPv6 addresses.

use arguments::units::FromArg;
use arguments::{Kind, Names};
use std::net::Ipv6Addr;
use wire::Prefix6;

/// Addresses with prefix length; 128 if none is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Addresses6(pub(super) Vec<(Ipv6Addr, u8)>);

impl Addresses6 {
    /// Addresses without their prefix lengths.
    pub(super) fn plain(&self) -> Vec<Ipv6Addr> {
        self.0.iter().map(|a| a.0).collect()
    }
}

impl FromArg for Addresses6 {
    const KIND: &'static str =
        "IPv6 addresses such as 2001:db8::1/64, separated by spaces if several";
    const LIST: bool = true;

    fn from_arg(raw: &str, names: &Names) -> Result<Addresses6, String> {
        let text = lang::args::unquote(raw);
        let mut all = Vec::new();
        let kinds = [Kind::Ip6Net, Kind::Ip6];
        for word in text
            .split_whitespace()
            .flat_map(|word| names.expand_word(word, &kinds))
        {
            // A name may also stand for a prefix, which then gives the address with its length.
            let named = kinds.iter().find_map(|&kind| names.get(&word, kind));
            let value = named.unwrap_or(&word);
            match Prefix6::parse_host(value) {
                Ok(address) => all.push(address),
                Err(_) => return Err(format!("must be {}, not `{word}`", Self::KIND)),
            }
        }
        if all.is_empty() {
            return Err(format!("must be {}, and is empty", Self::KIND));
        }
        Ok(Addresses6(all))
    }

    fn stand_in() -> Addresses6 {
        Addresses6(vec![(Ipv6Addr::UNSPECIFIED, 128)])
    }

    fn unparse(&self) -> String {
        let word = |&(address, len): &(Ipv6Addr, u8)| match len {
            128 => address.to_string(),
            _ => format!("{address}/{len}"),
        };
        self.0.iter().map(word).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_addresses_with_their_prefixes() {
        let mut names = Names::default();
        names.insert_entry("if0 10.0.0.1/8 2001:db8::1/64");
        names.insert_entry("gw fe80::9");
        let all = Addresses6::from_arg("if0 gw fe80::1", &names).unwrap();
        assert_eq!(all.unparse(), "2001:db8::1/64 fe80::9 fe80::1");
        assert!(Addresses6::from_arg("if0 10.0.0.1", &names).is_err());
        assert!(Addresses6::from_arg("", &names).is_err());
    }
}
