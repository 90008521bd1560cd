//! Shared parts of tests: routers in one line of text, packet builders, traffic, recorded inputs, network namespaces.

mod bench;
pub mod fast_path;
mod frames;
mod manuals;
mod namespace;
mod packets;
pub mod recorded_inputs;
mod requirements;
mod rng;
pub mod traffic;

pub use bench::{Bench, Collected, TEST_CLASSES, collected, errors, plan, plan_fused};
pub use frames::{arp_reply, arp_request, nd_advert, nd_solicit};
pub use manuals::manual_errors;
pub use namespace::Namespace;
pub use packets::{Build, ip4, ip6, labelled, mpls_below};
pub use requirements::{root, tcp_port, wait_until};
pub use rng::Rng;
