//! What a worker waits on while it sleeps.

use std::os::fd::RawFd;
use std::time::Duration;

/// What a sleeping worker waits on. `ports` implements it with epoll.
pub trait Waiter: Send {
    /// Sleeps until a descriptor is readable, somebody wakes the worker, or the time is over.
    fn wait(&mut self, fds: &[RawFd], at_most: Duration);

    /// What the calling thread has had of its core; `None` where nobody can tell.
    fn usage(&self) -> Option<Usage> {
        None
    }
}

/// What a thread has had of its core since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Nanoseconds on it.
    pub ran: u64,
    /// Times that it gave it up by itself: to sleep, for a lock, or for memory.
    pub rests: u64,
    /// Page faults.
    pub faults: u64,
}

/// A waiter that only sleeps, for ports without descriptors.
pub struct PlainWaiter;

impl Waiter for PlainWaiter {
    fn wait(&mut self, _: &[RawFd], at_most: Duration) {
        std::thread::park_timeout(at_most);
    }
}
