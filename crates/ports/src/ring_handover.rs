//! Hand-over of rings from a driver's thread to a queue: the other end's connection creates and ends rings, while the
//! queue belongs to a worker.

use crate::sys;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, MutexGuard};
use sync::Lock;

/// An object that a queue gets from its driver's thread, such as a ring.
pub(crate) trait QueueResource {
    /// Descriptor that becomes readable when there is something to receive.
    fn wake_fd(&self) -> RawFd;
}

/// Mailbox from which a queue takes its rings.
pub(crate) struct End<T> {
    /// Version of the content; it changes with each hand-over.
    version: AtomicU32,
    /// Rings not taken yet, and true if they replace the queue's present rings.
    given: Lock<(bool, Vec<T>)>,
    /// Set of descriptors on which a sleeping worker waits: the bells, and `change_event`.
    pub(crate) set: OwnedFd,
    /// Event counter for changes: a ring was given, or frames came before the worker was to be woken.
    pub(crate) change_event: OwnedFd,
}

impl<T> End<T> {
    pub(crate) fn new() -> std::io::Result<Arc<End<T>>> {
        let (set, change_event) = (sys::epoll()?, sys::eventfd()?);
        sys::epoll_add(&set, change_event.as_raw_fd())?;
        Ok(Arc::new(End {
            version: AtomicU32::new(0),
            given: Lock::new((false, Vec::new())),
            set,
            change_event,
        }))
    }

    /// Replaces the queue's rings, possibly by none.
    pub(crate) fn replace_rings(&self, rings: Vec<T>) {
        *self.lock() = (true, rings);
        self.notify();
    }

    /// Adds a ring to the queue.
    pub(crate) fn add(&self, more: T) {
        self.lock().1.push(more);
        self.notify();
    }

    fn lock(&self) -> MutexGuard<'_, (bool, Vec<T>)> {
        self.given.lock()
    }

    fn notify(&self) {
        self.version.fetch_add(1, Ordering::Release);
        sys::signal(&self.change_event);
    }
}

/// Rings of a queue, in the last version that it has seen.
pub(crate) struct Current<T: QueueResource> {
    pub(crate) end: Arc<End<T>>,
    version: u32,
    pub(crate) all: Vec<T>,
}

impl<T: QueueResource> Current<T> {
    pub(crate) fn new(end: &Arc<End<T>>) -> Current<T> {
        Current {
            end: Arc::clone(end),
            version: 0,
            all: Vec::new(),
        }
    }

    /// Takes the current version. Returns true if it is a new one.
    #[inline]
    pub(crate) fn follow(&mut self) -> bool {
        let now = self.end.version.load(Ordering::Acquire);
        now != self.version && self.change(now)
    }

    /// True if the mailbox has rings that the queue has not taken.
    pub(crate) fn is_behind(&self) -> bool {
        self.end.version.load(Ordering::Acquire) != self.version
    }

    #[cold]
    fn change(&mut self, now: u32) -> bool {
        // The other thread holds the lock for an instant only.
        let Some(mut given) = self.end.given.try_lock() else {
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

    /// Makes a sleeping worker wait for the bells.
    ///
    /// # Errors
    /// The kernel refuses a descriptor. The queue is then polled at intervals.
    #[cold]
    pub(crate) fn listen(&self) -> std::io::Result<()> {
        let mut doorbells = self.all.iter().map(QueueResource::wake_fd);
        doorbells.try_for_each(|bell| sys::epoll_add(&self.end.set, bell))
    }

    /// Releases the memory regions in use, so that they can be unmapped.
    #[cold]
    pub(crate) fn release_regions(&mut self) {
        self.unlisten();
        self.all.clear();
    }

    fn unlisten(&self) {
        for given in &self.all {
            // Remove the bell from the set explicitly: it stays there while the other end keeps it open.
            sys::epoll_remove(&self.end.set, given.wake_fd());
        }
    }
}
