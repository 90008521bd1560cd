//! Packets of a batch sorted by output, so that neighbours with different outputs cost no more than others.

use crate::prelude::*;

/// A batch for each output, empty between calls.
pub(super) struct Lanes {
    batches: Vec<Batch>,
    /// A bit for each output that has packets.
    used: u128,
}

impl Lanes {
    /// For so many outputs.
    pub(super) fn new(outputs: usize) -> Lanes {
        Lanes {
            batches: (0..outputs).map(|_| Batch::new()).collect(),
            used: 0,
        }
    }

    /// Adds a packet. Returns it if there is no such output.
    #[inline]
    pub(super) fn push(&mut self, output: usize, packet: Packet) -> Option<Packet> {
        let Some(batch) = self.batches.get_mut(output) else {
            return Some(packet);
        };
        batch.push(packet);
        self.used |= 1 << output;
        None
    }

    /// Sends all packets. Those for output 0 are left in `batch`, which must be empty.
    #[inline]
    pub(super) fn send(&mut self, batch: &mut Batch, cx: &mut Cx) {
        if let Some(first) = self.batches.first_mut() {
            std::mem::swap(batch, first);
        }
        self.used &= !1;
        while self.used != 0 {
            let output = self.used.trailing_zeros() as usize;
            self.used &= self.used - 1;
            cx.emit_batch(output, &mut self.batches[output]);
        }
    }
}
