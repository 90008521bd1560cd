//! Addresses of interfaces (`struct ifaddrmsg` and `IFA_*`).

use crate::BadHeader;
use core::net::IpAddr;

use super::attr::{Attributes, ne32};
use super::{AF_INET, AF_INET6};

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// `AF_INET` or `AF_INET6`.
    pub family: u8,
    /// Number of the interface.
    pub interface: u32,
    /// Length of the prefix that is on the link.
    pub prefix_len: u8,
    /// `IFA_F_*`.
    pub flags: u32,
    /// How far it is known (`RT_SCOPE_*`): 0 everywhere, 253 on the link.
    pub scope: u8,
    /// The host's own address; `None` only if the message is of another family.
    pub local: Option<IpAddr>,
    /// The other end's address of a link with two ends, otherwise the host's own.
    pub peer: Option<IpAddr>,
}

impl Address {
    /// Decodes what follows the header of a message.
    pub fn parse(body: &[u8]) -> Result<Address, BadHeader> {
        let (head, rest) = body.split_first_chunk::<8>().ok_or(BadHeader::TooShort)?;
        let mut address = Address {
            family: head[0],
            interface: ne32(head, 4),
            prefix_len: head[1],
            flags: head[2].into(),
            scope: head[3],
            local: None,
            peer: None,
        };
        if !matches!(address.family, AF_INET | AF_INET6) {
            return Ok(address);
        }
        for attribute in Attributes::new(rest) {
            let attribute = attribute?;
            match attribute.kind {
                IFA_ADDRESS => address.peer = Some(attribute.ip(address.family)?),
                IFA_LOCAL => address.local = Some(attribute.ip(address.family)?),
                IFA_FLAGS => address.flags = attribute.u32()?,
                _ => {}
            }
        }
        // IPv6 names its address once, unless the link has two ends.
        address.local = address.local.or(address.peer);
        Ok(address)
    }
}
