//! Random routers of the classes that Click's users know, and packets for them.
//!
//! A graph is a tree of elements, grown from one source: every end is a sink of its own, so that what
//! reaches it tells which way a packet went. Where ways meet again, or where numbers are given out in
//! the order in which packets come, the sink says what may still be compared.

mod graph;
mod packets;

pub use graph::{Compare, RandomGraph, Sink};
pub use packets::{FLOWS, flow_and_number, frames};
