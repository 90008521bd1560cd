//! The kernel of the router: packets, elements, graphs, and the workers that run them.
//!
//! A configuration becomes a [`plan::Plan`] (checked, placed, printable), and each worker builds its
//! own copy of the graph from it ([`graph::Graph`]). Control reaches workers by messages, between
//! batches ([`router::Router`]). On the packet path there are no locks, no logs, no allocation per
//! packet and one reading of the clock per turn.
//!
//! `unsafe` is in [`packet`] (with `packet/sys.rs` and `packet/dealing/sys.rs`), [`ring`] and [`publish`].

pub mod anno;
pub mod args;
mod batch;
pub mod call;
pub mod chain;
mod class;
pub mod clock;
pub mod commons;
mod cx;
pub mod element;
mod facts;
pub mod graph;
pub mod handler;
pub mod near;
pub mod notify;
pub mod packet;
mod patience;
pub mod peers;
pub mod placement;
pub mod plan;
pub mod pool;
pub mod port;
pub mod publish;
mod random;
pub mod ring;
pub mod root;
pub mod router;
pub mod shards;
pub mod shared;
pub mod standard;
pub mod stats;
pub mod steer;
mod stopwatch;
pub mod tap;
pub mod units;
pub mod wake;
pub mod worker;

pub use cx::Cx;

/// What an element's file needs: `use engine::prelude::*`.
pub mod prelude {
    pub use crate::args::Args;
    pub use crate::call::{HandlerCall, Outside};
    pub use crate::clock::Time;
    pub use crate::cx::Cx;
    pub use crate::element::{Class, Copies, Did, Element, Facts, Init, Ports, Runs, Verdict};
    pub use crate::handler::{Handler, Job, Use};
    pub use crate::manual;
    pub use crate::packet::{Batch, Packet};
    pub use crate::placement::{Device, Placement};
    pub use crate::units::{assign, parse, parse_in};
    pub use std::sync::Arc;
}
