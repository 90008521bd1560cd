//! Batches: packets that travel together between elements.
//!
//! What moves packets without Rust's help (splitting, raw access for ports) is in `packet`.

use crate::packet::Packet;

/// Packets that travel together between elements.
#[derive(Default, Debug)]
pub struct Batch(pub(crate) Vec<Packet>);

impl Batch {
    /// An empty batch; it allocates when first used.
    pub const fn new() -> Batch {
        Batch(Vec::new())
    }

    /// An empty batch with room for `n` packets.
    pub fn with_capacity(n: usize) -> Batch {
        Batch(Vec::with_capacity(n))
    }

    /// Number of packets.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no packet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a packet at the end.
    #[inline]
    pub fn push(&mut self, packet: Packet) {
        self.0.push(packet);
    }

    /// Moves all packets of `other` to the end of this batch.
    #[inline]
    pub fn append(&mut self, other: &mut Batch) {
        self.0.append(&mut other.0);
    }

    /// Takes all packets out, in order.
    #[inline]
    pub fn drain(&mut self) -> std::vec::Drain<'_, Packet> {
        self.0.drain(..)
    }

    /// Takes the first `n` packets out (all, if there are fewer).
    #[inline]
    pub fn drain_front(&mut self, n: usize) -> std::vec::Drain<'_, Packet> {
        let n = n.min(self.0.len());
        self.0.drain(..n)
    }

    /// Takes out all packets behind the first `n`.
    pub fn split_off(&mut self, n: usize) -> Batch {
        Batch(self.0.split_off(n.min(self.0.len())))
    }

    /// Frees all packets.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Packets in order.
    #[inline]
    pub fn iter(&self) -> std::slice::Iter<'_, Packet> {
        self.0.iter()
    }

    /// Packets in order, to change.
    #[inline]
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Packet> {
        self.0.iter_mut()
    }

    /// Bytes of all packets.
    pub fn bytes(&self) -> u64 {
        let len = |packet: &Packet| packet.len() as u64;
        let (fours, rest) = self.0.as_chunks();
        let of_four = |[a, b, c, d]: &[Packet; 4]| len(a) + len(b) + len(c) + len(d);
        fours.iter().map(of_four).sum::<u64>() + rest.iter().map(len).sum::<u64>()
    }
}

impl Extend<Packet> for Batch {
    fn extend<I: IntoIterator<Item = Packet>>(&mut self, packets: I) {
        self.0.extend(packets);
    }
}

impl FromIterator<Packet> for Batch {
    fn from_iter<I: IntoIterator<Item = Packet>>(packets: I) -> Batch {
        Batch(packets.into_iter().collect())
    }
}
