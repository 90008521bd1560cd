//! Routes of a cluster: the leader's table, versioned, and each server's copy of it.
//!
//! - [`table`]: the leader's routes. Each batch of changes has a version, and a bounded log of changed prefixes.
//! - [`session`]: the messages that one server needs: the difference from its version, or a snapshot.
//! - [`copy`]: a server's routes. It refuses older epochs, and passes on only what differs.
//! - [`account`]: the versions that servers have acknowledged, and who is behind.
//! - [`hold`]: routes of the former leader that stay for a while.
//! - [`message`]: messages as bytes.
//!
//! Everything is driven by levels: a message says what a prefix leads to now, and may come again. The loss of the
//! leader changes no route. A new leader's snapshot marks the routes that it repeats, and its end sweeps the others.

pub mod account;
pub mod copy;
pub mod hold;
pub mod message;
pub mod session;
pub mod table;

#[cfg(test)]
mod simulation;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Maximum number of next hops of a route.
pub const HOPS_MAX: usize = 64;

/// Network of a route; bits behind its length are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

impl Prefix {
    /// Network of an address; `None` if the length exceeds the address's bits.
    pub fn new(address: IpAddr, length: u8) -> Option<Prefix> {
        let address = match address {
            IpAddr::V4(v4) if length <= 32 => {
                let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
                Ipv4Addr::from_bits(v4.to_bits() & mask).into()
            }
            IpAddr::V6(v6) if length <= 128 => {
                let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
                Ipv6Addr::from_bits(v6.to_bits() & mask).into()
            }
            _ => return None,
        };
        Some(Prefix { address, length })
    }

    /// First address of the network.
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// Number of bits that belong to the network.
    pub fn length(self) -> u8 {
        self.length
    }

    /// True if it is an IPv4 network.
    pub fn is_ipv4(self) -> bool {
        self.address.is_ipv4()
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// A gateway of an external port, by its numbers in the description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop {
    /// Number of the server.
    pub server: u16,
    /// Number of its external port.
    pub port: u16,
    /// Number of the gateway at the port, from 1.
    pub gateway: u16,
    /// Share of the traffic, relative to the sum of all weights, from 1.
    pub weight: u16,
}

/// Next hops of a route, sorted; none if its packets are dropped.
pub type Hops = Arc<[Hop]>;

/// A state of the leader's table. A later one is greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct At {
    /// Epoch of the leader.
    pub epoch: u64,
    /// Version within the epoch.
    pub version: u64,
}

/// New next hops of a prefix; `None` if the route is gone.
pub type Change = (Prefix, Option<Hops>);
