//! IP prefixes: a prefix has no bits set below its length, so equal prefixes compare equal.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use crate::addr::AddrError;

/// The netmask of an IPv4 prefix length; lengths above 32 count as 32.
#[inline]
pub const fn mask4(len: u8) -> u32 {
    match len {
        0 => 0,
        1..=31 => u32::MAX << (32 - len),
        _ => u32::MAX,
    }
}

/// The netmask of an IPv6 prefix length; lengths above 128 count as 128.
#[inline]
pub const fn mask6(len: u8) -> u128 {
    match len {
        0 => 0,
        1..=127 => u128::MAX << (128 - len),
        _ => u128::MAX,
    }
}

/// Code shared by both families, which differ in the type and width of the address.
macro_rules! prefix {
    ($(#[$doc:meta])* $name:ident, $addr:ident as $bits:ident, $mask:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name {
            addr: $bits,
            len: u8,
        }

        impl $name {
            /// Every address.
            pub const ALL: $name = $name { addr: 0, len: 0 };

            /// The prefix of `len` bits that holds `addr`; longer lengths count as the whole address.
            #[inline]
            pub const fn new(addr: $addr, len: u8) -> $name {
                let most = $bits::BITS as u8;
                let len = if len > most { most } else { len };
                $name {
                    addr: addr.to_bits() & $mask(len),
                    len,
                }
            }

            /// The lowest address.
            #[inline]
            pub const fn addr(self) -> $addr {
                $addr::from_bits(self.addr)
            }

            /// The length in bits.
            #[inline]
            #[expect(
                clippy::len_without_is_empty,
                reason = "a length in bits, not of a container"
            )]
            pub const fn len(self) -> u8 {
                self.len
            }

            /// True if the prefix contains `addr`.
            #[inline]
            pub const fn contains(self, addr: $addr) -> bool {
                addr.to_bits() & $mask(self.len) == self.addr
            }

            /// True if the prefix contains all addresses of `other`.
            #[inline]
            pub const fn covers(self, other: $name) -> bool {
                self.len <= other.len && self.contains(other.addr())
            }
        }

        impl FromStr for $name {
            type Err = AddrError;

            /// Like [`parse_host`](Self::parse_host), and clears the bits below the length.
            fn from_str(text: &str) -> Result<Self, AddrError> {
                $name::parse_host(text).map(|(addr, len)| $name::new(addr, len))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}/{}", self.addr(), self.len)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

prefix! {
    /// An IPv4 prefix.
    Prefix4, Ipv4Addr as u32, mask4
}

prefix! {
    /// An IPv6 prefix; its lowest address is also the subnet-router anycast address (RFC 4291, 2.6.1).
    Prefix6, Ipv6Addr as u128, mask6
}

impl Prefix4 {
    /// The netmask.
    #[inline]
    pub const fn mask(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(mask4(self.len))
    }

    /// The directed broadcast address; none for /31 and /32 (RFC 3021).
    #[inline]
    pub const fn broadcast(self) -> Option<Ipv4Addr> {
        match self.len {
            0..=30 => Some(Ipv4Addr::from_bits(self.addr | !mask4(self.len))),
            _ => None,
        }
    }

    /// The address and prefix length of `10.0.0.1/24`, host bits kept, as interfaces are configured.
    ///
    /// After the slash stands a length or a netmask; without one the length is 32.
    pub fn parse_host(text: &str) -> Result<(Ipv4Addr, u8), AddrError> {
        let (addr, len) = split_slash(text);
        let addr: Ipv4Addr = addr.parse().map_err(|_| AddrError::V4)?;
        let len = match len {
            None => 32,
            Some(mask) if mask.contains('.') => {
                let mask: Ipv4Addr = mask.parse().map_err(|_| AddrError::Len4)?;
                let ones = mask.to_bits().leading_ones() as u8;
                if mask4(ones) != mask.to_bits() {
                    return Err(AddrError::Mask);
                }
                ones
            }
            Some(len) => parse_len(len, 32).ok_or(AddrError::Len4)?,
        };
        Ok((addr, len))
    }
}

impl Prefix6 {
    /// The address and prefix length of `2001:db8::1/64`, host bits kept; without a slash the length is 128.
    pub fn parse_host(text: &str) -> Result<(Ipv6Addr, u8), AddrError> {
        let (addr, len) = split_slash(text);
        let addr = addr.parse().map_err(|_| AddrError::V6)?;
        let len = match len {
            None => 128,
            Some(len) => parse_len(len, 128).ok_or(AddrError::Len6)?,
        };
        Ok((addr, len))
    }
}

/// A prefix of either family. IPv4 prefixes come before those of IPv6, a prefix before those that it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    addr: IpAddr,
    len: u8,
}

impl Prefix {
    /// The prefix of `len` bits that holds `addr`; `None` if the address has fewer bits.
    pub const fn new(addr: IpAddr, len: u8) -> Option<Prefix> {
        let addr = match addr {
            IpAddr::V4(v4) if len <= 32 => IpAddr::V4(Prefix4::new(v4, len).addr()),
            IpAddr::V6(v6) if len <= 128 => IpAddr::V6(Prefix6::new(v6, len).addr()),
            _ => return None,
        };
        Some(Prefix { addr, len })
    }

    /// The lowest address.
    pub const fn addr(self) -> IpAddr {
        self.addr
    }

    /// The length in bits.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a length in bits, not of a container"
    )]
    pub const fn len(self) -> u8 {
        self.len
    }

    /// True if it is an IPv4 prefix.
    pub const fn is_ipv4(self) -> bool {
        self.addr.is_ipv4()
    }
}

impl FromStr for Prefix {
    type Err = AddrError;

    /// Like that of the family, by whether there is a colon.
    fn from_str(text: &str) -> Result<Self, AddrError> {
        Ok(match text.contains(':') {
            true => text.parse::<Prefix6>()?.into(),
            false => text.parse::<Prefix4>()?.into(),
        })
    }
}

impl From<Prefix4> for Prefix {
    fn from(prefix: Prefix4) -> Prefix {
        Prefix {
            addr: prefix.addr().into(),
            len: prefix.len(),
        }
    }
}

impl From<Prefix6> for Prefix {
    fn from(prefix: Prefix6) -> Prefix {
        Prefix {
            addr: prefix.addr().into(),
            len: prefix.len(),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

fn split_slash(text: &str) -> (&str, Option<&str>) {
    match text.split_once('/') {
        None => (text, None),
        Some((addr, len)) => (addr, Some(len)),
    }
}

fn parse_len(text: &str, max: u8) -> Option<u8> {
    let digits = text.bytes().all(|c| c.is_ascii_digit());
    text.parse().ok().filter(|&n| digits && n <= max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;
    use std::string::ToString;

    fn v4(text: &str) -> Ipv4Addr {
        text.parse().unwrap()
    }

    fn v6(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    #[test]
    fn prefixes_of_either_family_parse_print_and_have_an_order() {
        let all = ["10.1.2.3/8", "10.1.0.0/16", "2001:db8::1/32", "2001:db8::1"];
        let all = all.map(|text| text.parse::<Prefix>().unwrap());
        let shown = [
            "10.0.0.0/8",
            "10.1.0.0/16",
            "2001:db8::/32",
            "2001:db8::1/128",
        ];
        assert_eq!(all.map(|prefix| prefix.to_string()), shown);
        assert!(all.is_sorted() && all[1].is_ipv4() && !all[2].is_ipv4());
        for (address, len) in [("10.0.0.0", 33), ("::", 129)] {
            assert_eq!(Prefix::new(address.parse().unwrap(), len), None);
        }
        assert_eq!("10.0.0.0/33".parse::<Prefix>(), Err(AddrError::Len4));
        let prefix = Prefix::new(v6("::5").into(), 0);
        assert_eq!(
            prefix.map(|of| (of.addr(), of.len())),
            Some((v6("::").into(), 0))
        );
    }

    #[test]
    fn prefixes_parse_print_and_lose_their_host_bits() {
        for (text, shown) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.1.2.3/255.255.0.0", "10.1.0.0/16"),
            ("10.1.2.3", "10.1.2.3/32"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("1.2.3.4/0.0.0.0", "0.0.0.0/0"),
        ] {
            assert_eq!(text.parse::<Prefix4>().unwrap().to_string(), shown);
        }
        for (text, shown) in [
            ("2001:db8::1/32", "2001:db8::/32"),
            ("::/0", "::/0"),
            ("::1", "::1/128"),
        ] {
            assert_eq!(text.parse::<Prefix6>().unwrap().to_string(), shown);
        }
        assert_eq!(Prefix4::parse_host("10.1.2.3/8"), Ok((v4("10.1.2.3"), 8)));
        assert_eq!(Prefix6::parse_host("fe80::1/64"), Ok((v6("fe80::1"), 64)));
    }

    #[test]
    fn bad_prefixes_are_refused_with_their_reason() {
        for (text, error) in [
            ("10.0.0/8", AddrError::V4),
            ("10.0.0.256/8", AddrError::V4),
            ("", AddrError::V4),
            ("10.0.0.0/33", AddrError::Len4),
            ("10.0.0.0/", AddrError::Len4),
            ("10.0.0.0/+8", AddrError::Len4),
            ("10.0.0.0/8/8", AddrError::Len4),
            ("10.0.0.0/255.255", AddrError::Len4),
            ("10.0.0.0/255.0.255.0", AddrError::Mask),
        ] {
            assert_eq!(text.parse::<Prefix4>(), Err(error), "{text}");
        }
        for (text, error) in [
            ("2001::db8::/32", AddrError::V6),
            ("::/129", AddrError::Len6),
            ("::/-1", AddrError::Len6),
        ] {
            assert_eq!(text.parse::<Prefix6>(), Err(error), "{text}");
        }
    }

    #[test]
    fn contains_agrees_with_a_comparison_bit_by_bit() {
        let mut rng = Rng(7);
        for len in 0..=32u8 {
            for _ in 0..200 {
                let base = rng.next() as u32;
                let flip = rng.below(33) as u32;
                let other = if flip == 32 { base } else { base ^ (1 << flip) };
                let same = (0..len).all(|i| (base >> (31 - i)) & 1 == (other >> (31 - i)) & 1);
                let p = Prefix4::new(Ipv4Addr::from_bits(base), len);
                assert_eq!(p.contains(Ipv4Addr::from_bits(other)), same);
            }
        }
        for len in 0..=128u8 {
            let base = u128::from(rng.next()) << 64 | u128::from(rng.next());
            for flip in 0..128u32 {
                let same = u32::from(len) <= 127 - flip;
                let p = Prefix6::new(Ipv6Addr::from_bits(base), len);
                assert_eq!(p.contains(Ipv6Addr::from_bits(base ^ (1 << flip))), same);
            }
        }
    }

    #[test]
    fn covers_broadcast_and_mask_follow_the_length() {
        let p: Prefix4 = "10.0.0.0/24".parse().unwrap();
        assert!(
            p.covers("10.0.0.128/25".parse().unwrap()) && p.covers(p) && Prefix4::ALL.covers(p)
        );
        assert!(!p.covers("10.0.0.0/23".parse().unwrap()));
        assert_eq!(p.broadcast(), Some(v4("10.0.0.255")));
        assert_eq!(p.mask(), v4("255.255.255.0"));
        assert_eq!(Prefix4::new(v4("10.0.0.0"), 31).broadcast(), None);
        assert_eq!(Prefix4::new(v4("10.0.0.1"), 99).len(), 32);
        let q: Prefix6 = "2001:db8::/32".parse().unwrap();
        assert!(q.covers("2001:db8:1::/48".parse().unwrap()) && !q.covers(Prefix6::ALL));
    }
}
