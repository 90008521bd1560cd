//! DPDK's mbuf: its layout in memory.
//!
//! `ports` and the pools rely on this layout; [`Packet`](crate::Packet) gives it a meaning.
#![allow(unsafe_code)]

use super::HEADROOM;
use crate::anno::{Anno, Cold};
use std::mem::{offset_of, size_of};
use std::ptr::NonNull;

/// DPDK's `struct rte_mbuf` (22.11): 128 bytes, the annotations in its dynamic fields.
#[repr(C, align(64))]
pub struct Mbuf {
    pub(super) buf_addr: NonNull<u8>,
    buf_iova: u64,
    pub(super) data_off: u16,
    refcnt: u16,
    pub(super) nb_segs: u16,
    pub(super) port: u16,
    pub(super) ol_flags: u64,
    packet_type: u32,
    pub(super) pkt_len: u32,
    pub(super) data_len: u16,
    pub(super) vlan_tci: u16,
    pub(super) hash: [u32; 2],
    vlan_tci_outer: u16,
    pub(super) buf_len: u16,
    pool: *mut u8,
    next: *mut Mbuf,
    tx_offload: u64,
    shinfo: *mut u8,
    priv_size: u16,
    timesync: u16,
    pub(super) anno: Anno,
    spare: u32,
}

const _: () = assert!(size_of::<Mbuf>() == 128);

/// Field offsets that `ports` compares with DPDK's header: name, offset here.
pub const MBUF_OFFSETS: &[(&str, usize)] = &[
    ("buf_addr", offset_of!(Mbuf, buf_addr)),
    ("data_off", offset_of!(Mbuf, data_off)),
    ("refcnt", offset_of!(Mbuf, refcnt)),
    ("nb_segs", offset_of!(Mbuf, nb_segs)),
    ("port", offset_of!(Mbuf, port)),
    ("ol_flags", offset_of!(Mbuf, ol_flags)),
    ("packet_type", offset_of!(Mbuf, packet_type)),
    ("pkt_len", offset_of!(Mbuf, pkt_len)),
    ("data_len", offset_of!(Mbuf, data_len)),
    ("vlan_tci", offset_of!(Mbuf, vlan_tci)),
    ("hash", offset_of!(Mbuf, hash)),
    ("vlan_tci_outer", offset_of!(Mbuf, vlan_tci_outer)),
    ("buf_len", offset_of!(Mbuf, buf_len)),
    ("pool", offset_of!(Mbuf, pool)),
    ("next", offset_of!(Mbuf, next)),
    ("tx_offload", offset_of!(Mbuf, tx_offload)),
    ("shinfo", offset_of!(Mbuf, shinfo)),
    ("priv_size", offset_of!(Mbuf, priv_size)),
    ("dynfield1", offset_of!(Mbuf, anno)),
];

/// Number of bytes of private area that a pool must reserve after each mbuf header (`priv_size`).
pub const PRIV_SIZE: usize = size_of::<Cold>();

/// Number of bytes before the data area of a heap buffer: mbuf header and private area.
pub(crate) const HEADER: usize = size_of::<Mbuf>() + PRIV_SIZE;

// Flags that say which fields are valid; other fields contain data of the buffer's last user.

/// DPDK's RTE_MBUF_F_RX_RSS_HASH: `hash` holds the device's flow hash.
pub(super) const RX_RSS_HASH: u64 = 1 << 1;
/// The last of DPDK's dynamic flags (RTE_MBUF_F_LAST_FREE; DPDK allocates them from the first on): `hash` holds a
/// flow hash that an element has stored.
pub(super) const FLOW_HASH: u64 = 1 << 40;
/// Flag next to `FLOW_HASH`: `vlan_tci` holds a tag that an element has stored.
pub(super) const VLAN_TCI: u64 = 1 << 39;
/// Flag for a bucket, in the second word of `hash`, where devices write the results of their filters.
pub(super) const BUCKET: u64 = 1 << 38;

/// One cache line, the unit in which the heap pool allocates.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(crate) struct Line(pub(crate) [u8; 64]);

/// A buffer without a packet, as pools store it.
#[repr(transparent)]
pub struct Buffer(pub(super) NonNull<Mbuf>);

// SAFETY: a `Buffer` is the only handle to its memory and that memory is not tied to a thread.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Formats heap memory as a buffer. It is never returned to the allocator.
    pub(crate) fn format(lines: &'static mut [Line]) -> Buffer {
        let bytes = std::mem::size_of_val(lines);
        assert!(bytes > HEADER + HEADROOM);
        let buf_len = u16::try_from(bytes - HEADER).unwrap_or(u16::MAX);
        let base = lines.as_mut_ptr();
        let mbuf = base.cast::<Mbuf>();
        // SAFETY: `lines` is exclusively owned for ever, 64-byte aligned and longer than HEADER; the value written is
        // a complete mbuf, and its pointers stay inside `lines`.
        unsafe {
            mbuf.write(Mbuf {
                buf_addr: NonNull::new_unchecked(base.cast::<u8>().add(HEADER)),
                buf_iova: 0,
                data_off: HEADROOM as u16,
                refcnt: 1,
                nb_segs: 1,
                port: u16::MAX,
                ol_flags: 0,
                packet_type: 0,
                pkt_len: 0,
                data_len: 0,
                vlan_tci: 0,
                hash: [0; 2],
                vlan_tci_outer: 0,
                buf_len,
                pool: std::ptr::null_mut(),
                next: std::ptr::null_mut(),
                tx_offload: 0,
                shinfo: std::ptr::null_mut(),
                priv_size: PRIV_SIZE as u16,
                timesync: 0,
                anno: Anno::EMPTY,
                spare: 0,
            });
            Buffer(NonNull::new_unchecked(mbuf))
        }
    }

    /// Marks a heap buffer as a large one; these return to a list of their own.
    pub(crate) fn mark_large(&mut self) {
        // SAFETY: a `Buffer` is the only handle to its mbuf.
        unsafe { self.0.as_mut() }.pool = std::ptr::without_provenance_mut(1);
    }

    /// True for a large buffer or one of an external pool.
    #[inline]
    pub(crate) fn is_of_other_pool(&self) -> bool {
        // SAFETY: as above.
        !unsafe { self.0.as_ref() }.pool.is_null()
    }

    /// The raw mbuf, for an external pool (DPDK's mempool).
    pub fn into_raw(self) -> NonNull<Mbuf> {
        self.0
    }

    /// Takes over a raw mbuf.
    ///
    /// # Safety
    /// `mbuf` must be a valid, unshared, single-segment mbuf in this layout, with a private area of [`PRIV_SIZE`]
    /// bytes and a buffer of at least [`HEADROOM`] initialised bytes. The caller must own it, and gives it up.
    pub unsafe fn from_raw(mbuf: NonNull<Mbuf>) -> Buffer {
        Buffer(mbuf)
    }
}

impl Mbuf {
    /// Sets the number of buffers that the frame fills.
    #[cfg(test)]
    pub(super) fn set_segments(&mut self, n: u16) {
        self.nb_segs = n;
    }
}
