//! Element classes that follow a Linux kernel, and those of IPsec and MPLS.
//!
//! They are files like those of the crate `elements`, whose helpers they share.

/// Elements that are compiled into one loop.
mod fused_loops;
/// IPsec: packets are sealed and opened.
pub mod ipsec;
/// Classes that follow a Linux kernel, and the image of its state.
pub mod linux;
/// Classes of MPLS: labels on and off, and where packets with labels go.
pub mod mpls;

#[cfg(test)]
mod fast_path_tests;

use engine::element::Class;
pub use fused_loops::FUSED_LOOPS;

/// Every class of this crate, by folder.
pub const CLASSES: &[&[Class]] = &[ipsec::CLASSES, linux::CLASSES, mpls::CLASSES];

/// Classes for tests of this crate: its own, and those of `elements`.
#[cfg(test)]
fn with_basics() -> &'static [&'static [Class]] {
    static LISTS: std::sync::LazyLock<Vec<&[Class]>> =
        std::sync::LazyLock::new(|| [elements::CLASSES, CLASSES].concat());
    &LISTS
}

pub(crate) mod prelude {
    pub(crate) use elements::prelude::*;
}
