//! Sends the packets of a batch by several outputs, those of one output together.
//!
//! [`Cx::sort`] keeps neighbours of one mind together, which is the least work where most packets agree. Frames of a
//! cluster go by all links in turn, and a batch is cut to pieces so.

use crate::prelude::*;
use std::slice::IterMut;
use std::vec::Drain;

#[derive(Default)]
pub(super) struct Sides {
    /// By output; empty between batches.
    batches: Box<[Batch]>,
}

impl Sides {
    pub(super) fn new(outputs: usize) -> Sides {
        Sides {
            batches: (0..outputs).map(|_| Batch::new()).collect(),
        }
    }

    /// Sends packets, as `each` gives them, where `step` says; `leave` sees all that go by an output before they do.
    #[inline]
    pub(super) fn part<S: FnMut(&mut Packet, &Cx) -> Verdict>(
        &mut self,
        batch: &mut Batch,
        each: fn(&mut Batch) -> IterMut<'_, Packet>,
        cx: &mut Cx,
        mut step: S,
        leave: impl Fn(usize, &mut Batch, &Cx),
    ) {
        let mut packets = each(batch);
        let Some(first) = packets.next().map(|packet| step(packet, cx)) else {
            return;
        };
        let Some((other, left)) = agree(packets, first, &mut step, cx) else {
            if let Some(reason) = first.reason() {
                return cx.drop_batch(batch, reason);
            }
            leave(first.port(), batch, cx);
            return cx.go_by(first.port(), batch);
        };
        let same = batch.len() - left - 1;
        let mut packets = batch.drain();
        for packet in packets.by_ref().take(same) {
            add(&mut self.batches, packet, first, cx);
        }
        if let Some(packet) = packets.next() {
            add(&mut self.batches, packet, other, cx);
        }
        deal(packets, &mut self.batches, &mut step, cx);
        self.leave(batch, cx, leave);
    }

    /// Sends what there is for each output: what goes by the last of them in `batch`, which is empty.
    #[inline]
    fn leave(&mut self, batch: &mut Batch, cx: &mut Cx, leave: impl Fn(usize, &mut Batch, &Cx)) {
        let mut last = None;
        for output in 0..self.batches.len() {
            if self.batches[output].is_empty() {
                continue;
            }
            leave(output, &mut self.batches[output], cx);
            if let Some(before) = last.replace(output) {
                cx.emit_batch(before, &mut self.batches[before]);
            }
        }
        if let Some(last) = last {
            std::mem::swap(batch, &mut self.batches[last]);
            cx.go_by(last, batch);
        }
    }
}

/// Looks at packets until one is not to go where `first` says: where that goes, and how many are left behind it.
#[inline(never)] // a loop with all registers
fn agree<S: FnMut(&mut Packet, &Cx) -> Verdict>(
    mut packets: IterMut<'_, Packet>,
    first: Verdict,
    step: &mut S,
    cx: &Cx,
) -> Option<(Verdict, usize)> {
    while let Some(packet) = packets.next() {
        let verdict = step(packet, cx);
        if verdict != first {
            return Some((verdict, packets.len()));
        }
    }
    None
}

/// Puts each packet where `step` says.
#[inline(never)]
fn deal<S: FnMut(&mut Packet, &Cx) -> Verdict>(
    packets: Drain<'_, Packet>,
    sides: &mut [Batch],
    step: &mut S,
    cx: &mut Cx,
) {
    for mut packet in packets {
        let verdict = step(&mut packet, cx);
        add(sides, packet, verdict, cx);
    }
}

#[inline(always)]
fn add(sides: &mut [Batch], packet: Packet, verdict: Verdict, cx: &mut Cx) {
    match sides.get_mut(verdict.port()) {
        Some(side) => side.push(packet),
        None => cx.drop(packet, verdict.reason().unwrap_or_default()),
    }
}
