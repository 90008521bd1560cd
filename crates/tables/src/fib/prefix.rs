//! Prefixes of addresses of `N` bytes in network order: 4 for IPv4, 16 for IPv6.

use std::cmp::Ordering;
use std::fmt;

/// An address prefix. Bits beyond its length are zero. Prefixes are ordered by address, then by length, so that a
/// prefix comes before all prefixes that it contains.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prefix<const N: usize> {
    address: [u8; N],
    length: u8,
}

impl<const N: usize> Prefix<N> {
    /// Number of bits of an address.
    pub const BITS: u8 = 8 * N as u8;
    /// The prefix that contains every address: the default route's.
    pub const ALL: Self = Prefix {
        address: [0; N],
        length: 0,
    };

    /// The prefix of the first `length` bits of `address`; other bits are ignored. Lengths above [`Prefix::BITS`]
    /// count as that.
    pub fn new(mut address: [u8; N], length: u8) -> Self {
        let length = length.min(Self::BITS);
        for (i, byte) in address.iter_mut().enumerate() {
            let kept = usize::from(length).saturating_sub(8 * i).min(8) as u32;
            *byte &= 0xffu8.checked_shl(8 - kept).unwrap_or(0);
        }
        Prefix { address, length }
    }

    /// Lowest address of the prefix.
    pub fn address(&self) -> [u8; N] {
        self.address
    }

    /// Length in bits.
    pub fn length(&self) -> u8 {
        self.length
    }

    /// True if the prefix contains `address`.
    pub fn contains(&self, address: [u8; N]) -> bool {
        let rest = u32::from(Self::BITS - self.length);
        if N == 4 {
            let differ = bits(&self.address, 0, 32) ^ bits(&address, 0, 32);
            return differ as u64 >> rest == 0;
        }
        let mut words = [[0; 16]; 2];
        words[0][16 - N..].copy_from_slice(&self.address);
        words[1][16 - N..].copy_from_slice(&address);
        let [own, other] = words.map(u128::from_be_bytes);
        (own ^ other).checked_shr(rest).unwrap_or(0) == 0
    }

    /// True if the prefix contains all addresses of `other`.
    pub fn covers(&self, other: &Self) -> bool {
        self.length <= other.length && self.contains(other.address)
    }

    /// Last prefix, in the order of prefixes, that this prefix covers: that of the last address alone.
    pub fn last_covered(&self) -> Self {
        let mut address = self.address;
        for (i, byte) in address.iter_mut().enumerate() {
            let kept = usize::from(self.length).saturating_sub(8 * i).min(8) as u32;
            *byte |= 0xffu8.checked_shr(kept).unwrap_or(0);
        }
        Prefix {
            address,
            length: Self::BITS,
        }
    }

    /// The longest prefix that covers both prefixes.
    pub fn common(&self, other: &Self) -> Self {
        let bytes = self
            .address
            .iter()
            .zip(other.address)
            .position(|(a, b)| *a != b);
        let bits = bytes.map_or(Self::BITS, |i| {
            8 * i as u8 + (self.address[i] ^ other.address[i]).leading_zeros() as u8
        });
        Self::new(self.address, bits.min(self.length).min(other.length))
    }
}

/// An address of `N` bytes, in any form that look-ups accept.
pub trait Address<const N: usize>: Copy {
    /// Bytes of the address in network order.
    fn octets(self) -> [u8; N];
}

impl<const N: usize> Address<N> for [u8; N] {
    #[inline]
    fn octets(self) -> [u8; N] {
        self
    }
}

/// An IPv4 address in host byte order.
impl Address<4> for u32 {
    #[inline]
    fn octets(self) -> [u8; 4] {
        self.to_be_bytes()
    }
}

/// `count` bits of `address` (1 to 64), starting at bit `at`; zeros follow after the last bit.
#[inline(always)]
pub(super) fn bits<const N: usize>(address: &[u8; N], at: u32, count: u32) -> usize {
    if N == 4 {
        let mut word = [0; 4];
        word.copy_from_slice(address);
        let word = u64::from(u32::from_be_bytes(word)) << 32;
        (word << at >> (64 - count)) as usize
    } else {
        let mut word = [0; 16];
        word[..N].copy_from_slice(address);
        (u128::from_be_bytes(word) << at >> (128 - count)) as usize
    }
}

impl<const N: usize> Ord for Prefix<N> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        // Comparing prefixes as numbers takes one or two comparisons.
        if N == 4 {
            let key = |p: &Self| bits(&p.address, 0, 32) << 8 | usize::from(p.length);
            key(self).cmp(&key(other))
        } else {
            let mut words = [[0; 16]; 2];
            words[0][..N].copy_from_slice(&self.address);
            words[1][..N].copy_from_slice(&other.address);
            let [own, others] = words.map(u128::from_be_bytes);
            (own, self.length).cmp(&(others, other.length))
        }
    }
}

impl<const N: usize> PartialOrd for Prefix<N> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<wire::Prefix4> for Prefix<4> {
    fn from(p: wire::Prefix4) -> Self {
        Prefix::new(p.addr().octets(), p.len())
    }
}

impl From<wire::Prefix6> for Prefix<16> {
    fn from(p: wire::Prefix6) -> Self {
        Prefix::new(p.addr().octets(), p.len())
    }
}

impl From<Prefix<4>> for wire::Prefix4 {
    fn from(p: Prefix<4>) -> Self {
        wire::Prefix4::new(p.address.into(), p.length)
    }
}

impl From<Prefix<16>> for wire::Prefix6 {
    fn from(p: Prefix<16>) -> Self {
        wire::Prefix6::new(p.address.into(), p.length)
    }
}

impl<const N: usize> fmt::Debug for Prefix<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}/{}", self.address, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_beyond_the_length_are_ignored_and_the_two_kinds_of_prefix_agree() {
        for length in 0..=33 {
            let prefix = Prefix::new([10, 0x5a, 0xa5, 0xff], length);
            let theirs = wire::Prefix4::new([10, 0x5a, 0xa5, 0xff].into(), length);
            assert_eq!((prefix, theirs), (theirs.into(), prefix.into()));
            for bit in 0..32 {
                let mut address = prefix.address();
                address[bit / 8] ^= 0x80 >> (bit % 8);
                let is_in = bit >= usize::from(length);
                assert_eq!(prefix.contains(address), is_in);
                let long = [prefix.address(), [0x5a; 4], [0; 4], [0; 4]].concat();
                let other = [address, [0x5a; 4], [0; 4], [0; 4]].concat();
                let long: [u8; 16] = long.try_into().unwrap();
                let prefix = Prefix::new(long, length.min(32));
                assert_eq!(prefix.contains(other.try_into().unwrap()), is_in);
            }
        }
        assert!(Prefix::<16>::ALL.contains([0xff; 16]));
        let prefix = Prefix::new([0xff; 16], 61);
        assert_eq!(prefix.address()[6..9], [0xff, 0xf8, 0]);
        assert_eq!(Prefix::<16>::from(wire::Prefix6::from(prefix)), prefix);
    }

    #[test]
    fn bits_of_an_address_are_followed_by_zeros() {
        let address = [0x12, 0x34, 0x56, 0x78];
        assert_eq!(bits(&address, 0, 18), 0x12345678 >> 14);
        assert_eq!(bits(&address, 24, 6), 0x78 >> 2);
        assert_eq!(bits(&address, 30, 6), 0);
        assert_eq!(bits(&[0xff; 4], 30, 6), 0b11_0000);
        let mut address = [0; 16];
        (address[7], address[8], address[15]) = (0x03, 0xc0, 0x01);
        assert_eq!(bits(&address, 60, 6), 0b00_1111);
        assert_eq!(bits(&address, 126, 6), 0b01_0000);
    }

    #[test]
    fn the_last_prefix_covered_is_the_last_address() {
        let p = |t: &str| Prefix::<4>::from(t.parse::<wire::Prefix4>().unwrap());
        assert_eq!(p("10.0.0.0/9").last_covered(), p("10.127.255.255/32"));
        assert_eq!(p("10.1.2.3/32").last_covered(), p("10.1.2.3/32"));
        assert_eq!(Prefix::<4>::ALL.last_covered(), p("255.255.255.255/32"));
    }

    #[test]
    fn the_common_prefix_is_the_longest_that_covers_both() {
        let p = |t: &str| Prefix::<4>::from(t.parse::<wire::Prefix4>().unwrap());
        assert_eq!(p("10.0.0.0/9").common(&p("10.128.0.0/9")), p("10.0.0.0/8"));
        assert_eq!(p("10.0.0.0/8").common(&p("10.128.0.0/9")), p("10.0.0.0/8"));
        assert_eq!(p("10.1.2.3/32").common(&p("10.1.2.3/32")), p("10.1.2.3/32"));
        assert_eq!(p("0.0.0.0/1").common(&p("128.0.0.0/1")), Prefix::ALL);
    }
}
