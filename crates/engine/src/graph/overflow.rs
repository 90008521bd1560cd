//! Overflow accounting: tells a source how many of its packets are lost at overflowing outputs (VR7), so that it can
//! poll less often.
//!
//! Packets move on until a queue or a device takes them, within the run of the task that brought them. So packets
//! lost in a run belong to its source. While nothing overflows, a run only checks an empty list.

use super::{Cx, ExternalOfClass, Graph, OverflowLosses};
use crate::clock::Time;
use crate::stats::NodeStats;
use std::time::Duration;

/// Time after its last loss for which an element counts as overflowing.
const REMEMBERED: Duration = Duration::from_secs(1);

/// Elements that overflow now or did within `REMEMBERED`.
#[derive(Default)]
pub(crate) struct Overflows {
    /// Number of packets lost in this run.
    lost: u64,
    /// The elements, each with the time at which its overflow is forgotten.
    full: Vec<(usize, Time)>,
}

impl Overflows {
    /// True if nothing overflows.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.full.is_empty()
    }

    /// Number of overflowing elements, and the packets that they have received until now.
    #[inline]
    pub(super) fn snapshot(&self, stats: &[NodeStats]) -> (usize, u64) {
        match self.is_empty() {
            true => (0, 0),
            false => (self.full.len(), self.entered(self.full.len(), stats)),
        }
    }

    fn entered(&self, known: usize, stats: &[NodeStats]) -> u64 {
        let known = self.full[..known].iter();
        known.map(|&(node, _)| stats[node].packets).sum()
    }

    fn record_loss(&mut self, node: usize, lost: usize, now: Time) {
        self.lost += lost as u64;
        let until = now + REMEMBERED;
        match self.full.iter_mut().find(|full| full.0 == node) {
            Some(known) => known.1 = until,
            None => self.full.push((node, until)),
        }
    }
}

impl Cx<'_> {
    /// Reports that `lost` packets were lost here, because a queue or device is full. Sources whose packets all end
    /// here will then poll less often.
    pub fn note_overflow(&mut self, lost: usize) {
        let now = self.core.now;
        self.core.overflows.record_loss(self.this, lost, now);
    }
}

impl Graph {
    /// Reports to a source the losses of the run that has ended; `before` is the result of [`Overflows::snapshot`].
    #[cold]
    #[inline(never)]
    pub(super) fn account(&mut self, node: usize, before: (usize, u64)) {
        let core = &mut self.core;
        let (known, entered) = before;
        let fate = OverflowLosses {
            entered: core.overflows.entered(known, &core.stats) - entered,
            lost: std::mem::take(&mut core.overflows.lost),
        };
        let now = core.now;
        core.overflows.full.retain(|&(_, until)| until > now);
        // Overflows that begin during this run count from the next run on.
        let source = &core.plan.elements[node];
        if known > 0
            && source.inputs.is_empty()
            && let Some(class) = source.class.extension::<ExternalOfClass>()
        {
            self.with_node(node, |e, cx| (class.overflowed)(e.element_mut(), fate, cx));
        }
    }
}
