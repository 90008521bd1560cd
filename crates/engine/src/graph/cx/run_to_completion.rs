//! Run to completion: a source's packets move on at once, burst after burst.
//!
//! If a source's output leads directly to an element that takes all packets (a device, a queue), that element is kept
//! out of the graph during all bursts. So it is looked up, counted and put back only once.

use super::Cx;
use crate::graph::Node;
use crate::graph::{Target, Walker, follow, follow_from, put_back};
use crate::packet::Batch;

/// The element after a source, taken out of the graph.
struct Next {
    target: Target,
    element: Box<dyn Node>,
    packets: u64,
    batches: u64,
}

impl Cx<'_> {
    /// Runs the task of an element without inputs that sends only these packets. `bring` fills `batch` and returns
    /// true if more may wait. The packets leave by `output`, and may have travelled far when `bring` is called again.
    /// `bring` is called repeatedly while more may wait, the task is the only one, turns are short, and all sent
    /// packets have moved on. So bursts share the fixed cost of a turn.
    #[inline(always)] // once for each source
    pub fn run_to_completion(
        &mut self,
        output: usize,
        batch: &mut Batch,
        mut bring: impl FnMut(&mut Batch, &mut Cx) -> bool,
    ) {
        debug_assert!(self.core.plan.elements[self.this].inputs.is_empty());
        debug_assert!(self.core.running == 1 && self.core.ready.is_empty());
        // A first call of `bring` before the loop would compile the whole source in a second time.
        let (mut held, mut begun) = (None, false);
        loop {
            let more = bring(batch, self);
            if !begun {
                if batch.is_empty() && !more {
                    return; // as after most polls of an idle port
                }
                (held, begun) = (self.hold_next(output), true);
            }
            if let Some(next) = &mut held {
                self.forward_batch(next, batch);
                if batch.is_empty() && self.core.deferred.is_empty() {
                    // No packet is left for the output that the element may have named.
                    self.core.batch_output = 0;
                } else {
                    let node = next.target.node();
                    self.put_back(held.take(), output);
                    follow_from(self.nodes, self.core, node, batch);
                }
            } else if !batch.is_empty() {
                self.send_on(output, batch);
            }
            if !(more && self.goes_on()) {
                break;
            }
        }
        self.put_back(held, output);
    }

    /// Takes the element after an output out of the graph, if packets may go to it directly. They may if it does not
    /// begin a fused loop, and if this run is neither watched nor measured.
    #[inline(always)]
    fn hold_next(&mut self, output: usize) -> Option<Next> {
        let core = &mut *self.core;
        let target = core.edges.output(self.this, output)?;
        let apart = core.weight > 0 || core.taps.has_taps() || core.walker == Walker::Strict;
        if apart || core.loops[target.node()].is_some() {
            return None;
        }
        let element = self.nodes[target.node()].take()?;
        core.running += 1;
        Some(Next {
            target,
            element,
            packets: 0,
            batches: 0,
        })
    }

    #[inline(always)]
    fn forward_batch(&mut self, next: &mut Next, batch: &mut Batch) {
        if batch.is_empty() {
            return;
        }
        next.packets += batch.len() as u64;
        next.batches += 1;
        let source = std::mem::replace(&mut self.this, next.target.node());
        next.element.process(next.target.port(), batch, self);
        self.this = source;
    }

    /// Puts an element back, and counts the packets that it received.
    #[inline(always)]
    fn put_back(&mut self, next: Option<Next>, output: usize) {
        let Some(next) = next else {
            return;
        };
        let (core, node) = (&mut *self.core, next.target.node());
        core.running -= 1;
        core.note_sent(self.this, output, next.packets as usize);
        let stats = &mut core.stats[node];
        stats.packets += next.packets;
        stats.batches += next.batches;
        put_back(self.nodes, node, next.element);
    }

    /// Like [`emit_batch`](Self::emit_batch), but the packets move on before this returns, if possible, without passing
    /// an inbox.
    #[inline]
    fn send_on(&mut self, output: usize, batch: &mut Batch) {
        let core = &mut *self.core;
        let at_once = core.walker == Walker::Sweep && !core.taps.has_taps();
        match core.edges.output(self.this, output) {
            Some(target) if at_once => {
                core.note_sent(self.this, output, batch.len());
                let before = core.stamp();
                follow(self.nodes, core, (target.node(), target.port()), batch);
                if core.weight > 0 {
                    core.completed += core.elapsed_cycles(before);
                }
            }
            _ => self.emit_batch(output, batch),
        }
    }

    /// True if a source may process its waiting packets now, as in a run of its task.
    #[inline]
    fn goes_on(&mut self) -> bool {
        let core = &mut *self.core;
        if core.extra_runs == 0 || core.stops > 0 || core.back_pressures > 0 || core.taps.has_taps()
        {
            return false;
        }
        core.extra_runs -= 1;
        core.ready.is_empty() && core.deferred.is_empty()
    }
}
