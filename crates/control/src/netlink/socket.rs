//! Two netlink sockets of a namespace: one receives changes, the other sends requests.
//!
//! They are separate because a dump and concurrent changes come in no useful order on one socket: the kernel fills the
//! next part of a dump before it is fetched, and changes overtake it. Here a dump is read to its end while the changes
//! are kept; they are then newer than the dump, or part of it.

use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::net::sockopt::{self, Timeout};
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;
use wire::netlink::{Event, Full, Message, NLM_F_CREATE, RTM_NEWLINK, Writer, messages};
use zeroize::Zeroize;

/// Netlink protocol `NETLINK_ROUTE`.
const ROUTE: isize = 0;
/// Multicast groups (`RTNLGRP_*`) for links and neighbours; and for addresses, routes, rules and settings of both
/// families.
const GROUPS: [u32; 10] = [1, 3, 5, 9, 7, 11, 8, 19, 24, 25];
/// Multicast groups of newer kernels: MPLS routes (Linux 4.1), MPLS settings (4.10) and next-hop objects (5.3).
const NEWER_GROUPS: [u32; 3] = [27, 29, 32];
/// Receive size in bytes. It exceeds a part of a dump (32 KiB), and a message about a route with many hops.
const RECEIVE_BYTES: usize = 64 << 10;
/// Timeout for each part of the kernel's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum length of requests sent together, in bytes.
const REQUESTS_BYTES: usize = 16 << 10;

/// True if the error means that messages were lost because the receive buffer was full.
pub(super) fn is_loss(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error())
}

fn open(protocol: isize) -> io::Result<netlink_sys::Socket> {
    let mut socket = netlink_sys::Socket::new(protocol)?;
    socket.bind_auto()?;
    Ok(socket)
}

/// Appends the next received messages to `into`.
fn receive(socket: &netlink_sys::Socket, into: &mut Vec<u8>, flags: RecvFlags) -> io::Result<()> {
    let flags = (flags | RecvFlags::TRUNC).bits() as i32;
    loop {
        into.reserve(RECEIVE_BYTES);
        let (start, room) = (into.len(), into.capacity() - into.len());
        let (len, from) = match socket.recv_from(into, flags) {
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            other => other?,
        };
        if len > room {
            into.truncate(start);
            return Err(Errno::NOBUFS.into());
        }
        // Messages from other processes are ignored.
        match from.port_number() {
            0 => return Ok(()),
            _ => into.truncate(start),
        }
    }
}

/// A socket that receives notifications of all changes.
pub(super) struct Notifications(netlink_sys::Socket);

impl Notifications {
    /// Opens the socket in the namespace of the calling thread, with a receive buffer of `room` bytes. The kernel
    /// counts some hundred bytes of overhead per message.
    pub(super) fn open(room: usize) -> io::Result<Notifications> {
        let changes = Notifications::of(ROUTE, &GROUPS, room)?;
        for group in NEWER_GROUPS {
            // Kernels without the group never send its messages.
            let _ = changes.0.add_membership(group);
        }
        Ok(changes)
    }

    /// Opens a socket for a protocol (`NETLINK_*`) that receives messages of multicast groups.
    pub(super) fn of(protocol: isize, groups: &[u32], room: usize) -> io::Result<Notifications> {
        let socket = open(protocol)?;
        // A buffer larger than net.core.rmem_max requires a capability that this process may lack.
        if sockopt::set_socket_recv_buffer_size_force(socket.as_fd(), room).is_err() {
            sockopt::set_socket_recv_buffer_size(socket.as_fd(), room)?;
        }
        for group in groups {
            socket.add_membership(*group)?;
        }
        socket.set_non_blocking(true)?;
        Ok(Notifications(socket))
    }

    /// Appends received messages until none is left or `into` holds `limit` bytes. Returns true if more may be pending.
    ///
    /// # Errors
    ///
    /// The socket failed. An error for which [`is_loss`] is true is returned once per loss; earlier messages are in
    /// `into`.
    pub(super) fn receive(&self, into: &mut Vec<u8>, limit: usize) -> io::Result<bool> {
        while into.len() < limit {
            match receive(&self.0, into, RecvFlags::empty()) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                other => other?,
            }
        }
        Ok(true)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Socket for requests and their answers.
pub(super) struct Requests {
    socket: netlink_sys::Socket,
    sequence: u32,
    /// False if the kernel has marked the dump as interrupted, and thus perhaps incomplete.
    complete: bool,
    /// Number of refused requests not yet returned by `refusals`.
    refused: u64,
    answer: Vec<u8>,
    unsent: Box<[u8; REQUESTS_BYTES]>,
}

impl Requests {
    /// Opens the socket in the namespace of the calling thread.
    pub(super) fn open() -> io::Result<Requests> {
        Requests::of(ROUTE)
    }

    /// Opens a socket for a protocol (`NETLINK_*`).
    pub(super) fn of(protocol: isize) -> io::Result<Requests> {
        let socket = open(protocol)?;
        // Old kernels lack strict checking; their answers are filtered here, too.
        let _ = socket.set_netlink_get_strict_chk(true);
        sockopt::set_socket_timeout(socket.as_fd(), Timeout::Recv, Some(ANSWER_TIMEOUT))?;
        Ok(Requests {
            socket,
            sequence: 0,
            complete: true,
            refused: 0,
            answer: Vec::new(),
            unsent: Box::new([0; REQUESTS_BYTES]),
        })
    }

    /// Requests a dump of a kind (`RTM_GET*`); read it by [`read_part`](Self::read_part).
    pub(super) fn begin_dump(&mut self, kind: u16, family: u8) -> io::Result<()> {
        self.ask(|writer, sequence| writer.dump(kind, family, sequence))
    }

    /// Sends a request that `write` writes with a given sequence number; read the answer by
    /// [`read_part`](Self::read_part).
    pub(super) fn ask(
        &mut self,
        write: impl FnOnce(&mut Writer<'_>, u32) -> Result<(), Full>,
    ) -> io::Result<()> {
        self.drain();
        self.sequence = self.sequence.wrapping_add(1).max(1);
        self.complete = true;
        let mut writer = Writer::new(&mut *self.unsent);
        write(&mut writer, self.sequence).map_err(io::Error::other)?;
        self.socket.send(writer.bytes(), 0).map(|_| ())
    }

    /// Passes a part of the kernel's answer to `each`. After the last part, returns true if the answer is consistent.
    /// If not, concurrent changes may have made the kernel skip entries.
    pub(super) fn read_part(
        &mut self,
        each: &mut dyn FnMut(&Message<'_>),
    ) -> io::Result<Option<bool>> {
        self.answer.clear();
        let received = receive(&self.socket, &mut self.answer, RecvFlags::empty());
        received.map_err(|e| match e.kind() {
            ErrorKind::WouldBlock => ErrorKind::TimedOut.into(),
            _ => e,
        })?;
        for message in messages(&self.answer) {
            let message = message.map_err(io::Error::other)?;
            if message.sequence != self.sequence {
                self.refused += u64::from(is_refusal(&message));
                continue;
            }
            self.complete &= !message.interrupted();
            if message.kind >= RTM_NEWLINK {
                each(&message);
                continue;
            }
            match message.event().map_err(io::Error::other)? {
                Event::Done(0) => return Ok(Some(self.complete)),
                Event::Done(errno) | Event::Error(errno) => {
                    let error = io::Error::from_raw_os_error(errno.saturating_neg());
                    // The kernel lacks the object or address family: the dump is empty.
                    return match error.kind() {
                        ErrorKind::Unsupported => Ok(Some(true)),
                        _ if errno == -Errno::AFNOSUPPORT.raw_os_error() => Ok(Some(true)),
                        _ => Err(error),
                    };
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// Reports neighbours in use (link index and address) to the kernel, which then probes them. Only refusals are
    /// answered; read them by [`refusals`](Self::refusals).
    pub(super) fn use_neighbours(&mut self, neighbours: &[(u32, IpAddr)]) -> io::Result<()> {
        for some in neighbours.chunks(REQUESTS_BYTES / 64) {
            let mut writer = Writer::new(&mut *self.unsent);
            for (interface, address) in some {
                // Each request takes less than 64 bytes.
                let written = writer.use_neighbour(*interface, *address, NLM_F_CREATE, 0);
                written.map_err(io::Error::other)?;
            }
            self.socket.send(writer.bytes(), 0)?;
        }
        Ok(())
    }

    /// Overwrites the buffer, which may contain keys.
    pub(super) fn zeroize(&mut self) {
        self.answer.zeroize();
    }

    /// Sends messages without waiting for an answer.
    pub(super) fn send(&mut self, messages: &[u8]) -> io::Result<()> {
        self.socket.send(messages, 0).map(|_| ())
    }

    /// Reads answers to messages sent without waiting. Returns the number of refusals since the last call.
    pub(super) fn refusals(&mut self) -> u64 {
        self.drain();
        std::mem::take(&mut self.refused)
    }

    fn drain(&mut self) {
        loop {
            self.answer.clear();
            match receive(&self.socket, &mut self.answer, RecvFlags::DONTWAIT) {
                Ok(()) => {
                    let refusals = messages(&self.answer).flatten().filter(is_refusal);
                    self.refused += refusals.count() as u64;
                }
                // Lost refusals are ignored.
                Err(e) if is_loss(&e) => {}
                Err(_) => return,
            }
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn is_refusal(message: &Message<'_>) -> bool {
    matches!(message.event(), Ok(Event::Error(errno)) if errno != 0)
}
