//! How a driver's thread gives a queue what it works with: rings, which come and go with the other end, while the queue
//! belongs to a worker.

use crate::sys;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a queue works with.
pub(crate) trait Given {
    /// What becomes readable when there is something to receive.
    fn bell(&self) -> RawFd;
}

/// Where a queue finds what it works with.
pub(crate) struct End<T> {
    /// Changes with what is given.
    version: AtomicU32,
    /// What the queue has not taken yet, and whether it is in the place of all that it has.
    given: Mutex<(bool, Vec<T>)>,
    /// What a sleeping worker waits for: the bells, and `kick`.
    pub(crate) set: OwnedFd,
    /// Says that there is something to look at: something else was given, or frames came before the worker was to be woken.
    pub(crate) kick: OwnedFd,
}

impl<T> End<T> {
    pub(crate) fn new() -> std::io::Result<Arc<End<T>>> {
        let (set, kick) = (sys::epoll()?, sys::eventfd()?);
        sys::epoll_add(&set, kick.as_raw_fd())?;
        Ok(Arc::new(End {
            version: AtomicU32::new(0),
            given: Mutex::new((false, Vec::new())),
            set,
            kick,
        }))
    }

    /// Has the queue take something else, or nothing.
    pub(crate) fn give(&self, given: Vec<T>) {
        *self.lock() = (true, given);
        self.tell();
    }

    /// Has the queue take something more.
    pub(crate) fn add(&self, more: T) {
        self.lock().1.push(more);
        self.tell();
    }

    fn lock(&self) -> MutexGuard<'_, (bool, Vec<T>)> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        self.version.fetch_add(1, Ordering::Release);
        sys::signal(&self.kick);
    }
}

/// What a queue works with, as far as it has seen.
pub(crate) struct Current<T: Given> {
    pub(crate) end: Arc<End<T>>,
    version: u32,
    pub(crate) all: Vec<T>,
}

impl<T: Given> Current<T> {
    pub(crate) fn new(end: &Arc<End<T>>) -> Current<T> {
        Current {
            end: Arc::clone(end),
            version: 0,
            all: Vec::new(),
        }
    }

    /// Takes what is there now. Returns whether it is something else.
    #[inline]
    pub(crate) fn follow(&mut self) -> bool {
        let now = self.end.version.load(Ordering::Acquire);
        now != self.version && self.change(now)
    }

    /// True if there is something that the queue has not taken.
    pub(crate) fn is_behind(&self) -> bool {
        self.end.version.load(Ordering::Acquire) != self.version
    }

    #[cold]
    fn change(&mut self, now: u32) -> bool {
        // Whoever gives has it for an instant.
        let Ok(mut given) = self.end.given.try_lock() else {
            return false;
        };
        let (instead, more) = std::mem::take(&mut *given);
        drop(given);
        self.unlisten();
        if instead {
            self.all.clear();
        }
        self.all.extend(more);
        self.version = now;
        true
    }

    /// Has a sleeping worker wait for the bells.
    ///
    /// # Errors
    /// The kernel's; then packets are looked for every now and then.
    #[cold]
    pub(crate) fn listen(&self) -> std::io::Result<()> {
        let mut bells = self.all.iter().map(Given::bell);
        bells.try_for_each(|bell| sys::epoll_add(&self.end.set, bell))
    }

    /// Gives up what it works with, which may be unmapped then.
    #[cold]
    pub(crate) fn leave(&mut self) {
        self.unlisten();
        self.all.clear();
    }

    fn unlisten(&self) {
        for given in &self.all {
            // The other end may keep the bell open, and then it would stay in the set.
            sys::epoll_remove(&self.end.set, given.bell());
        }
    }
}
