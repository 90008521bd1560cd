//! The core of the router: elements, and the graphs that move packets through them.
//!
//! The crate `planner` makes a [`plan::Plan`] from a configuration, and each worker builds its own copy of the graph
//! from it ([`graph::Graph`]). The crate `router` has the workers, and the messages by which control reaches them
//! between batches. On the packet path there are no locks, no logs and no allocation per packet, and the clock is
//! read once per turn.
//!
//! Packets, and the structures that workers share, are in crates of their own, `packet` and `sync`; both are
//! re-exported here.

mod class;
pub mod clock;
mod contract;
pub mod driver;
pub mod dynamic;
pub mod element;
pub mod external;
mod facts;
pub mod fused;
pub mod graph;
mod handler_info;
pub mod notify;
pub mod outputs;
pub mod placement;
pub mod plan;
pub mod port;
mod ports;
pub mod random;
pub mod resources;
mod run_result;
pub mod search;
pub mod shared;
pub mod stats;
pub mod storage;
pub mod tap;
pub mod waiter;

pub use element::{extension, handler};
pub use graph::Cx;
pub use packet;
pub use sync::{publish, ring, wake};

/// Imports for an element's file: `use engine::prelude::*`.
pub mod prelude {
    pub use crate::clock::Time;
    pub use crate::counter;
    pub use crate::drops;
    pub use crate::element::extension::config_of;
    pub use crate::element::handler::{Handler, Job, Use};
    pub use crate::element::{
        Class, Contract, Copies, Did, Element, Facts, Init, Ports, Runs, Verdict,
    };
    pub use crate::fused::{self, Fuse};
    pub use crate::graph::Cx;
    pub use crate::graph::call::{HandlerCall, JobCx};
    pub use crate::manual;
    pub use crate::packet::{Batch, Packet};
    pub use crate::placement::{Device, Placement};
    pub use crate::resources::{self, Resources};
    pub use arguments::Args;
    pub use arguments::units::{assign, parse, parse_in};
    pub use std::sync::Arc;
}
