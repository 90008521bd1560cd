//! Batches as lists of raw mbufs, for C libraries.
#![allow(unsafe_code)]

use super::Batch;
use crate::Packet;
use crate::sys::Mbuf;
#[cfg(test)]
use std::ptr::NonNull;

impl Batch {
    /// Appends up to `max` packets that `fill` writes as raw mbufs; `fill` returns their number.
    ///
    /// # Safety
    /// `fill(place, max)` must write as many mbufs as it returns, at most `max`, from `place` on, each as
    /// [`Packet::from_raw`] requires.
    #[inline]
    pub unsafe fn fill_raw(
        &mut self,
        max: usize,
        fill: impl FnOnce(*mut *mut Mbuf, usize) -> usize,
    ) -> usize {
        let packets = self.packets_mut();
        let len = packets.len();
        if packets.capacity() - len < max {
            packets.reserve(max);
        }
        // SAFETY: room for `max` was reserved; `Packet` is a transparent mbuf pointer.
        unsafe {
            let n = fill(packets.as_mut_ptr().add(len).cast(), max);
            packets.set_len(len + n.min(max));
            n
        }
    }

    /// Counts the bytes of packets that a device has just delivered. Returns true if each packet fills only one buffer:
    /// a longer frame cannot be read as a whole, and its bytes are counted wrong.
    #[inline]
    pub fn count_arrived(&mut self) -> bool {
        // Packets that fill one buffer are short enough for this sum not to overflow.
        let (mut segments, mut bytes) = (1, 0u32);
        let mut add = |packet: &Packet| {
            segments |= packet.mbuf().nb_segs;
            bytes = bytes.wrapping_add(packet.mbuf().pkt_len);
        };
        let (eights, rest) = self.packets.as_chunks::<8>();
        eights
            .iter()
            .for_each(|eight| eight.iter().for_each(&mut add));
        rest.iter().for_each(add);
        let whole = segments == 1;
        if whole {
            self.set_bytes(u64::from(bytes));
        }
        whole
    }

    /// Passes the packets as raw mbufs to `send`. It takes ownership of some of the first ones, and returns their
    /// number.
    ///
    /// # Safety
    /// `send` must take ownership of exactly the mbufs that it counts.
    #[inline]
    pub unsafe fn send_raw(&mut self, send: impl FnOnce(*mut *mut Mbuf, usize) -> usize) -> usize {
        let (base, len) = (self.packets.as_mut_ptr(), self.packets.len());
        // SAFETY: `send` owns the first `n` packets now; the rest moves to the front.
        unsafe {
            let n = send(base.cast(), len).min(len);
            self.packets.set_len(0);
            self.set_bytes(0); // 0 bytes: filling the empty batch needs no new count
            if n < len {
                std::ptr::copy(base.add(n), base, len - n);
                self.packets_mut().set_len(len - n);
            }
            n
        }
    }

    /// Sends the first `n` packets as a driver would, to the caller.
    #[cfg(test)]
    pub(crate) fn send_first(&mut self, n: usize) -> Vec<Packet> {
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
