//! Prepends Ethernet headers to IPv6 packets; the kernel finds the neighbours' Ethernet addresses.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIP6Header -> rt :: LinuxIP6Lookup(eth0);
//! rt[0] -> Discard; rt[1] -> Discard;
//! rt[2] -> DecIP6HLIM -> nd :: LinuxND(eth0) -> q :: Queue -> ToDevice(null:64);
//! nd[1] -> Discard;
//! ```
//!
//! Works like LinuxARP for IPv6: the kernel finds neighbours by Neighbour Discovery. Packets wait while their
//! neighbour is not known. If there is no answer, they leave by output 1 and get their hop limit back. Packets
//! to groups go to the Ethernet group (RFC 2464, 7).
//!
//! Arguments:
//!
//! - `NAME`: the interface's name in the router's namespace.

use super::deliver::Family;
use crate::prelude::*;
use wire::{Ipv6, ether};

pub(crate) struct Nd;

impl Family for Nd {
    const CLASS: &'static str = "LinuxND";
    const MANUAL: &'static str = manual!();
    const PACKET: Facts = Facts::IP6.and(Facts::DST6);
    const ETHERTYPE: u16 = ether::IPV6;

    type HopKey = u128;

    #[inline]
    fn key(packet: &Packet) -> u128 {
        u128::from_be_bytes(packet.anno().dst6())
    }

    #[inline]
    fn hop_key(packet: &Packet) -> u128 {
        u128::from_ne_bytes(packet.anno().dst6())
    }

    fn give_back(packet: &mut Packet) {
        if let Ok(mut ip) = Ipv6::new_checked(packet.network_mut()) {
            ip.set_hop_limit(ip.hop_limit().saturating_add(1));
        }
    }
}
