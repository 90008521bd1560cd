//! Element classes of tools that measure, record, replay and talk: a router forwards without them.
//!
//! They are files like those of the crate `elements`, whose helpers they share.

/// Classes that give packets to aggregates and count these.
pub mod aggregate;
/// Classes by which other programs use the router.
pub mod control;
/// Classes that read and write files of packets.
pub mod dump;
/// Scripts, and classes that control the driver.
pub mod script;
/// Classes that exchange packets with other programs over sockets.
pub mod sockets;
/// Classes that set, filter by and measure timestamps.
pub mod stamp;

use engine::element::Class;

/// Every class of this crate, by folder.
pub const CLASSES: &[&[Class]] = &[
    aggregate::CLASSES,
    control::CLASSES,
    dump::CLASSES,
    script::CLASSES,
    sockets::CLASSES,
    stamp::CLASSES,
];

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
