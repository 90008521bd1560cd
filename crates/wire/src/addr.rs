//! Ethernet addresses, and classification of IP addresses. IP addresses themselves are `core::net`'s.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// Reason why a text is not an address. Its `Display` says which format was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddrError {
    /// The text is not six hexadecimal bytes.
    Ether,
    /// The text is not a dotted quad.
    V4,
    /// The text is not an IPv6 address.
    V6,
    /// The prefix length is no number, or above 32.
    Len4,
    /// The prefix length is no number, or above 128.
    Len6,
    /// The netmask has ones after a zero.
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
    /// The broadcast address of Ethernet, for all stations.
    pub const BROADCAST: EtherAddr = EtherAddr([0xff; 6]);
    /// No address.
    pub const ZERO: EtherAddr = EtherAddr([0; 6]);

    /// True if the group bit is set; broadcast is a group too.
    #[inline]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// True if this is ff:ff:ff:ff:ff:ff.
    #[inline]
    pub const fn is_broadcast(self) -> bool {
        self.to_u64() == 0xffff_ffff_ffff
    }

    /// True if this may be the address of one station: neither group nor zero.
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

    /// The address in Click's format, `00-1B-21-0A-0B-0C`.
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

/// True for 240.0.0.0/4, which includes the limited broadcast address.
#[inline]
pub const fn is_class_e(a: Ipv4Addr) -> bool {
    a.to_bits() >> 28 == 0xf
}

/// 255.255.255.255.
#[inline]
pub const fn is_limited_broadcast(a: Ipv4Addr) -> bool {
    a.to_bits() == u32::MAX
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

/// True for ::ffff:0:0/96 (IPv4-mapped), which must not appear on a link.
#[inline]
pub const fn is_mapped6(a: Ipv6Addr) -> bool {
    a.to_bits() >> 32 == 0xffff
}

/// A source that a router does not forward: unspecified, loopback, multicast (RFC 4291, 2.5.2, 2.5.3, 2.7) or
/// IPv4-mapped. Link-local sources are left to the caller, who knows the interfaces (RFC 4007, 9).
#[inline]
pub const fn is_martian_source6(a: Ipv6Addr) -> bool {
    may_be_martian6(a) && (a.to_bits() <= 1 || is_multicast6(a) || is_mapped6(a))
}

/// A destination that a router does not forward: unspecified, loopback, IPv4-mapped, or multicast of a scope
/// that does not leave the interface.
#[inline]
pub const fn is_martian_destination6(a: Ipv6Addr) -> bool {
    may_be_martian6(a)
        && (a.to_bits() <= 1 || is_mapped6(a) || (is_multicast6(a) && multicast_scope6(a) < 2))
}

/// True for addresses in ::/8 or ff00::/8. All addresses that must not be forwarded are among them, so other addresses
/// need no further check.
#[inline]
pub const fn may_be_martian6(a: Ipv6Addr) -> bool {
    a.octets()[0].wrapping_add(1) <= 1
}

/// The solicited-node multicast address, ff02::1:ff00:0/104 and 24 bits of `a` (RFC 4291, 2.7.1).
#[inline]
pub const fn solicited_node(a: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits((0xff02 << 112) | (0x1_ff00_0000) | (a.to_bits() & 0xff_ffff))
}

/// ff02::1.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// ff02::2.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    fn v4(text: &str) -> Ipv4Addr {
        text.parse().unwrap()
    }

    fn v6(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    #[test]
    fn ether_addresses_parse_in_every_usual_form_and_print_in_one() {
        let a = EtherAddr([0, 0x1b, 0x21, 0x0a, 0x0b, 0x0c]);
        for text in ["00:1b:21:0a:0b:0c", "0:1b:21:a:b:c", "00-1B-21-0A-0B-0C"] {
            assert_eq!(text.parse(), Ok(a));
        }
        assert_eq!(a.to_string(), "00:1b:21:0a:0b:0c");
        assert_eq!(a.dashed().to_string(), "00-1B-21-0A-0B-0C");
        assert_eq!(EtherAddr::from_u64(a.to_u64()), a);
    }

    #[test]
    fn invalid_ethernet_addresses_are_refused() {
        for text in [
            "",
            ":",
            "1:2:3:4:5",
            "1:2:3:4:5:6:7",
            "1:2:3:4:5:g",
            "1:2:3:4:5:",
            "001:2:3:4:5:6",
            "1:2:3-4:5:6",
            "+1:2:3:4:5:6",
            "1:2:3:4:5:-6",
            "1 :2:3:4:5:6",
            "é:2:3:4:5:6",
        ] {
            assert_eq!(text.parse::<EtherAddr>(), Err(AddrError::Ether), "{text}");
        }
        assert!(AddrError::Ether.to_string().contains("00:1b"));
    }

    #[test]
    fn group_broadcast_and_unicast_are_told_apart() {
        assert!(EtherAddr::BROADCAST.is_broadcast() && EtherAddr::BROADCAST.is_group());
        assert!(!EtherAddr::ZERO.is_unicast() && !EtherAddr::ZERO.is_group());
        assert!(EtherAddr([2, 0, 0, 0, 0, 1]).is_unicast());
        assert!(EtherAddr([1, 0, 0x5e, 0, 0, 1]).is_group());
    }

    #[test]
    fn multicast_groups_map_to_their_ether_addresses() {
        // 239.255.0.1 and 239.127.0.1 share one: the 24th bit is not carried.
        for group in ["239.255.0.1", "239.127.0.1"] {
            assert_eq!(
                EtherAddr::multicast4(v4(group)).to_string(),
                "01:00:5e:7f:00:01"
            );
        }
        assert_eq!(
            EtherAddr::multicast6(solicited_node(v6("fe80::2aa:ff:fe28:9c5a"))).to_string(),
            "33:33:ff:28:9c:5a"
        );
    }

    #[test]
    fn martians_are_those_of_rfc_1812() {
        for (addr, source, destination) in [
            ("0.0.0.0", true, true),
            ("0.1.2.3", true, true),
            ("1.0.0.0", false, false),
            ("126.255.255.255", false, false),
            ("127.0.0.1", true, true),
            ("128.0.0.0", false, false),
            ("223.255.255.255", false, false),
            ("224.0.0.1", true, false),
            ("239.255.255.255", true, false),
            ("240.0.0.1", true, true),
            ("255.255.255.254", true, true),
            ("255.255.255.255", true, false),
            ("192.168.1.1", false, false),
            ("169.254.1.1", false, false),
        ] {
            assert_eq!(is_martian_source4(v4(addr)), source, "{addr}");
            assert_eq!(is_martian_destination4(v4(addr)), destination, "{addr}");
        }
        for (addr, source, destination) in [
            ("::", true, true),
            ("::1", true, true),
            ("::2", false, false),
            ("::ffff:10.0.0.1", true, true),
            ("2001:db8::1", false, false),
            ("fe80::1", false, false),
            ("ff01::1", true, true),
            ("ff02::1", true, false),
            ("ff0e::1", true, false),
        ] {
            assert_eq!(is_martian_source6(v6(addr)), source, "{addr}");
            assert_eq!(is_martian_destination6(v6(addr)), destination, "{addr}");
        }
    }

    #[test]
    fn classes_agree_with_the_standard_library_on_every_slash_16() {
        for high in 0..=0xffffu32 {
            for low in [0, 1, 0xffff] {
                let a = Ipv4Addr::from_bits(high << 16 | low);
                assert_eq!(is_loopback4(a), a.is_loopback());
                assert_eq!(is_multicast4(a), a.is_multicast());
                assert_eq!(is_limited_broadcast(a), a.is_broadcast());
                assert_eq!(is_class_e(a), a.octets()[0] >= 240);
            }
            let a = Ipv6Addr::from_bits(u128::from(high) << 112 | 1);
            assert_eq!(is_link_local6(a), a.is_unicast_link_local());
            assert_eq!(is_multicast6(a), a.is_multicast());
        }
    }

    #[test]
    fn solicited_node_addresses_follow_rfc_4291() {
        assert_eq!(
            solicited_node(v6("4037::1:800:200e:8c6c")),
            v6("ff02::1:ff0e:8c6c")
        );
    }
}
