//! A socket of one queue, with its memory and its rings: the end that receives and the end that sends, which may belong
//! to two workers.

use super::ring::{ADDRESS, DESCRIPTOR_BYTES, Descriptor, Ring};
use super::sys;
use crate::counts::Counts;
use crate::region::Region;
use crate::ring_handover::QueueResource;
use engine::packet::{Batch, Packet};
use engine::port::{TxOutcome, offer_each};
use rustix::net::sockopt;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpStatistics, XdpUmemReg,
    XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Names of the counters of a receive queue.
pub(super) const RX_NAMES: [&str; 2] = ["too_long", "rx_no_buffer"];
const TOO_LONG: usize = 0;
const NO_BUFFER: usize = 1;
/// Names of the counters of a transmit queue.
pub(super) const TX_NAMES: [&str; 3] = ["tx_too_long", "tx_link_down", "tx_errors"];
pub(super) const TX_TOO_LONG: usize = 0;
pub(super) const TX_LINK_DOWN: usize = 1;
pub(super) const TX_ERRORS: usize = 2;

/// Number of frames whose bytes are prefetched.
const PREFETCH_FRAMES: u32 = 4;
/// Number of failed send calls for one batch, after which the watcher sends the remaining frames when the device has
/// room.
const SEND_TRIES: usize = 64;
/// Shortest frame: its header (IEEE 802.3 without the padding).
const FRAME_LEN_MIN: usize = 14;

/// State shared by both ends and control.
pub(super) struct Socket {
    pub(super) fd: OwnedFd,
    /// Buffers of `bytes` each: the first ones are for receiving, the others for sending.
    memory: Region,
    bytes: usize,
    /// True if a frame may lie in several buffers.
    takes_parts: bool,
    /// True if polls do the kernel's receive work.
    pub(super) receives_in_polls: AtomicBool,
}

impl Socket {
    /// Counts of the kernel.
    pub(super) fn statistics(&self) -> Option<XdpStatistics> {
        sockopt::xdp_statistics(&self.fd).ok()
    }
}

/// Parameters of a socket.
#[derive(Clone, Copy)]
pub(super) struct SocketConfig {
    pub(super) interface: i32,
    pub(super) queue: u32,
    /// Number of frames of each ring, a power of two.
    pub(super) frames: u32,
    pub(super) receives: bool,
    pub(super) sends: bool,
    /// True if the program takes frames of several parts.
    pub(super) takes_parts: bool,
}

/// The receiving end of a socket.
pub(super) struct RxSide {
    pub(super) socket: Arc<Socket>,
    rx_ring: Ring,
    fill_ring: Ring,
    /// True if no buffer was free in the last poll: frames then wait in the ring.
    no_buffers: bool,
}

/// The sending end of a socket.
pub(super) struct TxSide {
    pub(super) socket: Arc<Socket>,
    tx_ring: Ring,
    completion_ring: Ring,
    free_buffers: Vec<u64>,
}

/// A socket with the ends that were wished.
pub(super) struct Ends {
    pub(super) socket: Arc<Socket>,
    pub(super) rx: Option<RxSide>,
    pub(super) tx: Option<TxSide>,
}

/// Opens a socket.
///
/// # Errors
/// The kernel refuses the socket, its memory or its rings.
pub(super) fn open(wish: SocketConfig) -> io::Result<Ends> {
    // Kernels before 6.6 do not support frames in several parts here.
    let whole = SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
    if wish.takes_parts
        && let Ok(ends) = open_as(wish, whole | SocketAddrXdpFlags::XDP_USE_SG)
    {
        return Ok(ends);
    }
    open_as(wish, whole)
}

fn open_as(wish: SocketConfig, flags: SocketAddrXdpFlags) -> io::Result<Ends> {
    let takes_parts = flags.contains(SocketAddrXdpFlags::XDP_USE_SG);
    // The kernel keeps room before a frame (XDP_PACKET_HEADROOM), 256 bytes, and a buffer is at most a page.
    let bytes = if takes_parts { 2048 } else { 4096 };
    let count = wish.frames as usize;
    let flags_of_socket = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(AddressFamily::XDP, SocketType::RAW, flags_of_socket, None)?;
    let memory = Region::for_kernel(2 * count * bytes)?;
    sockopt::set_xdp_umem_reg(
        &fd,
        XdpUmemReg {
            addr: memory.address(),
            len: memory.bytes() as u64,
            chunk_size: bytes as u32,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        },
    )?;
    let frames = wish.frames;
    sockopt::set_xdp_umem_fill_ring_size(&fd, frames)?;
    sockopt::set_xdp_umem_completion_ring_size(&fd, frames)?;
    if wish.receives {
        sockopt::set_xdp_rx_ring_size(&fd, frames)?;
    }
    if wish.sends {
        sockopt::set_xdp_tx_ring_size(&fd, frames)?;
    }
    let places = sockopt::xdp_mmap_offsets(&fd)?;
    let mut empty = Ring::map(&fd, XDP_UMEM_PGOFF_FILL_RING, places.fr, frames, ADDRESS)?;
    let sent = Ring::map(
        &fd,
        XDP_UMEM_PGOFF_COMPLETION_RING,
        places.cr,
        frames,
        ADDRESS,
    )?;
    let ring = |wished, from, at| match wished {
        true => Ring::map(&fd, from, at, frames, DESCRIPTOR_BYTES).map(Some),
        false => Ok(None),
    };
    let filled = ring(wish.receives, XDP_PGOFF_RX_RING, places.rx)?;
    let full = ring(wish.sends, XDP_PGOFF_TX_RING, places.tx)?;
    let buffers = |from: usize| (from..from + count).map(move |i| (i * bytes) as u64);
    if wish.receives {
        buffers(0).for_each(|address| empty.push(address));
        empty.publish();
    }
    bind(
        &fd,
        &SocketAddrXdp::new(flags, wish.interface as u32, wish.queue),
    )?;
    sys::send_ahead(&fd, count * bytes);
    let socket = Arc::new(Socket {
        fd,
        memory,
        bytes,
        takes_parts,
        receives_in_polls: AtomicBool::new(false),
    });
    let rx = filled.map(|filled| RxSide {
        socket: Arc::clone(&socket),
        rx_ring: filled,
        fill_ring: empty,
        no_buffers: false,
    });
    let tx = full.map(|full| TxSide {
        free_buffers: buffers(count).collect(),
        socket: Arc::clone(&socket),
        tx_ring: full,
        completion_ring: sent,
    });
    Ok(Ends { socket, rx, tx })
}

impl QueueResource for RxSide {
    fn wake_fd(&self) -> RawFd {
        self.socket.fd.as_raw_fd()
    }
}

impl QueueResource for TxSide {
    fn wake_fd(&self) -> RawFd {
        self.socket.fd.as_raw_fd()
    }
}

impl RxSide {
    /// Receives at most `max` packets. Returns the number of packets.
    pub(super) fn receive(&mut self, into: &mut Batch, max: usize, counts: &Counts<2>) -> usize {
        let mut filled = self.rx_ring.filled();
        if filled == 0 {
            if !self.receives_in_polls() && !self.fill_ring.needs_call() {
                return 0;
            }
            sys::ask(&self.socket.fd);
            filled = self.rx_ring.filled();
            if filled == 0 {
                return 0;
            }
        }
        let before = into.len();
        for ahead in 0..PREFETCH_FRAMES.min(filled) {
            self.fetch(ahead);
        }
        while filled > 0 && into.len() - before < max {
            let Some(packet) = Packet::new() else {
                if !self.no_buffers {
                    counts.at(NO_BUFFER).add(1);
                }
                self.no_buffers = true;
                break;
            };
            self.no_buffers = false;
            if filled > PREFETCH_FRAMES {
                self.fetch(PREFETCH_FRAMES);
            }
            let (packet, pieces) = self.take(packet, filled);
            filled -= pieces;
            match packet {
                Some(packet) => into.push(packet),
                None => counts.at(TOO_LONG).add(1),
            }
        }
        self.rx_ring.release();
        self.fill_ring.publish();
        into.len() - before
    }

    /// True if polls do the kernel's receive work.
    pub(super) fn receives_in_polls(&self) -> bool {
        self.socket.receives_in_polls.load(Relaxed)
    }

    /// Fill level of the ring, 0 to 1.
    pub(super) fn fill(&self) -> f64 {
        f64::from(self.rx_ring.filled()) / f64::from(self.rx_ring.size())
    }

    fn fetch(&self, ahead: u32) {
        let piece = self.rx_ring.peek(ahead);
        self.socket.memory.prefetch(piece.address as usize);
    }

    /// The next frame, if it fits into a packet, and its number of descriptors.
    #[inline]
    fn take(&mut self, mut packet: Packet, filled: u32) -> (Option<Packet>, u32) {
        let mut pieces = 0;
        let mut fits = true;
        loop {
            let piece = self.rx_ring.take_piece();
            pieces += 1;
            let at = packet.len();
            fits = fits && piece.bytes <= packet.tailroom();
            if fits {
                packet.put(piece.bytes);
                let into = &mut packet.data_mut()[at..];
                fits = self.socket.memory.read(piece.address as usize, into);
            }
            // The piece has been copied, so its buffer is free again.
            let buffer = piece.address & !(self.socket.bytes as u64 - 1);
            self.fill_ring.push(buffer);
            // The kernel puts in all parts of a frame or none.
            if !piece.continued || pieces == filled {
                return (fits.then_some(packet), pieces);
            }
        }
    }
}

impl TxSide {
    /// Sends packets from the front of a batch, in frames of at most `longest` bytes. Returns the number of sent
    /// packets.
    pub(super) fn send(
        &mut self,
        batch: &mut Batch,
        refused: &mut Batch,
        longest: usize,
        counts: &Counts<3>,
    ) -> usize {
        let mut sent = 0;
        while !batch.is_empty() {
            self.reclaim();
            let before = batch.len();
            sent += offer_each(batch, refused, |packet| {
                let frame = packet.data();
                let drop_as = if frame.len() < FRAME_LEN_MIN {
                    Some(TX_ERRORS)
                } else if frame.len() > longest || !self.may_be(frame.len()) {
                    Some(TX_TOO_LONG)
                } else {
                    None
                };
                match drop_as {
                    Some(counter) => {
                        counts.at(counter).add(1);
                        TxOutcome::Refused
                    }
                    None if self.push_frame(frame) => TxOutcome::Sent,
                    None => TxOutcome::NoRoom,
                }
            });
            self.tx_ring.publish();
            let moved = self.call();
            if batch.len() == before && !moved {
                break;
            }
        }
        sent
    }

    fn may_be(&self, bytes: usize) -> bool {
        bytes <= self.socket.bytes || self.socket.takes_parts
    }

    /// Adds a frame to the ring. Returns false if there is no room.
    #[inline]
    fn push_frame(&mut self, frame: &[u8]) -> bool {
        let parts = frame.len().div_ceil(self.socket.bytes);
        if parts > self.free_buffers.len() || parts > self.tx_ring.free_slots() {
            return false;
        }
        let mut left = parts;
        for part in frame.chunks(self.socket.bytes) {
            let Some(address) = self.free_buffers.pop() else {
                return false;
            };
            left -= 1;
            self.socket.memory.write(address as usize, part);
            self.tx_ring.put_piece(Descriptor {
                address,
                bytes: part.len(),
                continued: left > 0,
            });
        }
        true
    }

    /// Takes back the buffers of sent frames.
    #[inline]
    fn reclaim(&mut self) {
        let sent = self.completion_ring.filled();
        if sent > 0 {
            for _ in 0..sent {
                let address = self.completion_ring.take();
                self.free_buffers.push(address);
            }
            self.completion_ring.release();
        }
    }

    /// Makes the kernel send waiting frames; returns true if it took some.
    fn call(&mut self) -> bool {
        let before = self.tx_ring.waiting();
        if before == 0 {
            return false;
        }
        let mut waiting = before;
        let mut tries = SEND_TRIES;
        while waiting > 0 && self.tx_ring.needs_call() && tries > 0 {
            let result = sys::send(&self.socket.fd);
            let now = self.tx_ring.waiting();
            match result {
                Ok(()) => break,
                Err(e) => match e.raw_os_error() {
                    // The kernel did not send all frames in this call, the device has no room, or the device dropped a
                    // frame.
                    Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => (),
                    _ => break,
                },
            }
            if now == waiting {
                tries -= 1;
            }
            waiting = now;
        }
        self.tx_ring.waiting() < before
    }

    /// True if frames wait because the device had no room for them.
    pub(super) fn is_late(&self) -> bool {
        self.tx_ring.needs_call() && self.tx_ring.waiting() > 0
    }
}
