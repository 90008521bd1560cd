//! Memory of a bucket; zeros, also if never written, are valid.
#![allow(unsafe_code)]

use bytemuck::Zeroable;
use std::sync::atomic::AtomicU64;

/// Number of entries of a bucket.
pub(super) const WAYS: usize = 8;

/// A bucket. Words of one kind are adjacent, so that looking for a key reads one cache line.
#[repr(align(64))]
pub(super) struct Bucket {
    pub(super) key: [[AtomicU64; WAYS]; 2],
    /// MAC address (48 bits), state (8), probes sent (8). 0: the slot is empty.
    pub(super) link: [AtomicU64; WAYS],
    pub(super) confirmed: [AtomicU64; WAYS],
    pub(super) probe_at: [AtomicU64; WAYS],
    pub(super) version: AtomicU64,
}

// SAFETY: all of it are atomic integers, of which zeros are a value; what lies between them for the alignment is none.
unsafe impl Zeroable for Bucket {}
