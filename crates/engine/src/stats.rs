//! Counters: each has one writer, the worker; control reads sums over workers.

use crate::plan::{Plan, PlanElement};
use crate::ports::Ports;
use crate::run_result::Did;

/// Counters of one element on one worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeStats {
    /// Number of packets that entered the element (or were pulled from it).
    pub packets: u64,
    /// Number of segments, minus the number of super-frames that they were cut from; see
    /// [`Cx::cut`](crate::graph::Cx::cut).
    pub cut: u64,
    /// Number of batches in which the packets entered.
    pub batches: u64,
    /// Number of cycles spent in the element itself (and in elements that it pulls from), estimated from a sample of
    /// its runs.
    pub cycles: u64,
    /// Packets that left, by output.
    pub sent: Vec<u64>,
    /// Dropped packets: by the class's reasons, then by unconnected output, then `no_segment` where super-frames may
    /// come, then `loop`.
    pub drops: Vec<u64>,
}

impl NodeStats {
    pub(crate) fn of(element: &PlanElement) -> NodeStats {
        NodeStats {
            sent: vec![0; element.outputs.len().max(1)],
            drops: vec![0; drop_names(element).len()],
            ..NodeStats::default()
        }
    }

    /// Continues the counters of `old` after a hot swap.
    pub(crate) fn take(&mut self, old: &NodeStats) {
        let mut old = old.clone();
        old.sent.resize(self.sent.len(), 0);
        if old.drops.len() != self.drops.len() {
            let reasons = old.drops.len().min(self.drops.len());
            let looped = old.drops.pop().unwrap_or(0);
            old.drops.truncate(reasons.saturating_sub(1));
            old.drops.resize(self.drops.len() - 1, 0);
            old.drops.push(looped);
        }
        *self = old;
    }

    /// Adds the counters of another worker's copy.
    pub fn add(&mut self, other: &NodeStats) {
        self.packets += other.packets;
        self.cut += other.cut;
        self.batches += other.batches;
        self.cycles += other.cycles;
        add(&mut self.sent, &other.sent);
        add(&mut self.drops, &other.drops);
    }
}

fn add(to: &mut Vec<u64>, from: &[u64]) {
    to.resize(to.len().max(from.len()), 0);
    to.iter_mut().zip(from).for_each(|(a, b)| *a += b);
}

/// Names of an element's drop counters, in the order of [`NodeStats::drops`].
pub fn drop_names(element: &PlanElement) -> Vec<String> {
    let outputs = 0..element.outputs.len().max(1);
    let ports = outputs.map(|p| Ports::port_name(element.class.ports.outputs, p));
    let reasons = element.class.drops.iter().map(|&d| d.to_owned());
    let may_cut = element.super_frames && !element.inputs.is_empty();
    let cuts = may_cut.then(|| "no_segment".to_owned());
    let last = cuts.into_iter().chain(["loop".to_owned()]);
    reasons.chain(ports).chain(last).collect()
}

/// Non-zero drop counts on one worker: element, name, packets.
pub fn drops<'a>(
    plan: &'a Plan,
    stats: &'a [NodeStats],
) -> impl Iterator<Item = (&'a str, String, u64)> {
    let elements = plan.elements.iter().zip(stats);
    elements.flat_map(|(element, stats)| {
        let names = drop_names(element).into_iter();
        let named = names.zip(stats.drops.iter().copied());
        named
            .filter(|(_, n)| *n > 0)
            .map(|(name, n)| (element.name.as_str(), name, n))
    })
}

/// Counters of one task on one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskStats {
    /// Number of runs of the task.
    pub runs: u64,
    /// Number of runs in which the task found no packet: empty polls.
    pub empty: u64,
    /// Number of cycles of runs that moved packets, including all elements that the packets passed, estimated from a
    /// sample.
    pub cycles: u64,
    /// Number of cycles of empty polls, estimated from a sample.
    pub empty_cycles: u64,
    pub(crate) woken: bool,
}

impl TaskStats {
    #[inline]
    pub(crate) fn record_run(&mut self, did: Did, cycles: u64) {
        self.runs += 1;
        if did == Did::Work {
            self.cycles += cycles;
        } else {
            self.empty += 1;
            self.empty_cycles += cycles;
        }
    }
}
