//! Many servers, one router: which way a packet takes through a cluster (RouteBricks, sections 3 and 6).
//!
//! Everything here is pure: time is an argument in nanoseconds, chance comes from a seed, and what is sent is
//! returned. So elements on real servers and the simulator of `ashlar cluster simulate` run the same code.
//!
//! Words are the paper's: a *node* is a server; it has *external ports* of rate R, and *internal links* to other
//! nodes. A packet enters at its *input node*, may visit an *intermediate node*, and leaves at its *output node*.

/// Addresses of internal frames: the output node travels in the MAC address.
pub mod address;
/// The key of a cluster, and those that come from it.
pub mod auth;
/// Balancing over ordinary routers.
pub mod balance;
mod bucket;
/// Which way the packets of a flow went last.
pub mod flowlet;
/// Heartbeats: which links are up.
pub mod health;
/// Who belongs to a cluster, what connects them, and the ways that living links leave.
pub mod map;
/// How many servers a router of N ports needs, and what connects them.
pub mod plan;
/// Brings packets back into the order in which they entered the cluster.
pub mod resequencer;
/// What both ends of a link agree on before frames with codes pass.
pub mod session;
/// A cluster in virtual time.
pub mod simulate;
/// Direct Valiant load balancing: which way an input node gives a packet.
pub mod spread;
/// The tag behind the addresses: for the resequencer, and against forged and replayed frames.
pub mod tag;
/// What a node does with frames of its internal links.
pub mod transit;
