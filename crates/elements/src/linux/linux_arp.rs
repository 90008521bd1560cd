//! Puts Ethernet headers before IPv4 packets, to neighbours that the kernel finds.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> rt :: LinuxIPLookup(eth0);
//! rt[0] -> Discard; rt[1] -> Discard;
//! rt[2] -> DecIPTTL -> arp :: LinuxARP(eth0) -> q :: Queue -> ToDevice(null:64);
//! arp[1] -> Discard;
//! ```
//!
//! A packet goes to the neighbour that its destination annotation names, from the Ethernet address that the
//! interface has in the kernel. The next hop may also be an IPv6 address (RFC 8950). The neighbours are the kernel's: no ARP is sent here. While one is not known
//! its packets wait, up to 64 of each worker and 2048 in all (the oldest make room: `full`), and the kernel
//! is asked to find it. A neighbour that the kernel calls stale is used on; that asks the kernel to make sure
//! of it, at most once a second. Packets leave in order. Those to groups and to everybody go to the Ethernet
//! group (RFC 1112, 6.4) without any question.
//!
//! When there is no answer within two seconds, or the kernel says that there is none, packets for the neighbour
//! leave by output 1 (without it: `unreachable`): the kernel keeps them while it asks on, and sends them, or the
//! ICMP error. So do packets to a neighbour beyond the 32768 of the table. It is meant to stand behind DecIPTTL,
//! and these packets get their hop back. Packets to 0.0.0.0 are dropped (`no_address`), all while the interface is down (`down`).
//!
//! All workers share the neighbours; they go on when the configuration is replaced.
//!
//! Arguments:
//!
//! - `NAME`: the interface's name in the router's namespace.

use super::deliver::Family;
use super::interface::key4;
use crate::prelude::*;
use wire::ether;

pub(crate) struct Arp;

impl Family for Arp {
    const CLASS: &'static str = "LinuxARP";
    const MANUAL: &'static str = manual!();
    const PACKET: Facts = Facts::IP4.and(Facts::DST4);
    const ETHERTYPE: u16 = ether::IPV4;

    #[inline]
    fn key(packet: &Packet) -> u128 {
        let anno = packet.anno();
        anno.via6().unwrap_or_else(|| key4(anno.dst4()))
    }

    fn give_back(packet: &mut Packet) {
        if let Some(mut ip) = crate::ip4::header_mut(packet) {
            ip.inc_ttl();
        }
    }
}
