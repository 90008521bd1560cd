//! Many servers as one router: the path of a packet through a cluster (RouteBricks, sections 3 and 6).
//!
//! Everything here is pure: time is an argument in nanoseconds, chance comes from a seed, and packets to send are
//! returned. So elements on real servers and the simulator of `ashlar cluster simulate` run the same code.
//!
//! Terms are the paper's. A *node* is a server. It has *external ports* of rate R, and *internal links* to other nodes.
//! A packet enters at its *input node*, may visit an *intermediate node*, and leaves at its *output node*.

/// Addresses of internal frames: the output node travels in the MAC address.
pub mod address;
/// The key of a cluster, and keys derived from it.
pub mod auth;
/// Balancing over ordinary routers.
pub mod balance;
mod bucket;
/// Flowlet table: the last path of each flow.
pub mod flowlet;
/// Heartbeats: which links are up.
pub mod health;
/// Members of a cluster, their links, and the paths that live links leave.
pub mod map;
/// Number of servers for a router of N ports, and their topology.
pub mod plan;
/// Restoration of the order in which packets entered the cluster.
pub mod resequencer;
/// Agreement of both ends of a link on keys, before data frames pass.
pub mod session;
/// A cluster in virtual time.
pub mod simulate;
/// Direct Valiant load balancing: the input node's choice of a packet's path.
pub mod spread;
/// The tag after the addresses: for the resequencer, and against forged and replayed frames.
pub mod tag;
/// Forwarding of frames from internal links.
pub mod transit;
