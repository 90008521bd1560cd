//! Context of a running element: it sends packets on, pulls, drops, and sets its timer.

use super::extensions::StorageOfClass;
use super::schedule::revive;
use super::{Core, Nodes, Walker, put_back};
use crate::clock::Time;
use crate::packet::Verdict;
use crate::packet::super_frame::cut_all;
use crate::packet::{Batch, Packet};
use crate::publish::Reader;
use crate::search::nearest_queues;
use std::time::Duration;

mod notify;
mod run_to_completion;

/// Context of a running element: its view of the graph.
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

    /// The time, read from the clock now. It costs more than [`now`](Self::now), and distinguishes times within a
    /// turn.
    #[inline]
    pub fn read_clock(&self) -> Time {
        self.core.clock.now()
    }

    /// The time of this turn as a packet's timestamp: nanoseconds since the Unix epoch.
    #[inline]
    pub fn timestamp(&self) -> u64 {
        self.core.clock.wall_ns(self.core.now)
    }

    /// Default number of packets that a task moves at a time: one on a strict graph, otherwise 32 or less (see
    /// [`at_most`](Self::at_most)).
    #[inline]
    pub fn burst(&self) -> usize {
        match self.core.walker {
            Walker::Strict => 1,
            Walker::Sweep => self.at_most(32),
        }
    }

    /// `burst`, or fewer packets while this router's packets take long and other routers wait for the worker.
    #[inline]
    pub fn at_most(&self, burst: usize) -> usize {
        burst.min(self.core.burst)
    }

    /// The worker that runs this copy.
    #[inline]
    pub fn worker(&self) -> usize {
        self.core.worker
    }

    /// An unpredictable random number; see [`Seed`](crate::random::Seed).
    pub fn random(&mut self) -> u32 {
        self.core.random()
    }

    /// True if a capture or a trace watches packets.
    #[inline]
    pub fn watched(&self) -> bool {
        self.core.taps.has_taps()
    }

    /// True if an output is connected.
    #[inline]
    pub fn connected(&self, output: usize) -> bool {
        self.core.edges.output(self.this, output).is_some()
    }

    /// True if the output is a pull output.
    pub fn is_pulled(&self, output: usize) -> bool {
        let mut edges = self.core.plan.edges.from_port((self.this, output));
        edges.any(|e| e.pull)
    }

    /// Replaces the super-frames in `batch`, the packets just received, by their segments. Each segment counts as a
    /// received packet. A super-frame whose segments cannot all get buffers is dropped as `no_segment`.
    pub fn segment(&mut self, batch: &mut Batch) {
        let (core, this) = (&mut *self.core, self.this);
        if !core.plan.elements[this].super_frames {
            return;
        }
        let (came, mut lost) = (batch.len() as u64, 0);
        cut_all(batch, |packet| {
            lost += 1;
            core.drop_uncut(this, packet);
        });
        let stats = &mut core.stats[this];
        let more = batch.len() as u64 + lost - came;
        (stats.packets, stats.cut) = (stats.packets + more, stats.cut + more);
    }

    /// Calls `each` with the packet or, if it is a super-frame that the element does not carry, with each of its
    /// segments; see [`segment`](Self::segment).
    #[inline]
    pub fn each_segment(&mut self, packet: Packet, mut each: impl FnMut(Packet, &mut Cx)) {
        if !(self.core.plan.elements[self.this].super_frames && packet.is_super_frame()) {
            return each(packet, self);
        }
        let mut segments = self.spare();
        segments.push(packet);
        self.segment(&mut segments);
        segments.drain().for_each(|segment| each(segment, self));
        self.keep_spare(segments);
    }

    /// Sends or drops a packet according to a verdict.
    #[inline]
    pub fn send(&mut self, packet: Packet, verdict: Verdict) {
        let port = verdict.port();
        match verdict.reason() {
            Some(reason) if !self.connected(port) => self.drop(packet, reason),
            _ => self.emit(port, packet),
        }
    }

    /// Sends a packet out of a push output. If the output is not connected, drops the packet under the port's name.
    #[inline]
    pub fn emit(&mut self, output: usize, mut packet: Packet) {
        let watched = self.core.taps.has_taps();
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
        if self.core.taps.has_taps() {
            self.watch_leave(output, batch);
        }
        let Some(target) = self.core.edges.output(self.this, output) else {
            return self.core.drop_unconnected(self.this, output, batch);
        };
        self.core.note_sent(self.this, output, batch.len());
        match self.core.walker {
            Walker::Sweep => self.core.add_to_inbox(target, batch),
            Walker::Strict => self.core.stack.extend(batch.drain().map(|p| (target, p))),
        }
    }

    /// Like [`emit_batch`](Self::emit_batch), for the packets that a running element's `process` leaves in its batch.
    /// They leave by this push output instead of output 0, without passing an inbox.
    #[inline]
    pub fn go_by(&mut self, output: usize, batch: &mut Batch) {
        if self.core.taps.has_taps() {
            return self.emit_batch(output, batch);
        }
        self.core.batch_output = output;
    }

    /// Passes to the taps a batch that is about to leave.
    #[cold]
    fn watch_leave(&mut self, output: usize, batch: &mut Batch) {
        let (from, now) = ((self.this, output), self.core.now);
        let taps = &mut self.core.taps;
        batch.iter_mut().for_each(|p| taps.mark(from, p, now));
        if self.core.edges.output(self.this, output).is_some() {
            taps.leave(self.this, output, batch.iter(), now);
        }
    }

    /// Calls `step` for the verdict of every packet, in order. Packets for output 0 stay; others are sent according
    /// to their verdicts, neighbours with equal verdicts together.
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

    /// Like [`sort`](Self::sort), with verdicts computed before, in order.
    pub(crate) fn sort_as(&mut self, batch: &mut Batch, verdicts: &[Verdict]) {
        match verdicts.first() {
            // All packets have the same verdict, so the whole batch is sent.
            Some(&first) if first != Verdict::ON && are_all(verdicts, first) => {
                self.send_batch(batch, first);
            }
            _ => self.part_as(batch, verdicts, Verdict::ON),
        }
    }

    /// Like [`part`](Self::part): packets with the verdict `on` stay.
    pub(crate) fn part_as(&mut self, batch: &mut Batch, verdicts: &[Verdict], on: Verdict) {
        if !are_all(verdicts, on) {
            let mut given = verdicts.iter().copied();
            self.part(batch, |_, _| given.next().filter(|&verdict| verdict != on));
        }
    }

    /// Like [`sort`](Self::sort): packets for which `step` returns `None` stay. `step` may change its element.
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

    /// Like [`send`](Self::send), for a batch, which is empty afterwards.
    fn send_batch(&mut self, batch: &mut Batch, verdict: Verdict) {
        let port = verdict.port();
        match verdict.reason() {
            Some(reason) if !self.connected(port) => self.drop_batch(batch, reason),
            _ => self.emit_batch(port, batch),
        }
    }

    /// Drops a packet, counted under index `reason` of the class's drops.
    pub fn drop(&mut self, packet: Packet, reason: u8) {
        self.core.drop_one(self.this, reason.into(), packet);
    }

    /// Drops a batch, counted under index `reason` of the class's drops.
    pub fn drop_batch(&mut self, batch: &mut Batch, reason: u8) {
        self.core.drop_all(self.this, reason.into(), batch);
    }

    /// Pulls up to `max` packets through a pull input, and appends them to `into`. Returns their number.
    pub fn pull(&mut self, input: usize, max: usize, into: &mut Batch) -> usize {
        let Some((up, port)) = self.core.edges.input(self.this, input) else {
            return 0;
        };
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
        element.pull(port, max, into, &mut cx);
        self.core.running -= 1;
        put_back(self.nodes, up, element);
        let came = into.len() - had;
        if came > 0 {
            let spent = self.core.elapsed_cycles(before);
            let stats = &mut self.core.stats[up];
            stats.cycles += spent;
            stats.packets += came as u64;
            stats.batches += 1;
            stats.sent[port] += came as u64;
            if self.core.taps.has_taps() {
                self.core
                    .taps
                    .pulled((up, port), (self.this, input), into, had, self.core.now);
            }
        }
        came
    }

    /// An empty batch with reusable memory; return it with [`keep_spare`](Self::keep_spare).
    #[inline]
    pub fn spare(&mut self) -> Batch {
        self.core.spare.pop().unwrap_or_default()
    }

    /// Takes a spare batch back; frees packets still in it.
    #[inline]
    pub fn keep_spare(&mut self, mut batch: Batch) {
        batch.clear();
        self.core.keep_spare_batch(batch);
    }

    /// Sets the element's timer to `at`, unless it is set to an earlier time.
    pub fn set_timer(&mut self, at: Time) {
        self.core.set_timer(self.this, at);
    }

    /// Forgets the timer.
    pub fn cancel_timer(&mut self) {
        self.core.cancel_timer(self.this);
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

    /// The nearest queues upstream of pull inputs, or else downstream of push outputs.
    pub fn nearest_queues(&self) -> Vec<usize> {
        nearest_queues(&self.core.plan, self.this)
    }

    /// Number of packets that wait in an element; 0 if it has no copy on this worker.
    pub fn waiting_in(&self, element: usize) -> usize {
        let Some(node) = self.nodes.get(element).and_then(Option::as_ref) else {
            return 0;
        };
        let class = self.core.plan.elements[element].class;
        match class.extension::<StorageOfClass>() {
            Some(class) => (class.waiting)(node.element()),
            None => node.held(),
        }
    }

    /// Blocks the worker for some time, to test overload: time passes and no packet moves.
    pub fn block(&mut self, time: Duration) {
        let clock = &self.core.clock;
        if !clock.set(clock.now() + time) {
            std::thread::sleep(time);
        }
        self.core.now = self.core.clock.now();
    }

    /// Begins (`true`) or ends (`false`) back-pressure: the sources of this worker stop polling while this element
    /// has no room for packets that it must not drop. Each `true` needs one `false`. Back-pressure lasts across a hot
    /// swap; the element that takes over the state ends it.
    pub fn back_pressure(&mut self, on: bool) {
        let core = &mut *self.core;
        let own = &mut core.pressures[self.this];
        if on {
            (*own, core.back_pressures) = (*own + 1, core.back_pressures + 1);
        } else if *own > 0 {
            (*own, core.back_pressures) = (*own - 1, core.back_pressures - 1);
        }
    }

    /// Value that a pass of the planner has attached to this element.
    #[inline]
    pub fn attached<T: 'static>(&self) -> Option<&T> {
        self.core.plan.elements[self.this].attached.get()
    }

    /// Wakes another worker if it sleeps, because packets wait for it in a ring.
    #[inline]
    pub fn wake_worker(&self, worker: usize) {
        self.core.wakers.wake(worker);
    }

    /// Token that allows reading published values until the element returns.
    #[inline]
    pub fn reader(&self) -> &Reader {
        &self.core.reader
    }

    /// Requests the router to stop after this turn; an element that drives it may refuse.
    pub fn stop(&mut self) {
        self.core.stops += 1;
    }

    /// Ends the router, after this turn.
    pub fn end(&mut self) {
        self.core.stopping = true;
    }
}

/// True if all verdicts equal `one`; computed without a branch per verdict.
#[inline]
fn are_all(verdicts: &[Verdict], one: Verdict) -> bool {
    !verdicts.iter().fold(false, |other, v| other | (*v != one))
}

/// Packets removed from a batch, collected while they leave one element with the same verdict.
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
