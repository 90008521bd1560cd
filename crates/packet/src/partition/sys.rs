//! Partition of a batch by output port.
//!
//! An output is *open* if it has a cursor: the place where its next packet is written. Packets of one output, *home*,
//! stay in the batch; its cursor follows the read position and closes gaps. So all outputs are treated alike, without
//! a branch that depends on the order of packets. Outputs that had packets in one batch are open from the start in
//! the next one.
#![allow(unsafe_code)]

use super::Packet;
use crate::Batch;
use crate::Verdict;
use std::mem::ManuallyDrop;
use std::ptr;

/// Number of ports that a verdict can name.
const PORTS: usize = 1 << u8::BITS;

/// Write positions and byte counts by output port.
struct Cursors {
    /// Next write position of an open output; null if the output is closed. Each has room for all packets still to be
    /// partitioned.
    ends: [*mut Packet; PORTS],
    /// Bytes of this batch moved to each output.
    bytes: [u64; PORTS],
}

/// Batches by output, for packets that leave the partitioned batch.
pub struct Sides {
    batches: Box<[Batch]>,
    /// Cursors: null except for `home` and `others`. Those two are valid only while a [`Partition`] exists, which sets
    /// them first.
    cursors: Box<Cursors>,
    /// The output whose packets stay in the partitioned batch, if it is open.
    home: Option<u8>,
    /// The other open outputs; each has a batch in `batches`.
    others: Vec<u8>,
}

impl Sides {
    /// Batches for this number of outputs.
    pub fn new(outputs: usize) -> Sides {
        Sides {
            batches: (0..outputs).map(|_| Batch::new()).collect(),
            cursors: Box::new(Cursors {
                ends: [ptr::null_mut(); PORTS],
                bytes: [0; PORTS],
            }),
            home: None,
            others: Vec::new(),
        }
    }

    /// True if packets of the last batch went to more than one output.
    #[inline]
    pub fn part(&self) -> bool {
        !self.others.is_empty()
    }

    /// Calls `see` with each output's batch of packets that left. Packets that `see` leaves there come before those
    /// of the next partition.
    #[inline]
    pub fn each(&mut self, mut see: impl FnMut(usize, &mut Batch)) {
        let mut next = 0;
        while let Some(&port) = self.others.get(next) {
            let side = self.batches.get_mut(usize::from(port));
            if let Some(side) = side.filter(|side| !side.is_empty()) {
                see(usize::from(port), side);
                next += 1;
            } else {
                self.cursors.ends[usize::from(port)] = ptr::null_mut();
                self.others.swap_remove(next);
            }
        }
    }

    /// Closes all outputs.
    #[cold]
    pub fn reset(&mut self) {
        let open = self.others.drain(..).chain(self.home.take());
        open.for_each(|port| self.cursors.ends[usize::from(port)] = ptr::null_mut());
    }

    /// Partitions a batch in place. With `stay` as `(n, output)`, the first `n` packets stay, and so do later ones with
    /// that output. Otherwise the output of the packets that stayed the last time is used. Until the partition is
    /// dropped no packet's length may change, unless the batch's bytes are counted again ([`Batch::iter_mut`]).
    #[inline]
    pub fn partition<'a>(
        &'a mut self,
        batch: &'a mut Batch,
        stay: Option<(usize, usize)>,
    ) -> Partition<'a> {
        let (len, first) = (batch.packets.len(), batch.packets.as_mut_ptr());
        // SAFETY: `Partition` owns them now, and returns those that stay.
        unsafe { batch.packets.set_len(0) };
        let mut kept = 0;
        if let Some((packets, output)) = stay {
            self.reset();
            self.home = Some(output as u8);
            kept = packets.min(len);
        }
        // SAFETY: both lie inside the batch, or at its end.
        let (next, end) = unsafe { (first.add(kept), first.add(len)) };
        if let Some(home) = self.home {
            self.cursors.ends[usize::from(home)] = next;
        }
        for &port in &self.others {
            if let Some(side) = self.batches.get_mut(usize::from(port)) {
                self.cursors.open(port, side, len);
            }
        }
        Partition {
            sides: self,
            batch,
            next,
            end,
            gone: 0,
        }
    }
}

impl Cursors {
    /// Opens an output and reserves room for `packets` packets.
    #[inline(always)]
    fn open(&mut self, port: u8, side: &mut Batch, packets: usize) {
        side.packets.reserve(packets);
        let len = side.packets.len();
        // SAFETY: the packets' end is inside the batch's memory.
        self.ends[usize::from(port)] = unsafe { side.packets.as_mut_ptr().add(len) };
        self.bytes[usize::from(port)] = 0;
    }
}

/// A batch during its partition: first the packets that stay, then a gap, then the packets not yet seen. Dropping the
/// partition closes the gap. A panic in between leaks packets and never frees one twice.
pub struct Partition<'a> {
    sides: &'a mut Sides,
    /// The batch; its length is 0 until the partition is dropped.
    batch: &'a mut Batch,
    /// The first packet that was not yet processed, and the end of the packets.
    next: *mut Packet,
    end: *mut Packet,
    /// Number of bytes of the packets that have left.
    gone: u64,
}

impl Partition<'_> {
    /// Moves packets to the outputs that `step` returns. Stops before a packet for which `step` returns `None` or a
    /// nonexistent output, and returns that result.
    #[inline(never)] // a loop with all registers
    pub fn run(&mut self, mut step: impl FnMut(&mut Packet) -> Option<Verdict>) -> Option<Verdict> {
        loop {
            let end = self.end;
            // If `step` panics, these packets are leaked.
            let mut slot = std::mem::replace(&mut self.next, end);
            let cursors = &raw mut *self.sides.cursors;
            let mut said = None;
            // SAFETY: packets from `slot` to `end` are valid; each is passed to `step` once. Nothing else uses the
            // cursors meanwhile.
            unsafe {
                // Processing two packets per iteration saves one and a half instructions per packet.
                let pairs = end.offset_from_unsigned(slot) / 2;
                let pairs_end = slot.add(2 * pairs);
                while slot != pairs_end {
                    said = move_one(slot, cursors, &mut step);
                    if said.is_some() {
                        break;
                    }
                    said = move_one(slot.add(1), cursors, &mut step);
                    if said.is_some() {
                        slot = slot.add(1);
                        break;
                    }
                    slot = slot.add(2);
                }
                if said.is_none() && slot != end {
                    said = move_one(slot, cursors, &mut step);
                    if said.is_none() {
                        slot = end;
                    }
                }
            }
            self.next = slot;
            match said.flatten() {
                Some(verdict) if self.admit(verdict) => {}
                said => return said,
            }
        }
    }

    /// The next packet that was not yet processed.
    #[inline]
    pub fn peek(&mut self) -> Option<&mut Packet> {
        // SAFETY: packets from `next` to `end` are here.
        (self.next != self.end).then(|| unsafe { &mut *self.next })
    }

    /// Moves the next packet to the verdict's output; returns the packet if there is no such output.
    #[inline(never)]
    pub fn go(&mut self, verdict: Verdict) -> Option<Packet> {
        if self.admit(verdict) {
            return None;
        }
        let len = self.peek()?.len() as u64;
        self.gone += len;
        // SAFETY: `peek` shows that there is one; `next` advances past it, so that it is read once.
        unsafe {
            let packet = self.next.read();
            self.next = self.next.add(1);
            Some(packet)
        }
    }

    /// The output whose packets stayed.
    #[inline]
    pub fn done(self) -> Option<usize> {
        self.sides.home.map(usize::from)
    }

    /// Moves the next packet to the verdict's output, and opens the output if it is closed. Returns false if there is
    /// no such output, or no packet.
    #[cold]
    fn admit(&mut self, verdict: Verdict) -> bool {
        let Some(packet) = self.peek() else {
            return false;
        };
        let (len, port) = (packet.len() as u64, verdict.port());
        let sides = &mut *self.sides;
        if sides.cursors.ends[port].is_null() {
            let Some(side) = sides.batches.get_mut(port) else {
                return false;
            };
            if sides.home.is_none() {
                sides.home = Some(port as u8);
                sides.cursors.ends[port] = self.batch.packets.as_mut_ptr();
            } else {
                // SAFETY: both pointers are into one batch, and `next` does not exceed `end`.
                let left = unsafe { self.end.offset_from_unsigned(self.next) };
                sides.cursors.open(port as u8, side, left);
                sides.others.push(port as u8);
            }
        }
        // SAFETY: `peek` shows that there is one; `next` advances past it, so that it is read once. The output is
        // open.
        unsafe {
            let packet = self.next.read();
            self.next = self.next.add(1);
            put(packet, len, &raw mut *sides.cursors, port);
        }
        true
    }
}

/// Moves a packet if `step` returns an open output. Otherwise the packet stays, and the result of `step` is returned.
///
/// # Safety
/// `slot` holds a packet that has not been partitioned, and the cursors are those of its [`Partition`].
#[inline(always)]
unsafe fn move_one(
    slot: *mut Packet,
    cursors: *mut Cursors,
    step: &mut impl FnMut(&mut Packet) -> Option<Verdict>,
) -> Option<Option<Verdict>> {
    // SAFETY: by this function's contract. If `step` panics, the packet is leaked.
    let mut packet = ManuallyDrop::new(unsafe { slot.read() });
    let len = packet.len() as u64; // the length after the step is unused, or the same
    let said = step(&mut packet);
    let packet = ManuallyDrop::into_inner(packet);
    // SAFETY: by this function's contract; a port is less than PORTS.
    unsafe {
        if let Some(verdict) = said
            && let port = verdict.port()
            && !(*cursors).ends[port].is_null()
        {
            put(packet, len, cursors, port);
            return None;
        }
        slot.write(packet);
    }
    Some(said)
}

/// Writes a packet at an output's cursor.
///
/// # Safety
/// The output is open, and the packet was read from the part of the batch that is not yet partitioned, so the output
/// has room.
#[inline(always)]
unsafe fn put(packet: Packet, len: u64, cursors: *mut Cursors, port: usize) {
    // SAFETY: an output is opened with room for all packets not yet partitioned. At home there is always the place
    // that was read, or an earlier one. Reading the cursor again takes one instruction less than keeping it.
    unsafe {
        (*cursors).ends[port].write(packet);
        (*cursors).ends[port] = (*cursors).ends[port].add(1);
        (*cursors).bytes[port] += len;
    }
}

impl Drop for Partition<'_> {
    #[inline]
    fn drop(&mut self) {
        let sides = &mut *self.sides;
        let counted = self.batch.is_counted();
        for &port in &sides.others {
            let port = usize::from(port);
            let Some(side) = sides.batches.get_mut(port) else {
                continue;
            };
            // SAFETY: packets have been written contiguously up to there.
            unsafe {
                let first = side.packets.as_mut_ptr();
                let len = sides.cursors.ends[port].offset_from_unsigned(first);
                side.packets.set_len(len);
            }
            if counted {
                side.add_bytes(sides.cursors.bytes[port]);
                self.gone += sides.cursors.bytes[port];
            } else {
                side.packets_mut();
            }
        }
        let first = self.batch.packets.as_mut_ptr();
        let home = sides.home.map(|home| sides.cursors.ends[usize::from(home)]);
        let end = home.unwrap_or(first);
        // SAFETY: both ranges are inside the batch, which has no other packets.
        unsafe {
            let (kept, rest) = (
                end.offset_from_unsigned(first),
                self.end.offset_from_unsigned(self.next),
            );
            if rest > 0 {
                ptr::copy(self.next, end, rest);
            }
            self.batch.packets.set_len(kept + rest);
        }
        self.batch.less_bytes(self.gone);
    }
}

#[cfg(test)]
mod tests;
