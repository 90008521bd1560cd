//! Memory layout of a bucket; all-zero memory is an empty bucket.
#![allow(unsafe_code)]

use bytemuck::Zeroable;
use std::sync::atomic::AtomicU64;

/// Number of entries of a bucket.
pub(super) const WAYS: usize = 8;

/// A bucket. Words of one kind are adjacent, so that a search for a key reads one cache line.
#[repr(align(64))]
pub(super) struct Bucket {
    pub(super) key: [[AtomicU64; WAYS]; 2],
    /// MAC address (48 bits), state (8), probes sent (8). 0: the slot is empty.
    pub(super) link: [AtomicU64; WAYS],
    pub(super) confirmed: [AtomicU64; WAYS],
    pub(super) probe_at: [AtomicU64; WAYS],
    pub(super) version: AtomicU64,
}

// SAFETY: the struct consists of atomic integers, for which all-zero bytes are valid, and of alignment padding.
unsafe impl Zeroable for Bucket {}
