//! Prepends Ethernet headers to IPv4 packets; the kernel finds the neighbours' Ethernet addresses.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> rt :: LinuxIPLookup(eth0);
//! rt[0] -> Discard; rt[1] -> Discard;
//! rt[2] -> DecIPTTL -> arp :: LinuxARP(eth0) -> q :: Queue -> ToDevice(null:64);
//! arp[1] -> Discard;
//! ```
//!
//! A packet goes to the neighbour in its destination annotation, from the Ethernet address of the interface in the
//! kernel. The next hop may also be an IPv6 address (RFC 8950). The element sends no ARP itself: it uses the kernel's
//! neighbours. While a neighbour is unknown, its packets wait, up to 64 on each worker and 2048 in all (beyond that
//! the oldest are dropped: `full`), and the kernel is requested to find it. A neighbour that is stale in the kernel
//! is still used, and the kernel is requested to confirm it, at most once a second. Packets leave in order. Packets
//! to multicast and broadcast addresses go to the Ethernet group (RFC 1112, 6.4) at once.
//!
//! If there is no answer within two seconds, or the kernel reports a failure, packets for the neighbour leave by
//! output 1 (without it: `unreachable`). The kernel keeps them while it queries again, and then sends them, or the
//! ICMP error. Packets to a neighbour for which the table of 32768 has no room leave by output 1, too. Put LinuxARP
//! after DecIPTTL: packets that leave by output 1 get their TTL back. Packets to 0.0.0.0 are dropped (`no_address`),
//! and all packets while the interface is down (`down`).
//!
//! All workers share the neighbours; they are kept when the configuration is replaced.
//!
//! Arguments:
//!
//! - `NAME`: the interface's name in the router's namespace.

use super::deliver::{Family, brief4, key4_or_6};
use crate::prelude::*;
use wire::{Ipv4, ether};

pub(crate) struct Arp;

impl Family for Arp {
    const CLASS: &'static str = "LinuxARP";
    const MANUAL: &'static str = manual!();
    const PACKET: Facts = Facts::IP4.and(Facts::DST4);
    const ETHERTYPE: u16 = ether::IPV4;

    type HopKey = u32;

    #[inline]
    fn key(packet: &Packet) -> u128 {
        key4_or_6(packet)
    }

    #[inline]
    fn hop_key(packet: &Packet) -> u32 {
        brief4(packet)
    }

    fn give_back(packet: &mut Packet) {
        if let Ok(mut ip) = Ipv4::new_checked(packet.network_mut()) {
            ip.inc_ttl();
        }
    }
}
