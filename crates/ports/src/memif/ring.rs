//! Rings of a memif, from either end.
//!
//! A ring has a head, a tail and descriptors of buffers, all of which the other end can write at any time. So this end
//! reads each value once, checks it, and uses the copy. This end never reads back its own state. The client made the
//! memory and knows where its buffers are, so it takes only lengths from the other end, bounded by the size of a
//! buffer.

use super::sys;
use crate::counts::Counts;
use crate::region::Region;
use crate::sys as system;
use engine::packet::anno::PacketType;
use engine::packet::{Batch, Packet};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::fence;
use std::time::Duration;

#[cfg(target_endian = "big")]
compile_error!("memif's descriptors are read as little-endian words");

/// Magic number at the start of a ring.
const COOKIE: u32 = 0x03E3_1F20;
/// Flag of the receiver: it polls, and need not be woken.
const MASKED: u16 = 1;
const FLAGS: usize = 4;
const HEAD: usize = 6;
const TAIL: usize = 64;
const DESCRIPTORS: usize = 128;
const DESCRIPTOR: usize = 16;
/// Descriptor flag: the frame continues in the next descriptor.
const NEXT: u16 = 1;
/// Number of descriptors that a buffer is prefetched ahead of its turn.
const PREFETCH_DESCRIPTORS: u16 = 4;
/// Maximum number of buffers of a frame: 64 KiB in the smallest ones.
const FRAME_BUFFERS_MAX: usize = 512;
/// Maximum number of buffers read per frame of a burst: enough for long frames in buffers of 2 KiB.
const BUFFERS_PER_FRAME: usize = 8;

/// Names of a receive queue's counters.
pub(super) const RX_NAMES: [&str; 2] = ["rx_no_buffer", "too_long"];
const NO_BUFFER: usize = 0;
const TOO_LONG: usize = 1;
/// Names of a transmit queue's counters.
pub(super) const TX_NAMES: [&str; 2] = ["tx_link_down", "tx_too_long"];
pub(super) const LINK_DOWN: usize = 0;
const TX_TOO_LONG: usize = 1;

/// Protocol violation of the other end, as a predicate of a sentence.
pub(super) type ProtocolViolation = &'static str;

/// Wake-up of a ring's receiver by its sender.
pub(super) enum Doorbell {
    /// An eventfd that the client made.
    Event(OwnedFd),
    /// A pair of sockets, of which the client keeps one: the server cannot block the client through its own socket. The
    /// pair carries datagrams, because a write to a closed stream raises SIGPIPE.
    Pair(OwnedFd),
}

impl Doorbell {
    fn ring(&self) {
        match self {
            Doorbell::Event(fd) => system::signal(fd),
            Doorbell::Pair(fd) => sys::send_wake_up(fd),
        }
    }

    /// Reads pending wake-ups once only, because the other end could send them for ever. Wake-ups left over wake the
    /// sleeper again.
    fn drain(&self) {
        match self {
            Doorbell::Pair(fd) => sys::drain(fd),
            Doorbell::Event(fd) => {
                // Reading an empty descriptor might block.
                if let [true] = system::poll([fd.as_raw_fd()], Duration::ZERO) {
                    system::read(fd.as_raw_fd(), &mut [0; 8]);
                }
            }
        }
    }

    /// Descriptor on which a sleeper waits.
    pub(super) fn fd(&self) -> &OwnedFd {
        match self {
            Doorbell::Event(fd) | Doorbell::Pair(fd) => fd,
        }
    }
}

/// Budget of one call, however many buffers the other end has filled: a dropped frame counts as a received one.
pub(super) struct Budget {
    frames: usize,
    buffers: usize,
}

impl Budget {
    /// Budget of at most `frames` frames.
    pub(super) fn of(frames: usize) -> Budget {
        Budget {
            frames,
            buffers: frames.saturating_mul(BUFFERS_PER_FRAME),
        }
    }

    /// True if nothing more may be done.
    pub(super) fn is_spent(&self) -> bool {
        self.frames == 0 || self.buffers == 0
    }
}

/// Owner of a ring's memory.
#[derive(Clone, Copy)]
pub(super) enum Memory {
    /// Memory of this end, the client: offset of the buffers in the region, and bytes of each.
    Own { buffers: usize, bytes: usize },
    /// The peer's memory.
    Peers,
}

/// An end of a ring.
pub(super) struct Ring {
    regions: Arc<[Region]>,
    region: usize,
    at: usize,
    /// Number of descriptors.
    size: u16,
    memory: Memory,
    /// The next descriptor of this end; it wraps around.
    next: u16,
    doorbell: Doorbell,
}

/// Size in bytes of a ring with `size` descriptors.
pub(super) fn bytes(size: usize) -> usize {
    DESCRIPTORS + size * DESCRIPTOR
}

/// Copy of a descriptor, as it was read once.
struct Buffer {
    region: usize,
    offset: usize,
    bytes: usize,
    goes_on: bool,
}

impl Ring {
    /// An end of the ring at `at` in a region.
    ///
    /// # Errors
    /// The ring does not lie within the region.
    pub(super) fn new(
        regions: &Arc<[Region]>,
        (region, at): (usize, usize),
        log_size: u8,
        memory: Memory,
        doorbell: Doorbell,
    ) -> Result<Ring, ProtocolViolation> {
        let size = match log_size {
            0..=14 => 1u16 << log_size,
            _ => return Err("has a ring of more than 16,384 buffers"),
        };
        let inside = |region: &Region| region.has(at, bytes(size.into()));
        if !regions.get(region).is_some_and(inside) || !at.is_multiple_of(8) {
            return Err("has a ring outside of its memory");
        }
        let ring = Ring {
            regions: Arc::clone(regions),
            region,
            at,
            size,
            memory,
            next: 0,
            doorbell,
        };
        Ok(ring)
    }

    /// Writes the first content of a new ring, where an older one may have been. If `gives` is true, the other end
    /// sends and gets all buffers.
    pub(super) fn set_up(&self, gives: bool) {
        self.ring_region().short(self.at + TAIL).store(0, Relaxed);
        for slot in 0..self.size {
            self.offer_buffer(slot);
        }
        let flags = if gives { u64::from(MASKED) } else { 0 };
        let head = if gives { u64::from(self.size) } else { 0 };
        let first = u64::from(COOKIE) | flags << 32 | head << 48;
        self.ring_region().long(self.at).store(first, Release);
    }

    /// Begins reception after both ends have connected: this end polls, so it masks wake-ups. A client offers its
    /// buffers again, because DPDK's server sets the indices to zero before it is connected.
    pub(super) fn begin(&self) {
        if self.own_memory().is_some() {
            self.ring_region()
                .short(self.at + HEAD)
                .store(self.size, Release);
        }
        self.ring_region()
            .short(self.at + FLAGS)
            .store(MASKED, Relaxed);
    }

    /// True if the memory holds a valid ring.
    pub(super) fn is_one(&self) -> bool {
        self.ring_region().long(self.at).load(Acquire) as u32 == COOKIE
    }

    /// Wake-up of the ring's receiver.
    pub(super) fn doorbell(&self) -> &Doorbell {
        &self.doorbell
    }

    fn ring_region(&self) -> &Region {
        &self.regions[self.region]
    }

    fn own_memory(&self) -> Option<(usize, usize)> {
        match self.memory {
            Memory::Own { buffers, bytes } => Some((buffers, bytes)),
            Memory::Peers => None,
        }
    }

    fn descriptor(&self, slot: u16) -> usize {
        self.at + DESCRIPTORS + usize::from(slot & (self.size - 1)) * DESCRIPTOR
    }

    /// Index of the other end: the other end has filled or taken all entries before this index.
    fn peer_index(&self, counter: usize) -> u16 {
        self.ring_region().short(self.at + counter).load(Acquire)
    }

    /// Number of filled entries of a ring from which this end receives. The other end's index is the head if the client
    /// sends, and the tail if the server does.
    fn filled(&self) -> Result<u16, ProtocolViolation> {
        let counter = if self.own_memory().is_some() {
            TAIL
        } else {
            HEAD
        };
        let filled = self.peer_index(counter).wrapping_sub(self.next);
        match filled <= self.size {
            true => Ok(filled),
            false => Err("has put the index of a ring where it cannot be"),
        }
    }

    fn free(&self) -> Result<u16, ProtocolViolation> {
        let free = match self.own_memory() {
            Some(_) => {
                let waiting = self.next.wrapping_sub(self.peer_index(TAIL));
                self.size.checked_sub(waiting)
            }
            None => {
                let free = self.peer_index(HEAD).wrapping_sub(self.next);
                (free <= self.size).then_some(free)
            }
        };
        free.ok_or("has put the index of a ring where it cannot be")
    }

    /// The buffer of a slot, within bounds.
    fn buffer(&self, slot: u16) -> Result<Buffer, ProtocolViolation> {
        let at = self.descriptor(slot);
        let first = self.ring_region().long(at).load(Relaxed);
        let bytes = (first >> 32) as usize;
        let goes_on = first as u16 & NEXT != 0;
        if let Some((buffers, own)) = self.own_memory() {
            let offset = buffers + usize::from(slot & (self.size - 1)) * own;
            let region = self.region;
            return match bytes <= own {
                true => Ok(Buffer {
                    region,
                    offset,
                    bytes,
                    goes_on,
                }),
                false => Err("has filled a buffer beyond its end"),
            };
        }
        let region = usize::from((first >> 16) as u16);
        let offset = self.ring_region().long(at + 8).load(Relaxed) as u32 as usize;
        match self.regions.get(region) {
            Some(memory) if memory.has(offset, bytes) => Ok(Buffer {
                region,
                offset,
                bytes,
                goes_on,
            }),
            _ => Err("has named a buffer outside of its memory"),
        }
    }

    /// Describes this end's own buffer as empty.
    fn offer_buffer(&self, slot: u16) {
        if let Some((_, bytes)) = self.own_memory() {
            self.describe(slot, self.region, bytes, false);
        }
    }

    fn describe(&self, slot: u16, region: usize, bytes: usize, goes_on: bool) {
        let at = self.descriptor(slot);
        let flags = if goes_on { u64::from(NEXT) } else { 0 };
        let first = flags | (region as u64) << 16 | (bytes as u64) << 32;
        self.ring_region().long(at).store(first, Relaxed);
        if let Some((buffers, own)) = self.own_memory() {
            let offset = buffers + usize::from(slot & (self.size - 1)) * own;
            self.ring_region()
                .long(at + 8)
                .store(offset as u64, Relaxed);
        }
    }

    /// Prefetches the buffer of a slot's descriptor, which is not trusted yet.
    fn prefetch(&self, slot: u16) {
        match self.own_memory() {
            Some((buffers, bytes)) => self
                .ring_region()
                .prefetch(buffers + usize::from(slot & (self.size - 1)) * bytes),
            None => {
                if let Ok(buffer) = self.buffer(slot) {
                    self.regions[buffer.region].prefetch(buffer.offset);
                }
            }
        }
    }

    /// Receives packets within a budget; returns how many.
    ///
    /// # Errors
    /// The other end broke the protocol, in the returned way; the ring must not be used any more.
    pub(super) fn receive(
        &mut self,
        into: &mut Batch,
        budget: &mut Budget,
        counts: &Counts<2>,
    ) -> Result<usize, ProtocolViolation> {
        let filled = self.filled()?;
        if filled == 0 {
            return Ok(0);
        }
        let (first, before) = (self.next, into.len());
        let end = first.wrapping_add(filled);
        (0..PREFETCH_DESCRIPTORS.min(filled)).for_each(|n| self.prefetch(first.wrapping_add(n)));
        while self.next != end && !budget.is_spent() {
            let Some(packet) = Packet::new() else {
                counts.at(NO_BUFFER).add(1);
                break;
            };
            let begin = self.next;
            let taken = self.take(packet, end)?;
            let used = usize::from(self.next.wrapping_sub(begin));
            budget.frames -= 1;
            budget.buffers = budget.buffers.saturating_sub(used);
            match taken {
                Some(packet) => into.push(packet),
                None => counts.at(TOO_LONG).add(1),
            }
        }
        if self.next != first {
            match self.own_memory() {
                Some(_) => {
                    let mut slot = first;
                    while slot != self.next {
                        self.offer_buffer(slot);
                        slot = slot.wrapping_add(1);
                    }
                    let head = self.next.wrapping_add(self.size);
                    self.ring_region()
                        .short(self.at + HEAD)
                        .store(head, Release);
                }
                None => {
                    let tail = self.next;
                    self.ring_region()
                        .short(self.at + TAIL)
                        .store(tail, Release);
                }
            }
        }
        Ok(into.len() - before)
    }

    /// Takes a frame whose buffers end before index `end`. Returns `None` if the frame is too long.
    fn take(&mut self, mut packet: Packet, end: u16) -> Result<Option<Packet>, ProtocolViolation> {
        let mut fits = true;
        let first = self.next;
        loop {
            if self.next == end {
                return Err("has begun a frame that has no end");
            }
            if usize::from(self.next.wrapping_sub(first)) == FRAME_BUFFERS_MAX {
                return Err("has a frame of more than 512 buffers");
            }
            let buffer = self.buffer(self.next)?;
            let ahead = self.next.wrapping_add(PREFETCH_DESCRIPTORS);
            if end.wrapping_sub(ahead) < self.size {
                self.prefetch(ahead);
            }
            self.next = self.next.wrapping_add(1);
            match packet.put(buffer.bytes) {
                Some(place) if fits => _ = self.regions[buffer.region].read(buffer.offset, place),
                _ => fits = false,
            }
            if !buffer.goes_on {
                break;
            }
        }
        if !fits {
            return Ok(None);
        }
        packet.arrived(PacketType::of_frame);
        Ok(Some(packet))
    }

    /// Sends packets from the front of a batch, as many as there is room for; returns how many were taken.
    ///
    /// # Errors
    /// The other end broke the protocol, in the returned way; the ring must not be used any more.
    pub(super) fn send(
        &mut self,
        batch: &mut Batch,
        refused: &mut Batch,
        counts: &Counts<2>,
    ) -> Result<usize, ProtocolViolation> {
        let free = self.free()?;
        let first = self.next;
        let end = first.wrapping_add(free);
        let mut sent = 0;
        while let Some(packet) = batch.iter().nth(sent) {
            let before = self.next;
            if self.write_frame(packet.data(), end)? {
                sent += 1;
                continue;
            }
            self.next = before;
            if free < self.size || before != first {
                break;
            }
            // The frame is the first of the batch and exceeds the buffers of the whole ring, so it can never be sent.
            counts.at(TX_TOO_LONG).add(1);
            refused.extend(batch.drain_front(1));
        }
        if self.next != first {
            let counter = if self.own_memory().is_some() {
                HEAD
            } else {
                TAIL
            };
            let (here, at) = (self.ring_region(), self.at);
            here.short(at + counter).store(self.next, Release);
            // Either the receiver sees the frames before it sleeps, or this end sees that the receiver is about to
            // sleep.
            fence(SeqCst);
            if here.short(at + FLAGS).load(Relaxed) & MASKED == 0 {
                self.doorbell.ring();
            }
        }
        drop(batch.drain_front(sent));
        Ok(sent)
    }

    /// Writes a frame into buffers before `end`; false if they do not suffice.
    fn write_frame(&mut self, mut frame: &[u8], end: u16) -> Result<bool, ProtocolViolation> {
        loop {
            if self.next == end {
                return Ok(false);
            }
            let slot = self.next;
            let (region, offset, room) = match self.own_memory() {
                Some((buffers, bytes)) => {
                    let offset = buffers + usize::from(slot & (self.size - 1)) * bytes;
                    (self.region, offset, bytes)
                }
                None => {
                    let buffer = self.buffer(slot)?;
                    (buffer.region, buffer.offset, buffer.bytes)
                }
            };
            if room == 0 {
                return Err("has given a buffer without room");
            }
            let (part, rest) = frame.split_at(frame.len().min(room));
            self.regions[region].write(offset, part);
            self.describe(slot, region, part.len(), !rest.is_empty());
            self.next = slot.wrapping_add(1);
            if rest.is_empty() {
                return Ok(true);
            }
            frame = rest;
        }
    }

    /// True if frames wait; also if the other end made a mistake, so that it is found.
    pub(super) fn has_frames(&self) -> bool {
        self.filled() != Ok(0)
    }

    /// Fill level of the ring, 0 to 1.
    pub(super) fn fill(&self) -> f64 {
        f64::from(self.filled().unwrap_or(0)) / f64::from(self.size)
    }

    /// Memory of the ring, which tests corrupt.
    #[cfg(test)]
    pub(super) fn memory(&self) -> &Region {
        self.ring_region()
    }

    /// Offset in this memory of a part of the ring.
    #[cfg(test)]
    pub(super) fn place_of(&self, part: usize) -> usize {
        self.at + part
    }

    /// Requests wake-ups from the other end from now on.
    pub(super) fn wake_me(&self) {
        self.ring_region().short(self.at + FLAGS).store(0, Relaxed);
        fence(SeqCst);
    }

    /// Declines wake-ups: this end polls again.
    pub(super) fn decline_wakeups(&self) {
        self.ring_region()
            .short(self.at + FLAGS)
            .store(MASKED, Relaxed);
        self.doorbell.drain();
    }
}
