//! Prefixes of addresses of `N` bytes in network order: 4 for IPv4, 16 for IPv6.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address prefix. Bits beyond its length are zero. Ordered by address, then by length, so that a
/// prefix comes before all that it contains.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix<const N: usize> {
    address: [u8; N],
    length: u8,
}

/// What was said is not a prefix of that family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadPrefix;

impl fmt::Display for BadPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an address prefix of this family (ADDRESS/LENGTH)")
    }
}

impl std::error::Error for BadPrefix {}

impl<const N: usize> Prefix<N> {
    /// Bits of an address.
    pub const BITS: u8 = 8 * N as u8;
    /// The prefix that contains every address: the default route's.
    pub const ALL: Self = Prefix {
        address: [0; N],
        length: 0,
    };

    /// The prefix of `length` bits of `address`, whose other bits are ignored.
    pub fn new(address: [u8; N], length: u8) -> Result<Self, BadPrefix> {
        if length > Self::BITS {
            Err(BadPrefix)
        } else {
            Ok(Self::masked(address, length))
        }
    }

    fn masked(mut address: [u8; N], length: u8) -> Self {
        for (i, byte) in address.iter_mut().enumerate() {
            let kept = usize::from(length).saturating_sub(8 * i).min(8) as u32;
            *byte &= 0xffu8.checked_shl(8 - kept).unwrap_or(0);
        }
        Prefix { address, length }
    }

    /// The first address in it.
    pub fn address(&self) -> [u8; N] {
        self.address
    }

    /// Its bits.
    pub fn length(&self) -> u8 {
        self.length
    }

    /// Whether `address` is in it.
    pub fn contains(&self, address: [u8; N]) -> bool {
        Self::masked(address, self.length) == *self
    }

    /// Whether it contains all of `other`.
    pub fn covers(&self, other: &Self) -> bool {
        self.length <= other.length && self.contains(other.address)
    }

    /// The longest prefix that covers both.
    pub fn common(&self, other: &Self) -> Self {
        let bytes = self
            .address
            .iter()
            .zip(other.address)
            .position(|(a, b)| *a != b);
        let bits = bytes.map_or(Self::BITS, |i| {
            8 * i as u8 + (self.address[i] ^ other.address[i]).leading_zeros() as u8
        });
        Self::masked(self.address, bits.min(self.length).min(other.length))
    }
}

fn split(text: &str) -> Result<(IpAddr, Option<u8>), BadPrefix> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length.parse().map_err(|_| BadPrefix)?)),
        None => (text, None),
    };
    Ok((address.parse().map_err(|_| BadPrefix)?, length))
}

impl FromStr for Prefix<4> {
    type Err = BadPrefix;
    fn from_str(text: &str) -> Result<Self, BadPrefix> {
        match split(text)? {
            (IpAddr::V4(address), length) => Prefix::new(address.octets(), length.unwrap_or(32)),
            _ => Err(BadPrefix),
        }
    }
}

impl FromStr for Prefix<16> {
    type Err = BadPrefix;
    fn from_str(text: &str) -> Result<Self, BadPrefix> {
        match split(text)? {
            (IpAddr::V6(address), length) => Prefix::new(address.octets(), length.unwrap_or(128)),
            _ => Err(BadPrefix),
        }
    }
}

impl<const N: usize> fmt::Display for Prefix<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Ok(octets) = <[u8; 4]>::try_from(&self.address[..]) {
            write!(f, "{}/{}", Ipv4Addr::from(octets), self.length)
        } else if let Ok(octets) = <[u8; 16]>::try_from(&self.address[..]) {
            write!(f, "{}/{}", Ipv6Addr::from(octets), self.length)
        } else {
            write!(f, "{:02x?}/{}", self.address, self.length)
        }
    }
}

impl<const N: usize> fmt::Debug for Prefix<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_prefix_agree_and_nonsense_is_refused() {
        for text in ["0.0.0.0/0", "10.128.0.0/9", "192.0.2.255/32"] {
            assert_eq!(text.parse::<Prefix<4>>().unwrap().to_string(), text);
        }
        assert_eq!(
            "10.1.2.3/20".parse::<Prefix<4>>().unwrap().to_string(),
            "10.1.0.0/20"
        );
        assert_eq!(
            "2001:db8::1".parse::<Prefix<16>>().unwrap().to_string(),
            "2001:db8::1/128"
        );
        for text in [
            "",
            "/8",
            "10.0.0.0/33",
            "10.0.0/8",
            "::/0",
            "10.0.0.0/-1",
            "1.2.3.4/8/8",
        ] {
            assert_eq!(text.parse::<Prefix<4>>(), Err(BadPrefix), "{text}");
        }
        assert_eq!("::/129".parse::<Prefix<16>>(), Err(BadPrefix));
    }

    #[test]
    fn the_common_prefix_is_the_longest_that_covers_both() {
        let p = |t: &str| t.parse::<Prefix<4>>().unwrap();
        assert_eq!(p("10.0.0.0/9").common(&p("10.128.0.0/9")), p("10.0.0.0/8"));
        assert_eq!(p("10.0.0.0/8").common(&p("10.128.0.0/9")), p("10.0.0.0/8"));
        assert_eq!(p("10.1.2.3/32").common(&p("10.1.2.3/32")), p("10.1.2.3/32"));
        assert_eq!(p("0.0.0.0/1").common(&p("128.0.0.0/1")), Prefix::ALL);
    }
}
