//! Compact form of a group that fits into one word.

use super::{Choice, Member};
use std::net::{IpAddr, Ipv4Addr};

/// Next hop of a group in one word, if it is simple: an output port, an IPv4 gateway or none, and no labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(8))]
pub struct CompactHop {
    /// The output, or that of [`ASK`](Self::ASK): then use [`View::next_hop_with`](super::View::next_hop_with).
    pub port: u16,
    /// The gateway's address in network byte order; 0 for none.
    gateway: u32,
}

impl CompactHop {
    /// Value for a group without compact form; its port is higher than any output.
    pub const ASK: CompactHop = CompactHop {
        port: u16::MAX,
        gateway: 0,
    };

    /// The gateway.
    #[inline(always)]
    pub fn gateway(self) -> Option<Ipv4Addr> {
        (self.gateway != 0).then(|| Ipv4Addr::from(self.gateway.to_ne_bytes()))
    }

    pub(super) fn of(choice: &Choice) -> CompactHop {
        let Choice::One(member) = choice else {
            return CompactHop::ASK;
        };
        let Member { gateway, port, .. } = *member;
        if !member.labels.is_empty() {
            return CompactHop::ASK;
        }
        let gateway = match gateway {
            None => 0,
            Some(IpAddr::V4(gateway)) if !gateway.is_unspecified() => {
                u32::from_ne_bytes(gateway.octets())
            }
            Some(_) => return CompactHop::ASK,
        };
        CompactHop { port, gateway }
    }
}
