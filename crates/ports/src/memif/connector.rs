//! The thread of a port that connects, and then waits for the end of the connection.

use super::Shared;
use super::config::MemifConfig;
use super::ring::Ring;
use super::session::{self, ClientMemory, Connection, Heard, Rings};
use crate::sys as system;
use rustix::fs::{Mode, fchmod};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    socket_with,
};
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Minimum pause between two attempts to connect. It grows to `RECONNECT_DELAY_MAX` while connections end before
/// `STABLE_AFTER`.
const RECONNECT_DELAY_MIN: Duration = Duration::from_millis(100);
const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(2);
const STABLE_AFTER: Duration = Duration::from_secs(1);
/// Timeout of waits without a deadline.
const NO_TIMEOUT: Duration = Duration::from_secs(3600);

/// A socket at which clients connect. Its file is removed on drop.
pub(super) struct Listener {
    socket: OwnedFd,
    path: PathBuf,
    /// Device and inode of the socket's file, so that only this file is removed.
    file: (u64, u64),
}

impl Drop for Listener {
    fn drop(&mut self) {
        if file_at(&self.path) == Some(self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn file_at(path: &Path) -> Option<(u64, u64)> {
    let seen = path.symlink_metadata().ok()?;
    Some((seen.dev(), seen.ino()))
}

/// A socket connected to the listener at a path.
fn to(path: &Path) -> rustix::io::Result<OwnedFd> {
    let (socket, address) = (seqpacket()?, SocketAddrUnix::new(path)?);
    connect(&socket, &address)?;
    Ok(socket)
}

pub(super) fn seqpacket() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// Listens at a server's path, replacing a socket without a listener.
///
/// # Errors
/// The path is invalid or in use, or the socket cannot be opened; a sentence.
pub(super) fn listener(config: &MemifConfig) -> Result<Option<Listener>, String> {
    if !config.is_server {
        return Ok(None);
    }
    let path = &config.socket;
    let shown = path.display();
    let address = SocketAddrUnix::new(path).map_err(|e| format!("{shown}: {e}"))?;
    if let Ok(seen) = path.symlink_metadata() {
        if !seen.file_type().is_socket() {
            return Err(format!(
                "{shown} is there and no socket: name another place"
            ));
        }
        let there = seqpacket().map_err(|e| e.to_string())?;
        match connect(&there, &address) {
            Err(rustix::io::Errno::CONNREFUSED) => {
                let removed = fs::remove_file(path);
                removed.map_err(|e| format!("{shown} is left over and cannot be removed: {e}"))?;
            }
            _ => {
                return Err(format!(
                    "another program listens at {shown}: end it, or name another place"
                ));
            }
        }
    }
    let socket = seqpacket().map_err(|e| e.to_string())?;
    // The file has the socket's own mode from its creation on.
    let bound = fchmod(&socket, Mode::RUSR | Mode::WUSR).and_then(|()| bind(&socket, &address));
    bound.map_err(|e| format!("cannot listen at {shown}: {e}"))?;
    listen(&socket, 16).map_err(|e| format!("cannot listen at {shown}: {e}"))?;
    let file = file_at(path).ok_or_else(|| format!("{shown} is gone"))?;
    let path = path.clone();
    Ok(Some(Listener { socket, path, file }))
}

/// State of the connecting thread.
pub(super) struct Connector {
    shared: Arc<Shared>,
    stop: Arc<OwnedFd>,
    listener: Option<Listener>,
    /// A client's memory.
    client_memory: ClientMemory,
    /// Last reported reason why there is no connection.
    last_reason: String,
}

impl Connector {
    pub(super) fn new(
        shared: &Arc<Shared>,
        stop: &Arc<OwnedFd>,
        listener: Option<Listener>,
    ) -> Connector {
        Connector {
            shared: Arc::clone(shared),
            stop: Arc::clone(stop),
            listener,
            client_memory: ClientMemory::default(),
            last_reason: String::new(),
        }
    }

    pub(super) fn run(mut self) {
        let mut pause = RECONNECT_DELAY_MIN;
        loop {
            if self.shared.is_held.load(Ordering::SeqCst) {
                let fds = [self.stop.as_raw_fd(), self.shared.wake_fd.as_raw_fd()];
                let [stopped, _] = system::poll(fds, NO_TIMEOUT);
                if stopped {
                    return;
                }
                system::clear(&self.shared.wake_fd);
                continue;
            }
            let socket = match &self.listener {
                Some(listener) => self.accept(listener, NO_TIMEOUT),
                None => self.connect(),
            };
            if let Some(socket) = socket {
                let begun = Instant::now();
                let ended = self.session(&socket);
                self.report(&ended);
                pause = match begun.elapsed() < STABLE_AFTER {
                    true => (pause * 2).min(RECONNECT_DELAY_MAX),
                    false => RECONNECT_DELAY_MIN,
                };
            }
            // A listener waits for clients anyway.
            let waits = self.listener.is_none();
            let pause = if waits { pause } else { Duration::ZERO };
            if let [true] = system::poll([self.stop.as_raw_fd()], pause) {
                return;
            }
        }
    }

    /// Logs why there is no connection, unless this reason was logged last.
    fn report(&mut self, why: &str) {
        if self.last_reason != why {
            self.shared.log(why);
            why.clone_into(&mut self.last_reason);
        }
    }

    fn accept(&self, listener: &Listener, timeout: Duration) -> Option<OwnedFd> {
        let fds = [listener.socket.as_raw_fd(), self.stop.as_raw_fd()];
        let [came, _] = system::poll(fds, timeout);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        came.then(|| accept_with(&listener.socket, flags).ok())?
    }

    fn connect(&mut self) -> Option<OwnedFd> {
        let config = &self.shared.config;
        let path = config.socket.display();
        let why = match to(&config.socket) {
            Err(e) => format!("no server at {path}: {e}; it tries again"),
            Ok(socket) => match (config.peer, system::peer(&socket)) {
                (Some(user), Ok((_, found))) if found != user => {
                    format!("user {found} listens at {path}, not user {user}; it tries again")
                }
                (Some(_), Err(e)) => format!("the owner of {path} cannot be determined: {e}"),
                _ => return Some(socket),
            },
        };
        self.report(&why);
        None
    }

    /// Runs a connection while it lasts; returns the reason why it ended.
    fn session(&mut self, socket: &OwnedFd) -> String {
        let stop = Arc::clone(&self.stop);
        let connection = Connection {
            socket,
            stop: &stop,
        };
        let (config, queues) = (&self.shared.config, self.shared.queues);
        let rings = match config.is_server {
            true => session::server(&connection, config, queues),
            false => session::client(&connection, config, queues, &mut self.client_memory),
        };
        match rings {
            Ok(rings) => self.distribute(rings),
            Err(why) => return format!("not connected: {why}"),
        }
        self.shared.is_connected.store(true, Ordering::Relaxed);
        self.shared.was_connected.store(true, Ordering::Relaxed);
        self.last_reason.clear();
        let why = loop {
            if let Some(mistake) = self.shared.violation.lock().take() {
                self.shared.violations.add(1);
                connection.end(mistake);
                break format!("the other end {mistake}, and is disconnected");
            }
            let listens = self.listener.as_ref().map_or(-1, |l| l.socket.as_raw_fd());
            let fds = [
                connection.socket.as_raw_fd(),
                stop.as_raw_fd(),
                self.shared.wake_fd.as_raw_fd(),
                listens,
            ];
            let [spoke, stopped, told, another] = system::poll(fds, NO_TIMEOUT);
            if stopped {
                connection.end("closed");
                break "closed".into();
            }
            if told {
                system::clear(&self.shared.wake_fd);
            }
            if self.shared.is_held.load(Ordering::SeqCst) {
                connection.end("its link is down");
                break "its link is to be down".into();
            }
            if another
                && let Some(second) = self
                    .listener
                    .as_ref()
                    .and_then(|l| self.accept(l, Duration::ZERO))
            {
                let second = Connection {
                    socket: &second,
                    stop: &stop,
                };
                second.end("another client is connected");
            }
            if spoke {
                match connection.receive(Duration::ZERO) {
                    // No message is expected once the peers are connected.
                    Heard::Message(..) => {
                        break "the other end keeps sending, and is disconnected".into();
                    }
                    Heard::End(why) => break why,
                    Heard::Timeout => {}
                }
            }
        };
        self.distribute(Rings::default());
        self.shared.is_connected.store(false, Ordering::Relaxed);
        // A mistake in the old rings does not affect the next ones.
        self.shared.violation.lock().take();
        format!("disconnected: {why}")
    }

    /// Distributes the rings over the queues.
    fn distribute(&self, rings: Rings) {
        let shared = &self.shared;
        let mut rx: Vec<Vec<Ring>> = shared.rx.iter().map(|_| Vec::new()).collect();
        for (number, ring) in rings.rx.into_iter().enumerate() {
            if let Some(of) = number.checked_rem(rx.len()) {
                rx[of].push(ring);
            }
        }
        let mut tx = rings.tx.into_iter();
        shared
            .rx
            .iter()
            .zip(rx)
            .for_each(|(end, rings)| end.replace_rings(rings));
        let tx = shared.tx.iter().map(|end| (end, tx.next()));
        tx.for_each(|(end, ring)| end.replace_rings(ring.into_iter().collect()));
    }
}
