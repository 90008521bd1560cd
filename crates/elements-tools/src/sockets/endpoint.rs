//! Opening sockets of all kinds, as servers and as clients.

use super::exchange::Settings;
use super::io_error_text;
use rustix::fs::Mode;
use socket2::{Domain, SockAddr, Socket, Type};
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddrV4;
use std::os::unix::fs::FileTypeExt;
use std::time::Duration;

/// Time limit for a TCP server to answer before the start.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Ip(SocketAddrV4),
    File(String),
}

/// Role of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Role {
    /// A stream, else datagrams.
    pub(super) stream: bool,
    /// True if the element connects to `address`; false if it listens there.
    pub(super) client: bool,
    pub(super) address: Address,
    pub(super) local: Option<Address>,
    pub(super) nodelay: bool,
    pub(super) settings: Settings,
}

/// An open socket.
pub(super) enum Wire {
    /// Streams are accepted.
    Listens(Socket),
    /// The socket has one peer, set in the system.
    Connected(Socket),
    /// Datagrams from any sender.
    Serves(Socket),
    /// Datagrams to where packets say, at this port.
    Annotated(Socket, u16),
}

/// An open socket, and its files to remove.
pub(super) struct Bound {
    pub(super) wire: Wire,
    files: Vec<String>,
}

impl Drop for Bound {
    fn drop(&mut self) {
        for file in &self.files {
            // If the file was removed before, there is nothing to do.
            let _ = std::fs::remove_file(file);
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Ip(address) => write!(f, "{address}"),
            Address::File(file) => write!(f, "'{file}'"),
        }
    }
}

impl Address {
    fn system(&self) -> io::Result<SockAddr> {
        match self {
            Address::Ip(address) => Ok((*address).into()),
            Address::File(file) => SockAddr::unix(file),
        }
    }
}

impl Role {
    /// Opens the socket. The error is a sentence.
    pub(super) fn open(&self) -> Result<Bound, String> {
        let mut files = Vec::new();
        let wire = match self.client {
            true => self.connect(&mut files),
            false => self.serve(&mut files),
        };
        match wire {
            Ok(wire) => Ok(Bound { wire, files }),
            // Sockets bound before the failure are closed.
            Err(why) => {
                files
                    .iter()
                    .for_each(|file| drop(std::fs::remove_file(file)));
                Err(why)
            }
        }
    }

    fn socket(&self) -> io::Result<Socket> {
        let domain = match self.address {
            Address::Ip(_) => Domain::IPV4,
            Address::File(_) => Domain::UNIX,
        };
        let kind = match self.stream {
            true => Type::STREAM,
            false => Type::DGRAM,
        };
        let socket = Socket::new(domain, kind, None)?;
        self.settings.apply(&socket)?;
        if self.is_tcp() {
            // A port whose last connection has just ended may be used again.
            socket.set_reuse_address(true)?;
        }
        Ok(socket)
    }

    fn is_tcp(&self) -> bool {
        self.stream && matches!(self.address, Address::Ip(_))
    }

    /// Makes a connected stream ready for packets.
    pub(super) fn ready(&self, socket: &Socket) -> io::Result<()> {
        if self.is_tcp() {
            socket.set_tcp_nodelay(self.nodelay)?;
        }
        socket.set_nonblocking(true)
    }

    fn serve(&self, files: &mut Vec<String>) -> Result<Wire, String> {
        let mut open = || {
            let socket = self.socket()?;
            self.bind(&socket, &self.address, files)?;
            if self.stream {
                socket.listen(2)?;
            }
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let what = format!("listen at {}", self.address);
        let remedy = "name an unused address of this host, or say CLIENT true to connect \
                      to it";
        let socket = io_error_text(open(), what, remedy)?;
        Ok(match self.stream {
            true => Wire::Listens(socket),
            false => Wire::Serves(socket),
        })
    }

    fn connect(&self, files: &mut Vec<String>) -> Result<Wire, String> {
        let socket = io_error_text(self.socket(), "open a socket", "see `ulimit -n`")?;
        if let Some(local) = &self.local {
            let bound = self.bind(&socket, local, files);
            let remedy = "name an unused local address of this host";
            io_error_text(bound, format!("send from {local}"), remedy)?;
        }
        let link = || {
            match &self.address {
                Address::Ip(to) if to.ip().is_unspecified() && !self.stream => {
                    socket.set_nonblocking(true)?;
                    return Ok(Wire::Annotated(socket, to.port()));
                }
                Address::Ip(to) if self.stream => {
                    socket.connect_timeout(&(*to).into(), CONNECT_TIMEOUT)?;
                }
                to => socket.connect(&to.system()?)?,
            }
            self.ready(&socket)?;
            Ok(Wire::Connected(socket))
        };
        let remedy = "start the server first, or say CLIENT false to be the server";
        io_error_text(link(), format!("connect to {}", self.address), remedy)
    }

    /// Binds the socket; a file without a listener is replaced.
    fn bind(&self, socket: &Socket, at: &Address, files: &mut Vec<String>) -> io::Result<()> {
        let address = at.system()?;
        let Address::File(file) = at else {
            return socket.bind(&address);
        };
        // The file has the socket's own mode from its creation on: only this user and root write to it.
        rustix::fs::fchmod(socket, Mode::RUSR | Mode::WUSR)?;
        socket.bind(&address).or_else(|e| {
            let refused = |e: io::Error| e.kind() == ErrorKind::ConnectionRefused;
            // A file of another kind belongs to somebody else, and stays.
            let stale = e.kind() == ErrorKind::AddrInUse
                && std::fs::symlink_metadata(file).is_ok_and(|m| m.file_type().is_socket())
                && self.socket()?.connect(&address).is_err_and(refused);
            match stale {
                true => std::fs::remove_file(file).and_then(|()| socket.bind(&address)),
                false => Err(e),
            }
        })?;
        files.push(file.clone());
        Ok(())
    }
}
