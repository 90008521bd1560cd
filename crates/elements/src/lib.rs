//! The element classes: one file each, in folders by topic, all listed here.
//!
//! A class's file holds its manual page, ports, state, configuration, packet step, handlers and
//! tests, in this order. To add one, write the file, then its line in the folder's list.

/// Classes that give packets to aggregates and count these.
pub mod aggregate;
/// Arguments that name bytes of annotations.
mod anno;
/// Classes that find and name neighbours by ARP.
pub mod arp;
/// Classes by which a balancer and ordinary routers behind it are one router.
pub mod balance;
/// Classes that move, count and copy packets.
pub mod basic;
/// Default numbers of packets that elements take at a time.
mod burst;
/// Classes that sort packets by their bytes.
pub mod classify;
/// Warnings to the operator.
mod complain;
/// Classes by which other programs use the router.
pub mod control;
/// Classes that receive from and send to ports.
pub mod device;
/// Classes that read and write files of packets.
pub mod dump;
/// Classes of Ethernet frames, and those that add and remove headers.
pub mod ether;
/// Flows that are set up, and their guarantees.
pub mod flow;
/// Elements that are compiled into one loop.
mod fused_loops;
/// ICMP for IPv4: errors, pings.
pub mod icmp;
/// Classes that hold information and no packets.
pub mod info;
/// IPv4: headers, options, fragments.
pub mod ip4;
/// IPv6: headers, errors, neighbours.
pub mod ip6;
/// IPsec: packets are encrypted and decrypted.
pub mod ipsec;
/// Rate limits of ICMP errors.
mod limit;
/// Classes that follow a Linux kernel, and the image of its state.
pub mod linux;
/// Manual page of a class.
mod manual;
/// Classes of MPLS: they add and remove labels, and look labels up.
pub mod mpls;
/// Arguments that name another element.
mod peer;
/// Classes that hold packets, and that take them out again.
pub mod queue;
/// Network address translation.
pub mod rewrite;
/// Classes that look routes up.
pub mod route;
/// Schedulers: which input to pull from.
pub mod sched;
/// Scripts, and other elements about the router's run and its end.
pub mod script;
/// Classes that hold traffic to a rate or delay it, and those that drop it early.
pub mod shape;
/// Classes that exchange packets with other programs over sockets.
pub mod sockets;
/// Classes that make packets.
pub mod source;
/// Classes that set, filter by and measure timestamps.
pub mod stamp;
/// Classes that sort packets into buckets, and hand them to the workers that own these.
pub mod steer;
/// Classes that choose among ports.
pub mod switch;
/// Classes by which many servers are one router.
pub mod vlb;

#[cfg(test)]
mod class_files_tests;
#[cfg(test)]
mod fast_path_tests;

use engine::element::Class;
pub use fused_loops::FUSED_LOOPS;
use planner::Registry;

/// Every class, by folder.
pub const CLASSES: &[&[Class]] = &[
    aggregate::CLASSES,
    arp::CLASSES,
    balance::CLASSES,
    basic::CLASSES,
    classify::CLASSES,
    control::CLASSES,
    device::CLASSES,
    dump::CLASSES,
    ether::CLASSES,
    flow::CLASSES,
    icmp::CLASSES,
    info::CLASSES,
    ip4::CLASSES,
    ip6::CLASSES,
    ipsec::CLASSES,
    linux::CLASSES,
    mpls::CLASSES,
    queue::CLASSES,
    rewrite::CLASSES,
    route::CLASSES,
    sched::CLASSES,
    script::CLASSES,
    shape::CLASSES,
    sockets::CLASSES,
    source::CLASSES,
    stamp::CLASSES,
    steer::CLASSES,
    switch::CLASSES,
    vlb::CLASSES,
];

/// Topics of classes in the order of a list, and words for them: those of the folders of their sources.
pub const TOPICS: &[(&str, &str)] = &[
    ("device", "Ports: receive and send"),
    ("basic", "Move, count, copy and discard packets"),
    ("source", "Make packets: sources and generators"),
    ("queue", "Queues, and who pulls from them"),
    ("sched", "Schedulers: which input to pull from"),
    ("shape", "Rate limits, shapers, delay, early drops, loss"),
    ("switch", "Switches: choose among ports"),
    ("classify", "Classifiers, filters and firewalls"),
    ("ether", "Ethernet, VLANs, PPPoE and headers"),
    ("arp", "ARP: neighbours of IPv4"),
    ("ip4", "IPv4: headers, options, fragments, TCP and UDP"),
    ("ip6", "IPv6: headers, errors, neighbours"),
    ("icmp", "ICMP: errors, pings"),
    ("route", "Routing: look-ups of routes"),
    (
        "linux",
        "A Linux kernel's interfaces, routes and neighbours",
    ),
    ("rewrite", "Network address translation (NAT)"),
    ("ipsec", "IPsec: ESP, policies, associations"),
    ("mpls", "MPLS: labels"),
    (
        "flow",
        "Flows with guarantees: IntServ, core-stateless (quality of service)",
    ),
    (
        "steer",
        "Cores: classify into buckets, hand packets to workers",
    ),
    (
        "vlb",
        "Clusters: many servers are one router (Valiant load balancing)",
    ),
    (
        "balance",
        "Multistage router: a balancer in front of ordinary routers",
    ),
    ("aggregate", "Aggregates: number flows and count them"),
    ("stamp", "Timestamps"),
    ("dump", "Files of packets: pcap, pcapng, NetFlow, text"),
    ("sockets", "Sockets: packets to and from other programs"),
    ("script", "Scripts and the driver"),
    ("control", "Control by other programs"),
    ("info", "Names, requirements and other information"),
];

/// Packages that Click's configurations may require beside classes: the driver, and optional parts of its build.
const PACKAGES: &[&str] = &["userlevel", "int64", "ip6", "compact_config"];

/// All of Ashlar's classes.
pub fn registry() -> Registry {
    Registry::new(CLASSES)
        .with_rewrite(route::attached::rewrite)
        .with_rewrite(linux::attached::rewrite)
        .with_rewrite(device::rewrite)
        .with_fused_loops(FUSED_LOOPS)
        .with_packages(PACKAGES)
}

/// Passes a packet by output 0 if `well`, otherwise drops it under the `reason`-th name.
#[inline]
fn on_if(well: bool, reason: u8) -> engine::element::Verdict {
    use engine::element::Verdict;
    if well {
        Verdict::ON
    } else {
        Verdict::drop(reason)
    }
}

/// Secret number for tables in which a host must not be able to choose another host's place. Unit tests of this crate
/// get the same number each time, so that two of their hosts never share a place by chance.
fn secret() -> u64 {
    if cfg!(test) {
        0x5851_f42d_4c95_7f2d
    } else {
        engine::random::secret()
    }
}

pub(crate) mod prelude {
    pub(crate) use crate::manual::manual;
    pub(crate) use crate::on_if;
    pub(crate) use arguments::units::{Capacity, Mtu, SIZE_MAX};
    pub(crate) use engine::prelude::*;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn each_class_has_a_topic_and_each_topic_a_class() {
        let folders = super::CLASSES
            .iter()
            .flat_map(|all| all.iter().map(|class| class.folder()));
        let topics: Vec<&str> = super::TOPICS.iter().map(|(folder, _)| *folder).collect();
        let of_classes: BTreeSet<&str> = folders.collect();
        assert_eq!(of_classes, topics.iter().copied().collect());
        assert_eq!(of_classes.len(), topics.len(), "a topic is named twice");
    }
}
