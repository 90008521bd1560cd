//! Packets and batches of them.
//!
//! A [`Packet`] owns one buffer in DPDK's mbuf layout, so that DPDK ports pass buffers on without copy or conversion;
//! `ports` compares the offsets with DPDK's own header. A packet is one segment, has one owner and stays on its core:
//! it is neither `Clone` nor `Send`. Copies are explicit: [`Packet::copy`]. Dropping a packet returns its buffer to
//! the pool.
//!
//! `packet/sys.rs` has the packet, `sys.rs` the layout of its buffer, and `split/sys.rs` and `partition/sys.rs` the
//! division of batches. These use `unsafe`; everything else works on slices.
//!
//! A packet cannot be shared or sent to another core (only a ring may carry it):
//!
//! ```compile_fail,E0277
//! let packet = packet::Packet::from_bytes(b"x").unwrap();
//! std::thread::spawn(move || drop(packet));
//! ```
//!
//! ```compile_fail,E0599
//! let packet = packet::Packet::from_bytes(b"x").unwrap();
//! let second = packet.clone();
//! ```

pub use batch::Batch;
pub use packet::Packet;
pub use partition::{Partition, Sides};
pub use sys::{Buffer, MBUF_OFFSETS, Mbuf, PRIV_SIZE};
pub(crate) use sys::{HEADER, Line};
pub use verdict::Verdict;

pub mod anno;
mod batch;
mod fields;
#[path = "packet/sys.rs"]
mod packet;
#[path = "partition/sys.rs"]
mod partition;
pub mod pool;
#[path = "split/sys.rs"]
mod split;
pub mod super_frame;
mod sys;
mod verdict;

/// Maximum number of buckets that a packet may be sorted into.
pub const BUCKETS_MAX: usize = 4096;

/// Number of bytes kept free before a received frame, for headers that elements prepend.
pub const HEADROOM: usize = 128;

#[cfg(test)]
mod tests;
