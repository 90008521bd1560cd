//! A packet: the only owner of a buffer and its content.
#![allow(unsafe_code)]

use crate::anno::{Anno, Cold, PacketType};
use crate::sys::{Buffer, Mbuf, RX_RSS_HASH};
use crate::{HEADROOM, pool};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// Number of bytes before the data that are copied along: a tagged Ethernet header and the longest IPv4 header, which
/// may have been stripped and may be restored.
const REMOVED: usize = 80;

/// A packet: bytes in a pooled buffer, with headroom, tailroom and annotations.
#[repr(transparent)]
pub struct Packet {
    pub(crate) mbuf: NonNull<Mbuf>,
}

// SAFETY: a packet is the only owner of its buffer, and a buffer may be used and freed on any thread;
// moving the packet moves all of it.
unsafe impl sync::ring::Transfer for Packet {}

impl Drop for Packet {
    fn drop(&mut self) {
        pool::free(Buffer(self.mbuf));
    }
}

impl Buffer {
    /// An empty packet in this buffer: no data, full headroom, no annotations.
    pub(crate) fn into_packet(self) -> Packet {
        let mut packet = Packet { mbuf: self.0 };
        let m = packet.mbuf_mut();
        m.data_off = HEADROOM as u16;
        m.data_len = 0;
        m.pkt_len = 0;
        m.ol_flags = 0;
        m.anno = Anno::EMPTY;
        packet
    }
}

impl Packet {
    /// Passes the ownership of the mbuf to a C library or a ring.
    #[inline]
    pub fn into_raw(self) -> NonNull<Mbuf> {
        ManuallyDrop::new(self).mbuf
    }

    /// Makes a packet from an mbuf without changing it.
    ///
    /// # Safety
    /// As [`Buffer::from_raw`], and data_off + data_len <= buf_len.
    #[inline]
    pub unsafe fn from_raw(mbuf: NonNull<Mbuf>) -> Packet {
        Packet { mbuf }
    }

    /// Prepares a packet that a port has just received into its own buffer. The MAC header begins at the data;
    /// `packet_type` computes the type from the frame. The only other annotation is a device's flow hash.
    #[inline]
    pub fn arrived(&mut self, packet_type: impl FnOnce(&[u8]) -> PacketType) {
        let packet_type = packet_type(self.data());
        let m = self.mbuf_mut();
        m.anno = Anno::of_frame_at(m.data_off);
        if packet_type != PacketType::Host {
            m.anno.packet_type = packet_type;
        }
        m.ol_flags &= RX_RSS_HASH; // rings hand over what an element had stored
    }

    /// Number of buffers that the frame fills: 1, except for frames just received by a DPDK port.
    #[inline]
    pub fn segments(&self) -> u16 {
        self.mbuf().nb_segs
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
    pub(crate) fn mbuf(&self) -> &Mbuf {
        // SAFETY: a packet owns its mbuf, which stays valid until it is dropped.
        unsafe { self.mbuf.as_ref() }
    }

    #[inline]
    pub(crate) fn mbuf_mut(&mut self) -> &mut Mbuf {
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

    /// Runs `work` on this packet as a local value, which the compiler can keep in a register.
    #[inline(always)]
    pub fn with_local<R>(&mut self, work: impl FnOnce(&mut Packet) -> R) -> R {
        /// Writes the packet back, also after a panic.
        struct Back<'a>(&'a mut Packet, ManuallyDrop<Packet>);

        impl Drop for Back<'_> {
            #[inline(always)]
            fn drop(&mut self) {
                // `1` is the only owner of the buffer: `work` may have released the one in `0`.
                self.0.mbuf = self.1.mbuf;
            }
        }

        let own = ManuallyDrop::new(Packet { mbuf: self.mbuf });
        work(&mut Back(self, own).1)
    }

    /// The packet's bytes.
    #[inline]
    pub fn data(&self) -> &[u8] {
        let m = self.mbuf();
        // SAFETY: data_off + data_len <= buf_len holds for every packet: pools and ports establish it, and the
        // methods below preserve it. Bytes of a pooled buffer are always initialised.
        unsafe {
            std::slice::from_raw_parts(m.buf_addr.as_ptr().add(usize::from(m.data_off)), self.len())
        }
    }

    /// The packet's bytes and `before` bytes before them, which must not exceed the headroom.
    #[inline]
    fn data_from(&self, before: usize) -> &[u8] {
        let m = self.mbuf();
        let offset = usize::from(m.data_off);
        assert!(before <= offset);
        // SAFETY: as in `data`; the bytes before lie in the same buffer (checked above).
        unsafe {
            std::slice::from_raw_parts(
                m.buf_addr.as_ptr().add(offset - before),
                self.len() + before,
            )
        }
    }

    /// The packet's bytes, mutable.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let len = self.len();
        let m = self.mbuf_mut();
        // SAFETY: as in `data`, and `&mut self` makes this the only reference.
        unsafe {
            std::slice::from_raw_parts_mut(m.buf_addr.as_ptr().add(usize::from(m.data_off)), len)
        }
    }

    /// Number of free bytes before the data.
    #[inline]
    pub fn headroom(&self) -> usize {
        usize::from(self.mbuf().data_off)
    }

    /// Number of free bytes after the data.
    #[inline]
    pub fn tailroom(&self) -> usize {
        let m = self.mbuf();
        usize::from(m.buf_len) - usize::from(m.data_off) - usize::from(m.data_len)
    }

    /// Sets the position of the data.
    ///
    /// # Safety
    /// The data ends inside the buffer: `offset + len` does not overflow and is at most the buffer's length.
    #[inline]
    unsafe fn set_place(&mut self, offset: usize, len: usize) {
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
            // SAFETY: the data ends where it did, as it is `n` bytes or longer.
            unsafe { self.set_place(self.headroom() + n, self.len() - n) };
        }
        fits
    }

    /// Adds `n` bytes of unspecified content at the front (Click's `push`); `None` without headroom.
    #[inline]
    pub fn push(&mut self, n: usize) -> Option<&mut [u8]> {
        let offset = self.headroom().checked_sub(n)?;
        // SAFETY: the data ends where it did, as the headroom is `n` bytes or more.
        unsafe { self.set_place(offset, self.len() + n) };
        let m = self.mbuf_mut();
        // SAFETY: as in `data_mut`; `n` bytes from `offset` on lie before what was the data.
        Some(unsafe { std::slice::from_raw_parts_mut(m.buf_addr.as_ptr().add(offset), n) })
    }

    /// Puts a link-layer header before the data, and sets the MAC header annotation. Returns false, changing nothing,
    /// without headroom.
    #[inline]
    #[must_use]
    pub fn push_mac<const N: usize>(&mut self, header: &[u8; N]) -> bool {
        self.put_mac(header, 0)
    }

    /// Puts a link-layer header directly before the network header, in the place of all bytes there, and sets the MAC
    /// header annotation. Returns false, changing nothing, without headroom, or if the network header is not in the
    /// data.
    #[inline]
    #[must_use]
    pub fn replace_mac<const N: usize>(&mut self, header: &[u8; N]) -> bool {
        self.put_mac(header, self.network_offset())
    }

    /// Puts a header in the place of the first `removed` bytes.
    #[inline(always)]
    fn put_mac<const N: usize>(&mut self, header: &[u8; N], removed: usize) -> bool {
        let Some(kept) = self.len().checked_sub(removed) else {
            return false;
        };
        let Some(offset) = (self.headroom() + removed).checked_sub(N) else {
            return false;
        };
        // SAFETY: the data ends where it did: the kept bytes follow the header, for which there is room.
        unsafe { self.set_place(offset, N + kept) };
        let m = self.mbuf_mut();
        m.anno.mac = offset as u16;
        // SAFETY: as in `data_mut`; the `N` bytes from `offset` on are the first of the data. Byte arrays need no
        // alignment.
        unsafe {
            m.buf_addr
                .as_ptr()
                .add(offset)
                .cast::<[u8; N]>()
                .write(*header)
        };
        true
    }

    /// Adds `n` bytes of unspecified content at the end (Click's `put`); `None` without tailroom.
    #[inline]
    pub fn put(&mut self, n: usize) -> Option<&mut [u8]> {
        let len = self.len();
        if n > self.tailroom() {
            return None;
        }
        // SAFETY: the buffer has `n` bytes after the data (checked above).
        unsafe { self.set_place(self.headroom(), len + n) };
        Some(&mut self.data_mut()[len..])
    }

    /// Adds bytes of unspecified content at both ends, and returns all bytes; `None`, changing nothing, without room.
    #[inline]
    pub fn extend(&mut self, front: usize, back: usize) -> Option<&mut [u8]> {
        let offset = self.headroom().checked_sub(front)?;
        if back > self.tailroom() {
            return None;
        }
        // SAFETY: the buffer has room before and after the data (checked above).
        unsafe { self.set_place(offset, front + self.len() + back) };
        Some(self.data_mut())
    }

    /// Removes `n` bytes at the end (Click's `take`). Returns false, changing nothing, if the packet
    /// is shorter.
    #[inline]
    #[must_use]
    pub fn take(&mut self, n: usize) -> bool {
        let fits = n <= self.len();
        if fits {
            // SAFETY: the data becomes shorter.
            unsafe { self.set_place(self.headroom(), self.len() - n) };
        }
        fits
    }

    /// Keeps only the first `len` bytes.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        if len < self.len() {
            // SAFETY: the data becomes shorter.
            unsafe { self.set_place(self.headroom(), len) };
        }
    }

    /// Moves the data so that `headroom` bytes are free before it; false if it does not fit. Headers that
    /// were removed from the front move along, as far as there is room for them.
    #[must_use]
    pub fn realign(&mut self, headroom: usize) -> bool {
        let (from, len, own) = (self.headroom(), self.len(), self.own_before());
        let m = self.mbuf_mut();
        // The request may be any number, so it must not be used in an addition.
        if headroom > usize::from(m.buf_len) - len {
            return false;
        }
        let removed = REMOVED.min(from).min(headroom);
        // SAFETY: both ranges lie inside the buffer (checked above, and `removed` is at most what lies
        // before either); `copy` allows overlap.
        unsafe {
            let (source, place) = (
                m.buf_addr.as_ptr().add(from - removed),
                m.buf_addr.as_ptr().add(headroom - removed),
            );
            std::ptr::copy(source, place, len + removed);
        }
        self.anno_mut().shift(headroom as isize - from as isize);
        // SAFETY: it fits, as checked above.
        unsafe { self.set_place(headroom, len) };
        self.blank_before(headroom - removed.min(own));
        true
    }

    /// Number of bytes before the data that may hold headers removed from this packet: the bytes from its MAC header on
    /// or, if it has none, from the end of the usual headroom on.
    fn own_before(&self) -> usize {
        let mac = usize::from(self.anno().mac);
        let first = if mac == 0 {
            HEADROOM
        } else {
            mac.min(HEADROOM)
        };
        self.headroom().saturating_sub(first)
    }

    /// Zeroes old data of another packet: from the usual headroom to a position that is not after the data.
    fn blank_before(&mut self, place: usize) {
        let place = place.min(self.headroom());
        if place > HEADROOM {
            let m = self.mbuf_mut();
            // SAFETY: the range ends where the data begins, or before, and so lies inside the buffer.
            unsafe {
                std::ptr::write_bytes(m.buf_addr.as_ptr().add(HEADROOM), 0, place - HEADROOM);
            }
        }
    }

    /// An empty packet in one of the pool's few large buffers, with as much headroom as `len` bytes of data allow.
    /// `None` if all of them are in use, or `len` exceeds 65,535.
    #[cold]
    pub fn large(len: usize) -> Option<Packet> {
        let mut packet = pool::alloc_large().map(Buffer::into_packet)?;
        let free = usize::from(packet.mbuf().buf_len).checked_sub(len)?;
        // SAFETY: `free` is at most the buffer's length.
        unsafe { packet.set_place(free.min(HEADROOM), 0) };
        Some(packet)
    }

    /// Like [`large`](Self::large), but only while more than a quarter of the large buffers is free. That quarter is
    /// reserved for callers that cannot do without.
    pub fn large_if_many(len: usize) -> Option<Packet> {
        match pool::large_in_use() < pool::LARGE_MANY {
            true => Packet::large(len),
            false => None,
        }
    }

    /// Moves a packet that no longer needs a large buffer to a usual one with full headroom, if one is free. Large
    /// buffers are few, and the longest packets leave no headroom in them.
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

    /// A copy with the same bytes, headroom and annotations; `None` if the pool has run dry. Stripped headers can be
    /// restored on the copy, too.
    pub fn copy(&self) -> Option<Packet> {
        self.copy_with_room(self.len())
    }

    /// A copy of the first `len` bytes, or of all if there are fewer; otherwise like [`copy`](Self::copy).
    pub(crate) fn copy_front(&self, len: usize) -> Option<Packet> {
        self.copy_of(len.min(self.len()), 0)
    }

    /// A copy that can grow to `len` bytes, if this is more than it has. It is in a large buffer, possibly with less
    /// headroom, if a usual one is too small. `None` if the pool has run dry, or no buffer is so large.
    pub fn copy_with_room(&self, len: usize) -> Option<Packet> {
        self.copy_of(self.len(), len)
    }

    /// A copy of the first `taken` bytes, which must exist, that can grow to `len`.
    fn copy_of(&self, taken: usize, len: usize) -> Option<Packet> {
        let len = len.max(taken);
        let (mut twin, mut headroom) = (Packet::new()?, self.headroom());
        let room = usize::from(twin.mbuf().buf_len).checked_sub(headroom);
        if room.is_none_or(|room| len > room) {
            twin = Packet::large(len)?;
            headroom = headroom.min(twin.headroom());
        }
        let removed = REMOVED.min(headroom).min(self.headroom());
        // SAFETY: `headroom + len` bytes fit into the buffer: for a usual buffer this was checked, and a large one
        // has its headroom in addition to `len` bytes. The copied bytes are at most `len`, and `removed` is part of
        // the headroom.
        unsafe { twin.set_place(headroom - removed, taken + removed) };
        let copied = &self.data_from(removed)[..taken + removed];
        twin.data_mut().copy_from_slice(copied);
        // SAFETY: as above.
        unsafe { twin.set_place(headroom, taken) };
        // Bytes nearer to the data were copied.
        if headroom > HEADROOM + REMOVED {
            twin.blank_before(headroom - removed.min(self.own_before()));
        }
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

    /// The annotations, mutable.
    #[inline]
    pub fn anno_mut(&mut self) -> &mut Anno {
        &mut self.mbuf_mut().anno
    }

    /// The rarely used annotations, which lie on a cache line of their own.
    pub fn cold(&self) -> &Cold {
        if !self.anno().has_cold() {
            return &Cold::EMPTY;
        }
        // SAFETY: every pool reserves PRIV_SIZE bytes right after the 128-byte header, aligned to 64 like the header
        // itself; `has_cold` says that they were written.
        unsafe { self.mbuf.add(1).cast::<Cold>().as_ref() }
    }

    /// The rarely used annotations, mutable.
    pub fn cold_mut(&mut self) -> &mut Cold {
        let fresh = !self.anno().has_cold();
        self.anno_mut().set_cold();
        let place = self.mbuf.as_ptr().wrapping_add(1).cast::<Cold>();
        // SAFETY: as in `cold`; the annotations are written before their first read.
        unsafe {
            if fresh {
                place.write(Cold::EMPTY);
            }
            &mut *place
        }
    }

    /// The bytes from the MAC header on, even if it was stripped; `None` if its annotation is not set.
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
        Some(unsafe { std::slice::from_raw_parts(m.buf_addr.as_ptr().add(start), end - start) })
    }

    /// Prefetches the cache lines of the header.
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
