//! Check for local addresses of the machine, from which each of its users can send.

use rustix::net::sockopt::{self, Timeout};
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Duration;
use wire::netlink::{
    Event, NLM_F_REQUEST, NewRoute, RTM_GETROUTE, RouteKind, TABLE_MAIN, Target, Writer, messages,
};

/// Netlink protocol `NETLINK_ROUTE`.
const ROUTE: isize = 0;
/// Timeout of a request, which the kernel normally answers at once.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// True if the calling thread's namespace delivers packets to an address locally: by an interface's address or a local
/// route.
pub(super) fn is_own(address: IpAddr) -> io::Result<bool> {
    let address = address.to_canonical();
    if address.is_loopback() {
        return Ok(true);
    }
    let mut room = [0; 256];
    let mut question = Writer::new(&mut room);
    let asked = NewRoute {
        dst: address,
        dst_len: if address.is_ipv4() { 32 } else { 128 },
        table: TABLE_MAIN,
        protocol: 0,
        kind: RouteKind::Other,
        priority: 0,
        target: Target::None,
    };
    let written = question.route(RTM_GETROUTE, NLM_F_REQUEST, 1, &asked);
    written.map_err(io::Error::other)?;
    let mut socket = netlink_sys::Socket::new(ROUTE)?;
    socket.bind_auto()?;
    sockopt::set_socket_timeout(socket.as_fd(), Timeout::Recv, Some(REQUEST_TIMEOUT))?;
    socket.send(question.bytes(), 0)?;
    let (answer, _) = socket.recv_from_full()?;
    for message in messages(&answer) {
        let event = message.and_then(|message| message.event());
        match event.map_err(io::Error::other)? {
            Event::Route(_, route) => return Ok(route.kind == RouteKind::Local),
            // The address has no route.
            Event::Error(_) => return Ok(false),
            _ => {}
        }
    }
    Err(ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_ours_and_an_address_for_documentation_is_not() {
        for (address, own) in [
            ("127.0.0.1", true),
            ("127.1.2.3", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("192.0.2.1", false),
            ("2001:db8::1", false),
        ] {
            let parsed = address.parse().expect("an address");
            assert_eq!(is_own(parsed).expect("an answer"), own, "{address}");
        }
    }
}
