//! FPM, the protocol of the forwarding plane manager, by which FRR passes routes without a kernel.
//!
//! `zebra -M dplane_fpm_nl` connects by TCP and sends the messages that it would send to a kernel: frames with a header
//! of four bytes (version 1; type 1, netlink; length of the frame, in network order) and netlink messages (`fpm/fpm.h`
//! of FRR). It sends all next-hop objects and routes, then changes, without a mark in between. So routes that a
//! reconnected daemon has not sent again are kept for a time, and removed after that as soon as the daemon pauses
//! ([`Session::tick`]). While no daemon is connected, forwarding continues.
//!
//! A program that speaks this protocol controls all routes. Any program can connect by TCP, so the kernel is asked for
//! the owner of the other end ([`Owners`]). A connection on which no message has arrived is replaced by the next one.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use tracing::{info, warn};
use wire::BadHeader;
use wire::netlink::{Event, messages};

use super::counts::Counts;
use super::local_address::is_own;
use super::model::{Model, Part, Source};
use super::socket_owner::{Owners, PeerOwner};

/// Default TCP port for a routing daemon's connection.
pub const PORT: u16 = 2620;

/// Settings for accepting a routing daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// Local address in the router's namespace.
    pub address: SocketAddr,
    /// User IDs of accepted daemons in the same namespace.
    pub users: Vec<u32>,
    /// Address of an accepted daemon on another machine or in another namespace.
    pub from: Option<IpAddr>,
    /// Time for which old routes are kept that a reconnected daemon has not sent again.
    pub stale: Duration,
}

/// Length of a frame header, in bytes.
const HEADER_BYTES: usize = 4;
/// Buffer size in bytes: four frames of maximum length.
const BUFFER_BYTES: usize = 4 << 16;
/// Pause in messages after which a daemon's routes count as complete.
const COMPLETE_PAUSE: Duration = Duration::from_secs(1);
/// Maximum delay, after the time for which old routes are kept, until the daemon's routes count as complete.
const COMPLETE_DELAY_MAX: Duration = Duration::from_secs(60);
/// Maximum number of buffers read before other work.
const BUFFERS_PER_TURN: usize = 4;
/// Delay after a connection could not be accepted, for instance with too many open files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Idle time before TCP keepalive probes to a daemon on another machine, and interval of the probes.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const PROBES: u32 = 5;
/// Maximum number of connections accepted before other work.
const ACCEPTS_MAX: usize = 16;
/// Burst of log lines; further lines are limited to one per interval.
const LOG_BURST: u32 = 20;
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Error in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadFrame {
    /// The version is not 1.
    Version(u8),
    /// The payload is not netlink (type 2 is protobuf).
    Kind(u8),
    /// The frame's length is less than the length of its header.
    Length(u16),
    /// Malformed netlink message in the frame.
    Message(BadHeader),
}

impl std::fmt::Display for BadFrame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BadFrame::Version(n) => write!(f, "FPM version {n}, we speak 1"),
            BadFrame::Kind(2) => f.write_str("protobuf: load zebra's module dplane_fpm_nl"),
            BadFrame::Kind(n) => write!(f, "frame of type {n}, we take netlink (1)"),
            BadFrame::Length(n) => write!(f, "frame of {n} bytes, shorter than its header"),
            BadFrame::Message(bad) => write!(f, "netlink inside a frame: {bad}"),
        }
    }
}

impl std::error::Error for BadFrame {}

/// Splits a byte stream into frames.
#[derive(Debug)]
pub struct Frames {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Default for Frames {
    fn default() -> Self {
        Frames {
            buffer: vec![0; BUFFER_BYTES].into(),
            start: 0,
            end: 0,
        }
    }
}

impl Frames {
    /// Free part of the buffer for further bytes. It is never empty after all complete frames were taken.
    pub fn free_space(&mut self) -> &mut [u8] {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        &mut self.buffer[self.end..]
    }

    /// Records that `bytes` bytes were written to the free part of the buffer.
    pub fn filled(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.buffer.len());
    }

    /// Netlink messages of the next complete frame; `None` if the frame is incomplete.
    pub fn next_frame(&mut self) -> Option<Result<&[u8], BadFrame>> {
        let bytes = &self.buffer[self.start..self.end];
        let (&[version, kind, high, low], _) = bytes.split_first_chunk()?;
        let length = u16::from_be_bytes([high, low]);
        if version != 1 {
            return Some(Err(BadFrame::Version(version)));
        }
        if kind != 1 {
            return Some(Err(BadFrame::Kind(kind)));
        }
        if usize::from(length) < HEADER_BYTES {
            return Some(Err(BadFrame::Length(length)));
        }
        let frame = bytes.get(HEADER_BYTES..usize::from(length))?;
        self.start += usize::from(length);
        Some(Ok(frame))
    }
}

/// Protocol state of a daemon's connection.
#[derive(Debug)]
pub struct Session {
    frames: Frames,
    /// Time of the daemon's first message.
    first_message_at: Option<Instant>,
    received_at: Instant,
    /// Time for which the former session's routes are kept.
    stale: Duration,
    /// True if routes of the former session are still present.
    syncing: bool,
}

impl Session {
    /// Session of a new connection, in which the daemon sends its complete state again.
    pub fn new(stale: Duration, now: Instant) -> Session {
        Session {
            frames: Frames::default(),
            first_message_at: None,
            received_at: now,
            stale,
            syncing: false,
        }
    }

    /// Free part of the buffer; pass the number of received bytes to [`Session::process`].
    pub fn free_space(&mut self) -> &mut [u8] {
        self.frames.free_space()
    }

    /// Processes `bytes` received bytes. Returns the number of completed messages.
    pub fn process(
        &mut self,
        model: &mut Model,
        bytes: usize,
        now: Instant,
    ) -> Result<usize, BadFrame> {
        self.received_at = now;
        self.frames.filled(bytes);
        let mut count = 0;
        let Session {
            frames,
            first_message_at: first,
            syncing,
            ..
        } = self;
        while let Some(frame) = frames.next_frame() {
            for message in messages(frame?) {
                let message = message.map_err(BadFrame::Message)?;
                let event = message.event().map_err(BadFrame::Message)?;
                if matches!(event, Event::Route(..) | Event::Nexthop(..)) && first.is_none() {
                    *first = Some(now);
                    *syncing = true;
                    for part in Part::ALL {
                        model.begin_sync(Source::Fpm, part);
                    }
                }
                match event {
                    Event::Route(change, route) => {
                        model.route(Source::Fpm, message.flags, change, &route);
                    }
                    Event::Nexthop(change, nexthop) => {
                        model.nexthop(Source::Fpm, change, &nexthop);
                    }
                    _ => {}
                }
                count += 1;
            }
        }
        Ok(count)
    }

    /// True if the daemon has sent a route or next hop.
    pub fn has_told(&self) -> bool {
        self.first_message_at.is_some()
    }

    /// Time at which [`Session::tick`] is due.
    pub fn due(&self) -> Option<Instant> {
        let kept = self.first_message_at? + self.stale;
        let quiet = kept.max(self.received_at + COMPLETE_PAUSE);
        self.syncing.then(|| quiet.min(kept + COMPLETE_DELAY_MAX))
    }

    /// Handles the passage of time. Returns true if the daemon's state has just become complete; routes that it has not
    /// sent are removed.
    pub fn tick(&mut self, model: &mut Model, now: Instant) -> bool {
        let told = self.due().is_some_and(|due| due <= now);
        if told {
            self.syncing = false;
            for part in Part::ALL.into_iter().rev() {
                model.end_sync(Source::Fpm, part);
            }
        }
        told
    }
}

/// Server for one routing daemon at a time. While a daemon is connected, others are refused, since their routes could
/// contradict.
#[derive(Debug)]
pub(super) struct Fpm {
    listener: TcpListener,
    owners: Owners,
    listen: Listen,
    peer: Option<(TcpStream, SocketAddr, Session)>,
    /// Time before which no connections are accepted, after an error.
    accept_from: Option<Instant>,
    lines: Lines,
}

/// Rate limit for log lines that other programs can cause.
#[derive(Debug)]
struct Lines {
    left: u32,
    /// Start of the current interval.
    since: Instant,
    left_out: u64,
}

impl Lines {
    fn new(now: Instant) -> Lines {
        Lines {
            left: LOG_BURST,
            since: now,
            left_out: 0,
        }
    }

    /// True if the rate limit allows one more line.
    fn may_log(&mut self, now: Instant) -> bool {
        let more = now.saturating_duration_since(self.since).as_secs() / LINE_EVERY.as_secs();
        if more > 0 {
            self.since = now;
            self.left = LOG_BURST.min(
                self.left
                    .saturating_add(u32::try_from(more).unwrap_or(LOG_BURST)),
            );
        }
        if self.left == 0 {
            self.left_out += 1;
            return false;
        }
        self.left -= 1;
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            warn!("fpm: {left_out} lines were left out");
        }
        true
    }
}

impl Fpm {
    /// Listens on an address in the namespace of the calling thread.
    pub(super) fn open(listen: Listen) -> io::Result<Fpm> {
        if let Some(from) = listen.from
            && is_own(from)?
        {
            return Err(io::Error::other(format!(
                "--fpm-from {from} would let every user of this machine set routes: leave it out for a daemon on this \
                 machine, and name its user by --fpm-user"
            )));
        }
        let listener = TcpListener::bind(listen.address)?;
        listener.set_nonblocking(true)?;
        Ok(Fpm {
            listener,
            owners: Owners::open()?,
            listen,
            peer: None,
            accept_from: None,
            lines: Lines::new(Instant::now()),
        })
    }

    /// Checks if a client may act as the daemon.
    ///
    /// # Errors
    ///
    /// The reason why not; a message.
    fn admit(&self, stream: &TcpStream, theirs: SocketAddr) -> Result<(), String> {
        let ours = stream.local_addr();
        let owner = ours.and_then(|ours| self.owners.find(ours, theirs));
        match owner {
            Ok(PeerOwner::User(user)) if self.listen.users.contains(&user) => Ok(()),
            Ok(PeerOwner::User(user)) => Err(format!(
                "it belongs to user {user}: name zebra's user by --fpm-user"
            )),
            Ok(PeerOwner::Closed) => {
                Err("it ended before its owner could be determined".to_owned())
            }
            Ok(PeerOwner::OtherNamespace)
                if self.listen.from == Some(theirs.ip().to_canonical()) =>
            {
                Ok(())
            }
            Ok(PeerOwner::OtherNamespace) => Err(
                "it comes from elsewhere: name the machine on which zebra runs by --fpm-from"
                    .to_owned(),
            ),
            Err(e) => Err(format!("the kernel does not tell its owner ({e})")),
        }
    }

    /// Descriptors to poll for input.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let peer = self.peer.as_ref().map(|(stream, ..)| stream.as_fd());
        let listener = self.listener.as_fd();
        let listener = self.accept_from.is_none().then_some(listener);
        [listener, peer].into_iter().flatten()
    }

    /// Time of the next due work if no message arrives before.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let due = self.peer.as_ref().and_then(|(.., session)| session.due());
        [due, self.accept_from].into_iter().flatten().min()
    }

    /// Processes received messages. Returns true if there were any, since more may follow.
    pub(super) fn process_pending(&mut self, model: &mut Model, counts: &Counts) -> bool {
        let now = Instant::now();
        let heard = self.process_daemon(model, counts, now);
        // Messages that precede the end of a connection are processed before the end.
        if !heard && self.accept_from.is_none_or(|until| until <= now) {
            self.accept_from = None;
            return self.accept(counts, now);
        }
        heard
    }

    /// Accepts connections. Returns true if a daemon was accepted.
    fn accept(&mut self, counts: &Counts, now: Instant) -> bool {
        for _ in 0..ACCEPTS_MAX {
            let (stream, address) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return false,
                // The client closed the connection before it was accepted.
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(why) => {
                    if self.lines.may_log(now) {
                        warn!("fpm: a connection cannot be accepted now ({why})");
                    }
                    self.accept_from = Some(now + ACCEPT_RETRY_DELAY);
                    return false;
                }
            };
            let lives = self
                .peer
                .as_ref()
                .filter(|(.., session)| session.has_told());
            let lives = lives.map(|(_, address, _)| *address);
            if let Err(why) = self.admit(&stream, address) {
                counts.fpm_denied.add(1);
                if self.lines.may_log(now) {
                    warn!(%address, "fpm: a connection is refused: {why}");
                }
            } else if let Some(lives) = lives {
                counts.fpm_refused.add(1);
                if self.lines.may_log(now) {
                    warn!(%address, %lives, "fpm: a second connection is refused, while the first lives");
                }
            } else if watch(&stream).is_ok() {
                if self.lines.may_log(now) {
                    info!(%address, "fpm: a routing daemon has connected");
                }
                counts.fpm_connections.add(1);
                counts.fpm_connected.set(1);
                self.peer = Some((stream, address, Session::new(self.listen.stale, now)));
                return true;
            }
        }
        false
    }

    /// Processes the daemon's messages. Returns true if there were any.
    fn process_daemon(&mut self, model: &mut Model, counts: &Counts, now: Instant) -> bool {
        let Some((stream, address, session)) = &mut self.peer else {
            return false;
        };
        let mut heard = false;
        for _ in 0..BUFFERS_PER_TURN {
            match listen(stream, session, model, counts, now) {
                Ok(true) => heard = true,
                Ok(false) => break,
                Err(why) => {
                    if self.lines.may_log(now) {
                        warn!(%address, "fpm: the connection has ended ({why}): forwarding continues by its routes");
                    }
                    counts.fpm_connected.set(0);
                    self.peer = None;
                    return heard;
                }
            }
        }
        if session.tick(model, now) {
            info!(%address, "fpm: the routing daemon has told all its routes");
            heard = true;
        }
        heard
    }
}

/// Prepares a connection for polling, with TCP keepalive to detect a vanished peer.
fn watch(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_IDLE / PROBES)?;
    sockopt::set_tcp_keepcnt(stream, PROBES)?;
    Ok(())
}

/// Reads once from the connection. Returns true if more may be pending.
fn listen(
    stream: &mut TcpStream,
    session: &mut Session,
    model: &mut Model,
    counts: &Counts,
    now: Instant,
) -> io::Result<bool> {
    let bytes = match stream.read(session.free_space()) {
        Ok(0) => return Err(io::Error::other("the daemon has closed it")),
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(true),
        Err(e) => return Err(e),
    };
    match session.process(model, bytes, now) {
        Ok(count) => counts.fpm_messages.add(count as u64),
        Err(bad) => {
            counts.fpm_bad.add(1);
            return Err(io::Error::other(bad));
        }
    }
    Ok(true)
}

#[cfg(test)]
#[path = "fpm_tests.rs"]
mod tests;
