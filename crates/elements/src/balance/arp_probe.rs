//! ARP requests as probes.

use std::net::Ipv4Addr;
use wire::{Arp, EtherAddr, arp, ether};

/// Frame of an ARP request for a back end's address.
pub(super) fn write(
    to: (EtherAddr, Ipv4Addr),
    own: (EtherAddr, Ipv4Addr),
) -> [u8; ether::LEN + arp::LEN] {
    let mut frame = [0; ether::LEN + arp::LEN];
    frame[..ether::LEN].copy_from_slice(&ether::header(to.0, own.0, ether::ARP));
    let request = arp::packet(arp::REQUEST, own, (EtherAddr::ZERO, to.1));
    frame[ether::LEN..].copy_from_slice(&request);
    frame
}

/// Sender of a frame; `None` unless the frame is an ARP reply.
pub(super) fn read(frame: &[u8]) -> Option<(EtherAddr, Ipv4Addr)> {
    let reply = Arp::new_checked(frame.get(ether::LEN..)?).ok()?;
    (reply.op() == arp::REPLY).then(|| (reply.sender_ether(), reply.sender_ip()))
}
