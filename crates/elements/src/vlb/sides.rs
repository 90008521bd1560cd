//! Sorts the packets of a batch by the output they leave by, so that those of one output leave together.
//!
//! [`Cx::sort`] keeps neighbours of one mind together, which is the least work where most packets agree. Frames of a
//! cluster go by all links in turn, and a batch is cut to pieces so.

use crate::prelude::*;

#[derive(Default)]
pub(super) struct Sides {
    /// Of a batch's packets; empty between batches.
    verdicts: Vec<Verdict>,
    /// By output; empty between batches.
    batches: Box<[Batch]>,
}

impl Sides {
    pub(super) fn new(outputs: usize) -> Sides {
        Sides {
            verdicts: Vec::new(),
            batches: (0..outputs).map(|_| Batch::new()).collect(),
        }
    }

    /// Where the verdicts on a batch's packets are put, in order.
    #[inline]
    pub(super) fn verdicts(&mut self) -> &mut Vec<Verdict> {
        self.verdicts.clear();
        &mut self.verdicts
    }

    /// Sends packets where their verdicts say; `leave` sees all that go by an output before they do.
    #[inline]
    pub(super) fn part(
        &mut self,
        batch: &mut Batch,
        cx: &mut Cx,
        leave: impl Fn(usize, &mut Batch, &Cx),
    ) {
        let Some(&first) = self.verdicts.first() else {
            return;
        };
        if self.verdicts.iter().all(|&verdict| verdict == first) {
            if let Some(reason) = first.reason() {
                return cx.drop_batch(batch, reason);
            }
            leave(first.port(), batch, cx);
            return cx.emit_batch(first.port(), batch);
        }
        for (packet, verdict) in batch.drain().zip(&self.verdicts) {
            match verdict.reason() {
                None => self.batches[verdict.port()].push(packet),
                Some(reason) => cx.drop(packet, reason),
            }
        }
        for (output, side) in self.batches.iter_mut().enumerate() {
            if !side.is_empty() {
                leave(output, side, cx);
                cx.emit_batch(output, side);
            }
        }
    }
}
