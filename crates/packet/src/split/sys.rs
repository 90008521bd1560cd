//! Splitting of a batch: packets that do not stay are moved to another batch.
#![allow(unsafe_code)]

use crate::{Batch, Packet, Verdict};

impl Batch {
    /// Calls `step` for a verdict on every packet, in order. Packets for output 0 stay, in order; others are moved to
    /// `aside`. If every packet is for output 0, nothing is moved.
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

    /// Like [`split`](Self::split), but packets for which `step` returns `None` stay in the batch.
    #[inline]
    pub fn part<C>(
        &mut self,
        cx: &mut C,
        mut step: impl FnMut(&mut Packet, &mut C) -> Option<Verdict>,
        aside: impl FnMut(Packet, Verdict, &mut C),
    ) {
        let len = self.packets.len();
        let first = self.packets_mut().as_mut_ptr();
        // SAFETY: the length is 0 while packets are moved, so a panic leaks packets and never frees one twice.
        // Packets from `first` to `end` are processed once each.
        unsafe {
            self.packets.set_len(0);
            let (mut slot, end) = (first, first.add(len));
            let mut gone = 0;
            // Usually all packets stay: this loop needs not track gaps.
            while slot != end {
                if let Some(verdict) = step(&mut *slot, cx) {
                    gone = close(slot, end, verdict, cx, step, aside);
                    break;
                }
                slot = slot.add(1);
            }
            self.packets.set_len(len - gone);
        }
    }
}

/// Second part of [`Batch::part`], from the first packet that leaves: packets that stay move up. Returns the number
/// of packets that have left.
///
/// # Safety
/// `slot` to `end` are packets without another owner, and `step` returned `verdict` for the first of them.
#[inline(never)] // a loop of its own, so that the other one keeps its registers
unsafe fn close<C>(
    mut slot: *mut Packet,
    end: *mut Packet,
    verdict: Verdict,
    cx: &mut C,
    mut step: impl FnMut(&mut Packet, &mut C) -> Option<Verdict>,
    mut aside: impl FnMut(Packet, Verdict, &mut C),
) -> usize {
    let (mut gone, mut said) = (0, Some(verdict));
    // SAFETY: `slot` passes each packet once, and `gone` is less than the number of passed packets.
    unsafe {
        loop {
            match said {
                Some(verdict) => {
                    aside(slot.read(), verdict, cx);
                    gone += 1;
                }
                None => std::ptr::copy_nonoverlapping(slot, slot.sub(gone), 1),
            }
            slot = slot.add(1);
            if slot == end {
                return gone;
            }
            said = step(&mut *slot, cx);
        }
    }
}
