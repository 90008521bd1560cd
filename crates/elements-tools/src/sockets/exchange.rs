//! Common part of the classes of sockets: packets go to a peer and come from it, without blocking.

use crate::prelude::*;
use engine::packet::{HEADROOM, pool};
use socket2::Socket;
use std::io::{self, ErrorKind};

/// Drops that all classes of sockets have, in this order, before a third of their own.
pub(super) const FULL: u8 = 0;
pub(super) const REFUSED: u8 = 1;
pub(super) const UNWANTED: u8 = 2;

/// Packets that may wait for a socket whose buffer is full.
const WAITING_MAX: usize = 1024;
/// Bytes of the longest packet: any datagram fits.
const LENGTH_MAX: usize = u16::MAX as usize;

/// Keywords of all classes of sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    snaplen: usize,
    headroom: usize,
    timestamp: bool,
    send_buffer: Option<u32>,
    receive_buffer: Option<u32>,
}

impl Settings {
    pub(super) fn parse(args: &mut Args) -> Settings {
        let settings = Settings {
            snaplen: args.key("SNAPLEN", 2048, "longest packet that is received"),
            headroom: args.key("HEADROOM", 28, "least bytes kept free before a packet"),
            timestamp: args.key("TIMESTAMP", true, "true if packets get a timestamp"),
            send_buffer: args.key_maybe("SNDBUF", "bytes of the socket's send buffer"),
            receive_buffer: args.key_maybe("RCVBUF", "bytes of the socket's receive buffer"),
        };
        if settings.snaplen == 0 || settings.snaplen.saturating_add(settings.headroom) > LENGTH_MAX
        {
            args.error_in_whole(
                format!("SNAPLEN and HEADROOM take more than {LENGTH_MAX} bytes, or SNAPLEN is 0"),
                "make them smaller: 2048 and 28 are the defaults",
            );
        }
        settings
    }

    /// Sets the sizes of the socket's buffers.
    pub(super) fn apply(&self, socket: &Socket) -> io::Result<()> {
        if let Some(bytes) = self.send_buffer {
            socket.set_send_buffer_size(bytes as usize)?;
        }
        if let Some(bytes) = self.receive_buffer {
            socket.set_recv_buffer_size(bytes as usize)?;
        }
        Ok(())
    }

    /// A packet with room for the longest one; `None` if the pool has run dry.
    fn packet(&self) -> Option<Packet> {
        let headroom = self.headroom.max(HEADROOM);
        if self.snaplen + headroom <= pool::data_bytes() + HEADROOM {
            let mut packet = Packet::new()?;
            let fits = packet.realign(headroom) && packet.put(self.snaplen).is_some();
            return fits.then_some(packet);
        }
        let mut packet = Packet::large(self.snaplen)?;
        let fits = packet.headroom() >= self.headroom || packet.realign(self.headroom);
        (fits && packet.put(self.snaplen).is_some()).then_some(packet)
    }
}

/// A packet that has come.
pub(super) struct ReceivedPacket {
    /// Length in bytes.
    pub(super) len: usize,
    /// True if the packet is to be forwarded.
    pub(super) wanted: bool,
}

/// A non-blocking channel to a peer: where an operation would block, its error is [`ErrorKind::WouldBlock`].
pub(super) trait Link {
    /// Sends bytes; returns how many have gone, fewer than there are where packets are a stream.
    fn send(&mut self, packet: &Packet) -> io::Result<usize>;

    /// Receives into `buffer`.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<ReceivedPacket>;

    /// Maintains the link, once a turn. Returns true if there is a peer to send to.
    fn maintain_link(&mut self) -> bool {
        true
    }
}

/// Packets on their way to a link and from it.
pub(super) struct Exchange {
    settings: Settings,
    waiting: Batch,
    pulls: bool,
    receives: bool,
    /// Upstream may have packets without saying so.
    polls: bool,
    pub(super) sent: u64,
    pub(super) received: u64,
}

fn would_block(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

impl Exchange {
    pub(super) fn new(settings: &Settings, init: &Init) -> Exchange {
        Exchange {
            settings: settings.clone(),
            waiting: Batch::new(),
            pulls: init.input_pull && init.inputs > 0,
            receives: init.output_used,
            polls: false,
            sent: 0,
            received: 0,
        }
    }

    /// True if packets from the link are wanted.
    pub(super) fn receives(&self) -> bool {
        self.receives
    }

    /// Takes packets that are pushed.
    pub(super) fn process(&mut self, batch: &mut Batch, link: &mut impl Link, cx: &mut Cx) {
        self.waiting.append(batch);
        self.flush(link, cx);
        if self.waiting.len() > WAITING_MAX {
            let mut late = self.waiting.split_off(WAITING_MAX);
            cx.drop_batch(&mut late, FULL);
        }
    }

    /// Runs a turn: sends waiting or pulled packets, then receives.
    pub(super) fn task(&mut self, link: &mut impl Link, cx: &mut Cx) -> Did {
        let mut worked = self.flush(link, cx);
        let sends = link.maintain_link();
        self.polls = false;
        if self.pulls && sends && self.waiting.is_empty() {
            let came = cx.pull(0, cx.burst(), &mut self.waiting) > 0;
            self.polls = !came && cx.input_active(0);
            self.flush(link, cx);
            worked |= came;
        }
        if self.receives {
            worked |= self.receive(link, cx);
        }
        // The task never sleeps, because a sleeping task is not woken by its descriptors.
        if worked { Did::Work } else { Did::Nothing }
    }

    /// Sends until the link takes no more. Returns true if a packet was sent.
    fn flush(&mut self, link: &mut impl Link, cx: &mut Cx) -> bool {
        if self.waiting.is_empty() {
            return false;
        }
        let mut all = std::mem::replace(&mut self.waiting, cx.spare());
        let before = all.len();
        for mut packet in all.drain() {
            if !self.waiting.is_empty() {
                self.waiting.push(packet);
                continue;
            }
            match link.send(&packet) {
                Ok(n) if n < packet.len() => {
                    let _ = packet.pull(n);
                    self.waiting.push(packet);
                }
                Ok(_) => self.sent += 1,
                Err(e) if would_block(&e) => self.waiting.push(packet),
                Err(_) => cx.drop(packet, REFUSED),
            }
        }
        cx.keep_spare(all);
        self.waiting.len() < before
    }

    /// Receives up to a burst. Returns true if a packet came.
    fn receive(&mut self, link: &mut impl Link, cx: &mut Cx) -> bool {
        let mut batch = cx.spare();
        let before = self.received;
        for _ in 0..cx.burst() {
            let Some(mut packet) = self.settings.packet() else {
                break;
            };
            match link.receive(packet.data_mut()) {
                Ok(came) => {
                    packet.truncate(came.len);
                    self.received += 1;
                    if came.wanted {
                        batch.push(self.finish(packet, cx));
                    } else {
                        cx.drop(packet, UNWANTED);
                    }
                }
                Err(e) if would_block(&e) => break,
                // An earlier datagram was refused, which is reported once, here.
                Err(_) => {}
            }
        }
        cx.emit_batch(0, &mut batch);
        cx.keep_spare(batch);
        self.received > before
    }

    fn finish(&self, mut packet: Packet, cx: &Cx) -> Packet {
        if self.settings.headroom <= HEADROOM {
            packet.leave_large();
        }
        if self.settings.timestamp {
            packet.cold_mut().timestamp = cx.timestamp();
        }
        packet
    }

    pub(super) fn must_poll(&self) -> bool {
        self.polls || !self.waiting.is_empty()
    }

    pub(super) fn held(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn take(&mut self, mut old: Exchange) {
        self.waiting.append(&mut old.waiting);
        (self.sent, self.received) = (old.sent, old.received);
    }
}
