//! All of Ashlar's element classes, their topics, and the registry that programs plan with.
//!
//! The only place that knows all crates of classes. Each of these lists its own classes and its own fused loops.

#[cfg(test)]
mod class_files_tests;
#[cfg(test)]
mod fused_loops_tests;
#[cfg(test)]
mod manual_tests;
#[cfg(test)]
mod split_tests;

use engine::element::Class;
use engine::fused::FusedLoop;
use planner::Registry;
use std::sync::LazyLock;

/// Lists of all classes, by crate and folder.
pub fn all() -> &'static [&'static [Class]] {
    static LISTS: LazyLock<Vec<&[Class]>> = LazyLock::new(|| {
        [
            elements::CLASSES,
            elements_cluster::CLASSES,
            elements_linux::CLASSES,
            elements_tools::CLASSES,
        ]
        .concat()
    });
    &LISTS
}

/// All fused loops.
pub fn fused_loops() -> &'static [FusedLoop] {
    static LOOPS: LazyLock<Vec<FusedLoop>> = LazyLock::new(|| {
        [
            elements::FUSED_LOOPS,
            elements_linux::FUSED_LOOPS,
            elements_cluster::FUSED_LOOPS,
        ]
        .concat()
    });
    &LOOPS
}

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
    Registry::new(all())
        .with_rewrite(elements::route::attached::rewrite)
        .with_rewrite(elements_linux::linux::attached::rewrite)
        .with_rewrite(elements::device::rewrite)
        .with_fused_loops(fused_loops())
        .with_packages(PACKAGES)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn each_class_has_a_topic_and_each_topic_a_class() {
        let folders = super::all()
            .iter()
            .flat_map(|all| all.iter().map(|class| class.folder()));
        let topics: Vec<&str> = super::TOPICS.iter().map(|(folder, _)| *folder).collect();
        let of_classes: BTreeSet<&str> = folders.collect();
        assert_eq!(of_classes, topics.iter().copied().collect());
        assert_eq!(of_classes.len(), topics.len(), "a topic is named twice");
    }
}
