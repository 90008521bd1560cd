//! Puts Ethernet headers before IPv6 packets, to neighbours that the kernel finds.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIP6Header -> rt :: LinuxIP6Lookup(eth0);
//! rt[0] -> Discard; rt[1] -> Discard;
//! rt[2] -> DecIP6HLIM -> nd :: LinuxND(eth0) -> q :: Queue -> ToDevice(null:64);
//! nd[1] -> Discard;
//! ```
//!
//! As LinuxARP, for IPv6: neighbours are the kernel's, which finds them by Neighbour Discovery; packets wait
//! while one is not known, and leave by output 1 with their hop back when the kernel says that there is no
//! answer. Packets to groups go to the Ethernet group (RFC 2464, 7).
//!
//! Arguments:
//!
//! - `NAME`: the interface's name in the router's namespace.

use super::deliver::Family;
use super::interface::Interface;
use crate::neighbour::Link;
use crate::prelude::*;
use std::net::{IpAddr, Ipv6Addr};
use wire::{EtherAddr, Ipv6, addr, ether};

pub(crate) struct Nd;

impl Family for Nd {
    const CLASS: &'static str = "LinuxND";
    const MANUAL: &'static str = manual!();
    const PACKET: Facts = Facts::IP6.and(Facts::DST6);
    const ETHERTYPE: u16 = ether::IPV6;
    type Key = [u8; 16];

    #[inline]
    fn key(packet: &Packet) -> [u8; 16] {
        packet.anno().dst6()
    }

    fn address(key: [u8; 16]) -> Option<IpAddr> {
        (key != [0; 16]).then(|| Ipv6Addr::from(key).into())
    }

    fn group(key: [u8; 16]) -> Option<EtherAddr> {
        let ip = Ipv6Addr::from(key);
        addr::is_multicast6(ip).then(|| EtherAddr::multicast6(ip))
    }

    fn link(interface: &Interface) -> &Arc<Link<[u8; 16]>> {
        interface.link6()
    }

    fn give_back(packet: &mut Packet) {
        if let Ok(mut ip) = Ipv6::new_checked(packet.network_mut()) {
            ip.set_hop_limit(ip.hop_limit().saturating_add(1));
        }
    }
}
