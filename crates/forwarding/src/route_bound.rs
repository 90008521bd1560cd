//! Maximum number of a router's routes.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of routes in each routing table. Default: unlimited. The router's value bounds running tables, the
/// plan's value the routes of a configuration.
#[derive(Debug)]
pub struct RouteBound(AtomicUsize);

impl Default for RouteBound {
    fn default() -> RouteBound {
        RouteBound(AtomicUsize::new(usize::MAX))
    }
}

impl RouteBound {
    /// Sets the maximum number of routes; `None` for unlimited. Existing routes remain.
    pub fn set(&self, limit: Option<u32>) {
        let limit = limit.map_or(usize::MAX, |limit| limit as usize);
        self.0.store(limit, Ordering::Relaxed);
    }

    /// Maximum number of routes; if unlimited, a number beyond the capacity of any table.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
