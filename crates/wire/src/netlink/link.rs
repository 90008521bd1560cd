//! Network interfaces (`struct ifinfomsg` and `IFLA_*`).

use crate::{BadHeader, EtherAddr};

use super::attr::{Attributes, ne32};

/// Flag: the interface is administratively up.
pub const IFF_UP: u32 = 1;
/// Flag: the interface has a carrier.
pub const IFF_LOWER_UP: u32 = 0x1_0000;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_LINK_NETNSID: u16 = 37;

/// An interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link<'a> {
    /// `AF_UNSPEC`. A message of `AF_BRIDGE` is about a bridge's port: "gone" then means that it has left the
    /// bridge.
    pub family: u8,
    /// Number of the interface.
    pub index: u32,
    /// `IFF_*`.
    pub flags: u32,
    /// Name of the interface, at most 15 bytes.
    pub name: &'a [u8],
    /// Ethernet address of the interface; `None` if the address is of another kind.
    pub ether: Option<EtherAddr>,
    /// Greatest length of a packet without its Ethernet header; 0 if the message does not say.
    pub mtu: u32,
    /// The lower interface in the same namespace, of a VLAN or macvlan.
    pub lower_link: Option<u32>,
}

impl<'a> Link<'a> {
    /// Parses the body of a message.
    pub fn parse(body: &'a [u8]) -> Result<Link<'a>, BadHeader> {
        let (head, rest) = body.split_first_chunk::<16>().ok_or(BadHeader::TooShort)?;
        let mut link = Link {
            family: head[0],
            index: ne32(head, 4),
            flags: ne32(head, 8),
            name: &[],
            ether: None,
            mtu: 0,
            lower_link: None,
        };
        let mut elsewhere = false;
        for attribute in Attributes::new(rest) {
            let attribute = attribute?;
            match attribute.kind {
                IFLA_ADDRESS => link.ether = attribute.ether(),
                IFLA_IFNAME => link.name = attribute.text(),
                IFLA_MTU => link.mtu = attribute.u32()?,
                IFLA_LINK => link.lower_link = Some(attribute.u32()?),
                IFLA_LINK_NETNSID => elsewhere = true,
                _ => {}
            }
        }
        // Each end of a veth pair reports the other end as its link, which is no lower interface.
        link.lower_link = link
            .lower_link
            .filter(|&upon| !elsewhere && upon != link.index && upon != 0);
        Ok(link)
    }

    /// True if the interface is administratively up.
    #[inline]
    pub const fn is_up(&self) -> bool {
        self.flags & IFF_UP != 0
    }

    /// True if the interface has a carrier.
    #[inline]
    pub const fn has_carrier(&self) -> bool {
        self.flags & IFF_LOWER_UP != 0
    }
}
