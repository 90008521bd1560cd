//! Element classes by which several machines are one router: clusters, and balancers in front of ordinary routers.
//!
//! They are files like those of the crate `elements`, whose helpers they share. The rules, without packets, are the
//! crate `cluster`.

/// Classes by which a balancer and ordinary routers behind it are one router.
pub mod balance;
/// Elements that are compiled into one loop.
mod fused_loops;
/// Batches that leave by several outputs.
mod sides;
/// Classes by which many servers are one router.
pub mod vlb;

use engine::element::Class;
pub use fused_loops::FUSED_LOOPS;

/// Every class of this crate, by folder.
pub const CLASSES: &[&[Class]] = &[balance::CLASSES, vlb::CLASSES];

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
