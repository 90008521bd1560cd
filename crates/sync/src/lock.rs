//! A mutex that a panic does not poison.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Mutual exclusion as by [`Mutex`], without poisoning. A panic ends the whole process, except in a test, which then
/// fails by itself. So the next thread that locks takes the value as it is.
#[derive(Debug, Default)]
pub struct Lock<T: ?Sized>(Mutex<T>);

impl<T> Lock<T> {
    /// A lock around a value.
    pub const fn new(value: T) -> Lock<T> {
        Lock(Mutex::new(value))
    }

    /// The value, once the lock is no longer shared.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Lock<T> {
    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The value, without locking: the exclusive borrow rules out other users.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Lock;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_panic_leaves_the_value_as_it_was() {
        let mut lock = Lock::new(1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut guard = lock.lock();
            *guard = 2;
            assert!(lock.try_lock().is_none());
            panic!("with the lock");
        }));
        assert!(panicked.is_err());
        assert_eq!(*lock.lock(), 2);
        assert_eq!(lock.try_lock().as_deref(), Some(&2));
        assert_eq!(*lock.get_mut(), 2);
        assert_eq!(lock.into_inner(), 2);
    }
}
