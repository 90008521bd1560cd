//! Memory that routers took which are gone, or that was needed to start them.

mod sys;

use std::sync::atomic::{AtomicBool, Ordering};

/// True if the allocator may have memory that nobody needs.
#[derive(Default)]
pub(crate) struct Spare(AtomicBool);

impl Spare {
    /// Something large is gone.
    pub(crate) fn note(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Has the allocator give back to the system what is free, if something was noted since the last time. It keeps
    /// most of it otherwise. Takes milliseconds.
    pub(crate) fn give_back(&self) {
        if self.0.swap(false, Ordering::AcqRel) {
            sys::give_back();
        }
    }
}
