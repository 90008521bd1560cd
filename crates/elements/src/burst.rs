//! Numbers of packets that elements take at a time.

use engine::element::Init;

/// Packets that devices take and give at a time unless told otherwise.
pub(crate) const BURST: usize = 64;
/// Burst if annotations are dead. Larger bursts would share few further costs, and their buffers would evict each other
/// from the first-level cache.
const BARE_BURST: usize = 32;

/// Packets that a source takes at a time unless told otherwise.
pub(crate) fn burst(init: &Init) -> usize {
    match init.bare && !init.handled {
        true => BARE_BURST,
        false => BURST,
    }
}
