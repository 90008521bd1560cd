//! The two walkers: they move packets on until no packet is between elements.

use super::CountsOfClass;
use super::edges::Target;
use super::{Core, Graph, Nodes, Walker, put_back};
use crate::graph::Cx;
use crate::graph::call::JobCx;
use crate::packet::{Batch, Packet};

/// Number of times that a sweep may go back. After that, waiting packets are dropped as `loop`.
const LAPS_MAX: u32 = 256;
/// Number of steps of one descent after which a packet is taken to be in a loop.
const STEPS_MAX: u32 = 1 << 20;

impl Graph {
    /// Moves packets on until no packet is between elements.
    #[inline]
    pub(crate) fn walk(&mut self) {
        let Core {
            ready,
            stack,
            deferred,
            ..
        } = &self.core;
        if !(ready.is_empty() && stack.is_empty() && deferred.is_empty()) {
            self.walk_on();
        }
    }

    fn walk_on(&mut self) {
        let strict = self.core.walker == Walker::Strict;
        if strict {
            // Batches that a task, timer or handler emitted are in order; the first one must be on top of the stack.
            self.core.turn_over(0);
        }
        run_deferred(&mut self.nodes, &mut self.core);
        match strict {
            false => self.sweep(),
            true => descend(&mut self.nodes, &mut self.core, 0),
        }
    }

    fn sweep(&mut self) {
        // Without cycles, ranks only grow: packets wait at a node of higher rank than the node that sent them.
        let (mut laps, mut last) = (0, None);
        while let Some(rank) = self.core.ready.take_first() {
            let (node, inboxes) = self.core.edges.at_rank(rank);
            laps += u32::from(last.replace(rank).is_some_and(|last| rank <= last));
            if laps > LAPS_MAX {
                self.drop_waiting(node);
                continue;
            }
            for (input, inbox) in inboxes.enumerate() {
                let Graph {
                    nodes,
                    core,
                    moving,
                } = self;
                if core.inboxes[inbox].is_empty() {
                    continue;
                }
                std::mem::swap(&mut core.inboxes[inbox], moving);
                follow(nodes, core, (node, input), moving);
            }
        }
    }

    /// Drops packets that wait at a node, because they circulate in a loop.
    #[cold]
    fn drop_waiting(&mut self, node: usize) {
        for input in 0..self.core.plan.elements[node].inputs.len() {
            let inbox = self.core.edges.inbox(node, input);
            let mut batch = std::mem::take(&mut self.core.inboxes[inbox]);
            self.core.drop_looping(node, &mut batch);
        }
    }

    /// Injects packets at an input, as if they had arrived over an edge, and moves them through the graph.
    pub fn inject(&mut self, node: usize, input: usize, batch: &mut Batch) {
        self.start();
        if batch.is_empty() || self.nodes[node].is_none() {
            return batch.clear();
        }
        let inbox = self.core.edges.inbox(node, input);
        let target = Target::new(&self.core.plan, (node, input), inbox);
        match self.core.walker {
            Walker::Sweep => self.core.add_to_inbox(target, batch),
            Walker::Strict => {
                self.core.stack.extend(batch.drain().map(|p| (target, p)));
            }
        }
        self.walk();
    }
}

/// Passes a batch downstream from an input, along output 0 or the outputs that elements choose, until the batch is
/// empty or must wait.
pub(crate) fn follow(
    nodes: &mut Nodes,
    core: &mut Core,
    (mut node, mut input): (usize, usize),
    batch: &mut Batch,
) {
    loop {
        if core.loops[node].is_some() && input == 0 && core.may_run_loop(node, nodes) {
            node = run_loop(nodes, core, node, batch);
        } else {
            visit(nodes, core, node, input, batch);
        }
        match leave(nodes, core, node, batch) {
            Some(next) => (node, input) = next,
            None => return,
        }
    }
}

/// Like [`follow`], for the packets that an element has left in its batch.
#[inline(never)]
pub(crate) fn follow_from(nodes: &mut Nodes, core: &mut Core, node: usize, batch: &mut Batch) {
    if let Some(next) = leave(nodes, core, node, batch) {
        follow(nodes, core, next, batch);
    }
}

/// Processes the return of an element: packets left in the batch leave by output 0, or by the output that the element
/// has named. Returns the next input if the batch can continue there at once.
#[inline(always)]
fn leave(
    nodes: &mut Nodes,
    core: &mut Core,
    node: usize,
    batch: &mut Batch,
) -> Option<(usize, usize)> {
    let output = std::mem::take(&mut core.batch_output);
    run_deferred(nodes, core);
    if batch.is_empty() {
        return None;
    }
    let Some(target) = core.edges.output(node, output) else {
        core.drop_unconnected(node, output, batch);
        return None;
    };
    core.note_on(node, output, batch);
    let backward = target.rank() <= core.plan.rank[node];
    // If a job is pending, it waits for an element that is still running; packets wait in the inbox until then.
    if backward || !core.inboxes[target.inbox()].is_empty() || !core.deferred.is_empty() {
        core.add_to_inbox(target, batch);
        return None;
    }
    Some((target.node(), target.port()))
}

/// Runs the fused loop that begins at a node, and returns its last node.
fn run_loop(nodes: &mut Nodes, core: &mut Core, node: usize, batch: &mut Batch) -> usize {
    let Some(running) = core.loops[node].take() else {
        return node;
    };
    let placed = &running.placed;
    let before = core.stamp();
    core.running += 1;
    let mut cx = Cx {
        nodes,
        core: &mut *core,
        this: node,
    };
    match placed.counters.is_empty() {
        true => (running.code.run)(placed, batch, &mut cx),
        false => (running.code.counting)(placed, batch, &mut cx),
    }
    core.running -= 1;
    if core.weight > 0 {
        // The cycles of the single elements are not known.
        let each = core.elapsed_cycles(before) / placed.all().count() as u64;
        for node in placed.all() {
            core.stats[node].cycles += each;
        }
    }
    let last = placed.nodes.last().copied().unwrap_or(node);
    core.loops[node] = Some(running);
    last
}

#[inline(always)] // once for each walker
fn visit(nodes: &mut Nodes, core: &mut Core, node: usize, input: usize, batch: &mut Batch) {
    let Some(mut element) = nodes[node].take() else {
        return batch.clear();
    };
    core.enter(node, input, batch);
    let before = core.stamp();
    core.running += 1;
    let mut cx = Cx {
        nodes: &mut *nodes,
        core: &mut *core,
        this: node,
    };
    element.process(input, batch, &mut cx);
    core.running -= 1;
    if core.weight > 0 {
        core.stats[node].cycles += core.elapsed_cycles(before);
    }
    put_back(nodes, node, element);
}

/// Runs the jobs that wait for elements to return, if they have.
#[inline]
fn run_deferred(nodes: &mut Nodes, core: &mut Core) {
    if !core.deferred.is_empty() {
        let element = None;
        JobCx {
            nodes,
            core,
            element,
        }
        .run_deferred();
    }
}

/// The strict walker: moves packets on, depth first, until the stack is back at height `mark`.
pub(crate) fn descend(nodes: &mut Nodes, core: &mut Core, mark: usize) {
    if core.stack.len() <= mark {
        return;
    }
    let mut batch = core.spare.pop().unwrap_or_default();
    let mut steps = 0u32;
    while core.stack.len() > mark
        && let Some((target, packet)) = core.stack.pop()
    {
        batch.push(packet);
        let mark = core.stack.len();
        steps += 1;
        if steps > STEPS_MAX {
            core.drop_looping(target.node(), &mut batch);
            continue;
        }
        visit(nodes, core, target.node(), target.port(), &mut batch);
        let output = std::mem::take(&mut core.batch_output);
        match core.edges.output(target.node(), output) {
            Some(next) => {
                core.note_on(target.node(), output, &batch);
                core.stack.extend(batch.drain().map(|p| (next, p)));
            }
            None => core.drop_unconnected(target.node(), output, &mut batch),
        }
        core.turn_over(mark);
        run_deferred(nodes, core);
    }
    core.spare.push(batch);
}

impl Core {
    /// Reverses the packets sent since the stack was `mark` high, so that they leave in the order in which they were
    /// sent.
    #[inline]
    pub(crate) fn turn_over(&mut self, mark: usize) {
        if let Some(sent) = self.stack.get_mut(mark..) {
            sent.reverse();
        }
    }

    /// Cycle counter; 0 if the run is not measured.
    #[inline]
    pub(crate) fn stamp(&mut self) -> u64 {
        match self.weight {
            0 => 0,
            _ => self.read_cycles(),
        }
    }

    /// Number of cycles since a [`stamp`](Self::stamp), multiplied by the number of runs that the measured one
    /// represents.
    #[inline]
    pub(crate) fn elapsed_cycles(&mut self, since: u64) -> u64 {
        match self.weight {
            0 => 0,
            weight => self.cycles_since(since) * weight,
        }
    }

    /// Number of cycles since a reading of the counter.
    #[cold] // most runs are not measured, and are faster if this code is not inlined into them
    #[inline(never)]
    fn cycles_since(&mut self, since: u64) -> u64 {
        let passed = self.read_cycles().wrapping_sub(since);
        // If a reading took less than `reading_cycles`, the difference can be below 0.
        u64::try_from(passed.cast_signed()).unwrap_or(0)
    }

    /// Cycle counter minus the cycles that readings of it took. With few packets in a batch, readings would be most of
    /// the measured cycles.
    #[cold]
    #[inline(never)]
    fn read_cycles(&mut self) -> u64 {
        let now = self.clock.cycles();
        self.cycles_of_readings += self.reading_cycles;
        now.wrapping_sub(self.cycles_of_readings)
    }

    /// True if the fused loop that begins at a node may run: no earlier packets wait further down, no capture watches
    /// every edge, and its counting elements may count later.
    #[inline]
    fn may_run_loop(&self, node: usize, nodes: &Nodes) -> bool {
        let Some(at) = &self.loops[node] else {
            return false;
        };
        let waits = |&inbox: &usize| !self.inboxes[inbox].is_empty();
        let later = |&(node, class): &(usize, &CountsOfClass)| {
            let element = nodes[node].as_ref();
            element.is_some_and(|element| class.counts_later(element.element()))
        };
        !self.taps.has_taps() && !at.inboxes.iter().any(waits) && at.counters.iter().all(later)
    }

    /// Returns an empty batch to the spare ones, for its memory.
    #[inline]
    pub(crate) fn keep_spare_batch(&mut self, batch: Batch) {
        if batch.has_memory() {
            self.spare.push(batch);
        }
    }

    /// Adds packets to an inbox, leaving `batch` empty.
    #[inline]
    pub(crate) fn add_to_inbox(&mut self, target: Target, batch: &mut Batch) {
        let inbox = &mut self.inboxes[target.inbox()];
        if inbox.is_empty() {
            std::mem::swap(inbox, batch);
        } else {
            inbox.append(batch);
        }
        self.ready.insert(target.rank());
    }

    #[inline]
    fn enter(&mut self, node: usize, input: usize, batch: &mut Batch) {
        let stats = &mut self.stats[node];
        stats.packets += batch.len() as u64;
        stats.batches += 1;
        if self.taps.has_taps() {
            self.taps.enter(node, input, batch, self.now);
        }
    }

    /// Counts a batch that leaves by an output.
    #[inline]
    fn note_on(&mut self, node: usize, output: usize, batch: &Batch) {
        if self.taps.has_taps() {
            self.taps.leave(node, output, batch.iter(), self.now);
        }
        self.note_sent(node, output, batch.len());
    }

    #[inline]
    pub(crate) fn note_sent(&mut self, node: usize, port: usize, packets: usize) {
        self.stats[node].sent[port] += packets as u64;
    }

    #[cold]
    fn drop_looping(&mut self, node: usize, batch: &mut Batch) {
        let reason = self.stats[node].drops.len() - 1;
        self.drop_all(node, reason, batch);
    }

    #[cold]
    pub(crate) fn drop_unconnected(&mut self, node: usize, port: usize, batch: &mut Batch) {
        let reason = self.plan.elements[node].class.drops.len() + port;
        self.drop_all(node, reason, batch);
    }

    /// Drops a super-frame that could not be cut, as no buffer was free for a segment.
    #[cold]
    pub(crate) fn drop_uncut(&mut self, node: usize, packet: Packet) {
        let reason = self.stats[node].drops.len() - 2;
        self.drop_one(node, reason, packet);
    }

    pub(crate) fn drop_all(&mut self, node: usize, reason: usize, batch: &mut Batch) {
        if batch.is_empty() {
            return;
        }
        if let Some(count) = self.stats[node].drops.get_mut(reason) {
            *count += batch.len() as u64;
        }
        if self.taps.has_taps() {
            self.taps.dropped(node, reason, batch.iter(), self.now);
        }
        batch.clear();
    }

    pub(crate) fn drop_one(&mut self, node: usize, reason: usize, packet: Packet) {
        if let Some(count) = self.stats[node].drops.get_mut(reason) {
            *count += 1;
        }
        if self.taps.has_taps() {
            self.taps
                .dropped(node, reason, std::iter::once(&packet), self.now);
        }
    }
}
