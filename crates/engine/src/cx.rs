//! What an element can do while it runs: send packets on, pull, drop, set its timer.

use crate::clock::{Clock, Time};
use crate::element::{Did, Verdict};
use crate::graph::{Core, Nodes, Walker, follow, revive, wake};
use crate::notify::{self, Signal};
use crate::packet::{Batch, Packet};
use crate::plan::Plan;
use crate::publish::Reader;
use std::ops::Range;
use std::time::Duration;

/// An input that an edge leads to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    node: u32,
    inbox: u32,
    rank: u32,
    port: u16,
}

impl Target {
    /// Input `port` of a node of `plan`, before which packets wait in `inbox`.
    pub(crate) fn new(plan: &Plan, (node, port): (usize, usize), inbox: usize) -> Target {
        Target {
            node: node as u32,
            inbox: inbox as u32,
            rank: plan.rank[node] as u32,
            port: port as u16,
        }
    }

    /// The node's place in the topological order.
    #[inline]
    pub(crate) fn rank(self) -> usize {
        self.rank as usize
    }

    #[inline]
    pub(crate) fn node(self) -> usize {
        self.node as usize
    }

    #[inline]
    pub(crate) fn port(self) -> usize {
        usize::from(self.port)
    }

    #[inline]
    pub(crate) fn inbox(self) -> usize {
        self.inbox as usize
    }
}

/// The edges of a graph, by node and port.
pub(crate) struct Edges {
    /// Where output 0 leads, by node, if it pushes.
    on: Vec<Option<Target>>,
    /// Where push outputs lead, node after node.
    outputs: Vec<Option<Target>>,
    /// First of a node's outputs among them, and where the last node's end.
    first_output: Vec<u32>,
    /// Which output a pull input asks: node and port.
    inputs: Vec<Vec<Option<(u32, u16)>>>,
    /// First inbox of a node.
    first_inbox: Vec<u32>,
    /// Nodes and their inboxes by topological rank.
    ranked: Vec<(u32, Range<u32>)>,
}

impl Edges {
    pub(crate) fn of(plan: &Plan) -> (Edges, usize) {
        let mut first_inbox = Vec::new();
        let mut inboxes = 0;
        for element in &plan.elements {
            first_inbox.push(inboxes as u32);
            inboxes += element.inputs.len();
        }
        let mut first_output = vec![0];
        let mut ports = 0;
        for element in &plan.elements {
            ports += element.outputs.len();
            first_output.push(ports as u32);
        }
        let mut outputs = vec![None; ports];
        let mut inputs: Vec<Vec<_>> = plan
            .elements
            .iter()
            .map(|e| vec![None; e.inputs.len()])
            .collect();
        for edge in &plan.edges {
            if edge.pull {
                let from = past_wires(plan, edge.from);
                inputs[edge.to.0][edge.to.1] = from.map(|(up, port)| (up as u32, port as u16));
            } else {
                let inbox = first_inbox[edge.to.0] as usize + edge.to.1;
                let at = first_output[edge.from.0] as usize + edge.from.1;
                outputs[at] = Some(Target::new(plan, edge.to, inbox));
            }
        }
        let ranked = plan.order.iter().map(|&node| {
            let first = first_inbox[node];
            let inputs = plan.elements[node].inputs.len() as u32;
            (node as u32, first..first + inputs)
        });
        let ranked: Vec<_> = ranked.collect();
        let first = first_output.windows(2);
        let on = first.map(|o| *outputs.get(o[0] as usize..o[1] as usize)?.first()?);
        (
            Edges {
                on: on.collect(),
                outputs,
                first_output,
                inputs,
                first_inbox,
                ranked,
            },
            inboxes,
        )
    }

    #[inline]
    pub(crate) fn output(&self, node: usize, port: usize) -> Option<Target> {
        if port == 0 {
            return self.on[node];
        }
        let (first, end) = (self.first_output[node], self.first_output[node + 1]);
        let own = &self.outputs[first as usize..end as usize];
        *own.get(port)?
    }

    /// The node of a topological rank, and its inboxes.
    #[inline]
    pub(crate) fn at_rank(&self, rank: usize) -> (usize, Range<usize>) {
        let (node, inboxes) = &self.ranked[rank];
        (*node as usize, inboxes.start as usize..inboxes.end as usize)
    }

    #[inline]
    pub(crate) fn inbox(&self, node: usize, input: usize) -> usize {
        self.first_inbox[node] as usize + input
    }
}

/// The output that really answers for a pull output; `None` if nothing is connected there.
fn past_wires(plan: &Plan, mut from: (usize, usize)) -> Option<(usize, usize)> {
    // A chain of wires is no longer than there are elements; one that goes round leads nowhere.
    for _ in 0..=plan.elements.len() {
        let wires = plan.elements[from.0].class.pull_wires;
        let Some(&(_, input)) = wires.iter().find(|wire| wire.0 == from.1) else {
            return Some(from);
        };
        let to = (from.0, input);
        from = plan.edges.iter().find(|e| e.pull && e.to == to)?.from;
    }
    None
}

/// The element's view of the graph around it.
pub struct Cx<'a> {
    pub(crate) nodes: &'a mut Nodes,
    pub(crate) core: &'a mut Core,
    pub(crate) this: usize,
}

impl Cx<'_> {
    /// The time of this turn.
    #[inline]
    pub fn now(&self) -> Time {
        self.core.now
    }

    /// The time of this turn as a packet's timestamp: nanoseconds since the Unix epoch.
    #[inline]
    pub fn timestamp(&self) -> u64 {
        self.core.clock.wall(self.core.now)
    }

    /// How many packets a task moves at a time where its configuration does not say: one where
    /// packets go one by one in Click's order, else 32.
    #[inline]
    pub fn burst(&self) -> usize {
        match self.core.walker {
            Walker::Strict => 1,
            Walker::Sweep => 32,
        }
    }

    /// The worker that runs this copy.
    #[inline]
    pub fn worker(&self) -> usize {
        self.core.worker
    }

    /// A random number; the sequence follows from the router's seed.
    pub fn random(&mut self) -> u32 {
        self.core.random()
    }

    /// Whether packets are watched on their way, by a capture or a trace.
    #[inline]
    pub fn watched(&self) -> bool {
        self.core.taps.watching()
    }

    /// Whether an output is connected.
    #[inline]
    pub fn connected(&self, output: usize) -> bool {
        self.core.edges.output(self.this, output).is_some()
    }

    /// Whether somebody pulls from an output.
    pub fn is_pulled(&self, output: usize) -> bool {
        let from = (self.this, output);
        let mut edges = self.core.plan.edges.iter();
        edges.any(|e| e.pull && e.from == from)
    }

    /// Sends a packet where a verdict says.
    #[inline]
    pub fn send(&mut self, packet: Packet, verdict: Verdict) {
        let port = verdict.port();
        match verdict.reason() {
            Some(reason) if !self.connected(port) => self.drop(packet, reason),
            _ => self.emit(port, packet),
        }
    }

    /// Sends a packet out by a push output; dropped under the port's name if it is not connected.
    #[inline]
    pub fn emit(&mut self, output: usize, mut packet: Packet) {
        let watched = self.core.taps.watching();
        if watched {
            let now = self.core.now;
            self.core.taps.mark((self.this, output), &mut packet, now);
        }
        let Some(target) = self.core.edges.output(self.this, output) else {
            let reason = self.core.plan.elements[self.this].class.drops.len() + output;
            return self.core.drop_one(self.this, reason, packet);
        };
        if watched {
            let now = self.core.now;
            let packets = std::iter::once(&packet);
            self.core.taps.leave(self.this, output, packets, now);
        }
        self.core.note_sent(self.this, output, 1);
        match self.core.walker {
            Walker::Sweep => {
                self.core.inboxes[target.inbox()].push(packet);
                self.core.ready.insert(target.rank());
            }
            Walker::Strict => self.core.stack.push((target, packet)),
        }
    }

    /// Sends a batch out by a push output, leaving `batch` empty.
    #[inline]
    pub fn emit_batch(&mut self, output: usize, batch: &mut Batch) {
        if batch.is_empty() {
            return;
        }
        if self.core.taps.watching() {
            self.watch_leave(output, batch);
        }
        let Some(target) = self.core.edges.output(self.this, output) else {
            return self.core.drop_unconnected(self.this, output, batch);
        };
        self.core.note_sent(self.this, output, batch.len());
        match self.core.walker {
            Walker::Sweep => self.core.put(target, batch),
            Walker::Strict => self.core.stack.extend(batch.drain().map(|p| (target, p))),
        }
    }

    /// Shows the taps a batch that is about to leave.
    #[cold]
    fn watch_leave(&mut self, output: usize, batch: &mut Batch) {
        let (from, now) = ((self.this, output), self.core.now);
        let taps = &mut self.core.taps;
        batch.iter_mut().for_each(|p| taps.mark(from, p, now));
        if self.core.edges.output(self.this, output).is_some() {
            taps.leave(self.this, output, batch.iter(), now);
        }
    }

    /// As [`emit_batch`](Self::emit_batch), for the task of an element without inputs that sends nothing else:
    /// the packets may move on before this returns, so that they need not be set down in an inbox.
    #[inline]
    pub fn lead(&mut self, output: usize, batch: &mut Batch) {
        let core = &mut *self.core;
        debug_assert!(core.plan.elements[self.this].inputs.is_empty());
        debug_assert!(core.running == 1 && core.ready.is_empty());
        let at_once = core.walker == Walker::Sweep && !core.taps.watching();
        match core.edges.output(self.this, output) {
            Some(target) if at_once && !batch.is_empty() => {
                core.note_sent(self.this, output, batch.len());
                let before = core.stamp();
                follow(self.nodes, core, (target.node(), target.port()), batch);
                core.led += core.spent(before);
            }
            _ => self.emit_batch(output, batch),
        }
    }

    /// Asks `step` for a verdict on every packet, in order. Packets for output 0 stay; the others go
    /// where their verdicts say, neighbours of one mind together.
    #[inline]
    pub fn sort(
        &mut self,
        batch: &mut Batch,
        mut step: impl FnMut(&mut Packet, &mut Cx) -> Verdict,
    ) {
        self.part(batch, |packet, cx| {
            let verdict = step(packet, cx);
            (verdict != Verdict::ON).then_some(verdict)
        });
    }

    /// As [`sort`](Self::sort): packets stay for which `step` gives no verdict. It may change the element
    /// for which it speaks.
    #[inline]
    pub(crate) fn part(
        &mut self,
        batch: &mut Batch,
        step: impl FnMut(&mut Packet, &mut Cx) -> Option<Verdict>,
    ) {
        let mut aside = Aside {
            packets: Batch::new(),
            key: None,
        };
        batch.part(self, step, |packet, verdict, cx| {
            aside.add(packet, verdict, cx);
        });
        if aside.key.is_some() {
            aside.send(self);
            self.keep_spare(aside.packets);
        }
    }

    /// As [`send`](Self::send), for a batch, which is empty afterwards.
    fn send_batch(&mut self, batch: &mut Batch, verdict: Verdict) {
        let port = verdict.port();
        match verdict.reason() {
            Some(reason) if !self.connected(port) => self.drop_batch(batch, reason),
            _ => self.emit_batch(port, batch),
        }
    }

    /// Drops a packet under the `reason`-th name of the class's `DROPS`.
    pub fn drop(&mut self, packet: Packet, reason: usize) {
        self.core.drop_one(self.this, reason, packet);
    }

    /// Drops a batch under the `reason`-th name of the class's `DROPS`.
    pub fn drop_batch(&mut self, batch: &mut Batch, reason: usize) {
        self.core.drop_all(self.this, reason, batch);
    }

    /// Asks upstream of a pull input for up to `max` packets, appended to `into`. Returns how many
    /// came.
    pub fn pull(&mut self, input: usize, max: usize, into: &mut Batch) -> usize {
        let Some(Some((up, port))) = self.core.edges.inputs[self.this].get(input).copied() else {
            return 0;
        };
        let up = up as usize;
        let Some(mut element) = self.nodes[up].take() else {
            return 0;
        };
        let had = into.len();
        let before = self.core.stamp();
        self.core.running += 1;
        let mut cx = Cx {
            nodes: self.nodes,
            core: self.core,
            this: up,
        };
        element.pull(usize::from(port), max, into, &mut cx);
        self.core.running -= 1;
        self.nodes[up] = Some(element);
        let came = into.len() - had;
        if came > 0 {
            let spent = self.core.spent(before);
            let stats = &mut self.core.stats[up];
            stats.cycles += spent;
            stats.packets += came as u64;
            stats.batches += 1;
            stats.sent[usize::from(port)] += came as u64;
            if self.core.taps.watching() {
                self.core.taps.pulled(
                    (up, usize::from(port)),
                    (self.this, input),
                    into,
                    had,
                    self.core.now,
                );
            }
        }
        came
    }

    /// An empty batch that keeps its memory between uses; give it back with
    /// [`keep_spare`](Self::keep_spare).
    #[inline]
    pub fn spare(&mut self) -> Batch {
        self.core.spare.pop().unwrap_or_default()
    }

    /// Gives a spare batch back; packets still in it are freed.
    #[inline]
    pub fn keep_spare(&mut self, mut batch: Batch) {
        batch.clear();
        self.core.keep(batch);
    }

    /// Has [`timer`](crate::element::Element::timer) called at `at`, or earlier if an earlier time
    /// was set.
    pub fn set_timer(&mut self, at: Time) {
        self.core.set_timer(self.this, at);
    }

    /// Forgets the timer.
    pub fn cancel_timer(&mut self) {
        self.core.cancel_timer(self.this);
    }

    /// Notifier: packets may be pulled from this element. Wakes the tasks that pull from it, if they
    /// were told otherwise.
    #[inline]
    pub fn wake_pullers(&mut self) {
        if !self.core.notes.packets[self.this] {
            self.core.note_packets(self.this);
        }
    }

    /// Notifier: until further notice nothing can be pulled from this element.
    #[inline]
    pub fn note_empty(&mut self) {
        self.core.notes.packets[self.this] = false;
    }

    /// Whether this element's notifier says that packets may be pulled from it.
    pub fn has_packets(&self) -> bool {
        self.core.notes.packets[self.this]
    }

    /// Notifier: this element takes packets again. Wakes the tasks that push into it, if they were
    /// told otherwise.
    #[inline]
    pub fn wake_pushers(&mut self) {
        if !self.core.notes.room[self.this] {
            self.core.note_room(self.this);
        }
    }

    /// Notifier: until further notice this element drops what is pushed into it.
    #[inline]
    pub fn note_full(&mut self) {
        self.core.notes.room[self.this] = false;
    }

    /// Whether asking upstream of a pull input may give a packet. If not, this element hears when that
    /// changes: its task is woken, or its own notifier becomes active.
    #[inline]
    pub fn input_active(&self, input: usize) -> bool {
        let signal = self.core.plan.elements[self.this].signals.get(input);
        Signal::active(signal, &self.core.notes.packets)
    }

    /// Whether somebody downstream of a push output takes packets. If not, this element's task is woken
    /// when that changes.
    #[inline]
    pub fn has_room(&self, output: usize) -> bool {
        let signal = self.core.plan.elements[self.this].rooms.get(output);
        Signal::active(signal, &self.core.notes.room)
    }

    /// What a task says that got nothing from a pull input: it sleeps if it will be woken, else it asks
    /// again.
    #[inline]
    pub fn rest(&self, input: usize) -> Did {
        if self.input_active(input) {
            Did::Nothing
        } else {
            Did::Sleep
        }
    }

    /// Makes this element's own task ready again, even if it had ended.
    pub fn wake_self(&mut self) {
        revive(&mut self.core.tasks, &mut self.core.schedule, self.this);
    }

    /// An element of this router by name, for [`waiting_in`](Self::waiting_in).
    pub fn find(&self, name: &str) -> Option<usize> {
        self.core.plan.find(name)
    }

    /// An element's name.
    pub fn name_of(&self, element: usize) -> &str {
        &self.core.plan.elements[element].name
    }

    /// The queues that are nearest up pull connections, or else down push connections.
    pub fn nearest_queues(&self) -> Vec<usize> {
        notify::nearest_queues(&self.core.plan, self.this)
    }

    /// Packets that wait in an element; 0 if it has no copy on this worker.
    pub fn waiting_in(&self, element: usize) -> usize {
        let node = self.nodes.get(element).and_then(Option::as_ref);
        node.map_or(0, |node| node.waiting())
    }

    /// Holds the worker up for some time, as a test of overload: time passes, nothing moves.
    pub fn block(&mut self, time: Duration) {
        if let Clock::Virtual(now) = &mut self.core.clock {
            *now = *now + time;
        } else {
            std::thread::sleep(time);
        }
        self.core.now = self.core.clock.now();
    }

    /// Lets this worker's sources rest, or work again: once each, for an element that has no more room for what
    /// it may not lose.
    pub fn choke(&mut self, choked: bool) {
        let choking = &mut self.core.choked;
        *choking = if choked {
            *choking + 1
        } else {
            choking.saturating_sub(1)
        };
    }

    /// Wakes another worker, if it sleeps: packets wait for it in a ring.
    #[inline]
    pub fn wake_worker(&self, worker: usize) {
        self.core.wakers.wake(worker);
    }

    /// Proof that published values may be read until the element returns.
    #[inline]
    pub fn reader(&self) -> &Reader {
        &self.core.reader
    }

    /// Asks the router to stop, after this turn; an element that drives it may have another mind.
    pub fn stop(&mut self) {
        self.core.stops += 1;
    }

    /// Ends the router, after this turn.
    pub fn end(&mut self) {
        self.core.over = true;
    }
}

/// Packets that do not stay in a batch, as long as they leave one element under one verdict.
struct Aside {
    packets: Batch,
    /// The element and the verdict; `None` before the first packet.
    key: Option<(usize, Verdict)>,
}

impl Aside {
    #[inline]
    fn add(&mut self, packet: Packet, verdict: Verdict, cx: &mut Cx) {
        if self.key != Some((cx.this, verdict)) {
            self.turn_to(verdict, cx);
        }
        self.packets.push(packet);
    }

    #[inline(never)]
    fn turn_to(&mut self, verdict: Verdict, cx: &mut Cx) {
        match self.key {
            None => self.packets = cx.spare(),
            Some(_) => self.send(cx),
        }
        self.key = Some((cx.this, verdict));
    }

    #[inline(never)]
    fn send(&mut self, cx: &mut Cx) {
        if let Some((from, verdict)) = self.key {
            let this = std::mem::replace(&mut cx.this, from);
            cx.send_batch(&mut self.packets, verdict);
            cx.this = this;
        }
    }
}

impl Core {
    /// A notifier becomes active: wakes those who pull, and notifiers on the way to them.
    fn note_packets(&mut self, node: usize) {
        self.notes.packets[node] = true;
        for i in 0..self.plan.elements[node].listeners.len() {
            let listener = self.plan.elements[node].listeners[i];
            wake(&mut self.tasks, &mut self.schedule, listener);
            if self.plan.elements[listener].class.notifies && !self.notes.packets[listener] {
                self.note_packets(listener);
            }
        }
    }

    fn note_room(&mut self, node: usize) {
        self.notes.room[node] = true;
        for &filler in &self.plan.elements[node].fillers {
            wake(&mut self.tasks, &mut self.schedule, filler);
        }
    }
}
