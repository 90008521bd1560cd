//! Shared parts of tests of whole routers, and the entry points of fuzzing.
//!
//! A [`Whole`] is a router on in-memory ports and virtual time. Its [`Books`] check for every element that incoming
//! packets left, were dropped under a name, or are held. Each module of [`targets`] takes bytes as a fuzzer makes them;
//! `fuzz/` runs it under libFuzzer, and `targets.rs` on stable, with its seeds and seeded random bytes.

mod apart;
mod books;
mod card;
mod cluster;
mod features;
mod feeder;
mod hops;
mod links;
pub mod random;
pub mod services;
pub mod shared;
pub mod targets;
mod whole;

pub use apart::run_apart;
pub use books::{Account, Books, Law, law};
pub use card::{Card, Cards};
pub use cluster::{Cluster, dropped_as, host_packet};
pub use features::{Feature, features};
pub use feeder::{Feeder, every_length};
pub use hops::{Arrived, HOPS, Hops, Known, TIGHT};
pub use links::{Links, Seen, dropped, on_both, strip};
pub use whole::{InMemory, Whole, conf, plan, plan_with, registry, router_text, run, start};
