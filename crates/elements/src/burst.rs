//! Numbers of packets that elements take at a time.

use engine::element::Init;

/// Default number of packets that a device receives or sends at a time.
pub(crate) const BURST: usize = 64;
/// Burst if annotations are dead. Larger bursts would share few further costs, and their buffers would evict each other
/// from the first-level cache.
const BARE_BURST: usize = 32;

/// Default number of packets that a source takes at a time.
pub(crate) fn burst(init: &Init) -> usize {
    match init.bare && !init.facts_change {
        true => BARE_BURST,
        false => BURST,
    }
}
