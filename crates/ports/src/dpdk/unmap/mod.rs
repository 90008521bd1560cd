//! Memory that a driver takes away while DPDK handles an interrupt stays until no worker can be in it.
//!
//! When the other end of a memif goes, the driver marks the device as not connected and unmaps the shared memory, both
//! on DPDK's thread for interrupts. A worker that looked before the mark may still be in a burst, above all where
//! programs share cores and the worker has to wait for its turn. So on that thread `munmap` waits for the workers.

mod sys;

use engine::publish::domain;
use std::thread;
use std::time::{Duration, Instant};

pub(super) use sys::guard;

/// A worker that takes longer is held up by something else; then nothing can be done.
const LONGEST: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_micros(50);

/// Returns when every worker has ended the turn of its loop that it is in, or sleeps.
fn wait_for_workers() {
    let (now, end) = (domain().advance(), Instant::now() + LONGEST);
    while !domain().passed(now) && Instant::now() < end {
        thread::sleep(PAUSE);
    }
}
