//! Owner of an abstract UNIX address, by sock_diag(7), which any process may use.
//!
//! The answer cannot be forged, and needs no connection: filling a listener's queue does not hide the listener.

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
    sockopt,
};
use std::time::Duration;
use wire::netlink::{Attributes, Message, NLM_F_DUMP, NLM_F_REQUEST, messages};

/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
/// `UDIAG_SHOW_NAME`, `UDIAG_SHOW_UID`.
const SHOW: u32 = 0x01 | 0x40;
/// `UNIX_DIAG_NAME`, `UNIX_DIAG_UID`.
const NAME: u16 = 0;
const UID: u16 = 7;
const AF_UNIX: u8 = 1;
const SOCK_STREAM: u8 = 1;
/// Receive size in bytes; a part of a dump has up to 32 KiB.
const RECEIVE_BYTES: usize = 64 << 10;

/// A Unix socket, with the user that owns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) inode: u32,
    pub(crate) user: u32,
}

/// The stream socket of the calling thread's network namespace that is bound to an abstract address.
pub(crate) fn owner(name: &str) -> Option<Owner> {
    let (family, flags) = (AddressFamily::NETLINK, SocketFlags::CLOEXEC);
    let socket = socket_with(family, SocketType::RAW, flags, Some(netlink::SOCK_DIAG)).ok()?;
    // The kernel answers at once, or never.
    let second = Some(Duration::from_secs(1));
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, second).ok()?;
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(&socket, &request(), SendFlags::empty(), &kernel).ok()?;
    let mut room = vec![0; RECEIVE_BYTES];
    loop {
        let (_, len) = recv(&socket, room.as_mut_slice(), RecvFlags::empty()).ok()?;
        if len == 0 {
            return None;
        }
        for message in messages(room.get(..len)?) {
            let message = message.ok().filter(|m| m.kind == BY_FAMILY)?;
            if let Some(owner) = bound_to(&message, name) {
                return Some(owner);
            }
        }
    }
}

/// Asks for all UNIX sockets (`struct unix_diag_req`).
fn request() -> Vec<u8> {
    let mut request = Vec::new();
    request.extend_from_slice(&40u32.to_ne_bytes());
    request.extend_from_slice(&BY_FAMILY.to_ne_bytes());
    request.extend_from_slice(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    request.extend_from_slice(&[0; 8]);
    request.extend_from_slice(&[AF_UNIX, 0, 0, 0]);
    // Words of the request: all states, any inode number, the attributes to show, no cookie (two words).
    for word in [u32::MAX, 0, SHOW, u32::MAX, u32::MAX] {
        request.extend_from_slice(&word.to_ne_bytes());
    }
    request
}

/// Owner of the socket in a message, if it is a stream with that name.
fn bound_to(message: &Message, name: &str) -> Option<Owner> {
    let (head, rest) = message.body.split_first_chunk::<16>()?;
    let [AF_UNIX, SOCK_STREAM, _, _, inode @ ..] = *head else {
        return None;
    };
    let mut user = None;
    let mut same = false;
    for attribute in Attributes::new(rest) {
        let attribute = attribute.ok()?;
        match attribute.kind {
            NAME => same = attribute.value.split_first() == Some((&0, name.as_bytes())),
            UID => user = attribute.u32().ok(),
            _ => {}
        }
    }
    let user = user.filter(|_| same)?;
    let [a, b, c, d, ..] = inode;
    let inode = u32::from_ne_bytes([a, b, c, d]);
    Some(Owner { inode, user })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

    #[test]
    fn the_kernel_names_the_listening_process() {
        let name = format!("ashlar-test-diag-{}", std::process::id());
        assert_eq!(owner(&name), None);
        let address = SocketAddr::from_abstract_name(&name).expect("it is short");
        // A datagram socket may have the same name.
        let _other = UnixDatagram::bind_addr(&address).expect("it is free");
        assert_eq!(owner(&name), None);
        let _listener = UnixListener::bind_addr(&address).expect("it is free");
        let found = owner(&name).expect("it listens");
        assert_eq!(found.user, rustix::process::geteuid().as_raw());
        assert!(found.inode > 0);
    }
}
