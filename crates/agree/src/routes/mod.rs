//! Routes of a cluster: the leader's table, versioned, and each server's copy of it.
//!
//! - [`table`]: the leader's routes. Each batch of changes has a version, and a bounded log of changed prefixes.
//! - [`session`]: the messages that one server needs: the difference from what it has, or a snapshot.
//! - [`copy`]: a server's routes. It refuses older epochs, and passes on only what differs.
//! - [`account`]: the versions that servers have acknowledged, and who is behind.
//! - [`hold`]: routes of the former leader that stay for a while.
//! - [`message`]: messages as bytes, also those by which a daemon beside the leader exchanges frames with neighbours of
//!   all servers.
//!
//! Everything is driven by levels: a message says what a prefix leads to now, and may come again. The loss of the
//! leader changes no route. An epoch and a version name one table. So a new leader, which followed the former one,
//! tells servers that have the same version of the former epoch the difference alone. Its snapshot for others marks
//! the routes that it repeats, and the snapshot's end sweeps the others.

pub mod account;
pub mod copy;
pub mod hold;
pub mod message;
pub mod session;
pub mod table;

#[cfg(test)]
mod simulation;

use std::sync::Arc;
use wire::Prefix;

/// Maximum number of next hops of a route.
pub const HOPS_MAX: usize = 64;

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
