//! Settings of interfaces (`struct netconfmsg` and `NETCONFA_*` of `linux/netconf.h`).

use crate::BadHeader;

use super::attr::Attributes;

/// Value of [`Netconf::interface`] for the settings of all interfaces.
pub const NETCONF_ALL: u32 = u32::MAX;

const NETCONFA_IFINDEX: u16 = 1;
const NETCONFA_FORWARDING: u16 = 2;
const NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN: u16 = 6;
const NETCONFA_INPUT: u16 = 7;

/// The settings of an interface for an address family, as far as they concern forwarding here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Netconf {
    /// Address family.
    pub family: u8,
    /// The interface's number, or [`NETCONF_ALL`].
    pub interface: u32,
    /// True if the kernel forwards packets from the interface; `None` if the message does not say.
    pub forwards: Option<bool>,
    /// True if the kernel does not use routes through the interface while it has no carrier; `None` if the message does
    /// not say.
    pub ignores_linkdown: Option<bool>,
    /// For MPLS: true if the kernel accepts labelled packets from the interface; `None` if the message does not say.
    pub input: Option<bool>,
}

impl Netconf {
    /// Parses the body of a message.
    pub fn parse(body: &[u8]) -> Result<Netconf, BadHeader> {
        let (head, rest) = body.split_first_chunk::<4>().ok_or(BadHeader::TooShort)?;
        let mut netconf = Netconf {
            family: head[0],
            interface: 0,
            forwards: None,
            ignores_linkdown: None,
            input: None,
        };
        for attribute in Attributes::new(rest) {
            let attribute = attribute?;
            match attribute.kind {
                NETCONFA_IFINDEX => netconf.interface = attribute.u32()?,
                NETCONFA_FORWARDING => netconf.forwards = Some(attribute.u32()? != 0),
                NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN => {
                    netconf.ignores_linkdown = Some(attribute.u32()? != 0);
                }
                NETCONFA_INPUT => netconf.input = Some(attribute.u32()? != 0),
                _ => {}
            }
        }
        Ok(netconf)
    }
}
