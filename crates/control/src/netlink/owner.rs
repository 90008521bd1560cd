//! Whose the other end of a TCP connection is, if it is in the same namespace (sock_diag(7), `linux/inet_diag.h`).

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};

/// `NETLINK_SOCK_DIAG`.
const SOCK_DIAG: isize = 4;
/// `SOCK_DIAG_BY_FAMILY`: the type of question and answer.
const BY_FAMILY: u16 = 20;
/// `NLMSG_ERROR`.
const ERROR: u16 = 2;
/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
const IPPROTO_TCP: u8 = 6;
/// `TCP_ESTABLISHED`. A connection that has ended belongs to nobody any more, which the kernel tells as user 0.
const ESTABLISHED: u8 = 1;
/// Lengths: of a netlink header; of what tells sockets apart (`inet_diag_sockid`).
const HEADER: usize = 16;
const ID: usize = 48;
/// Where in an answer the state stands, what tells the socket apart, and its user.
const STATE: usize = HEADER + 1;
const FOUND: usize = HEADER + 4;
const UID: usize = FOUND + ID + 12;

/// Asks the kernel of a namespace.
#[derive(Debug)]
pub(super) struct Owners(netlink_sys::Socket);

impl Owners {
    /// Asks in the namespace of the calling thread.
    pub(super) fn open() -> io::Result<Owners> {
        let mut socket = netlink_sys::Socket::new(SOCK_DIAG)?;
        socket.bind_auto()?;
        // The kernel answers before the question has been sent.
        socket.set_non_blocking(true)?;
        Ok(Owners(socket))
    }

    /// The user who has opened the other end of a connection; none if that is elsewhere, or open no more.
    pub(super) fn of(&self, ours: SocketAddr, theirs: SocketAddr) -> io::Result<Option<u32>> {
        // An answer that nobody has waited for.
        while self.0.recv_from_full().is_ok() {}
        let id = id(theirs, ours);
        self.0.send(&question(family(theirs.ip()), &id), 0)?;
        let (answer, _) = self.0.recv_from_full()?;
        read(&answer, &id)
    }
}

fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => wire::netlink::AF_INET,
        IpAddr::V6(_) => wire::netlink::AF_INET6,
    }
}

/// What tells a socket apart: its port and the other end's, and the addresses.
fn id(own: SocketAddr, other: SocketAddr) -> [u8; ID] {
    let mut id = [0; ID];
    id[..2].copy_from_slice(&own.port().to_be_bytes());
    id[2..4].copy_from_slice(&other.port().to_be_bytes());
    for (at, address) in [(4, own.ip()), (20, other.ip())] {
        match address {
            IpAddr::V4(ip) => id[at..at + 4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => id[at..at + 16].copy_from_slice(&ip.octets()),
        }
    }
    // Any cookie (INET_DIAG_NOCOOKIE).
    id[40..].fill(0xff);
    id
}

fn question(family: u8, id: &[u8; ID]) -> Vec<u8> {
    let mut all = Vec::with_capacity(HEADER + 8 + ID);
    all.extend(((HEADER + 8 + ID) as u32).to_ne_bytes());
    all.extend(BY_FAMILY.to_ne_bytes());
    all.extend(REQUEST.to_ne_bytes());
    // Number of the question, and who asks.
    all.extend([0; 8]);
    all.extend([family, IPPROTO_TCP, 0, 0]);
    all.extend((1u32 << ESTABLISHED).to_ne_bytes());
    all.extend(id);
    all
}

/// The user that an answer tells of, if it is about the connection that was asked about.
fn read(answer: &[u8], asked: &[u8; ID]) -> io::Result<Option<u32>> {
    let short = || io::Error::from(ErrorKind::InvalidData);
    let four = |at: usize| answer.get(at..at + 4).and_then(|b| b.try_into().ok());
    let kind = four(4).map(|[a, b, ..]: [u8; 4]| u16::from_ne_bytes([a, b]));
    match kind {
        Some(BY_FAMILY) => {}
        Some(ERROR) => {
            let errno = i32::from_ne_bytes(four(HEADER).ok_or_else(short)?);
            let error = io::Error::from_raw_os_error(errno.saturating_neg());
            return match error.kind() {
                // There is no such socket here.
                ErrorKind::NotFound => Ok(None),
                _ => Err(error),
            };
        }
        _ => return Err(short()),
    }
    let found = answer.get(FOUND..FOUND + 36).ok_or_else(short)?;
    let user = four(UID).map(u32::from_ne_bytes).ok_or_else(short)?;
    let is_it = answer[STATE] == ESTABLISHED && found == &asked[..36];
    Ok(is_it.then_some(user))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_other_end_of_a_connection_is_its_users() {
        let owners = Owners::open().expect("a socket");
        for at in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(at).expect("a port");
            let address = listener.local_addr().expect("an address");
            let peer = TcpStream::connect(address).expect("it listens");
            let (stream, theirs) = listener.accept().expect("a connection");
            let ours = stream.local_addr().expect("an address");
            let us = rustix::process::geteuid().as_raw();
            assert_eq!(owners.of(ours, theirs).expect("an answer"), Some(us));
            // The listener is none, nor is an end that has been closed.
            let mut other = theirs;
            other.set_port(theirs.port() ^ 1);
            assert_eq!(owners.of(ours, other).expect("an answer"), None);
            drop(peer);
            assert_eq!(owners.of(ours, theirs).expect("an answer"), None);
        }
    }

    #[test]
    fn an_answer_that_is_none_tells_of_nobody() {
        let asked = [7; ID];
        let mut answer = vec![0; 124];
        answer[4] = BY_FAMILY as u8;
        answer[STATE] = ESTABLISHED;
        answer[FOUND..FOUND + ID].copy_from_slice(&asked);
        answer[UID] = 5;
        assert_eq!(read(&answer, &asked).expect("whole"), Some(5));
        answer[STATE] = 6;
        assert_eq!(read(&answer, &asked).expect("whole"), None);
        assert_eq!(read(&answer, &[8; ID]).expect("whole"), None);
        for length in 0..UID + 4 {
            assert!(read(&answer[..length], &asked).is_err());
        }
    }
}
