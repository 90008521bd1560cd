//! Waiting for events while a worker sleeps.

use std::os::fd::RawFd;
use std::time::Duration;

/// The wait of a sleeping worker. `ports` implements it with epoll.
pub trait Waiter: Send {
    /// Sleeps until a descriptor is readable, the worker is woken, or `timeout` has passed.
    fn wait(&mut self, fds: &[RawFd], timeout: Duration);

    /// Processor time of the calling thread; `None` if unknown.
    fn usage(&self) -> Option<Usage> {
        None
    }
}

/// Processor time of a thread since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Nanoseconds on the processor.
    pub cpu_ns: u64,
    /// Number of voluntary context switches: to sleep, for a lock, or for memory.
    pub voluntary_switches: u64,
    /// Page faults.
    pub page_faults: u64,
}

/// A waiter that only sleeps, for ports without descriptors.
pub struct PlainWaiter;

impl Waiter for PlainWaiter {
    fn wait(&mut self, _: &[RawFd], timeout: Duration) {
        std::thread::park_timeout(timeout);
    }
}
