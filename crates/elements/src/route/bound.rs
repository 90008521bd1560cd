//! How many routes a router may have.

use std::sync::atomic::{AtomicU32, Ordering};

/// Router-wide: routes that each routing table of the router may have. Default: no bound.
#[derive(Debug)]
pub struct RouteBound(AtomicU32);

impl Default for RouteBound {
    fn default() -> RouteBound {
        RouteBound(AtomicU32::new(u32::MAX))
    }
}

impl RouteBound {
    /// Sets it; `None` = no bound. Routes that are there stay.
    pub fn set(&self, most: Option<u32>) {
        self.0.store(most.unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// The bound. Without one it is more than any table has room for.
    pub fn get(&self) -> usize {
        match self.0.load(Ordering::Relaxed) {
            u32::MAX => usize::MAX,
            most => most as usize,
        }
    }
}
