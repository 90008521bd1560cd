//! Prepends Ethernet headers to packets that leave an MPLS router by an interface of the kernel; the kernel finds the
//! neighbours.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> mpls :: LinuxMPLSLookup(eth0);
//! mpls[0], mpls[1], mpls[2] -> Discard;
//! mpls[3] -> LinuxMPLSEtherEncap(eth0) -> q :: Queue -> ToDevice(null:64);
//! ```
//!
//! The Ethertype is 0x8847 before labels, and 0x0800 or 0x86dd before an IP packet whose last label was popped.
//! LinuxMPLSLookup records the kind in the network header annotation. The packet goes to the neighbour in the
//! destination annotation, an IPv4 or an IPv6 address; neighbours are found, and packets wait for them, as with
//! LinuxARP. A packet that is longer than the interface's MTU, with its labels, is dropped (`too_long`).
//!
//! If a neighbour does not answer, packets leave by output 1, with labels as they would have been sent (without it:
//! `unreachable`).
//!
//! Arguments:
//!
//! - `NAME`: the interface's name in the router's namespace.

use super::deliver::{Family, brief4, key4_or_6};
use crate::prelude::*;
use wire::ether;

pub(crate) struct Mpls;

impl Family for Mpls {
    const CLASS: &'static str = "LinuxMPLSEtherEncap";
    const MANUAL: &'static str = manual!();
    const PACKET: Facts = Facts::NETWORK;
    const ETHERTYPE: u16 = ether::MPLS;
    const IS_LABELLED: bool = true;

    type HopKey = u32;

    #[inline]
    fn key(packet: &Packet) -> u128 {
        key4_or_6(packet)
    }

    #[inline]
    fn hop_key(packet: &Packet) -> u32 {
        brief4(packet)
    }

    fn give_back(_: &mut Packet) {}
}
