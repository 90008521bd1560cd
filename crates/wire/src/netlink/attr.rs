//! Attributes: length, type and value, each padded to a multiple of four bytes (`struct nlattr`).

use crate::{BadHeader, EtherAddr};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{AF_INET, AF_INET6, aligned};

/// Mask of an attribute's type, without its flags (nested, network byte order).
const TYPE: u16 = 0x3fff;

/// The 16-bit number in host byte order at `at`, in a header whose length has been checked.
#[inline(always)]
pub(super) const fn ne16<const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

/// The 32-bit number in host byte order at `at`, in a header whose length has been checked.
#[inline(always)]
pub(super) const fn ne32<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// A sequence of attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    /// Attributes in `bytes`.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Attributes<'a> {
        Attributes(bytes)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<Attribute<'a>, BadHeader>;

    /// The next attribute; none after a fault.
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        // Fewer bytes than an attribute's header are padding of the message.
        let (header, _) = self.0.split_first_chunk::<4>()?;
        let len = usize::from(ne16(header, 0));
        let Some(value) = self.0.get(4..len) else {
            self.0 = &[];
            return Some(Err(BadHeader::BadOption));
        };
        let kind = ne16(header, 2) & TYPE;
        self.0 = self.0.get(aligned(len)..).unwrap_or(&[]);
        Some(Ok(Attribute { kind, value }))
    }
}

/// An attribute. A getter refuses a value whose length does not fit the requested type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Type of the attribute; its meaning depends on the message.
    pub kind: u16,
    /// The value.
    pub value: &'a [u8],
}

impl<'a> Attribute<'a> {
    /// A number of 8 bits.
    #[inline]
    pub fn u8(&self) -> Result<u8, BadHeader> {
        self.array().map(|[byte]| byte)
    }

    /// A number of 16 bits.
    #[inline]
    pub fn u16(&self) -> Result<u16, BadHeader> {
        self.array().map(u16::from_ne_bytes)
    }

    /// A number of 32 bits.
    #[inline]
    pub fn u32(&self) -> Result<u32, BadHeader> {
        self.array().map(u32::from_ne_bytes)
    }

    /// An address of `family`.
    #[inline]
    pub fn ip(&self, family: u8) -> Result<IpAddr, BadHeader> {
        ip(family, self.value).ok_or(BadHeader::BadOption)
    }

    /// An address of its own family (`struct rtvia`).
    #[inline]
    pub fn via(&self) -> Result<IpAddr, BadHeader> {
        let (family, address) = self
            .value
            .split_first_chunk::<2>()
            .ok_or(BadHeader::BadOption)?;
        let family = u8::try_from(u16::from_ne_bytes(*family)).unwrap_or(0);
        ip(family, address).ok_or(BadHeader::BadOption)
    }

    /// An Ethernet address; a fault for other kinds of hardware address.
    #[inline]
    pub fn ether(&self) -> Option<EtherAddr> {
        self.array().ok().map(EtherAddr)
    }

    /// A text, without its terminating zero.
    #[inline]
    pub fn text(&self) -> &'a [u8] {
        let end = self.value.iter().position(|b| *b == 0);
        self.value
            .get(..end.unwrap_or(usize::MAX))
            .unwrap_or(self.value)
    }

    #[inline]
    fn array<const N: usize>(&self) -> Result<[u8; N], BadHeader> {
        self.value.try_into().map_err(|_| BadHeader::BadOption)
    }
}

/// An address of `family`, if `bytes` have its length.
#[inline]
fn ip(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    match family {
        AF_INET => <[u8; 4]>::try_from(bytes)
            .ok()
            .map(|b| IpAddr::V4(Ipv4Addr::from_octets(b))),
        AF_INET6 => <[u8; 16]>::try_from(bytes)
            .ok()
            .map(|b| IpAddr::V6(Ipv6Addr::from_octets(b))),
        _ => None,
    }
}
