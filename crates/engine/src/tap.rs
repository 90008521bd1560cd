//! Taps: watching packets from outside, on a running router, bounded and without slowing others.
//!
//! A capture copies packets that cross an edge or are dropped; a trace follows marked packets from
//! source to end. Records go up a bounded channel: when control does not keep up, records are lost
//! and counted, packets are not. Without a tap the packet path pays one test per batch.

use crate::clock::Time;
use crate::packet::{Batch, Packet};
use std::sync::mpsc::{SyncSender, TrySendError};

/// Where a capture looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Packets that reach this input of this node, pushed or pulled.
    Input(usize, usize),
    /// Packets dropped by one element, or by any (`None`).
    Drop(Option<usize>),
}

/// What happened to a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It reached this input of this node.
    Enter(usize, usize),
    /// It was pulled from this output of this node.
    Pulled(usize, usize),
    /// It was dropped by this node under this reason.
    Dropped(usize, usize),
}

/// One observation.
#[derive(Clone, Debug)]
pub struct Record {
    /// Which packet, for traces.
    pub trace: u16,
    /// What happened.
    pub event: Event,
    /// When (the worker's turn).
    pub at: Time,
    /// Length on the wire.
    pub len: usize,
    /// Its first bytes.
    pub bytes: Vec<u8>,
}

/// Decides which packets are copied; it runs on the worker.
pub type Filter = Box<dyn FnMut(&[u8]) -> bool + Send>;

struct Capture {
    id: u64,
    point: Point,
    snap: usize,
    filter: Filter,
    to: SyncSender<Record>,
    lost: u64,
}

struct Trace {
    left: u16,
    next: u16,
    snap: usize,
    to: SyncSender<Record>,
}

/// The taps of one worker.
#[derive(Default)]
pub struct Taps {
    captures: Vec<Capture>,
    trace: Option<Trace>,
    /// A task of a source is running: what it emits may be marked.
    pub(crate) at_source: bool,
}

impl Taps {
    /// Starts a capture. Records carry up to `snap` bytes; packets that `filter` refuses are not
    /// copied.
    pub fn capture(
        &mut self,
        id: u64,
        point: Point,
        snap: usize,
        filter: Filter,
        to: SyncSender<Record>,
    ) {
        self.captures.push(Capture {
            id,
            point,
            snap,
            filter,
            to,
            lost: 0,
        });
    }

    /// Ends a capture; returns how many records were lost because control was slow.
    pub fn end_capture(&mut self, id: u64) -> u64 {
        let lost = self
            .captures
            .iter()
            .filter(|c| c.id == id)
            .map(|c| c.lost)
            .sum();
        self.captures.retain(|c| c.id != id);
        lost
    }

    /// Follows the next `packets` packets that sources emit, numbered from `first`.
    pub fn trace(&mut self, first: u16, packets: u16, snap: usize, to: SyncSender<Record>) {
        self.trace = Some(Trace {
            left: packets,
            next: first.max(1),
            snap,
            to,
        });
    }

    /// Ends the trace.
    pub fn end_trace(&mut self) {
        self.trace = None;
    }

    #[inline]
    pub(crate) fn watching(&self) -> bool {
        self.trace.is_some() || !self.captures.is_empty()
    }

    #[inline]
    pub(crate) fn marking(&self) -> bool {
        self.at_source && self.trace.as_ref().is_some_and(|t| t.left > 0)
    }

    #[cold]
    pub(crate) fn mark(&mut self, packet: &mut Packet) {
        if let Some(trace) = &mut self.trace
            && trace.left > 0
            && packet.anno().trace == 0
        {
            packet.anno_mut().trace = trace.next;
            trace.left -= 1;
            trace.next = trace.next.checked_add(1).unwrap_or(1);
        }
    }

    #[cold]
    pub(crate) fn enter(&mut self, node: usize, input: usize, batch: &Batch, now: Time) {
        let here = |p: Point| p == Point::Input(node, input);
        self.see(here, &Event::Enter(node, input), batch.iter(), now);
    }

    #[cold]
    pub(crate) fn pulled(
        &mut self,
        node: usize,
        output: usize,
        by: (usize, usize),
        batch: &Batch,
        from: usize,
        now: Time,
    ) {
        let here = |p: Point| p == Point::Input(by.0, by.1);
        self.see(
            here,
            &Event::Pulled(node, output),
            batch.iter().skip(from),
            now,
        );
    }

    #[cold]
    pub(crate) fn dropped<'p>(
        &mut self,
        node: usize,
        reason: usize,
        packets: impl Iterator<Item = &'p Packet> + Clone,
        now: Time,
    ) {
        let here = |p: Point| matches!(p, Point::Drop(n) if n.is_none_or(|n| n == node));
        self.see(here, &Event::Dropped(node, reason), packets, now);
    }

    fn see<'p>(
        &mut self,
        here: impl Fn(Point) -> bool,
        event: &Event,
        packets: impl Iterator<Item = &'p Packet> + Clone,
        at: Time,
    ) {
        let record = |packet: &Packet, snap: usize| Record {
            trace: packet.anno().trace,
            event: event.clone(),
            at,
            len: packet.len(),
            bytes: packet.data()[..packet.len().min(snap)].to_vec(),
        };
        for capture in self.captures.iter_mut().filter(|c| here(c.point)) {
            for packet in packets.clone() {
                if (capture.filter)(packet.data()) {
                    let sent = capture.to.try_send(record(packet, capture.snap));
                    capture.lost += u64::from(matches!(sent, Err(TrySendError::Full(_))));
                }
            }
        }
        if let Some(trace) = &self.trace {
            for packet in packets.filter(|p| p.anno().trace != 0) {
                // A full channel loses the record: the worker does not wait for whoever looks.
                let _ = trace.to.try_send(record(packet, trace.snap));
            }
        }
    }
}
