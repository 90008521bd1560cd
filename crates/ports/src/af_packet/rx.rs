//! The receiving side of a Linux interface.

use super::Socket;
use super::sys::{BURST, Message, RxVectors};
use crate::counts::Counts;
use crate::offload::{self, CutError, Segmenter};
use engine::packet::anno::PacketType;
use engine::packet::{Batch, Packet};
use engine::port::RxQueue;
use engine::ring::{Head, Tail, ring};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

/// Names of the counters of a receive queue.
pub(super) const NAMES: [&str; 6] = [
    "too_long",
    "gso_unknown",
    "gso_too_many",
    "bad_offload",
    "rx_no_buffer",
    "rx_errors",
];
const TOO_LONG: usize = 0;
const GSO_UNKNOWN: usize = 1;
const GSO_TOO_MANY: usize = 2;
const BAD_OFFLOAD: usize = 3;
const NO_BUFFER: usize = 4;
const ERRORS: usize = 5;

/// A super-frame that is only partly cut into segments.
struct PartialSuperFrame {
    cut: Segmenter,
    /// Index of the super-frame in the intake, which holds its remaining bytes.
    place: usize,
    head: Vec<u8>,
}

pub(super) struct Rx {
    socket: Arc<Socket>,
    vectors: RxVectors,
    /// Frames of the last system call beyond the number that the caller asked for, because a super-frame can become
    /// more packets. First come the remaining segments of a super-frame, then frames; `first_held` is the first frame's
    /// index in the intake.
    pending: Option<PartialSuperFrame>,
    hold: Tail<Packet>,
    held: Head<Packet>,
    first_held: usize,
    /// Number of buffers to allocate before a poll: a little more than the frames of the last poll, so that an empty
    /// poll does not allocate and free a burst of buffers.
    expected_frames: usize,
    /// True if super-frames are delivered unsegmented.
    delivers_super_frames: bool,
    /// True if no buffer was free in the last poll. Frames then wait in the kernel, which counts its drops. The counter
    /// here counts how often buffers have run out, not failed polls.
    no_buffers: bool,
    counts: Arc<Counts<6>>,
}

impl Rx {
    pub(super) fn new(socket: Arc<Socket>, counts: Arc<Counts<6>>) -> Rx {
        let (hold, held) = ring(BURST);
        Rx {
            socket,
            vectors: RxVectors::new(),
            pending: None,
            hold,
            held,
            first_held: 0,
            expected_frames: 4,
            delivers_super_frames: false,
            no_buffers: false,
            counts,
        }
    }

    /// Receives up to `ask` frames in one system call; no frame of the last call may be left. Appends packets until
    /// `into` has `limit` of them, and holds the other frames. Returns the number of frames.
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
        if short && !self.no_buffers {
            self.counts.at(NO_BUFFER).add(1);
        }
        self.no_buffers = short;
        let n = match self.vectors.receive(self.socket.fd.as_raw_fd(), &mut rooms) {
            Ok(n) => n,
            Err(e) => {
                // The watcher handles an interface that is down or gone.
                let idle = [libc::EAGAIN, libc::EINTR, libc::ENETDOWN];
                if !e.raw_os_error().is_some_and(|code| idle.contains(&code)) {
                    self.counts.at(ERRORS).add(1);
                }
                return 0;
            }
        };
        self.first_held = n;
        for (place, packet) in rooms.into_iter().flatten().take(n).enumerate() {
            if into.len() < limit {
                self.frame(place, packet, into, limit);
            } else {
                self.first_held = self.first_held.min(place);
                // `hold` has room for a burst, so the push succeeds.
                let _ = self.hold.push(packet);
            }
        }
        n
    }

    /// Makes packets of the frames held since the last system call, until `into` has `limit` of them. Returns true if
    /// none is left.
    fn take_held(&mut self, into: &mut Batch, limit: usize) -> bool {
        if let Some(mut rest) = self.pending.take()
            && !self.segments(&mut rest.cut, (rest.place, &rest.head), into, limit)
        {
            self.pending = Some(rest);
        }
        while self.pending.is_none() && into.len() < limit {
            let mut next = None;
            if self.held.pop_each(1, |packet| next = Some(packet)) == 0 {
                return true;
            }
            if let Some(packet) = next {
                let place = self.first_held;
                self.first_held += 1;
                self.frame(place, packet, into, limit);
            }
        }
        false
    }

    /// Makes a received frame into packets.
    fn frame(&mut self, place: usize, mut packet: Packet, into: &mut Batch, limit: usize) {
        let message = self.vectors.message(place);
        let room = packet.len();
        let overflow = self
            .vectors
            .overflow_of(place, message.len.saturating_sub(room));
        packet.truncate(message.len);
        if message.truncated || (!message.vnet.is_gso() && !overflow.is_empty()) {
            return self.counts.at(TOO_LONG).add(1);
        }
        if !message.vnet.is_gso() {
            let sound = message.vnet.complete(packet.data_mut());
            return match describe(packet, &message).filter(|_| sound) {
                Some(packet) => into.push(packet),
                None => self.counts.at(BAD_OFFLOAD).add(1),
            };
        }
        let len = packet.len() + overflow.len();
        let whole = (self.delivers_super_frames && message.tag.is_none())
            .then(|| offload::super_frame_shape(&message.vnet, packet.data(), len, room))
            .flatten();
        if let Some(shape) = whole {
            match joined(packet, overflow) {
                Ok(mut whole) => {
                    whole.set_super_frame(&shape, message.vnet.segment);
                    return match describe(whole, &message) {
                        Some(whole) => into.push(whole),
                        None => self.counts.at(BAD_OFFLOAD).add(1),
                    };
                }
                Err(head) => packet = head,
            }
        }
        match Segmenter::new(&message.vnet, packet.data(), overflow.len()) {
            Ok(mut cut) => {
                let head = packet.data();
                if !self.segments(&mut cut, (place, head), into, limit) {
                    let head = head.to_vec();
                    self.pending = Some(PartialSuperFrame { cut, place, head });
                }
            }
            Err(why) => self.counts.at(reason(why)).add(1),
        }
    }

    /// Segments a super-frame whose first bytes are `head`, until `into` is full. Returns true if the super-frame is
    /// finished.
    fn segments(
        &self,
        cut: &mut Segmenter,
        (place, head): (usize, &[u8]),
        into: &mut Batch,
        limit: usize,
    ) -> bool {
        let message = self.vectors.message(place);
        let overflow = message.len.saturating_sub(head.len());
        let overflow = self.vectors.overflow_of(place, overflow);
        while into.len() < limit {
            match cut.next(head, overflow) {
                Ok(Some(segment)) => match describe(segment, &message) {
                    Some(segment) => into.push(segment),
                    None => self.counts.at(BAD_OFFLOAD).add(1),
                },
                Ok(None) => return true,
                Err(why) => {
                    self.counts.at(reason(why)).add(1);
                    return true;
                }
            }
        }
        false
    }
}

fn reason(why: CutError) -> usize {
    match why {
        CutError::Unknown => GSO_UNKNOWN,
        CutError::TooMany => GSO_TOO_MANY,
        CutError::NoBuffer => NO_BUFFER,
        CutError::TooLong => TOO_LONG,
    }
}

/// Joins a super-frame in one large buffer; if none is free, returns the head unchanged.
fn joined(head: Packet, overflow: &[u8]) -> Result<Packet, Packet> {
    if overflow.is_empty() {
        return Ok(head);
    }
    let len = head.len() + overflow.len();
    let Some(mut packet) = Packet::large_if_many(len) else {
        return Err(head);
    };
    let Some(room) = packet.put(len) else {
        return Err(head);
    };
    let (first, rest) = room.split_at_mut(head.len());
    first.copy_from_slice(head.data());
    rest.copy_from_slice(overflow);
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
        let mut ask = match self.take_held(into, limit) {
            true => self.expected_frames.min(max).min(BURST),
            false => 0,
        };
        while ask > 0 {
            let got = self.burst(into, limit, ask);
            if got < ask || self.pending.is_some() {
                break;
            }
            ask = limit.saturating_sub(into.len()).min(BURST);
        }
        let received = into.len() - before;
        self.expected_frames = received + 4;
        received
    }
}

impl RxQueue for Rx {
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        self.delivers_super_frames = false;
        self.take(into, max)
    }

    fn receive_whole(&mut self, into: &mut Batch, max: usize) -> usize {
        self.delivers_super_frames = true;
        self.take(into, max)
    }

    fn wait_fd(&self) -> Option<RawFd> {
        Some(self.socket.ready.as_raw_fd())
    }
}
