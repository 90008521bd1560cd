//! Mirror of the kernel's links, neighbours and routes, by netlink.
//!
//! [`Netlink`] is a thread that mirrors the state of a namespace's kernel in the tables by which workers forward
//! ([`forwarding::Kernel`]), and requests neighbours that workers need from this kernel.

mod collector;
mod counts;
mod follow;
pub mod fpm;
mod links;
mod local_address;
pub mod model;
#[cfg(test)]
#[path = "needs_root_tests.rs"]
mod needs_root;
mod neighbour_requests;
mod neighbours;
mod rules;
mod socket;
mod socket_owner;
mod thread;
mod watched_thread;
pub mod xfrm;

pub(crate) use collector::{Changed, Collector, To, Via};
pub use fpm::Listen;
pub(crate) use thread::Netlink;
