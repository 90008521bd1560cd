//! Memory for keys that is never written to swap.
#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of keys whose memory the system refused to lock.
static UNLOCKED: AtomicU64 = AtomicU64::new(0);

/// Number of keys in memory that the system did not lock, as that would exceed RLIMIT_MEMLOCK.
pub fn unlocked() -> u64 {
    UNLOCKED.load(Ordering::Relaxed)
}

/// A value in memory that is never moved or swapped. Its pages stay locked after its drop, as another key may be on
/// them. Wiping is done by the value's own drop.
pub(crate) struct Locked<T: ?Sized>(Box<T>);

impl<T> Locked<T> {
    pub(crate) fn new(value: T) -> Locked<T> {
        Locked::of(Box::new(value))
    }
}

impl<T: ?Sized> Locked<T> {
    /// Locks the value's memory.
    pub(crate) fn of(value: Box<T>) -> Locked<T> {
        let place = std::ptr::from_ref(&*value).cast_mut().cast();
        let len = size_of_val(&*value);
        // SAFETY: locking only prevents swapping of the memory.
        let locked = unsafe { rustix::mm::mlock(place, len) };
        if locked.is_err() {
            UNLOCKED.fetch_add(1, Ordering::Relaxed);
        }
        Locked(value)
    }
}

impl<T: ?Sized> Deref for Locked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> DerefMut for Locked<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
