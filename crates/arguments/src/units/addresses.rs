//! Addresses, prefixes and VLANs.

use super::{FromArg, must_be, unknown_name_or};
use crate::{Kind, Names};
use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::{EtherAddr, Prefix4, Prefix6, vlan};

macro_rules! addresses {
    ($($t:ty, $kind:literal, $name:expr, $stand_in:expr;)*) => {$(
        impl FromArg for $t {
            const KIND: &'static str = $kind;

            fn from_arg(raw: &str, names: &Names) -> Result<$t, String> {
                // A literal address is taken literally, even if AddressInfo defines it as a name.
                let own = raw.parse().ok();
                let found = own.or_else(|| names.get(raw, $name)?.parse().ok());
                found.map_or_else(|| unknown_name_or(Self::KIND, raw, &[$name], names), Ok)
            }

            fn stand_in() -> $t {
                $stand_in
            }

            fn unparse(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

addresses! {
    Ipv4Addr, "an IPv4 address such as 192.0.2.1", Kind::Ip, Ipv4Addr::UNSPECIFIED;
    Ipv6Addr, "an IPv6 address such as 2001:db8::1", Kind::Ip6, Ipv6Addr::UNSPECIFIED;
    EtherAddr, "an Ethernet address such as 02:00:00:00:00:01", Kind::Ether, EtherAddr::ZERO;
}

impl FromArg for vlan::Tag {
    const KIND: &'static str = "a VLAN: a number from 1 to 4094, behind an s for 802.1ad";

    fn from_arg(raw: &str, _: &Names) -> Result<vlan::Tag, String> {
        raw.parse().or_else(|_| must_be(Self::KIND, raw))
    }

    fn stand_in() -> vlan::Tag {
        vlan::Tag::from(1)
    }

    fn unparse(&self) -> String {
        self.to_string()
    }
}

macro_rules! prefixes {
    ($($t:ty, $kind:literal, $name:expr, $host:expr, $alone:literal, $complete:expr;)*) => {$(
        impl FromArg for $t {
            const KIND: &'static str = $kind;

            /// Bits beyond the prefix length may be set, as in Click: they are ignored. A name means its prefix, or
            /// else its address; `name/8` means the prefix of this length around its address.
            fn from_arg(raw: &str, names: &Names) -> Result<$t, String> {
                let parse = |text: &str| <$t>::parse_host(&$complete(text)).ok();
                let host = |name| Some(format!("{}{}", names.get(name, $host)?, $alone));
                let found = parse(raw)
                    .or_else(|| parse(names.get(raw, $name)?))
                    .or_else(|| parse(&host(raw)?))
                    .or_else(|| {
                        let (name, len) = raw.split_once('/')?;
                        parse(&format!("{}/{len}", names.get(name, $host)?))
                    });
                match found {
                    Some((address, len)) => Ok(<$t>::new(address, len)),
                    None => unknown_name_or(Self::KIND, raw, &[$name, $host], names),
                }
            }

            fn stand_in() -> $t {
                <$t>::ALL
            }

            fn unparse(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

prefixes! {
    Prefix4, "an IPv4 prefix such as 192.0.2.0/24", Kind::IpNet, Kind::Ip, "/32", complete;
    Prefix6, "an IPv6 prefix such as 2001:db8::/32", Kind::Ip6Net, Kind::Ip6, "/128", Cow::Borrowed;
}

/// Completes an abbreviated address as Click does: `10.1/16` is `10.1.0.0/16`, and `0/0` is every address.
pub(crate) fn complete(text: &str) -> Cow<'_, str> {
    match text.split_once('/') {
        Some((address, length)) if !address.is_empty() => {
            let missing = 3usize.saturating_sub(address.matches('.').count());
            match missing {
                0 => Cow::Borrowed(text),
                _ => Cow::Owned(format!("{address}{}/{length}", ".0".repeat(missing))),
            }
        }
        _ => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse<T: FromArg>(raw: &str) -> Result<T, String> {
        T::from_arg(raw, &Names::default())
    }

    #[test]
    fn names_stand_for_addresses() {
        let mut names = Names::default();
        names.insert("eth0", Kind::Ether, "02:00:00:00:00:07");
        names.insert("gw", Kind::Ip, "192.0.2.9");
        let ether = EtherAddr::from_arg("eth0:eth", &names).unwrap();
        assert_eq!(ether.to_string().to_lowercase(), "02:00:00:00:00:07");
        assert_eq!(
            Ipv4Addr::from_arg("gw", &names),
            Ok(Ipv4Addr::new(192, 0, 2, 9))
        );
        assert!(Ipv4Addr::from_arg("gw2", &names).is_err());
    }

    #[test]
    fn error_names_the_unknown_device_or_entry() {
        let unknown = |name| format!("and no device or AddressInfo entry `{name}` has one");
        let wrong = parse::<EtherAddr>("eth9:eth").unwrap_err();
        assert!(wrong.ends_with(&unknown("eth9")), "{wrong}");
        for text in ["gw:net", "gw:ip", "gw:ip/24"] {
            let wrong = parse::<Prefix4>(text).unwrap_err();
            assert!(wrong.ends_with(&unknown("gw")), "{wrong}");
        }
        let wrong = parse::<EtherAddr>("eth9").unwrap_err();
        assert!(wrong.ends_with(", not `eth9`"), "{wrong}");
        // Here the length is wrong, not the name.
        let mut names = Names::default();
        names.insert("gw", Kind::Ip, "192.0.2.9");
        let wrong = Prefix4::from_arg("gw:ip/99", &names).unwrap_err();
        assert!(wrong.ends_with(", not `gw:ip/99`"), "{wrong}");
    }

    #[test]
    fn prefixes_may_leave_zeros_out() {
        for (text, shown) in [
            ("0/0", "0.0.0.0/0"),
            ("18.26/16", "18.26.0.0/16"),
            ("18.26.4/255.255.255.0", "18.26.4.0/24"),
            ("18.26.4.9/24", "18.26.4.0/24"),
            ("18.26.4.9", "18.26.4.9/32"),
        ] {
            assert_eq!(parse::<Prefix4>(text).unwrap().unparse(), shown);
        }
        for wrong in ["18.26", "/8", "18../8", "1.2.3.4.5/8", "::/0"] {
            assert!(parse::<Prefix4>(wrong).is_err(), "{wrong}");
        }
        assert!(parse::<Prefix6>("::/0").is_ok());
    }
}
