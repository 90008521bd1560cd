//! ARP requests as probes.

use std::net::Ipv4Addr;
use wire::{Arp, EtherAddr, arp, ether};

/// Frame of an ARP request for a back end's address.
pub(super) fn write(to: (EtherAddr, Ipv4Addr), own: (EtherAddr, Ipv4Addr)) -> [u8; arp::FRAME_LEN] {
    arp::frame(to.0, arp::REQUEST, own, (EtherAddr::ZERO, to.1))
}

/// Sender of a frame; `None` unless the frame is an ARP reply.
pub(super) fn read(frame: &[u8]) -> Option<(EtherAddr, Ipv4Addr)> {
    let reply = Arp::new_checked(frame.get(ether::LEN..)?).ok()?;
    (reply.op() == arp::REPLY).then(|| (reply.sender_ether(), reply.sender_ip()))
}
