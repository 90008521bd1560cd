//! The element classes that every router has: one file each, in folders by topic, all listed here. Further classes are
//! in crates of their own, `elements-*`; the crate `classes` joins all.
//!
//! A class's file holds its manual page, ports, state, configuration, packet step, handlers and
//! tests, in this order. To add one, write the file, then its line in the folder's list.

/// Arguments that name bytes of annotations.
pub mod anno;
/// Classes that find and name neighbours by ARP.
pub mod arp;
/// Classes that move, count and copy packets.
pub mod basic;
/// Default numbers of packets that elements take at a time.
mod burst;
/// Classes that sort packets by their bytes.
pub mod classify;
/// Classes that receive from and send to ports.
pub mod device;
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
/// Arguments that name another element.
pub mod peer;
/// Classes that hold packets, and that take them out again.
pub mod queue;
/// Rate limits of ICMP errors.
pub mod rate_limit;
/// Network address translation.
pub mod rewrite;
/// Classes that look routes up.
pub mod route;
/// Schedulers: which input to pull from.
pub mod sched;
/// Classes that hold traffic to a rate or delay it, and those that drop it early.
pub mod shape;
/// Classes that make packets.
pub mod source;
/// Warnings to the operator.
pub mod stderr_messages;
/// Classes that sort packets into buckets, and hand them to the workers that own these.
pub mod steer;
/// Classes that choose among ports.
pub mod switch;

#[cfg(test)]
mod fast_path_tests;

use engine::element::Class;
pub use fused_loops::FUSED_LOOPS;

/// Every class, by folder.
pub const CLASSES: &[&[Class]] = &[
    arp::CLASSES,
    basic::CLASSES,
    classify::CLASSES,
    device::CLASSES,
    ether::CLASSES,
    flow::CLASSES,
    icmp::CLASSES,
    info::CLASSES,
    ip4::CLASSES,
    ip6::CLASSES,
    queue::CLASSES,
    rewrite::CLASSES,
    route::CLASSES,
    sched::CLASSES,
    shape::CLASSES,
    source::CLASSES,
    steer::CLASSES,
    switch::CLASSES,
];

/// Passes a packet by output 0 if `well`, otherwise drops it under the `reason`-th name.
#[inline]
pub fn on_if(well: bool, reason: u8) -> engine::element::Verdict {
    use engine::element::Verdict;
    if well {
        Verdict::ON
    } else {
        Verdict::drop(reason)
    }
}

/// Secret number for tables in which a host must not be able to choose another host's place. Unit tests
/// (`cfg!(test)`) get the same number each time, so that two of their hosts never share a place by chance.
pub fn secret(is_test: bool) -> u64 {
    if is_test {
        0x5851_f42d_4c95_7f2d
    } else {
        engine::random::secret()
    }
}

/// Manual page: the documentation of the source file that uses this macro, or of the named file. A crate that names no
/// file has this crate's build script.
#[macro_export]
macro_rules! manual {
    () => {
        include_str!(concat!(env!("SOURCES_BEGIN"), file!()))
    };
    ($file:literal) => {
        engine::manual!($file)
    };
}

/// Names that files of classes use.
pub mod prelude {
    pub use crate::{manual, on_if};
    pub use arguments::units::{Capacity, Mtu, SIZE_MAX};
    pub use engine::prelude::*;
}
