//! Taps: copies of packets for observers of a running router, bounded and without delaying packets.
//!
//! A capture copies packets that cross an edge or are dropped; a trace follows marked packets from source to end.
//! Records go to control through a bounded channel. If control is too slow, records are lost and counted; packets are
//! not. Without a tap the packet path pays one test per batch.

use crate::clock::Time;
use crate::packet::{Batch, Packet};
use crate::plan::Plan;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Instant;

/// Place of a capture. An edge is named by its output if it is push (one edge leaves a push output), otherwise by its
/// input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Packets that reach this input of this node, pushed or pulled.
    Input(usize, usize),
    /// Packets that leave by this output of this node, pushed or pulled.
    Output(usize, usize),
    /// Packets dropped by one element, or by any (`None`).
    Drop(Option<usize>),
}

/// Event in a packet's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The packet reached this input of this node.
    Enter(usize, usize),
    /// The packet was pushed out by this output of this node.
    Leave(usize, usize),
    /// The packet was pulled from this output of this node.
    Pulled(usize, usize),
    /// The packet was dropped by this node for this reason.
    Dropped(usize, usize),
}

/// One captured event.
#[derive(Clone)]
pub struct Record {
    /// Number given to the tap for this point and worker.
    pub tag: u32,
    /// Trace identifier of the packet.
    pub trace: u16,
    /// The event; its numbers are those of `plan`.
    pub event: Event,
    /// The plan that ran then.
    pub plan: Arc<Plan>,
    /// Time of the worker's turn.
    pub at: Time,
    /// The exact time, if the packet is traced: a whole turn is too long to distinguish the steps of a trace.
    pub exact_time: Option<Instant>,
    /// Length on the wire.
    pub len: usize,
    /// True if the data starts with an IP header, not with Ethernet's.
    pub at_network: bool,
    /// First bytes of the packet.
    pub bytes: Vec<u8>,
}

/// Filter that decides which packets are copied; it runs on the worker. Its second argument is true if the bytes
/// start with an IP header.
pub type Filter = Box<dyn FnMut(&[u8], bool) -> bool + Send>;

struct Capture {
    id: u64,
    tag: u32,
    point: Point,
    snap: usize,
    filter: Filter,
    to: SyncSender<Record>,
    lost: u64,
}

struct Trace {
    left: u16,
    next: u16,
    /// Elements whose packets are traced; empty = any element without inputs.
    sources: Vec<usize>,
    tag: u32,
    snap: usize,
    to: SyncSender<Record>,
}

/// The taps of one worker.
pub struct Taps {
    plan: Arc<Plan>,
    captures: Vec<Capture>,
    trace: Option<Trace>,
    watching: bool,
}

impl Taps {
    pub(crate) fn new(plan: Arc<Plan>) -> Taps {
        Taps {
            plan,
            captures: Vec::new(),
            trace: None,
            watching: false,
        }
    }

    /// Starts a capture under an `id`; it may cover several points. Each record has the `tag` of its point and up to
    /// `snap` bytes. Packets that `filter` refuses are not copied.
    pub fn capture(
        &mut self,
        (id, tag): (u64, u32),
        point: Point,
        snap: usize,
        filter: Filter,
        to: SyncSender<Record>,
    ) {
        self.captures.push(Capture {
            id,
            tag,
            point,
            snap,
            filter,
            to,
            lost: 0,
        });
        self.watching = true;
    }

    /// Number of records of a capture that were lost because control was slow.
    pub fn lost_records(&self, id: u64) -> u64 {
        let mine = self.captures.iter().filter(|c| c.id == id);
        mine.map(|c| c.lost).sum()
    }

    /// Ends a capture; returns how many records were lost.
    pub fn end_capture(&mut self, id: u64) -> u64 {
        let lost = self.lost_records(id);
        self.captures.retain(|c| c.id != id);
        self.note_watching();
        lost
    }

    /// Traces the next `packets` packets, numbered from `first`, that one of `sources` emits; if there are no
    /// `sources`, those that any element without inputs emits.
    pub fn trace(
        &mut self,
        (first, packets): (u16, u16),
        sources: Vec<usize>,
        tag: u32,
        snap: usize,
        to: SyncSender<Record>,
    ) {
        self.trace = Some(Trace {
            left: packets,
            next: first.max(1),
            sources,
            tag,
            snap,
            to,
        });
        self.watching = true;
    }

    /// Ends the trace.
    pub fn end_trace(&mut self) {
        self.trace = None;
        self.note_watching();
    }

    fn note_watching(&mut self) {
        self.watching = self.trace.is_some() || !self.captures.is_empty();
    }

    /// Translates the taps to the numbers of another plan at a hot swap. A capture at an element that no longer exists
    /// ends: its channel is closed.
    pub(crate) fn move_to(&mut self, plan: &Arc<Plan>) {
        let old = std::mem::replace(&mut self.plan, Arc::clone(plan));
        let moved = |node: usize| plan.find(&old.elements[node].name);
        let fits = |node: usize, inputs: bool, port: usize| {
            let element = &plan.elements[node];
            port < if inputs {
                element.inputs.len()
            } else {
                element.outputs.len()
            }
        };
        self.captures.retain_mut(|capture| {
            let point = match capture.point {
                Point::Input(n, p) => moved(n)
                    .filter(|&n| fits(n, true, p))
                    .map(|n| Point::Input(n, p)),
                Point::Output(n, p) => moved(n)
                    .filter(|&n| fits(n, false, p))
                    .map(|n| Point::Output(n, p)),
                Point::Drop(Some(n)) => moved(n).map(|n| Point::Drop(Some(n))),
                Point::Drop(None) => Some(Point::Drop(None)),
            };
            point.map(|point| capture.point = point).is_some()
        });
        if let Some(trace) = &mut self.trace
            && !trace.sources.is_empty()
        {
            trace.sources = trace.sources.iter().filter_map(|&s| moved(s)).collect();
            if trace.sources.is_empty() {
                self.trace = None;
            }
        }
        self.note_watching();
    }

    #[inline]
    pub(crate) fn has_taps(&self) -> bool {
        self.watching
    }

    /// Marks a packet that an element is about to emit, if it is to be traced from here.
    #[cold]
    pub(crate) fn mark(&mut self, (node, output): (usize, usize), packet: &mut Packet, now: Time) {
        let Some(trace) = self.trace.as_mut().filter(|t| t.left > 0) else {
            return;
        };
        let here = match &*trace.sources {
            [] => self.plan.elements[node].inputs.is_empty(),
            sources => sources.contains(&node),
        };
        if here && packet.anno().trace == 0 {
            packet.anno_mut().trace = trace.next;
            trace.left -= 1;
            trace.next = trace.next.checked_add(1).unwrap_or(1);
            self.follow(Event::Leave(node, output), std::iter::once(&*packet), now);
        }
    }

    #[cold]
    pub(crate) fn enter(&mut self, node: usize, input: usize, batch: &Batch, now: Time) {
        let (here, event) = (Point::Input(node, input), Event::Enter(node, input));
        self.copy(|p| p == here, event, batch.iter(), now);
        self.follow(event, batch.iter(), now);
    }

    #[cold]
    pub(crate) fn leave<'p>(
        &mut self,
        node: usize,
        output: usize,
        packets: impl Iterator<Item = &'p Packet> + Clone,
        now: Time,
    ) {
        let (here, event) = (Point::Output(node, output), Event::Leave(node, output));
        self.copy(|p| p == here, event, packets, now);
    }

    #[cold]
    pub(crate) fn pulled(
        &mut self,
        (node, output): (usize, usize),
        by: (usize, usize),
        batch: &Batch,
        from: usize,
        now: Time,
    ) {
        let here = |p| p == Point::Input(by.0, by.1) || p == Point::Output(node, output);
        let event = Event::Pulled(node, output);
        self.copy(here, event, batch.iter().skip(from), now);
        self.follow(event, batch.iter().skip(from), now);
    }

    #[cold]
    pub(crate) fn dropped<'p>(
        &mut self,
        node: usize,
        reason: usize,
        packets: impl Iterator<Item = &'p Packet> + Clone,
        now: Time,
    ) {
        let here = |p| matches!(p, Point::Drop(n) if n.is_none_or(|n| n == node));
        let event = Event::Dropped(node, reason);
        self.copy(here, event, packets.clone(), now);
        self.follow(event, packets, now);
    }

    /// Copies packets to the captures at this point.
    fn copy<'p>(
        &mut self,
        here: impl Fn(Point) -> bool,
        event: Event,
        packets: impl Iterator<Item = &'p Packet> + Clone,
        at: Time,
    ) {
        let plan = &self.plan;
        for capture in self.captures.iter_mut().filter(|c| here(c.point)) {
            for packet in packets.clone() {
                if (capture.filter)(packet.data(), at_network(packet)) {
                    let record = record(packet, plan, capture.tag, capture.snap, event, at);
                    let sent = capture.to.try_send(record);
                    capture.lost += u64::from(matches!(sent, Err(TrySendError::Full(_))));
                }
            }
        }
    }

    /// Reports marked packets to the trace.
    fn follow<'p>(&self, event: Event, packets: impl Iterator<Item = &'p Packet>, at: Time) {
        let Some(trace) = &self.trace else {
            return;
        };
        for packet in packets.filter(|p| p.anno().trace != 0) {
            // If the channel is full, the record is lost: the worker never waits for the observer.
            let _ = trace.to.try_send(Record {
                exact_time: Some(Instant::now()),
                ..record(packet, &self.plan, trace.tag, trace.snap, event, at)
            });
        }
    }
}

fn record(
    packet: &Packet,
    plan: &Arc<Plan>,
    tag: u32,
    snap: usize,
    event: Event,
    at: Time,
) -> Record {
    Record {
        exact_time: None,
        tag,
        trace: packet.anno().trace,
        event,
        plan: Arc::clone(plan),
        at,
        len: packet.len(),
        at_network: at_network(packet),
        bytes: packet.data()[..packet.len().min(snap)].to_vec(),
    }
}

/// True if the data starts with an IP header, as far as annotations tell: it is marked there, or the Ethernet header
/// was stripped and not replaced.
fn at_network(packet: &Packet) -> bool {
    let (mac, marked) = (packet.anno().mac, usize::from(packet.anno().network));
    let here = packet.headroom();
    let version = packet.data().first().map(|b| b >> 4);
    let stripped = mac != 0 && usize::from(mac) + wire::ether::LEN <= here;
    (marked != 0 && marked == here || stripped) && matches!(version, Some(4 | 6))
}
