//! Maximum number of a router's routes.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Router-wide: routes that each routing table of the router may have. Default: no bound.
#[derive(Debug)]
pub struct RouteBound(AtomicUsize);

impl Default for RouteBound {
    fn default() -> RouteBound {
        RouteBound(AtomicUsize::new(usize::MAX))
    }
}

impl RouteBound {
    /// Sets it; `None` = no bound. Routes that are there stay.
    pub fn set(&self, most: Option<u32>) {
        let most = most.map_or(usize::MAX, |most| most as usize);
        self.0.store(most, Ordering::Relaxed);
    }

    /// The bound. Without one it is more than any table has room for.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
