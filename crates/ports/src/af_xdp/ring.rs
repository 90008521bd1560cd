//! The rings of a socket, which it shares with the kernel (the kernel's Documentation/networking/af_xdp.rst).

use crate::region::Region;
use rustix::net::xdp::XdpRingOffset;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// One end of a ring: its producer or its consumer. Indices count modulo 2^32.
pub(super) struct Ring {
    region: Region,
    at: XdpRingOffset,
    size: u32,
    /// Size of an entry in bytes.
    step: usize,
    /// Index of the next entry of this end, published or not.
    next: u32,
}

/// A part of a frame in the memory of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub(super) address: u64,
    pub(super) bytes: usize,
    /// True if the frame has more parts, which follow.
    pub(super) continued: bool,
}

/// Entry size in bytes: of the fill and completion rings (an address), and of the receive and transmit rings (a
/// descriptor).
pub(super) const ADDRESS: usize = 8;
pub(super) const DESCRIPTOR_BYTES: usize = 16;

impl Ring {
    /// Maps a ring of `size` entries, a power of two, of `step` bytes each.
    ///
    /// # Errors
    /// The kernel cannot map the ring.
    pub(super) fn map(
        socket: &OwnedFd,
        from: u64,
        at: XdpRingOffset,
        size: u32,
        step: usize,
    ) -> io::Result<Ring> {
        let bytes = at.desc as usize + size as usize * step;
        Ok(Ring {
            region: Region::map(socket, from, bytes)?,
            at,
            size,
            step,
            next: 0,
        })
    }

    fn number(&self, at: u64) -> &AtomicU32 {
        self.region.word(at as usize)
    }

    fn place(&self, number: u32) -> usize {
        self.at.desc as usize + (number & (self.size - 1)) as usize * self.step
    }

    /// Number of entries.
    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// True if the kernel must be called to see new entries.
    #[inline]
    pub(super) fn needs_call(&self) -> bool {
        let flags = self.at.flags.map(|at| self.number(at).load(Relaxed));
        flags.is_none_or(|flags| flags & libc::XDP_RING_NEED_WAKEUP != 0)
    }

    /// Number of free entries of the producer.
    #[inline]
    pub(super) fn free_slots(&self) -> usize {
        self.size.saturating_sub(self.waiting()) as usize
    }

    /// Number of entries that the producer has filled and the consumer has not taken.
    #[inline]
    pub(super) fn waiting(&self) -> u32 {
        self.next
            .wrapping_sub(self.number(self.at.consumer).load(Acquire))
    }

    /// Adds an address. There must be a free entry.
    #[inline]
    pub(super) fn push(&mut self, address: u64) {
        let place = self.place(self.next);
        self.region.long(place).store(address, Relaxed);
        self.next = self.next.wrapping_add(1);
    }

    /// Adds a descriptor. There must be a free entry.
    #[inline]
    pub(super) fn put_piece(&mut self, piece: Descriptor) {
        let place = self.place(self.next);
        let more = if piece.continued {
            libc::XDP_PKT_CONTD
        } else {
            0
        };
        self.push(piece.address);
        let bytes = piece.bytes as u32;
        self.region.word(place + 8).store(bytes, Relaxed);
        self.region.word(place + 12).store(more, Relaxed);
    }

    /// Publishes the inserted entries to the kernel.
    #[inline]
    pub(super) fn publish(&self) {
        self.number(self.at.producer).store(self.next, Release);
    }

    /// Number of filled entries for the consumer.
    #[inline]
    pub(super) fn filled(&self) -> u32 {
        let put = self.number(self.at.producer).load(Acquire);
        put.wrapping_sub(self.next).min(self.size)
    }

    /// Takes an address. There must be a filled entry.
    #[inline]
    pub(super) fn take(&mut self) -> u64 {
        let place = self.place(self.next);
        self.next = self.next.wrapping_add(1);
        self.region.long(place).load(Relaxed)
    }

    /// Takes a descriptor. There must be a filled entry.
    #[inline]
    pub(super) fn take_piece(&mut self) -> Descriptor {
        let piece = self.peek(0);
        self.next = self.next.wrapping_add(1);
        piece
    }

    /// Descriptor `ahead` entries after the next one, without taking it.
    #[inline]
    pub(super) fn peek(&self, ahead: u32) -> Descriptor {
        let place = self.place(self.next.wrapping_add(ahead));
        Descriptor {
            address: self.region.long(place).load(Relaxed),
            bytes: self.region.word(place + 8).load(Relaxed) as usize,
            continued: self.region.word(place + 12).load(Relaxed) & libc::XDP_PKT_CONTD != 0,
        }
    }

    /// Publishes the removed entries to the kernel.
    #[inline]
    pub(super) fn release(&self) {
        self.number(self.at.consumer).store(self.next, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: XdpRingOffset = XdpRingOffset {
        producer: 0,
        consumer: 64,
        desc: 192,
        flags: Some(128),
    };
    const SIZE: u32 = 4;

    /// Both ends of a ring, as of a socket and the kernel.
    fn both() -> (Ring, Ring) {
        let memory = Region::new("ring", 4096).expect("memory");
        let file = memory.file().expect("its file");
        let end = || Ring::map(file, 0, AT, SIZE, DESCRIPTOR_BYTES).expect("a mapping");
        (end(), end())
    }

    #[test]
    fn pieces_come_out_as_they_were_put_in_however_often_the_ring_is_full() {
        let (mut ours, mut theirs) = both();
        // Indices wrap as in real rings, only sooner.
        for ring in [&mut ours, &mut theirs] {
            ring.next = u32::MAX - 5;
        }
        ours.publish();
        theirs.release();
        for round in 0..10u64 {
            let pieces: Vec<Descriptor> = (0..u64::from(SIZE))
                .map(|n| Descriptor {
                    address: round * 100 + n,
                    bytes: n as usize + 1,
                    continued: n % 2 == 0,
                })
                .collect();
            assert_eq!((ours.free_slots(), theirs.filled()), (4, 0));
            pieces.iter().for_each(|&piece| ours.put_piece(piece));
            assert_eq!((ours.free_slots(), theirs.filled()), (0, 0), "not told yet");
            ours.publish();
            assert_eq!((theirs.filled(), theirs.peek(3)), (4, pieces[3]));
            let taken: Vec<Descriptor> = (0..SIZE).map(|_| theirs.take_piece()).collect();
            assert_eq!((taken, ours.waiting()), (pieces, 4));
            theirs.release();
        }
    }

    #[test]
    fn the_kernel_is_called_where_it_asks_for_that() {
        let (ours, theirs) = both();
        assert!(!ours.needs_call());
        theirs
            .number(128)
            .store(libc::XDP_RING_NEED_WAKEUP, Relaxed);
        assert!(ours.needs_call());
    }

    #[test]
    fn ring_without_flags_always_needs_a_call() {
        let memory = Region::new("ring", 4096).expect("memory");
        let at = XdpRingOffset { flags: None, ..AT };
        let ring = Ring::map(memory.file().expect("its file"), 0, at, SIZE, ADDRESS);
        assert!(ring.expect("a mapping").needs_call());
    }
}
