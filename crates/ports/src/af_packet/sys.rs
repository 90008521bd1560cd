//! Packet sockets and their message vectors.
#![allow(unsafe_code)]

use crate::offload::merge::Head;
use crate::offload::{VNET_LEN, VnetHeader};
use crate::sys::{check, packet_socket, set_option};
use engine::packet::Packet;
use libc::{c_int, iovec, mmsghdr, sockaddr_ll, tpacket_auxdata};
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Number of frames moved by one system call.
pub(super) const BURST: usize = 32;
/// Number of bytes of a super-frame that may lie beyond the packet buffer: 64 KiB of IP and link headers.
const OVERFLOW_BYTES: usize = 65_536 + 64;
const PACKET_FANOUT_FLAG_UNIQUEID: c_int = 0x2000;
/// Flag of a fan-out group: a group has a separate hook, to which the sockets' PACKET_IGNORE_OUTGOING does not apply.
const PACKET_FANOUT_FLAG_IGNORE_OUTGOING: c_int = 0x4000;
const TP_STATUS_VLAN_VALID: u32 = 1 << 4;
const TP_STATUS_VLAN_TPID_VALID: u32 = 1 << 6;

/// Opens a socket for receiving, not bound yet. Returns the socket, and true if its buffer holds `bytes`.
pub(super) fn rx_socket(bytes: usize) -> io::Result<(OwnedFd, bool)> {
    let socket = packet_socket()?;
    let fd = socket.as_raw_fd();
    let one: c_int = 1;
    set_option(fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &one)?;
    set_option(fd, libc::SOL_PACKET, libc::PACKET_AUXDATA, &one)?;
    set_option(fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &one)?;
    let size = bytes.min(i32::MAX as usize / 2) as c_int;
    let forced = set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &size).is_ok();
    if !forced {
        set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &size)?;
    }
    Ok((socket, forced))
}

/// A socket for sending: not bound yet, receives nothing.
pub(super) fn tx_socket(bypass_qdisc: bool) -> io::Result<OwnedFd> {
    let socket = packet_socket()?;
    let fd = socket.as_raw_fd();
    let (size, bypass, one): (c_int, c_int, c_int) = (4 << 20, bypass_qdisc.into(), 1);
    set_option(fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &one)?;
    if set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &size).is_err() {
        set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &size)?;
    }
    set_option(fd, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &bypass)?;
    Ok(socket)
}

/// Binds a socket to an interface; it gets frames of all protocols if `receives` is true.
pub(super) fn bind(socket: &OwnedFd, index: c_int, receives: bool) -> io::Result<()> {
    let protocol = if receives {
        (libc::ETH_P_ALL as u16).to_be()
    } else {
        0
    };
    // SAFETY: all-zero bytes are a valid sockaddr_ll; it outlives the call.
    unsafe {
        let mut address: sockaddr_ll = zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = index;
        let pointer = std::ptr::from_ref(&address).cast();
        check(libc::bind(
            socket.as_raw_fd(),
            pointer,
            size_of::<sockaddr_ll>() as _,
        ))
        .map(drop)
    }
}

/// Joins sockets into one fan-out group by flow hash, without reassembly of fragments. The kernel
/// picks an id that no other group has.
pub(super) fn fan_out<'a>(mut sockets: impl Iterator<Item = &'a OwnedFd>) -> io::Result<()> {
    let Some(first) = sockets.next() else {
        return Ok(());
    };
    let kind = libc::PACKET_FANOUT_HASH as c_int | PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
    let unique: c_int = (kind | PACKET_FANOUT_FLAG_UNIQUEID) << 16;
    set_option(
        first.as_raw_fd(),
        libc::SOL_PACKET,
        libc::PACKET_FANOUT,
        &unique,
    )?;
    let mut group: c_int = 0;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: pointer and length describe `group`.
    check(unsafe {
        libc::getsockopt(
            first.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_FANOUT,
            std::ptr::from_mut(&mut group).cast(),
            &mut len,
        )
    })?;
    let join = (kind << 16) | (group & 0xffff);
    for socket in sockets {
        set_option(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_FANOUT,
            &join,
        )?;
    }
    Ok(())
}

/// Number of frames that the kernel dropped at this socket since the last call.
pub(super) fn take_drops(socket: &OwnedFd) -> u64 {
    // SAFETY: all-zero bytes are valid statistics; pointer and length describe them.
    unsafe {
        let mut stats: libc::tpacket_stats = zeroed();
        let mut len = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        let result = libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            std::ptr::from_mut(&mut stats).cast(),
            &mut len,
        );
        if result == 0 {
            u64::from(stats.tp_drops)
        } else {
            0
        }
    }
}

/// Buffer for one control message with [`tpacket_auxdata`].
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; 64]);

/// The kernel's information about a received frame.
pub(super) struct Message {
    /// Number of bytes of the frame that were stored.
    pub(super) len: usize,
    /// True if the frame was longer than packet buffer and overflow area.
    pub(super) truncated: bool,
    /// `PACKET_HOST`, `PACKET_BROADCAST` ...
    pub(super) kind: u8,
    pub(super) vnet: VnetHeader,
    /// VLAN tag that the kernel removed from the frame: TPID and TCI.
    pub(super) tag: Option<(u16, u16)>,
}

/// The vectors of `recvmmsg`: per frame an address, a virtio-net header, the packet's own buffer, an
/// overflow area and auxiliary data.
pub(super) struct RxVectors {
    names: Box<[sockaddr_ll; BURST]>,
    controls: Box<[Control; BURST]>,
    vnets: Box<[[u8; VNET_LEN]; BURST]>,
    overflow: Box<[u8]>,
    parts: Box<[[iovec; 3]; BURST]>,
    messages: Box<[mmsghdr; BURST]>,
}

// SAFETY: the raw pointers in `parts` and `messages` lead only to the other boxes of the same
// value, which move with it, and to packet buffers that are set anew before each use.
unsafe impl Send for RxVectors {}

impl RxVectors {
    pub(super) fn new() -> RxVectors {
        // SAFETY: all-zero bytes are valid for these C structures (null pointers, zero lengths).
        let (names, parts, messages) = unsafe { (zeroed(), zeroed(), zeroed()) };
        let mut intake = RxVectors {
            names: Box::new(names),
            controls: Box::new([Control([0; 64]); BURST]),
            vnets: Box::new([[0; VNET_LEN]; BURST]),
            // The memory is written with ones: for zeros, the system would map pages only by later faults of a worker.
            overflow: vec![!0; OVERFLOW_BYTES * BURST].into_boxed_slice(),
            parts: Box::new(parts),
            messages: Box::new(messages),
        };
        let overflow = intake.overflow.chunks_exact_mut(OVERFLOW_BYTES);
        for (i, area) in overflow.enumerate() {
            let parts = &mut intake.parts[i];
            parts[0] = iovec {
                iov_base: intake.vnets[i].as_mut_ptr().cast(),
                iov_len: VNET_LEN,
            };
            parts[2] = iovec {
                iov_base: area.as_mut_ptr().cast(),
                iov_len: OVERFLOW_BYTES,
            };
            let header = &mut intake.messages[i].msg_hdr;
            header.msg_name = std::ptr::from_mut(&mut intake.names[i]).cast();
            header.msg_iov = parts.as_mut_ptr();
            header.msg_iovlen = parts.len();
            header.msg_control = intake.controls[i].0.as_mut_ptr().cast();
        }
        intake
    }

    /// Receives up to as many frames as there are packets in `rooms` (their data is the room),
    /// without waiting.
    pub(super) fn receive(
        &mut self,
        fd: RawFd,
        rooms: &mut [Option<Packet>; BURST],
    ) -> io::Result<usize> {
        let mut n = 0;
        for (i, room) in rooms.iter_mut().flatten().enumerate() {
            let room = room.data_mut();
            self.parts[i][1] = iovec {
                iov_base: room.as_mut_ptr().cast(),
                iov_len: room.len(),
            };
            let header = &mut self.messages[i].msg_hdr;
            header.msg_namelen = size_of::<sockaddr_ll>() as _;
            header.msg_controllen = size_of::<Control>() as _;
            header.msg_flags = 0;
            n = i + 1;
        }
        let messages = self.messages.as_mut_ptr();
        // SAFETY: the first `n` messages point to memory of this value and to `rooms`, all of which
        // outlive the call and nobody else uses.
        let got = unsafe {
            libc::recvmmsg(
                fd,
                messages,
                n as _,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        check(got).map(|n| n as usize)
    }

    /// Information about the frame at place `i`.
    pub(super) fn message(&self, i: usize) -> Message {
        let message = &self.messages[i];
        Message {
            len: (message.msg_len as usize).saturating_sub(VNET_LEN),
            truncated: message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            kind: self.names[i].sll_pkttype,
            vnet: VnetHeader::parse(&self.vnets[i]),
            tag: self.tag(i),
        }
    }

    /// The `len` bytes of the frame at place `i` that the packet buffer had no room for.
    pub(super) fn overflow_of(&self, i: usize, len: usize) -> &[u8] {
        let area = &self.overflow[i * OVERFLOW_BYTES..][..OVERFLOW_BYTES];
        &area[..len.min(OVERFLOW_BYTES)]
    }

    fn tag(&self, i: usize) -> Option<(u16, u16)> {
        let header = &self.messages[i].msg_hdr;
        // SAFETY: the control area is aligned and the kernel has filled `msg_controllen` bytes of
        // it; CMSG_FIRSTHDR checks that a header fits, the length check that the data does.
        let aux = unsafe {
            let first = libc::CMSG_FIRSTHDR(header).as_ref()?;
            let len = libc::CMSG_LEN(size_of::<tpacket_auxdata>() as u32) as usize;
            let ours = first.cmsg_level == libc::SOL_PACKET
                && first.cmsg_type == libc::PACKET_AUXDATA
                && first.cmsg_len as usize >= len;
            if !ours {
                return None;
            }
            libc::CMSG_DATA(first)
                .cast::<tpacket_auxdata>()
                .read_unaligned()
        };
        if aux.tp_status & TP_STATUS_VLAN_VALID == 0 {
            return None;
        }
        let named = aux.tp_status & TP_STATUS_VLAN_TPID_VALID != 0;
        Some((
            if named { aux.tp_vlan_tpid } else { 0x8100 },
            aux.tp_vlan_tci,
        ))
    }
}

/// Maximum number of I/O vectors in one `sendmmsg`. Each message has one for the virtio-net header with the headers of
/// a super-frame, and one for each frame.
const IOVECS: usize = 4 * BURST;

/// Parameters of sending frames.
#[derive(Clone, Copy)]
pub(super) struct TxParameters {
    /// True if the interface takes super-frames made of frames.
    pub(super) merges: bool,
    /// True if some frames may be super-frames already.
    pub(super) whole: bool,
    /// The longest frame that the interface takes. If segments of a super-frame are longer, the kernel reports no
    /// error.
    pub(super) longest: usize,
}

/// The vectors of `sendmmsg`.
pub(super) struct TxVectors {
    heads: Box<[Head; BURST]>,
    pieces: Box<[iovec; IOVECS]>,
    messages: Box<[mmsghdr; BURST]>,
    /// Frames of each message.
    frames: [usize; BURST],
}

// SAFETY: the raw pointers lead to the other boxes of the same value and to packet buffers that are
// set anew before each use.
unsafe impl Send for TxVectors {}

impl TxVectors {
    pub(super) fn new() -> TxVectors {
        // SAFETY: all-zero bytes are valid for these C structures.
        let (pieces, messages) = unsafe { (zeroed(), zeroed()) };
        TxVectors {
            heads: Box::new([Head::PLAIN; BURST]),
            pieces: Box::new(pieces),
            messages: Box::new(messages),
            frames: [0; BURST],
        }
    }

    /// Sends frames without waiting. Returns the number of sent frames, counted from the front, at least one.
    ///
    /// # Errors
    /// The kernel's, with the number of frames at the front that it concerns.
    pub(super) fn send<'a>(
        &mut self,
        fd: RawFd,
        frames: impl Iterator<Item = &'a Packet> + Clone,
        way: TxParameters,
    ) -> Result<usize, (io::Error, usize)> {
        let mut left = frames.peekable();
        let (mut n, mut used) = (0, 0);
        while n < BURST && used + 2 <= IOVECS && left.peek().is_some() {
            let head = &mut self.heads[n];
            let is_whole = |packet: &Packet| way.whole && packet.is_super_frame();
            let run = match left.peek() {
                Some(packet) if is_whole(packet) => usize::from(head.carry(packet, way.longest)),
                Some(packet) if way.merges && packet.len() <= way.longest => {
                    // A frame takes one piece, and the headers another.
                    let some = left.clone().take(IOVECS - used - 1);
                    head.merge(some.take_while(|p| !is_whole(p)).map(Packet::data))
                }
                _ => head.merge([].into_iter()),
            };
            let run = run.max(1);
            let pieces = &mut self.pieces[used..=used + run];
            pieces[0] = piece(head.bytes());
            for (piece_of, frame) in pieces[1..].iter_mut().zip(&mut left) {
                *piece_of = piece(&frame.data()[head.replaces()..]);
            }
            let header = &mut self.messages[n].msg_hdr;
            header.msg_iov = pieces.as_mut_ptr();
            header.msg_iovlen = pieces.len();
            self.frames[n] = run;
            (n, used) = (n + 1, used + run + 1);
        }
        let messages = self.messages.as_mut_ptr();
        // SAFETY: the first `n` messages point to pieces of this value, and those to heads of it and to frames that are
        // borrowed for the call; sendmmsg only reads them.
        let sent = unsafe { libc::sendmmsg(fd, messages, n as _, libc::MSG_DONTWAIT) };
        match check(sent) {
            Ok(sent) => Ok(self.frames[..sent as usize].iter().sum()),
            Err(e) => Err((e, self.frames[0])),
        }
    }
}

fn piece(bytes: &[u8]) -> iovec {
    iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}
