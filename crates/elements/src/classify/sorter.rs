//! How classifiers send packets on: a batch is decided first, and moves then.

use super::compiled::{Compiled, Headers};
use engine::prelude::{Batch, Cx, Verdict};

/// The part of a classifier that each worker has for itself.
#[derive(Default)]
pub(super) struct Sorter {
    /// Of the packets of a batch.
    verdicts: Vec<Verdict>,
}

impl Sorter {
    /// Decides about the packets of a batch.
    #[inline]
    pub(super) fn decide<'a, H: Headers<'a>>(
        &mut self,
        compiled: &Compiled,
        packets: impl ExactSizeIterator<Item = H>,
    ) {
        self.verdicts.clear();
        compiled.run(packets, &mut self.verdicts);
    }

    /// Sends the packets that were decided about out by their outputs; the others are dropped under the
    /// class's first name.
    pub(super) fn send(&mut self, batch: &mut Batch, cx: &mut Cx) {
        let mut verdicts = self.verdicts.iter();
        let mut dropped = cx.spare();
        batch.split(
            cx,
            |_, _| verdicts.next().copied().unwrap_or(Verdict::drop(0)),
            |packet, verdict, cx| match verdict.reason() {
                Some(_) => dropped.push(packet),
                None => cx.send(packet, verdict),
            },
        );
        cx.drop_batch(&mut dropped, 0);
        cx.keep_spare(dropped);
    }
}
