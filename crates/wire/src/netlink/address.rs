//! Addresses of interfaces (`struct ifaddrmsg`). The kernel adds and removes routes with them; messages about those
//! routes are separate.

use crate::BadHeader;

use super::attr::ne32;

/// A notification that some address of an interface was added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Address family.
    pub family: u8,
    /// Number of the interface.
    pub interface: u32,
}

impl Address {
    /// Parses the body of a message.
    pub fn parse(body: &[u8]) -> Result<Address, BadHeader> {
        let head: &[u8; 8] = body.first_chunk().ok_or(BadHeader::TooShort)?;
        Ok(Address {
            family: head[0],
            interface: ne32(head, 4),
        })
    }
}
