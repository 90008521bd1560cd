//! Shared parts of tests: routers in one line of text, packet builders, traffic, recorded inputs.

mod bench;
mod demand;
pub mod fast_path;
mod frames;
mod manuals;
mod packets;
mod rng;
pub mod shared;
pub mod traffic;

pub use bench::{Bench, Collected, TEST_CLASSES, collected, errors, plan, plan_fused};
pub use demand::{root, tcp_port, until};
pub use frames::{arp_reply, arp_request, nd_advert, nd_solicit};
pub use manuals::manual_errors;
pub use packets::{Build, below, ip4, ip6, labelled};
pub use rng::Rng;
