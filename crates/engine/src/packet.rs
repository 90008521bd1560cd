//! Packets and batches of them.
//!
//! A [`Packet`] owns one buffer in DPDK's mbuf layout, so that DPDK ports hand buffers over without
//! a copy and without a conversion; `ports` asserts the offsets against DPDK's own header. A packet
//! is one segment, has one owner and stays on its core: it is neither `Clone` nor `Send`. Copying
//! is [`Packet::copy`], visible. Dropping a packet gives its buffer back to the pool.
//!
//! This is one of the engine's three files with `unsafe`; everything above it works on slices.
//!
//! A packet cannot be shared or sent to another core (only a ring may carry it):
//!
//! ```compile_fail
//! let packet = engine::packet::Packet::from_bytes(b"x").unwrap();
//! std::thread::spawn(move || drop(packet));
//! ```
//!
//! ```compile_fail
//! let packet = engine::packet::Packet::from_bytes(b"x").unwrap();
//! let twin = packet.clone();
//! ```
#![allow(unsafe_code)]

use crate::anno::{Anno, Cold};
pub use crate::batch::Batch;
use crate::element::Verdict;
use crate::pool;
use std::mem::{ManuallyDrop, offset_of, size_of};
use std::ptr::NonNull;

mod fields;

/// Bytes kept free before a received frame, for headers that elements prepend.
pub const HEADROOM: usize = 128;

/// DPDK's `struct rte_mbuf` (22.11): 128 bytes, the annotations in its dynamic fields.
#[repr(C, align(64))]
pub struct Mbuf {
    buf_addr: *mut u8,
    buf_iova: u64,
    data_off: u16,
    refcnt: u16,
    nb_segs: u16,
    port: u16,
    ol_flags: u64,
    packet_type: u32,
    pkt_len: u32,
    data_len: u16,
    vlan_tci: u16,
    hash: [u32; 2],
    vlan_tci_outer: u16,
    buf_len: u16,
    pool: *mut u8,
    next: *mut Mbuf,
    tx_offload: u64,
    shinfo: *mut u8,
    priv_size: u16,
    timesync: u16,
    anno: Anno,
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

/// Bytes of private area that a pool must reserve after each mbuf header (`priv_size`).
pub const PRIV_SIZE: usize = size_of::<Cold>();

/// Bytes before the data area of a heap buffer: mbuf header and private area.
pub(crate) const HEADER: usize = size_of::<Mbuf>() + PRIV_SIZE;

/// DPDK's RTE_MBUF_F_RX_RSS_HASH: `hash` holds the device's flow hash.
const RX_RSS_HASH: u64 = 1 << 1;

/// One cache line, the unit in which the heap pool allocates.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(crate) struct Line(pub(crate) [u8; 64]);

/// A buffer that holds no packet: what pools store.
#[repr(transparent)]
pub struct Buffer(NonNull<Mbuf>);

// SAFETY: a `Buffer` is the only handle to its memory and that memory is not tied to a thread.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Formats heap memory as a buffer. It is never given back to the allocator.
    pub(crate) fn format(lines: &'static mut [Line]) -> Buffer {
        let bytes = std::mem::size_of_val(lines);
        assert!(bytes > HEADER + HEADROOM);
        let buf_len = u16::try_from(bytes - HEADER).unwrap_or(u16::MAX);
        let base = lines.as_mut_ptr();
        let mbuf = base.cast::<Mbuf>();
        // SAFETY: `lines` is exclusively ours for ever, 64-byte aligned and longer than HEADER; the
        // value written is a complete mbuf and the pointers stay inside `lines`.
        unsafe {
            mbuf.write(Mbuf {
                buf_addr: base.cast::<u8>().add(HEADER),
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
            });
            Buffer(NonNull::new_unchecked(mbuf))
        }
    }

    /// Marks a heap buffer as one of the large ones, which go back to a list of their own.
    pub(crate) fn mark_large(&mut self) {
        // SAFETY: a `Buffer` is the only handle to its mbuf.
        unsafe { self.0.as_mut() }.pool = std::ptr::without_provenance_mut(1);
    }

    /// Whether it does not belong to the heap's usual buffers: it is a large one, or an outside pool's.
    #[inline]
    pub(crate) fn is_of_other_pool(&self) -> bool {
        // SAFETY: as above.
        !unsafe { self.0.as_ref() }.pool.is_null()
    }

    /// The raw mbuf, for a pool that lives outside (DPDK's mempool).
    pub fn into_raw(self) -> NonNull<Mbuf> {
        self.0
    }

    /// Takes over a raw mbuf.
    ///
    /// # Safety
    /// `mbuf` must be a valid, unshared, single-segment mbuf in this layout with a private area of
    /// [`PRIV_SIZE`] bytes, owned by the caller, who gives it up.
    pub unsafe fn from_raw(mbuf: NonNull<Mbuf>) -> Buffer {
        Buffer(mbuf)
    }

    /// An empty packet in this buffer: no data, full headroom, no annotations.
    pub(crate) fn into_packet(self) -> Packet {
        let mut packet = Packet { mbuf: self.0 };
        let m = packet.mbuf_mut();
        m.data_off = HEADROOM as u16;
        m.data_len = 0;
        m.pkt_len = 0;
        m.ol_flags = 0;
        m.vlan_tci = 0;
        m.hash = [0; 2];
        m.anno = Anno::EMPTY;
        packet
    }
}

/// Bytes before the data that a copy takes along: a tagged Ethernet header and the longest IPv4 header,
/// which may have been stripped and be put back.
const REMOVED: usize = 80;

/// A packet: bytes in a pooled buffer, with headroom, tailroom and annotations.
#[repr(transparent)]
pub struct Packet {
    mbuf: NonNull<Mbuf>,
}

impl Drop for Packet {
    fn drop(&mut self) {
        pool::free(Buffer(self.mbuf));
    }
}

impl Packet {
    /// An empty packet from the pool, or `None` if the pool has run dry.
    #[inline]
    pub fn new() -> Option<Packet> {
        pool::alloc().map(Buffer::into_packet)
    }

    /// A packet that holds `bytes`, or `None` if the pool has run dry or `bytes` does not fit.
    pub fn from_bytes(bytes: &[u8]) -> Option<Packet> {
        let mut packet = Packet::new()?;
        packet.put(bytes.len())?.copy_from_slice(bytes);
        Some(packet)
    }

    #[inline]
    fn mbuf(&self) -> &Mbuf {
        // SAFETY: a packet owns its mbuf, which stays valid until it is dropped.
        unsafe { self.mbuf.as_ref() }
    }

    #[inline]
    fn mbuf_mut(&mut self) -> &mut Mbuf {
        // SAFETY: as above, and `&mut self` makes this the only reference.
        unsafe { self.mbuf.as_mut() }
    }

    /// Length in bytes.
    #[inline]
    #[expect(
        clippy::len_without_is_empty,
        reason = "an empty packet is not a case of its own"
    )]
    pub fn len(&self) -> usize {
        usize::from(self.mbuf().data_len)
    }

    /// The packet's bytes.
    #[inline]
    pub fn data(&self) -> &[u8] {
        let m = self.mbuf();
        // SAFETY: data_off + data_len <= buf_len holds for every packet (pools and ports establish
        // it, the methods below keep it), and bytes of a pooled buffer are always initialised.
        unsafe { std::slice::from_raw_parts(m.buf_addr.add(usize::from(m.data_off)), self.len()) }
    }

    /// The packet's bytes, and `before` ones before them, which must not be more than the headroom.
    #[inline]
    fn data_from(&self, before: usize) -> &[u8] {
        let m = self.mbuf();
        let offset = usize::from(m.data_off);
        assert!(before <= offset);
        // SAFETY: as in `data`; the bytes before lie in the same buffer (checked above).
        unsafe { std::slice::from_raw_parts(m.buf_addr.add(offset - before), self.len() + before) }
    }

    /// The packet's bytes, to change.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let len = self.len();
        let m = self.mbuf_mut();
        // SAFETY: as in `data`, and `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(m.buf_addr.add(usize::from(m.data_off)), len) }
    }

    /// Free bytes before the data.
    #[inline]
    pub fn headroom(&self) -> usize {
        usize::from(self.mbuf().data_off)
    }

    /// Free bytes behind the data.
    #[inline]
    pub fn tailroom(&self) -> usize {
        let m = self.mbuf();
        usize::from(m.buf_len) - usize::from(m.data_off) - usize::from(m.data_len)
    }

    #[inline]
    fn set_place(&mut self, offset: usize, len: usize) {
        let m = self.mbuf_mut();
        debug_assert!(offset + len <= usize::from(m.buf_len));
        m.data_off = offset as u16;
        m.data_len = len as u16;
        m.pkt_len = len as u32;
    }

    /// Removes `n` bytes at the front (Click's `pull`). Returns false, changing nothing, if the
    /// packet is shorter.
    #[inline]
    #[must_use]
    pub fn pull(&mut self, n: usize) -> bool {
        let fits = n <= self.len();
        if fits {
            self.set_place(self.headroom() + n, self.len() - n);
        }
        fits
    }

    /// Adds `n` bytes of unspecified content at the front (Click's `push`); `None` without headroom.
    #[inline]
    pub fn push(&mut self, n: usize) -> Option<&mut [u8]> {
        let offset = self.headroom().checked_sub(n)?;
        self.set_place(offset, self.len() + n);
        Some(&mut self.data_mut()[..n])
    }

    /// Adds `n` bytes of unspecified content at the end (Click's `put`); `None` without tailroom.
    #[inline]
    pub fn put(&mut self, n: usize) -> Option<&mut [u8]> {
        let len = self.len();
        if n > self.tailroom() {
            return None;
        }
        self.set_place(self.headroom(), len + n);
        Some(&mut self.data_mut()[len..])
    }

    /// Removes `n` bytes at the end (Click's `take`). Returns false, changing nothing, if the packet
    /// is shorter.
    #[inline]
    #[must_use]
    pub fn take(&mut self, n: usize) -> bool {
        let fits = n <= self.len();
        if fits {
            self.set_place(self.headroom(), self.len() - n);
        }
        fits
    }

    /// Keeps the first `len` bytes.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        if len < self.len() {
            self.set_place(self.headroom(), len);
        }
    }

    /// Moves the data so that `headroom` bytes are free before it; false if it does not fit.
    #[must_use]
    pub fn realign(&mut self, headroom: usize) -> bool {
        let (from, len) = (self.headroom(), self.len());
        let m = self.mbuf_mut();
        if headroom + len > usize::from(m.buf_len) {
            return false;
        }
        // SAFETY: both ranges lie inside the buffer (checked above); `copy` allows overlap.
        unsafe {
            std::ptr::copy(m.buf_addr.add(from), m.buf_addr.add(headroom), len);
        }
        self.anno_mut().shift(headroom as isize - from as isize);
        self.set_place(headroom, len);
        true
    }

    /// An empty packet of the pool's large buffers: as much headroom as leaves room for `len` bytes,
    /// up to 65,535. `None` if all of them are in use (there are few) or `len` is more.
    #[cold]
    pub fn large(len: usize) -> Option<Packet> {
        let mut packet = pool::alloc_large().map(Buffer::into_packet)?;
        let free = usize::from(packet.mbuf().buf_len).checked_sub(len)?;
        packet.set_place(free.min(HEADROOM), 0);
        Some(packet)
    }

    /// Moves what no longer needs a large buffer to a usual one with full headroom, if there is one: large
    /// ones are few, and the longest packets leave no headroom in them.
    #[inline]
    pub fn leave_large(&mut self) {
        let is_large = usize::from(self.mbuf().buf_len) >= pool::LARGE_BYTES;
        if is_large
            && self.realign(HEADROOM)
            && let Some(twin) = self.copy()
        {
            *self = twin;
        }
    }

    /// A copy with the same bytes, headroom and annotations; `None` if the pool has run dry. Headers that
    /// were removed from the front can be put back on it, too.
    pub fn copy(&self) -> Option<Packet> {
        self.copy_with_room(self.len())
    }

    /// A copy that can grow to `len` bytes: in a large buffer, with less headroom if need be, where a
    /// usual one is too small. `None` if the pool has run dry.
    pub fn copy_with_room(&self, len: usize) -> Option<Packet> {
        let (mut twin, mut headroom) = (Packet::new()?, self.headroom());
        if headroom + len > usize::from(twin.mbuf().buf_len) {
            twin = Packet::large(len.max(self.len()))?;
            headroom = headroom.min(twin.headroom());
        }
        let removed = REMOVED.min(headroom).min(self.headroom());
        twin.set_place(headroom - removed, self.len() + removed);
        twin.data_mut().copy_from_slice(self.data_from(removed));
        twin.set_place(headroom, self.len());
        let (from, to) = (self.mbuf(), twin.mbuf_mut());
        (to.ol_flags, to.vlan_tci, to.hash, to.port) =
            (from.ol_flags, from.vlan_tci, from.hash, from.port);
        to.anno = from.anno;
        if headroom != self.headroom() {
            let by = headroom as isize - self.headroom() as isize;
            twin.anno_mut().shift(by);
        }
        if self.anno().has_cold() {
            *twin.cold_mut() = *self.cold();
        }
        Some(twin)
    }

    /// The annotations that the packet path uses.
    #[inline]
    pub fn anno(&self) -> &Anno {
        &self.mbuf().anno
    }

    /// The annotations, to change.
    #[inline]
    pub fn anno_mut(&mut self) -> &mut Anno {
        &mut self.mbuf_mut().anno
    }

    /// The rarely used annotations, which lie on a cache line of their own.
    pub fn cold(&self) -> &Cold {
        if !self.anno().has_cold() {
            return &Cold::EMPTY;
        }
        // SAFETY: every pool reserves PRIV_SIZE bytes right behind the 128-byte header, aligned to
        // 64 like the header itself; `has_cold` says that they were written.
        unsafe { self.mbuf.add(1).cast::<Cold>().as_ref() }
    }

    /// The rarely used annotations, to change.
    pub fn cold_mut(&mut self) -> &mut Cold {
        let fresh = !self.anno().has_cold();
        self.anno_mut().set_cold();
        let place = self.mbuf.as_ptr().wrapping_add(1).cast::<Cold>();
        // SAFETY: as in `cold`; written before it is read for the first time.
        unsafe {
            if fresh {
                place.write(Cold::EMPTY);
            }
            &mut *place
        }
    }

    /// The bytes from the MAC header on, also after it was stripped; `None` if it is not set.
    #[inline]
    pub fn mac(&self) -> Option<&[u8]> {
        let start = usize::from(self.anno().mac);
        let end = self.headroom() + self.len();
        if start == 0 || start > end {
            return None;
        }
        let m = self.mbuf();
        // SAFETY: start..end lies inside the buffer (end = data_off + data_len <= buf_len), whose
        // bytes are initialised.
        Some(unsafe { std::slice::from_raw_parts(m.buf_addr.add(start), end - start) })
    }

    /// Gives the mbuf up to a C library or a ring.
    #[inline]
    pub fn into_raw(self) -> NonNull<Mbuf> {
        ManuallyDrop::new(self).mbuf
    }

    /// Takes over an mbuf as a packet, as it is.
    ///
    /// # Safety
    /// As [`Buffer::from_raw`], and data_off + data_len <= buf_len.
    #[inline]
    pub unsafe fn from_raw(mbuf: NonNull<Mbuf>) -> Packet {
        Packet { mbuf }
    }

    /// Prepares a packet that a DPDK port has just received: annotations are empty, it owns one
    /// segment. Returns false if the frame has several segments (longer than a buffer).
    #[inline]
    pub fn arrived(&mut self) -> bool {
        let m = self.mbuf_mut();
        m.anno = Anno::EMPTY;
        // A driver tells by flags which of its fields it has set; others hold what the last user left.
        if m.ol_flags & RX_RSS_HASH == 0 {
            m.hash = [0; 2];
        }
        m.ol_flags = 0;
        m.vlan_tci = 0;
        m.nb_segs == 1
    }

    /// Fetches the header cache lines ahead of use.
    #[inline]
    pub fn prefetch(&self) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: prefetching has no effect but on caches; the address is never dereferenced.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(self.mbuf.as_ptr().cast::<i8>());
        }
    }
}

impl std::fmt::Debug for Packet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Packet({} bytes)", self.len())
    }
}

impl Batch {
    /// Asks `step` for a verdict on every packet, in order. Packets for output 0 stay, in order; the
    /// others go to `aside`. With every packet for output 0 nothing is moved.
    #[inline]
    pub fn split<C>(
        &mut self,
        cx: &mut C,
        mut step: impl FnMut(&mut Packet, &mut C) -> Verdict,
        aside: impl FnMut(Packet, Verdict, &mut C),
    ) {
        let step = |packet: &mut Packet, cx: &mut C| {
            let verdict = step(packet, cx);
            (verdict != Verdict::ON).then_some(verdict)
        };
        self.part(cx, step, aside);
    }

    /// As [`split`](Self::split): packets without a verdict stay.
    #[inline]
    pub(crate) fn part<C>(
        &mut self,
        cx: &mut C,
        mut step: impl FnMut(&mut Packet, &mut C) -> Option<Verdict>,
        mut aside: impl FnMut(Packet, Verdict, &mut C),
    ) {
        let len = self.0.len();
        let base = self.0.as_mut_ptr();
        // SAFETY: the length is 0 while packets are moved, so a panic leaks packets and never frees
        // one twice; `read` < `len` and `kept` <= `read`, so every slot is read once.
        unsafe {
            self.0.set_len(0);
            let mut kept = 0;
            for read in 0..len {
                let slot = base.add(read);
                if let Some(verdict) = step(&mut *slot, cx) {
                    aside(slot.read(), verdict, cx);
                } else {
                    if kept != read {
                        std::ptr::copy_nonoverlapping(slot, base.add(kept), 1);
                    }
                    kept += 1;
                }
            }
            self.0.set_len(kept);
        }
    }

    /// Appends up to `max` packets that `fill` writes as raw mbufs; `fill` returns how many.
    ///
    /// # Safety
    /// `fill(place, max)` must write that many mbufs from `place` on, each as [`Packet::from_raw`]
    /// asks, and return no more than `max`.
    pub unsafe fn fill_raw(
        &mut self,
        max: usize,
        fill: impl FnOnce(*mut *mut Mbuf, usize) -> usize,
    ) -> usize {
        self.0.reserve(max);
        let len = self.0.len();
        // SAFETY: room for `max` was reserved; `Packet` is a transparent mbuf pointer.
        unsafe {
            let n = fill(self.0.as_mut_ptr().add(len).cast(), max);
            self.0.set_len(len + n.min(max));
            n
        }
    }

    /// Offers the packets as raw mbufs to `send`, which takes some of the first ones and returns how
    /// many it took; those belong to it now.
    ///
    /// # Safety
    /// `send` must take ownership of exactly the mbufs that it counts.
    pub unsafe fn send_raw(&mut self, send: impl FnOnce(*mut *mut Mbuf, usize) -> usize) -> usize {
        let len = self.0.len();
        // SAFETY: the first `n` packets are not ours any more; the rest moves to the front.
        unsafe {
            let base = self.0.as_mut_ptr();
            let n = send(base.cast(), len).min(len);
            self.0.set_len(0);
            std::ptr::copy(base.add(n), base, len - n);
            self.0.set_len(len - n);
            n
        }
    }

    /// Sends the first `n` packets as a driver would, to the caller.
    #[cfg(test)]
    fn send_first(&mut self, n: usize) -> Vec<Packet> {
        let mut taken = Vec::new();
        // SAFETY: each mbuf is a packet of this batch, taken over once and counted.
        let sent = unsafe {
            self.send_raw(|base, len| {
                let first = (0..n.min(len)).filter_map(|i| NonNull::new(*base.add(i)));
                taken.extend(first.map(|mbuf| Packet::from_raw(mbuf)));
                taken.len()
            })
        };
        assert_eq!(sent, taken.len());
        taken
    }
}

#[cfg(test)]
#[path = "packet_tests.rs"]
mod tests;
