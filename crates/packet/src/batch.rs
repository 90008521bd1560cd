//! Batches: packets that travel together between elements.
//!
//! Unsafe code that moves packets is in files named `sys.rs`: raw access for ports, and splitting.

use crate::Packet;
use std::cell::Cell;

mod sys;

/// Marks that the number of bytes is unknown, also after additions.
const UNKNOWN: u64 = 1 << 63;

/// Packets that travel together between elements. A batch caches its number of bytes until a packet may have changed,
/// so that usually bytes are counted once on the whole path.
#[derive(Default, Debug)]
pub struct Batch {
    pub(crate) packets: Vec<Packet>,
    bytes: Cell<u64>,
}

impl Batch {
    /// An empty batch; it allocates when first used.
    pub const fn new() -> Batch {
        Batch {
            packets: Vec::new(),
            bytes: Cell::new(0),
        }
    }

    /// An empty batch with room for `n` packets.
    pub fn with_capacity(n: usize) -> Batch {
        Batch::from(Vec::with_capacity(n))
    }

    /// Number of packets.
    #[inline]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// True if the batch has no packet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Adds a packet at the end.
    #[inline]
    pub fn push(&mut self, packet: Packet) {
        self.add_bytes(packet.len() as u64);
        self.packets.push(packet);
    }

    /// Moves all packets of `other` to the end of this batch.
    #[inline]
    pub fn append(&mut self, other: &mut Batch) {
        let (own, more) = (self.bytes.get(), other.bytes.replace(0));
        self.bytes.set(((own & !UNKNOWN) + more) | (own & UNKNOWN));
        self.packets.append(&mut other.packets);
    }

    /// Removes and returns all packets, in order.
    #[inline]
    pub fn drain(&mut self) -> std::vec::Drain<'_, Packet> {
        self.bytes.set(0);
        self.packets.drain(..)
    }

    /// Removes and returns the first `n` packets, or all if there are fewer.
    #[inline]
    pub fn drain_front(&mut self, n: usize) -> std::vec::Drain<'_, Packet> {
        let n = n.min(self.len());
        self.packets_mut().drain(..n)
    }

    /// Removes and returns all packets after the first `n`.
    pub fn split_off(&mut self, n: usize) -> Batch {
        let n = n.min(self.len());
        Batch::from(self.packets_mut().split_off(n))
    }

    /// Frees all packets.
    #[inline]
    pub fn clear(&mut self) {
        self.packets.clear();
        self.bytes.set(0);
    }

    /// Packets in order.
    #[inline]
    pub fn iter(&self) -> std::slice::Iter<'_, Packet> {
        self.packets.iter()
    }

    /// Packets in order, mutable.
    #[inline]
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Packet> {
        self.packets_mut().iter_mut()
    }

    /// Packets in order, mutable except for their length: the cached number of bytes stays valid.
    #[inline]
    pub fn iter_of_same_length(&mut self) -> std::slice::IterMut<'_, Packet> {
        self.packets.iter_mut()
    }

    /// Number of bytes of all packets.
    #[inline]
    pub fn bytes(&self) -> u64 {
        if self.bytes.get() >= UNKNOWN {
            self.bytes.set(self.count_bytes());
        }
        self.bytes.get()
    }

    /// True if the batch owns memory, with packets or without.
    #[inline]
    pub fn has_memory(&self) -> bool {
        self.packets.capacity() > 0
    }

    /// True if the batch knows the sum of its packets' lengths.
    #[inline]
    pub fn is_counted(&self) -> bool {
        self.bytes.get() < UNKNOWN
    }

    /// Caches the number of bytes of all packets.
    #[inline]
    pub fn set_bytes(&mut self, bytes: u64) {
        self.bytes.set(bytes);
    }

    /// Adds bytes to the cached number of bytes.
    #[inline]
    pub fn add_bytes(&mut self, bytes: u64) {
        self.bytes.set(self.bytes.get() + bytes);
    }

    /// Subtracts bytes from the cached number of bytes.
    #[inline]
    pub fn less_bytes(&mut self, bytes: u64) {
        let before = self.bytes.get();
        if before < UNKNOWN {
            self.bytes.set(before.saturating_sub(bytes));
        }
    }

    /// The packets, mutable; the cached number of bytes is forgotten.
    #[inline]
    pub fn packets_mut(&mut self) -> &mut Vec<Packet> {
        self.bytes.set(UNKNOWN);
        &mut self.packets
    }

    #[inline(never)]
    fn count_bytes(&self) -> u64 {
        let len = |packet: &Packet| packet.len() as u64;
        let (fours, rest) = self.packets.as_chunks();
        let of_four = |[a, b, c, d]: &[Packet; 4]| len(a) + len(b) + len(c) + len(d);
        fours.iter().map(of_four).sum::<u64>() + rest.iter().map(len).sum::<u64>()
    }
}

impl From<Vec<Packet>> for Batch {
    fn from(packets: Vec<Packet>) -> Batch {
        Batch {
            packets,
            bytes: Cell::new(UNKNOWN),
        }
    }
}

impl Extend<Packet> for Batch {
    fn extend<I: IntoIterator<Item = Packet>>(&mut self, packets: I) {
        self.packets_mut().extend(packets);
    }
}

impl FromIterator<Packet> for Batch {
    fn from_iter<I: IntoIterator<Item = Packet>>(packets: I) -> Batch {
        Batch::from(packets.into_iter().collect::<Vec<_>>())
    }
}
