//! Return of free memory to the system, after routers were removed or started.

mod sys;

use std::sync::atomic::{AtomicBool, Ordering};

/// Flag: the allocator may hold free memory.
#[derive(Default)]
pub(crate) struct FreeMemoryFlag(AtomicBool);

impl FreeMemoryFlag {
    /// Records that a large amount of memory was freed.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Returns free memory to the system, if some was recorded since the last call. The allocator keeps most of it
    /// otherwise. The call takes milliseconds.
    pub(crate) fn give_back(&self) {
        if self.0.swap(false, Ordering::AcqRel) {
            sys::give_back();
        }
    }
}
