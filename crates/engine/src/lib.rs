//! The kernel of the router: packets, elements, graphs, and the workers that run them.
//!
//! A configuration becomes a [`plan::Plan`] (checked, placed, printable), and each worker builds its
//! own copy of the graph from it ([`graph::Graph`]). Control reaches workers by messages, between
//! batches ([`router::Router`]). On the packet path there are no locks, no logs, no allocation per
//! packet and one reading of the clock per turn.
//!
//! `unsafe` is in [`packet`] (with `packet/sys.rs` and `packet/dealing/sys.rs`), [`ring`] and [`publish`].

pub mod anno;
mod batch;
pub mod call;
mod class;
pub mod clock;
mod cx;
pub mod driver;
pub mod dynamic;
pub mod element;
pub mod extension;
pub mod external;
mod facts;
pub mod fused;
pub mod graph;
pub mod handler;
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
pub mod resources;
pub mod ring;
pub mod root;
pub mod router;
pub mod shared;
pub mod standard;
pub mod stats;
mod stopwatch;
pub mod storage;
pub mod tap;
pub mod wake;
pub mod worker;

pub use cx::Cx;

/// What an element's file needs.
pub mod prelude {
    pub use crate::call::{HandlerCall, Outside};
    pub use crate::clock::Time;
    pub use crate::cx::Cx;
    pub use crate::element::{Copies, Did, Element, Facts, Init, Ports, Runs, Verdict};
    pub use crate::extension::Extensions;
    pub use crate::fused::{self, Fuse};
    pub use crate::handler::{Handler, Job, Use};
    pub use crate::packet::{Batch, Packet};
    pub use crate::placement::{Device, Placement};
    pub use crate::resources::{self, Resources};
    pub use arguments::Args;
    pub use std::sync::Arc;
}
