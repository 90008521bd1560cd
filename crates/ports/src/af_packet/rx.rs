//! The receiving side of a Linux interface.

use super::Socket;
use super::sys::{BURST, Intake, Message};
use crate::counts::Counts;
use crate::offload::{self, CutError};
use engine::packet::anno::PacketType;
use engine::packet::{Batch, Packet};
use engine::port::RxQueue;
use engine::ring::{Head, Tail, ring};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

/// Names of the counters of a receive queue.
pub(super) const NAMES: [&str; 5] = [
    "too_long",
    "gso_unknown",
    "bad_offload",
    "rx_no_buffer",
    "rx_errors",
];
const TOO_LONG: usize = 0;
const GSO_UNKNOWN: usize = 1;
const BAD_OFFLOAD: usize = 2;
const NO_BUFFER: usize = 3;
const ERRORS: usize = 4;

/// Segments that may wait for the next call: those of a burst of super-frames of 64 KiB.
const HELD: usize = 4096;

pub(super) struct Rx {
    socket: Arc<Socket>,
    intake: Intake,
    /// Packets that were more than the caller asked for: one super-frame can be 45 of them.
    hold: Tail<Packet>,
    held: Head<Packet>,
    /// Frames to make room for first: a little more than came last time, so that an empty poll
    /// does not take and give back a burst of buffers.
    guess: usize,
    /// Whether super-frames are wanted whole.
    carries: bool,
    /// There was no buffer last time. Frames wait in the kernel then, which counts those that it drops; here it counts
    /// how often buffers run out, not how often one looks.
    short: bool,
    counts: Arc<Counts<5>>,
}

impl Rx {
    pub(super) fn new(socket: Arc<Socket>, counts: Arc<Counts<5>>) -> Rx {
        let (hold, held) = ring(HELD);
        Rx {
            socket,
            intake: Intake::new(),
            hold,
            held,
            guess: 4,
            carries: false,
            short: false,
            counts,
        }
    }

    /// One system call: receives up to `ask` frames, appends packets while `into` has fewer than
    /// `limit` and holds the rest. Returns the number of frames.
    fn burst(&mut self, into: &mut Batch, limit: usize, ask: usize) -> usize {
        let mut rooms = [const { None }; BURST];
        let mut short = false;
        for room in rooms.iter_mut().take(ask) {
            *room = Packet::new();
            let Some(packet) = room else {
                short = true;
                break;
            };
            let all = packet.tailroom();
            packet.put(all);
        }
        if short && !self.short {
            self.counts.at(NO_BUFFER).add(1);
        }
        self.short = short;
        let n = match self.intake.receive(self.socket.fd.as_raw_fd(), &mut rooms) {
            Ok(n) => n,
            Err(e) => {
                // An interface that is down or gone is the watcher's concern.
                let idle = [libc::EAGAIN, libc::EINTR, libc::ENETDOWN];
                if !e.raw_os_error().is_some_and(|code| idle.contains(&code)) {
                    self.counts.at(ERRORS).add(1);
                }
                return 0;
            }
        };
        for (i, packet) in rooms.into_iter().flatten().take(n).enumerate() {
            self.frame(i, packet, into, limit);
        }
        n
    }

    /// Makes a received frame into packets.
    fn frame(&mut self, i: usize, mut packet: Packet, into: &mut Batch, limit: usize) {
        let message = self.intake.message(i);
        let room = packet.len();
        let beyond = self
            .intake
            .beyond(i, message.len.saturating_sub(packet.len()));
        packet.truncate(message.len);
        if message.truncated || (!message.vnet.is_gso() && !beyond.is_empty()) {
            return self.counts.at(TOO_LONG).add(1);
        }
        // Those that have to wait here are cut: whoever takes them may want them so.
        let carries = self.carries && into.len() < limit && message.tag.is_none();
        let len = packet.len() + beyond.len();
        let whole = (carries && message.vnet.is_gso())
            .then(|| offload::whole(&message.vnet, packet.data(), len, room))
            .flatten();
        let counts = &self.counts;
        let hold = &mut self.hold;
        let mut deliver = |packet: Packet| {
            let Some(packet) = describe(packet, &message) else {
                return counts.at(BAD_OFFLOAD).add(1);
            };
            if into.len() < limit {
                into.push(packet);
            } else if hold.push(packet).is_err() {
                counts.at(NO_BUFFER).add(1);
            }
        };
        if !message.vnet.is_gso() {
            if !message.vnet.complete(packet.data_mut()) {
                return counts.at(BAD_OFFLOAD).add(1);
            }
            return deliver(packet);
        }
        if let Some(shape) = whole {
            match joined(packet, beyond) {
                Ok(mut whole) => {
                    whole.set_super_frame(&shape, message.vnet.segment);
                    return deliver(whole);
                }
                Err(head) => packet = head,
            }
        }
        match offload::cut(&message.vnet, packet.data(), beyond, deliver) {
            Ok(()) => (),
            Err(CutError::Unknown) => counts.at(GSO_UNKNOWN).add(1),
            Err(CutError::NoBuffer) => counts.at(NO_BUFFER).add(1),
            Err(CutError::TooLong) => counts.at(TOO_LONG).add(1),
        }
    }
}

/// A super-frame in one buffer; else its head as it was, as there are few buffers so large.
fn joined(head: Packet, beyond: &[u8]) -> Result<Packet, Packet> {
    if beyond.is_empty() {
        return Ok(head);
    }
    let len = head.len() + beyond.len();
    let Some(mut packet) = Packet::large_if_many(len) else {
        return Err(head);
    };
    let Some(room) = packet.put(len) else {
        return Err(head);
    };
    let (first, rest) = room.split_at_mut(head.len());
    first.copy_from_slice(head.data());
    rest.copy_from_slice(beyond);
    Ok(packet)
}

/// Puts the VLAN tag back and sets the annotations; `None` if the frame has no room for the tag.
fn describe(mut packet: Packet, message: &Message) -> Option<Packet> {
    if let Some((tpid, tci)) = message.tag {
        offload::insert_tag(&mut packet, tpid, tci).then_some(())?;
    }
    packet.set_mac_here();
    packet.anno_mut().packet_type = match message.kind {
        1 => PacketType::Broadcast,
        2 => PacketType::Multicast,
        3 => PacketType::OtherHost,
        4 => PacketType::Outgoing,
        _ => PacketType::Host,
    };
    Some(packet)
}

impl Rx {
    fn take(&mut self, into: &mut Batch, max: usize) -> usize {
        let before = into.len();
        let limit = before + max;
        if self.held.pop_each(max, |packet| into.push(packet)) > 0 {
            return into.len() - before;
        }
        let mut ask = self.guess.min(max).min(BURST);
        while ask > 0 {
            let got = self.burst(into, limit, ask);
            if got < ask {
                break;
            }
            ask = limit.saturating_sub(into.len()).min(BURST);
        }
        let received = into.len() - before;
        self.guess = received + 4;
        received
    }
}

impl RxQueue for Rx {
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        self.carries = false;
        self.take(into, max)
    }

    fn receive_whole(&mut self, into: &mut Batch, max: usize) -> usize {
        self.carries = true;
        self.take(into, max)
    }

    fn wait_fd(&self) -> Option<RawFd> {
        Some(self.socket.ready.as_raw_fd())
    }
}
