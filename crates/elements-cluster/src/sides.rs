//! Sends the packets of a batch by several outputs, those of one output together.
//!
//! [`Cx::sort`] keeps runs of packets for the same output together, which is the least work if most packets of
//! a batch have the same output. But frames of a cluster use all links in turn, which would split a batch into
//! many small ones.

use crate::prelude::*;
use std::slice::IterMut;

/// Decides where packets go.
pub(crate) trait Step {
    /// Fast path of a packet; `None` leaves the packet unchanged.
    fn fast(&mut self, packet: &mut Packet, cx: &Cx) -> Option<Verdict>;
    /// The slow path of a packet.
    fn slow(&mut self, packet: &mut Packet, cx: &Cx) -> Verdict;
}

impl<F: FnMut(&mut Packet, &Cx) -> Verdict> Step for F {
    #[inline]
    fn fast(&mut self, packet: &mut Packet, cx: &Cx) -> Option<Verdict> {
        Some(self(packet, cx))
    }

    fn slow(&mut self, packet: &mut Packet, cx: &Cx) -> Verdict {
        self(packet, cx)
    }
}

pub(crate) struct Sides(engine::packet::Sides);

impl Sides {
    pub(crate) fn new(outputs: usize) -> Sides {
        Sides(engine::packet::Sides::new(outputs))
    }

    /// Sends packets, in the order of `each`, to the outputs that `step` returns; `leave` sees each output's packets
    /// before they go.
    #[inline]
    pub(crate) fn part<S: Step>(
        &mut self,
        batch: &mut Batch,
        each: fn(&mut Batch) -> IterMut<'_, Packet>,
        cx: &mut Cx,
        mut step: S,
        leave: impl Fn(usize, &mut Batch, &Cx),
    ) {
        let packets = each(batch).into_slice();
        // If the last batch was split, this one probably will be, too.
        let home = if self.0.part() {
            self.partition(batch, None, None, &mut step, cx)
        } else {
            let Some((home, at, other)) = together(packets, &mut step, cx) else {
                return;
            };
            match (home.reason(), other) {
                (None, None) => Some(home.port()),
                (Some(reason), None) => return cx.drop_batch(batch, reason),
                (None, other) => {
                    self.deal_first(batch, Some((at, home.port())), other, &mut step, cx)
                }
                (Some(reason), other) => {
                    let lost = batch.drain_front(at);
                    lost.for_each(|packet| cx.drop(packet, reason));
                    self.deal_first(batch, None, other, &mut step, cx)
                }
            }
        };
        self.0.each(|output, side| {
            leave(output, side, cx);
            cx.emit_batch(output, side);
        });
        match home {
            Some(home) if !batch.is_empty() => {
                leave(home, batch, cx);
                cx.go_by(home, batch);
            }
            _ => self.0.reset(),
        }
    }

    /// Like [`deal`](Self::deal), for the first batch with several outputs; one loop handles those that follow.
    #[inline(never)]
    fn deal_first<S: Step>(
        &mut self,
        batch: &mut Batch,
        stay: Option<(usize, usize)>,
        known: Option<Verdict>,
        step: &mut S,
        cx: &mut Cx,
    ) -> Option<usize> {
        self.partition(batch, stay, known, step, cx)
    }

    /// Partitions a batch. Packets that stay (see [`engine::packet::Sides::partition`]) are not examined; `known` is
    /// the verdict for the first packet behind them, if known. Returns the output of the packets that stay.
    #[inline(always)]
    fn partition<S: Step>(
        &mut self,
        batch: &mut Batch,
        stay: Option<(usize, usize)>,
        mut known: Option<Verdict>,
        step: &mut S,
        cx: &mut Cx,
    ) -> Option<usize> {
        let mut partition = self.0.partition(batch, stay);
        loop {
            known = known.or_else(|| partition.run(|packet| step.fast(packet, cx)));
            let Some(packet) = partition.peek() else {
                return partition.done();
            };
            let verdict = known.take().unwrap_or_else(|| step.slow(packet, cx));
            if let Some(packet) = partition.go(verdict) {
                cx.drop(packet, verdict.reason().unwrap_or_default());
            }
        }
    }
}

/// Examines packets while they go the same way: returns the way, their number, and the verdict for the next one.
#[inline]
fn together<S: Step>(
    packets: &mut [Packet],
    step: &mut S,
    cx: &Cx,
) -> Option<(Verdict, usize, Option<Verdict>)> {
    let first = packets.first_mut()?;
    let home = match step.fast(first, cx) {
        Some(verdict) => verdict,
        None => step.slow(first, cx),
    };
    let mut at = 1;
    loop {
        let known;
        (at, known) = agree(packets, at, home, step, cx);
        let Some(packet) = packets.get_mut(at) else {
            return Some((home, at, None));
        };
        let verdict = known.unwrap_or_else(|| step.slow(packet, cx));
        if verdict != home {
            return Some((home, at, Some(verdict)));
        }
        at += 1;
    }
}

/// Examines packets from a place on until one has no verdict, or another one than `home`: returns its place and
/// verdict.
#[inline(never)] // a loop with all registers
fn agree<S: Step>(
    packets: &mut [Packet],
    at: usize,
    home: Verdict,
    step: &mut S,
    cx: &Cx,
) -> (usize, Option<Verdict>) {
    // Unrolled by two, which saves one and a half instructions per packet.
    let end = packets.len();
    let (pairs, last) = packets.get_mut(at..).unwrap_or_default().as_chunks_mut();
    let single = last.len();
    let mut pairs = pairs.iter_mut();
    while let Some([a, b]) = pairs.next() {
        let verdict = step.fast(a, cx);
        if verdict != Some(home) {
            return (end - single - 2 * pairs.len() - 2, verdict);
        }
        let verdict = step.fast(b, cx);
        if verdict != Some(home) {
            return (end - single - 2 * pairs.len() - 1, verdict);
        }
    }
    let last = last.first_mut();
    match last.map(|packet| step.fast(packet, cx)) {
        Some(verdict) if verdict != Some(home) => (end - 1, verdict),
        _ => (end, None),
    }
}
