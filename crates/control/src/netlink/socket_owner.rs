//! Owner of the other end of a TCP connection, if it is in the same namespace (sock_diag(7), `linux/inet_diag.h`).

use super::local_address::is_own;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use wire::netlink::{AF_INET, AF_INET6, HEADER, NLM_F_REQUEST};

/// Netlink protocol `NETLINK_SOCK_DIAG`.
const SOCK_DIAG: isize = 4;
/// Message type `SOCK_DIAG_BY_FAMILY` of requests and answers.
const BY_FAMILY: u16 = 20;
/// Message type `NLMSG_ERROR`.
const ERROR: u16 = 2;
const IPPROTO_TCP: u8 = 6;
/// Socket state `TCP_ESTABLISHED`. The kernel reports closed connections with user 0.
const ESTABLISHED: u8 = 1;
/// Length of a socket's identity (`inet_diag_sockid`).
const ID: usize = 48;
/// Offsets of the state, the socket's identity and its user in an answer.
const STATE: usize = HEADER + 1;
const FOUND: usize = HEADER + 4;
const UID: usize = FOUND + ID + 12;

/// Owner of the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerOwner {
    /// A process of this user has opened the other end.
    User(u32),
    /// The other end was in this namespace and is closed: its owner is unknown.
    Closed,
    /// The end is in another namespace, or on another machine.
    OtherNamespace,
}

/// A socket that queries the owners of connections in a namespace.
#[derive(Debug)]
pub(super) struct Owners(netlink_sys::Socket);

impl Owners {
    /// Opens a socket in the namespace of the calling thread.
    pub(super) fn open() -> io::Result<Owners> {
        let mut socket = netlink_sys::Socket::new(SOCK_DIAG)?;
        socket.bind_auto()?;
        // The kernel answers during the send call, so a receive never needs to wait.
        socket.set_non_blocking(true)?;
        Ok(Owners(socket))
    }

    /// Finds the owner of the other end of a connection.
    pub(super) fn find(&self, ours: SocketAddr, theirs: SocketAddr) -> io::Result<PeerOwner> {
        // Discards answers to earlier requests.
        while self.0.recv_from_full().is_ok() {}
        let asked = End {
            own: canonical(theirs),
            other: canonical(ours),
        };
        self.0.send(&asked.request(), 0)?;
        let (answer, _) = self.0.recv_from_full()?;
        Ok(match read(&answer, &asked)? {
            Some(user) => PeerOwner::User(user),
            None if is_own(theirs.ip())? => PeerOwner::Closed,
            None => PeerOwner::OtherNamespace,
        })
    }
}

/// Address with IPv4-mapped IPv6 converted to IPv4, since an end may be reported in either form.
fn canonical(mut address: SocketAddr) -> SocketAddr {
    address.set_ip(address.ip().to_canonical());
    address
}

/// One end of a connection, with the addresses of both.
struct End {
    own: SocketAddr,
    other: SocketAddr,
}

impl End {
    /// The kernel's socket identity (`inet_diag_sockid`): ports, addresses, interface, cookie.
    fn id(&self) -> [u8; ID] {
        let mut id = [0; ID];
        id[..2].copy_from_slice(&self.own.port().to_be_bytes());
        id[2..4].copy_from_slice(&self.other.port().to_be_bytes());
        for (at, address) in [(4, self.own), (20, self.other)] {
            match address {
                SocketAddr::V4(v4) => id[at..at + 4].copy_from_slice(&v4.ip().octets()),
                SocketAddr::V6(v6) => {
                    id[at..at + 16].copy_from_slice(&v6.ip().octets());
                    // A link-local address is valid on its link only.
                    id[36..40].copy_from_slice(&v6.scope_id().to_ne_bytes());
                }
            }
        }
        // No cookie is required (INET_DIAG_NOCOOKIE).
        id[40..].fill(0xff);
        id
    }

    fn request(&self) -> Vec<u8> {
        let family = match self.own {
            SocketAddr::V4(_) => AF_INET,
            SocketAddr::V6(_) => AF_INET6,
        };
        let mut all = Vec::with_capacity(HEADER + 8 + ID);
        all.extend(((HEADER + 8 + ID) as u32).to_ne_bytes());
        all.extend(BY_FAMILY.to_ne_bytes());
        all.extend(NLM_F_REQUEST.to_ne_bytes());
        // Sequence number and sender's port ID, both 0.
        all.extend([0; 8]);
        all.extend([family, IPPROTO_TCP, 0, 0]);
        all.extend((1u32 << ESTABLISHED).to_ne_bytes());
        all.extend(self.id());
        all
    }

    /// True if an answer names this end.
    fn is_answer_for(&self, family: u8, found: &[u8; 36]) -> bool {
        let address = |at: usize| {
            let bytes = found[at..at + 16].first_chunk::<16>()?;
            let v4 = bytes.first_chunk::<4>()?;
            Some(match family {
                AF_INET => IpAddr::from(*v4),
                _ => IpAddr::from(*bytes).to_canonical(),
            })
        };
        let ports = [
            self.own.port().to_be_bytes(),
            self.other.port().to_be_bytes(),
        ];
        found[..4] == *ports.as_flattened()
            && address(4) == Some(self.own.ip())
            && address(20) == Some(self.other.ip())
    }
}

/// User ID in an answer; `None` unless it is about the requested connection, in the state established.
fn read(answer: &[u8], requested: &End) -> io::Result<Option<u32>> {
    let short = || io::Error::from(ErrorKind::InvalidData);
    let four = |at: usize| answer.get(at..at + 4).and_then(|b| b.try_into().ok());
    let kind = four(4).map(|[a, b, ..]: [u8; 4]| u16::from_ne_bytes([a, b]));
    match kind {
        Some(BY_FAMILY) => {}
        Some(ERROR) => {
            let errno = i32::from_ne_bytes(four(HEADER).ok_or_else(short)?);
            let error = io::Error::from_raw_os_error(errno.saturating_neg());
            return match error.kind() {
                // The socket does not exist in this namespace.
                ErrorKind::NotFound => Ok(None),
                _ => Err(error),
            };
        }
        _ => return Err(short()),
    }
    let found = answer.get(FOUND..).and_then(|rest| rest.first_chunk());
    let user = four(UID).map(u32::from_ne_bytes).ok_or_else(short)?;
    let is_it = answer[STATE] == ESTABLISHED
        && requested.is_answer_for(answer[HEADER], found.ok_or_else(short)?);
    Ok(is_it.then_some(user))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_other_end_of_a_connection_is_its_users() {
        let owners = Owners::open().expect("a socket");
        for (at, to) in [
            ("127.0.0.1:0", "127.0.0.1"),
            ("[::1]:0", "::1"),
            // One end has an address of IPv4, the other an address of IPv6.
            ("[::]:0", "127.0.0.1"),
            ("127.0.0.1:0", "::ffff:127.0.0.1"),
        ] {
            let listener = TcpListener::bind(at).expect("a port");
            let port = listener.local_addr().expect("an address").port();
            let to: IpAddr = to.parse().expect("an address");
            let peer = TcpStream::connect((to, port)).expect("it listens");
            let (stream, theirs) = listener.accept().expect("a connection");
            let ours = stream.local_addr().expect("an address");
            let us = rustix::process::geteuid().as_raw();
            assert_eq!(
                owners.find(ours, theirs).expect("an answer"),
                PeerOwner::User(us),
                "{to}"
            );
            // The listener does not count, nor does an end that has been closed.
            let mut other = theirs;
            other.set_port(theirs.port() ^ 1);
            assert_eq!(
                owners.find(ours, other).expect("an answer"),
                PeerOwner::Closed
            );
            // Shut down and not only dropped: a program that another test starts keeps a copy of it until it runs.
            peer.shutdown(std::net::Shutdown::Both).expect("it is open");
            assert_eq!(
                owners.find(ours, theirs).expect("an answer"),
                PeerOwner::Closed
            );
            let elsewhere = SocketAddr::from(([192, 0, 2, 1], 7));
            assert_eq!(
                owners.find(ours, elsewhere).expect("an answer"),
                PeerOwner::OtherNamespace
            );
        }
    }

    #[test]
    fn an_invalid_answer_names_no_user() {
        let end = |port| End {
            own: SocketAddr::from(([10, 0, 0, 1], port)),
            other: SocketAddr::from(([10, 0, 0, 2], 2620)),
        };
        let asked = end(7);
        let mut answer = vec![0; 124];
        answer[4] = BY_FAMILY as u8;
        (answer[HEADER], answer[STATE]) = (AF_INET, ESTABLISHED);
        answer[FOUND..FOUND + ID].copy_from_slice(&asked.id());
        answer[UID] = 5;
        assert_eq!(read(&answer, &asked).expect("whole"), Some(5));
        assert_eq!(read(&answer, &end(8)).expect("whole"), None);
        answer[STATE] = 6;
        assert_eq!(read(&answer, &asked).expect("whole"), None);
        for length in 0..UID + 4 {
            assert!(read(&answer[..length], &asked).is_err());
        }
    }
}
