//! Non-blocking sockets: TCP or Unix, listening and connected.

use arguments::show::reason;
use rustix::fs::Mode;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};

/// Connections that wait to be accepted.
const WAITING: i32 = 128;
/// Ports tried behind `PORT+`.
const PORTS_MAX: u16 = 100;

/// Address to listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// An address of this host and a TCP port; `true`: or one of the next.
    Tcp(Ipv4Addr, u16, bool),
    /// Path of a UNIX socket.
    Unix(String),
}

/// A socket that listens.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Listens. The error is a sentence.
    pub(super) fn bind(address: &Address) -> Result<Listener, String> {
        let listener = match address {
            Address::Tcp(host, port, more) => {
                let last = if *more {
                    port.saturating_add(PORTS_MAX)
                } else {
                    *port
                };
                tcp(*host, *port..=last).map(Listener::Tcp)
            }
            Address::Unix(file) => unix(file).map(Listener::Unix),
        };
        listener.map_err(|e| {
            let why = reason(&e);
            format!("cannot open a socket at {}: {why}", address.show())
        })
    }

    /// The TCP port.
    pub(super) fn port(&self) -> Option<u16> {
        match self {
            Listener::Tcp(socket) => Some(socket.local_addr().ok()?.port()),
            Listener::Unix(_) => None,
        }
    }

    /// A new connection, if one waits, and the client's name.
    pub(super) fn accept(&self) -> Option<(Stream, String)> {
        match self {
            Listener::Tcp(socket) => {
                let (stream, from) = socket.accept().ok()?;
                stream.set_nonblocking(true).ok()?;
                // Answers are small, and their readers wait for them.
                let _ = stream.set_nodelay(true);
                Some((Stream::Tcp(stream), from.to_string()))
            }
            Listener::Unix(socket) => {
                let (stream, _) = socket.accept().ok()?;
                stream.set_nonblocking(true).ok()?;
                Some((Stream::Unix(stream), "local client".to_owned()))
            }
        }
    }

    pub(super) fn fd(&self) -> RawFd {
        match self {
            Listener::Tcp(socket) => socket.as_raw_fd(),
            Listener::Unix(socket) => socket.as_raw_fd(),
        }
    }
}

impl Address {
    /// The address for people.
    pub(super) fn show(&self) -> String {
        match self {
            Address::Tcp(host, port, _) if *host == Ipv4Addr::LOCALHOST => {
                format!("TCP port {port}")
            }
            Address::Tcp(host, port, _) => format!("TCP port {port} of {host}"),
            Address::Unix(file) => format!("'{file}'"),
        }
    }
}

fn tcp(host: Ipv4Addr, mut ports: std::ops::RangeInclusive<u16>) -> io::Result<TcpListener> {
    let bind = |port| TcpListener::bind((host, port));
    let first = bind(ports.next().unwrap_or(0));
    let socket = first.or_else(|e| ports.find_map(|port| bind(port).ok()).ok_or(e))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Listens at a path; a socket file without a listener is replaced.
fn unix(file: &str) -> io::Result<UnixListener> {
    let bind = || -> io::Result<UnixListener> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        // The file has the socket's own mode from its creation on: any program that may write to it may do
        // everything.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        socket.bind(&SockAddr::unix(file)?)?;
        socket.listen(WAITING)?;
        Ok(OwnedFd::from(socket).into())
    };
    let socket = bind().or_else(|e| {
        let refused = |e: io::Error| e.kind() == ErrorKind::ConnectionRefused;
        // A file of another kind belongs to somebody else, and stays.
        let stale = e.kind() == ErrorKind::AddrInUse
            && std::fs::symlink_metadata(file).is_ok_and(|m| m.file_type().is_socket())
            && UnixStream::connect(file).is_err_and(refused);
        match stale {
            true => std::fs::remove_file(file).and_then(|()| bind()),
            false => Err(e),
        }
    })?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// A connection.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Reads available bytes; 0 at the end, `None` if there are none now.
    pub(super) fn read(&mut self, into: &mut [u8]) -> Option<usize> {
        let read = match self {
            Stream::Tcp(stream) => stream.read(into),
            Stream::Unix(stream) => stream.read(into),
        };
        ready_result(read)
    }

    /// Writes as much as there is room for. Returns 0 if the peer has disconnected, `None` if there is no room now.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Option<usize> {
        let written = match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        };
        ready_result(written)
    }

    pub(super) fn fd(&self) -> RawFd {
        match self {
            Stream::Tcp(stream) => stream.as_raw_fd(),
            Stream::Unix(stream) => stream.as_raw_fd(),
        }
    }
}

fn ready_result(result: io::Result<usize>) -> Option<usize> {
    match result {
        Ok(n) => Some(n),
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => None,
        Err(_) => Some(0),
    }
}
