//! Sends the packets of a batch by several outputs, those of one output together.
//!
//! [`Cx::sort`] keeps neighbours of one mind together, which is the least work where most packets agree. Frames of a
//! cluster go by all links in turn, and a batch is cut to pieces so.

use crate::prelude::*;
use std::slice::IterMut;

/// Says where packets go.
pub(super) trait Step {
    /// At once, if it can; a packet of which it says nothing is as it was.
    fn quick(&mut self, packet: &mut Packet, cx: &Cx) -> Option<Verdict>;
    /// As long as it takes.
    fn slow(&mut self, packet: &mut Packet, cx: &Cx) -> Verdict;
}

impl<F: FnMut(&mut Packet, &Cx) -> Verdict> Step for F {
    #[inline]
    fn quick(&mut self, packet: &mut Packet, cx: &Cx) -> Option<Verdict> {
        Some(self(packet, cx))
    }

    fn slow(&mut self, packet: &mut Packet, cx: &Cx) -> Verdict {
        self(packet, cx)
    }
}

#[derive(Default)]
pub(super) struct Sides {
    /// By output, of what does not go where most of a batch goes; empty between batches.
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
    pub(super) fn part<S: Step>(
        &mut self,
        batch: &mut Batch,
        each: fn(&mut Batch) -> IterMut<'_, Packet>,
        cx: &mut Cx,
        mut step: S,
        leave: impl Fn(usize, &mut Batch, &Cx),
    ) {
        let packets = each(batch).into_slice();
        let Some(packet) = packets.first_mut() else {
            return;
        };
        let home = match step.quick(packet, cx) {
            Some(verdict) => verdict,
            None => step.slow(packet, cx),
        };
        let mut at = 1;
        while at < packets.len() {
            let known;
            (at, known) = agree(packets, at, home, &mut step, cx);
            let Some(packet) = packets.get_mut(at) else {
                break;
            };
            let verdict = known.unwrap_or_else(|| step.slow(packet, cx));
            if verdict != home {
                self.deal(batch, (at, verdict), home, &mut step, cx);
                self.leave(cx, &leave);
                break;
            }
            at += 1;
        }
        if let Some(reason) = home.reason() {
            return cx.drop_batch(batch, reason);
        }
        leave(home.port(), batch, cx);
        cx.go_by(home.port(), batch);
    }

    /// Takes those out of a batch that are not to go `home`: the one at this place, of which that is known, and what
    /// is behind it.
    fn deal<S: Step>(
        &mut self,
        batch: &mut Batch,
        (at, verdict): (usize, Verdict),
        home: Verdict,
        step: &mut S,
        cx: &mut Cx,
    ) {
        let mut packets = batch.deal(at);
        let mut known = Some(verdict);
        while let Some(packet) = packets.peek() {
            match known.unwrap_or_else(|| step.slow(packet, cx)) {
                verdict if verdict == home => packets.keep(),
                verdict => {
                    let sent = packets.take().into_iter();
                    sent.for_each(|packet| self.add(packet, verdict, cx));
                }
            }
            known = packets.run(&mut self.batches, home, |packet| step.quick(packet, cx));
        }
    }

    fn add(&mut self, packet: Packet, verdict: Verdict, cx: &mut Cx) {
        match self.batches.get_mut(verdict.port()) {
            Some(side) => side.push(packet),
            None => cx.drop(packet, verdict.reason().unwrap_or_default()),
        }
    }

    /// Sends what there is for each output.
    #[inline]
    fn leave(&mut self, cx: &mut Cx, leave: &impl Fn(usize, &mut Batch, &Cx)) {
        for (output, batch) in self.batches.iter_mut().enumerate() {
            if !batch.is_empty() {
                leave(output, batch, cx);
                cx.emit_batch(output, batch);
            }
        }
    }
}

/// Looks at packets from a place on until nothing is known of one, or it is not to go `home`: where that is, and what
/// was said of it.
#[inline(never)] // a loop with all registers
fn agree<S: Step>(
    packets: &mut [Packet],
    at: usize,
    home: Verdict,
    step: &mut S,
    cx: &Cx,
) -> (usize, Option<Verdict>) {
    // Two by two, which saves an instruction and a half of each packet.
    let end = packets.len();
    let (pairs, last) = packets.get_mut(at..).unwrap_or_default().as_chunks_mut();
    let single = last.len();
    let mut pairs = pairs.iter_mut();
    while let Some([a, b]) = pairs.next() {
        let verdict = step.quick(a, cx);
        if verdict != Some(home) {
            return (end - single - 2 * pairs.len() - 2, verdict);
        }
        let verdict = step.quick(b, cx);
        if verdict != Some(home) {
            return (end - single - 2 * pairs.len() - 1, verdict);
        }
    }
    let last = last.first_mut();
    match last.map(|packet| step.quick(packet, cx)) {
        Some(verdict) if verdict != Some(home) => (end - 1, verdict),
        _ => (end, None),
    }
}
