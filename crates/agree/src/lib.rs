//! Rules by which the servers of a cluster agree on one description, without sockets, files or clock.
//!
//! - [`store`]: the small interface of a store of values with revisions. etcd implements it in `control`. A store in
//!   memory serves this crate's tests, which simulate many servers: there time and every answer are inputs.
//! - [`records`]: the values and their keys.
//! - [`view`]: copy of all values as of one revision.
//! - [`agent`]: decisions of one server. They depend on the present view alone, not on the changes that led to it.
//! - `lease`: the server's lease, which is renewed whatever else is asked.
//! - [`routes`]: the leader's routes by version, and each server's copy, which go by a stream of their own.
//!
//! A server acts only for an epoch that is not older than the highest epoch it has seen, and keeps that number on its
//! disk. So a leader that was paused, or cut off, changes nothing when it comes back.

pub mod agent;
mod lease;
#[cfg(test)]
mod memory;
pub mod records;
pub mod routes;
pub mod store;
pub mod view;

#[cfg(test)]
mod simulation;

pub use agent::{Act, Agent, Kept};
pub use store::{Answer, Change, Entry, Event, Lease, Request, Revision, Store, Unwatched, Write};
pub use view::View;

/// Time of an agent, in milliseconds from any beginning.
pub type Millis = u64;
