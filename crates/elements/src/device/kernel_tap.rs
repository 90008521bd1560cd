//! Exchanges Ethernet frames with the kernel of this machine, through a TAP interface that it creates.
//!
//! ```click
//! tap :: KernelTap(10.64.0.1/24, ETHER 02:00:00:00:00:01);
//! tap -> c :: Classifier(12/0806, -);
//! c[0] -> ARPResponder(0/0 02:00:00:00:00:02) -> tap;
//! c[1] -> Discard;
//! ```
//!
//! Works as KernelTun does, but IP packets have an Ethernet header. The kernel sends ARP requests for the other
//! addresses of the network, so the configuration must answer them. The kernel accepts only frames for the
//! interface's own Ethernet address, which `ETHER` sets.
//!
//! Arguments:
//!
//! - `ADDR`: the kernel's address with the length of its network's prefix.
//! - `GATEWAY`: gateway of the kernel's default route; 0.0.0.0, the default, for none.
//!
//! Keyword arguments:
//!
//! - `BURST`: frames taken at a time. Default 1.
//! - `HEADROOM`: accepted, and without effect: frames always have the usual headroom.
//! - `ETHER`: the interface's Ethernet address. Default is one that the kernel chooses.
//! - `MTU`: maximum length of an IP packet in bytes. Default 1500; longer ones are dropped (`too_long`).
//! - `IGNORE_QUEUE_OVERFLOWS`: accepted, and without effect: frames for which the kernel has no room are
//!   counted (`full`).
//! - `DEVNAME`: the interface's name. Default is the first free one of tap0, tap1 ...

use super::kernel_tun::{KernelTun, Style};
use crate::prelude::*;
use wire::ether;

/// Style of KernelTap: frames begin with an Ethernet header.
pub(crate) struct Ether;

pub(crate) type KernelTap = KernelTun<Ether>;

impl Style for Ether {
    const CLASS: &'static str = "KernelTap";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&["in?"], &["out"], "a/h");
    const FACTS: &'static [Facts] = &[Facts::ETHER];
    const LAYER: &'static str = "ether";
    const LINK: usize = ether::LEN;

    fn may_emit(packet: &Packet) -> bool {
        packet.len() >= ether::LEN
    }
}
