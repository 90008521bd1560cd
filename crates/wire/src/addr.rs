//! Ethernet addresses, IP prefixes, and what kinds of address there are.
//!
//! IP addresses are `core::net`'s. A prefix has no bits set below its length, so equal prefixes compare equal.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// Why a text is not an address. Its `Display` says what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddrError {
    /// Not six hexadecimal bytes.
    Ether,
    /// Not a dotted quad.
    V4,
    /// Not an IPv6 address.
    V6,
    /// A prefix length that is no number or above 32.
    Len4,
    /// A prefix length that is no number or above 128.
    Len6,
    /// A netmask with ones after a zero.
    Mask,
}

impl fmt::Display for AddrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AddrError::Ether => {
                "expected an Ethernet address: six hexadecimal bytes, as in 00:1b:21:0a:0b:0c"
            }
            AddrError::V4 => "expected an IPv4 address: four numbers up to 255, as in 10.0.0.1",
            AddrError::V6 => "expected an IPv6 address, as in 2001:db8::1",
            AddrError::Len4 => "expected a prefix length from 0 to 32 or a netmask after the slash",
            AddrError::Len6 => "expected a prefix length from 0 to 128 after the slash",
            AddrError::Mask => "the netmask has ones after a zero; write it as a prefix length",
        })
    }
}

impl core::error::Error for AddrError {}

/// An Ethernet address, bytes in the order of transmission.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherAddr(pub [u8; 6]);

impl EtherAddr {
    /// All stations.
    pub const BROADCAST: EtherAddr = EtherAddr([0xff; 6]);
    /// No address.
    pub const ZERO: EtherAddr = EtherAddr([0; 6]);

    /// Whether the group bit is set; broadcast is a group too.
    #[inline]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether this is ff:ff:ff:ff:ff:ff.
    #[inline]
    pub const fn is_broadcast(self) -> bool {
        self.to_u64() == 0xffff_ffff_ffff
    }

    /// Whether this may be the address of one station: neither group nor zero.
    #[inline]
    pub const fn is_unicast(self) -> bool {
        !self.is_group() && self.to_u64() != 0
    }

    /// The 48 bits as a number.
    #[inline]
    pub const fn to_u64(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The low 48 bits of a number.
    #[inline]
    pub const fn from_u64(n: u64) -> EtherAddr {
        let [_, _, a, b, c, d, e, f] = n.to_be_bytes();
        EtherAddr([a, b, c, d, e, f])
    }

    /// The group address of an IPv4 multicast address (RFC 1112, 6.4).
    #[inline]
    pub const fn multicast4(group: Ipv4Addr) -> EtherAddr {
        let [_, b, c, d] = group.octets();
        EtherAddr([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }

    /// The group address of an IPv6 multicast address (RFC 2464, 7).
    #[inline]
    pub const fn multicast6(group: Ipv6Addr) -> EtherAddr {
        let o = group.octets();
        EtherAddr([0x33, 0x33, o[12], o[13], o[14], o[15]])
    }

    /// The address as Click prints it, `00-1B-21-0A-0B-0C`.
    pub const fn dashed(self) -> Dashed {
        Dashed(self)
    }
}

/// Prints an [`EtherAddr`] with dashes and capitals.
#[derive(Clone, Copy)]
pub struct Dashed(EtherAddr);

impl fmt::Display for Dashed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0.0;
        write!(f, "{a:02X}-{b:02X}-{c:02X}-{d:02X}-{e:02X}-{g:02X}")
    }
}

impl fmt::Display for EtherAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for EtherAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for EtherAddr {
    type Err = AddrError;

    /// Six bytes of one or two hexadecimal digits, all separated by `:` or all by `-`.
    fn from_str(text: &str) -> Result<Self, AddrError> {
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut out = [0; 6];
        let mut parts = text.split(separator);
        for byte in &mut out {
            let part = parts.next().ok_or(AddrError::Ether)?;
            let digits =
                (1..=2).contains(&part.len()) && part.bytes().all(|c| c.is_ascii_hexdigit());
            *byte = match u8::from_str_radix(part, 16) {
                Ok(n) if digits => n,
                _ => return Err(AddrError::Ether),
            };
        }
        match parts.next() {
            None => Ok(EtherAddr(out)),
            Some(_) => Err(AddrError::Ether),
        }
    }
}

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

/// An IPv4 prefix.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix4 {
    addr: u32,
    len: u8,
}

/// An IPv6 prefix.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix6 {
    addr: u128,
    len: u8,
}

impl Prefix4 {
    /// Every address.
    pub const ALL: Prefix4 = Prefix4 { addr: 0, len: 0 };

    /// The prefix of `len` bits that holds `addr`; lengths above 32 count as 32.
    #[inline]
    pub const fn new(addr: Ipv4Addr, len: u8) -> Prefix4 {
        let len = if len > 32 { 32 } else { len };
        Prefix4 {
            addr: addr.to_bits() & mask4(len),
            len,
        }
    }

    /// The lowest address.
    #[inline]
    pub const fn addr(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.addr)
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

    /// The netmask.
    #[inline]
    pub const fn mask(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(mask4(self.len))
    }

    /// Whether `addr` lies inside.
    #[inline]
    pub const fn contains(self, addr: Ipv4Addr) -> bool {
        addr.to_bits() & mask4(self.len) == self.addr
    }

    /// Whether all of `other` lies inside.
    #[inline]
    pub const fn covers(self, other: Prefix4) -> bool {
        self.len <= other.len && self.contains(other.addr())
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
    /// Every address.
    pub const ALL: Prefix6 = Prefix6 { addr: 0, len: 0 };

    /// The prefix of `len` bits that holds `addr`; lengths above 128 count as 128.
    #[inline]
    pub const fn new(addr: Ipv6Addr, len: u8) -> Prefix6 {
        let len = if len > 128 { 128 } else { len };
        Prefix6 {
            addr: addr.to_bits() & mask6(len),
            len,
        }
    }

    /// The lowest address; it is also the subnet-router anycast address (RFC 4291, 2.6.1).
    #[inline]
    pub const fn addr(self) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.addr)
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

    /// Whether `addr` lies inside.
    #[inline]
    pub const fn contains(self, addr: Ipv6Addr) -> bool {
        addr.to_bits() & mask6(self.len) == self.addr
    }

    /// Whether all of `other` lies inside.
    #[inline]
    pub const fn covers(self, other: Prefix6) -> bool {
        self.len <= other.len && self.contains(other.addr())
    }

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

impl FromStr for Prefix4 {
    type Err = AddrError;

    /// As [`Prefix4::parse_host`]; bits below the length are cleared.
    fn from_str(text: &str) -> Result<Self, AddrError> {
        Prefix4::parse_host(text).map(|(addr, len)| Prefix4::new(addr, len))
    }
}

impl FromStr for Prefix6 {
    type Err = AddrError;

    /// As [`Prefix6::parse_host`]; bits below the length are cleared.
    fn from_str(text: &str) -> Result<Self, AddrError> {
        Prefix6::parse_host(text).map(|(addr, len)| Prefix6::new(addr, len))
    }
}

impl fmt::Display for Prefix4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr(), self.len)
    }
}

impl fmt::Display for Prefix6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr(), self.len)
    }
}

impl fmt::Debug for Prefix4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Prefix6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// 127.0.0.0/8.
#[inline]
pub const fn is_loopback4(a: Ipv4Addr) -> bool {
    a.to_bits() >> 24 == 127
}

/// Network 0, "this network": 0.0.0.0/8.
#[inline]
pub const fn is_net_zero4(a: Ipv4Addr) -> bool {
    a.to_bits() >> 24 == 0
}

/// 224.0.0.0/4.
#[inline]
pub const fn is_multicast4(a: Ipv4Addr) -> bool {
    a.to_bits() >> 28 == 0xe
}

/// 240.0.0.0/4, which holds the limited broadcast address too.
#[inline]
pub const fn is_class_e(a: Ipv4Addr) -> bool {
    a.to_bits() >> 28 == 0xf
}

/// 255.255.255.255.
#[inline]
pub const fn is_limited_broadcast(a: Ipv4Addr) -> bool {
    a.to_bits() == u32::MAX
}

/// 169.254.0.0/16 (RFC 3927; not forwarded).
#[inline]
pub const fn is_link_local4(a: Ipv4Addr) -> bool {
    a.to_bits() >> 16 == 0xa9fe
}

/// A source that a router does not forward (RFC 1812, 5.3.7): network 0, loopback, multicast, class E, broadcast.
#[inline]
pub const fn is_martian_source4(a: Ipv4Addr) -> bool {
    is_net_zero4(a) || is_loopback4(a) || a.to_bits() >= 0xe000_0000
}

/// A destination that a router does not forward (RFC 1812, 5.3.7): network 0, loopback, class E.
///
/// Limited broadcast is not among them: it is delivered, never forwarded (5.3.5.1).
#[inline]
pub const fn is_martian_destination4(a: Ipv4Addr) -> bool {
    is_net_zero4(a) || is_loopback4(a) || (is_class_e(a) && !is_limited_broadcast(a))
}

/// fe80::/10.
#[inline]
pub const fn is_link_local6(a: Ipv6Addr) -> bool {
    a.to_bits() >> 118 == 0xfe80 >> 6
}

/// ff00::/8.
#[inline]
pub const fn is_multicast6(a: Ipv6Addr) -> bool {
    a.to_bits() >> 120 == 0xff
}

/// The scope of a multicast address, 0 to 15 (RFC 4291, 2.7): 1 interface, 2 link, 14 global.
#[inline]
pub const fn multicast_scope6(a: Ipv6Addr) -> u8 {
    (a.to_bits() >> 112) as u8 & 0xf
}

/// ::ffff:0:0/96, which never belongs on a wire.
#[inline]
pub const fn is_mapped6(a: Ipv6Addr) -> bool {
    a.to_bits() >> 32 == 0xffff
}

/// A source that a router does not forward: unspecified, loopback, multicast (RFC 4291, 2.5.2, 2.5.3, 2.7) or
/// IPv4-mapped. Link-local sources are left to the caller, who knows the interfaces (RFC 4007, 9).
#[inline]
pub const fn is_martian_source6(a: Ipv6Addr) -> bool {
    a.to_bits() <= 1 || is_multicast6(a) || is_mapped6(a)
}

/// A destination that a router does not forward: unspecified, loopback, IPv4-mapped, or multicast of a scope
/// that does not leave the interface.
#[inline]
pub const fn is_martian_destination6(a: Ipv6Addr) -> bool {
    a.to_bits() <= 1 || is_mapped6(a) || (is_multicast6(a) && multicast_scope6(a) < 2)
}

/// The solicited-node multicast address, ff02::1:ff00:0/104 and 24 bits of `a` (RFC 4291, 2.7.1).
#[inline]
pub const fn solicited_node(a: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits((0xff02 << 112) | (0x1_ff00_0000) | (a.to_bits() & 0xff_ffff))
}

/// The link-local address with the modified EUI-64 identifier of an Ethernet address (RFC 4291, appendix A).
#[inline]
pub const fn link_local_from(mac: EtherAddr) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.0;
    let id = u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
    Ipv6Addr::from_bits((0xfe80 << 112) | id as u128)
}

/// ff02::1.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// ff02::2.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

#[cfg(test)]
mod tests;
