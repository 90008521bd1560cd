//! Random routers of the classes that Click's users know, and packets for them.
//!
//! A graph is a tree of elements, grown from one source. Every end is a separate sink, so that a packet's sink shows
//! its path. Where paths meet again, or where numbers depend on the order of packets, the sink records what may still
//! be compared.

mod graph;
mod packets;

pub use graph::{Compare, RandomGraph, Sink};
pub use packets::{FLOWS, flow_and_number, frames};
