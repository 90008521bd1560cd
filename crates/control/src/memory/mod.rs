//! Memory that routers took which are gone, or that was needed to start them.

mod sys;

use std::sync::atomic::{AtomicBool, Ordering};

/// True if the allocator may have unneeded memory.
#[derive(Default)]
pub(crate) struct Spare(AtomicBool);

impl Spare {
    /// Something large is gone.
    pub(crate) fn note(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Returns free memory to the system, if some was noted since the last call; the allocator keeps most of it
    /// otherwise. Takes milliseconds.
    pub(crate) fn give_back(&self) {
        if self.0.swap(false, Ordering::AcqRel) {
            sys::give_back();
        }
    }
}
