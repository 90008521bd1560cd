//! Mirror of the kernel's links, neighbours and routes, by netlink.
//!
//! [`Netlink`] is a thread that keeps the image that workers forward by ([`forwarding::Kernel`]) equal to
//! what the kernel of a namespace says, and asks that kernel for the neighbours that workers need.

mod asks;
mod collector;
mod counts;
mod follow;
pub mod fpm;
mod links;
pub mod model;
#[cfg(test)]
#[path = "needs_root_tests.rs"]
mod needs_root;
mod neighbours;
mod own;
mod owner;
mod rules;
mod socket;
mod thread;
mod watched;
pub mod xfrm;

pub(crate) use collector::{Changed, Collector, To, Via};
pub use fpm::Listen;
pub(crate) use thread::Netlink;
