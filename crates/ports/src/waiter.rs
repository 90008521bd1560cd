//! Sleep of a worker on its queues' descriptors and a wake-up call from other threads.

use crate::sys;
use engine::waiter::Usage;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

/// The sleeping side; it belongs to one worker.
pub struct Waiter {
    set: OwnedFd,
    bell: Arc<OwnedFd>,
    precise: bool,
}

/// The waking side.
#[derive(Clone)]
pub struct Waker(Arc<OwnedFd>);

/// Reason why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeReason {
    /// A descriptor is readable.
    Ready,
    /// Another thread called [`Waker::wake`].
    WakerCalled,
    /// The time is over, or a signal arrived.
    Timeout,
}

impl Waker {
    /// Ends the current wait, or the next one if none is going on.
    pub fn wake(&self) {
        sys::signal(&self.0);
    }
}

impl Waiter {
    /// A waiter and its waker.
    ///
    /// # Errors
    /// The process or the system has no descriptors left.
    pub fn new() -> io::Result<(Waiter, Waker)> {
        let set = sys::epoll()?;
        let bell = Arc::new(sys::eventfd()?);
        sys::epoll_add(&set, bell.as_raw_fd())?;
        let waker = Waker(Arc::clone(&bell));
        Ok((
            Waiter {
                set,
                bell,
                precise: false,
            },
            waker,
        ))
    }

    /// Waits for `fd` too, from now on: a queue's [`wait_fd`](engine::port::RxQueue::wait_fd).
    ///
    /// # Errors
    /// `fd` is not open, cannot be waited for, or is waited for already.
    pub fn add(&self, fd: RawFd) -> io::Result<()> {
        sys::epoll_add(&self.set, fd)
    }

    /// Stops waiting for `fd`. Call it before the queue goes to another worker.
    pub fn remove(&self, fd: RawFd) {
        sys::epoll_remove(&self.set, fd);
    }

    /// Sleeps until a descriptor is readable, the waker is called or `limit` is over. `limit` is
    /// kept to about a microsecond (plus the scheduler's delay).
    pub fn wait(&mut self, limit: Duration) -> WakeReason {
        if !self.precise {
            // Timer slack is a property of the thread, which is only known here.
            sys::precise_sleep();
            self.precise = true;
        }
        if !sys::epoll_wait(&self.set, limit) {
            return WakeReason::Timeout;
        }
        if sys::clear(&self.bell) {
            WakeReason::WakerCalled
        } else {
            WakeReason::Ready
        }
    }
}

/// Waiter of a worker, for the descriptors of the queues that the worker owns at the time.
struct WorkerWaiter {
    waiter: Waiter,
    waited_fds: Vec<RawFd>,
}

impl engine::waiter::Waiter for WorkerWaiter {
    fn wait(&mut self, fds: &[RawFd], timeout: Duration) {
        if self.waited_fds != fds {
            self.waited_fds
                .iter()
                .for_each(|&fd| self.waiter.remove(fd));
            // A queue that cannot wake the worker is polled: `timeout` bounds the sleep nevertheless.
            self.waited_fds = fds
                .iter()
                .copied()
                .filter(|&fd| self.waiter.add(fd).is_ok())
                .collect();
        }
        self.waiter.wait(timeout);
    }

    fn usage(&self) -> Option<Usage> {
        sys::usage()
    }
}

/// The waiter of a worker, and the function that wakes it; see `router::Router::start`.
///
/// # Errors
/// The process or the system has no descriptors left.
pub fn of_worker() -> io::Result<(Box<dyn engine::waiter::Waiter>, engine::wake::WakeFn)> {
    let (waiter, waker) = Waiter::new()?;
    let waiter = WorkerWaiter {
        waiter,
        waited_fds: Vec::new(),
    };
    Ok((Box::new(waiter), Box::new(move || waker.wake())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_from_another_thread_ends_the_wait() {
        let (mut waiter, waker) = Waiter::new().unwrap();
        let caller = std::thread::spawn(move || waker.wake());
        assert_eq!(
            waiter.wait(Duration::from_secs(60)),
            WakeReason::WakerCalled
        );
        caller.join().unwrap();
        assert_eq!(waiter.wait(Duration::ZERO), WakeReason::Timeout);
    }

    #[test]
    fn usage_counts_running_time_and_voluntary_sleeps() {
        let begin = sys::usage().unwrap();
        while sys::usage().unwrap().cpu_ns == begin.cpu_ns {}
        let worked = sys::usage().unwrap();
        std::thread::sleep(Duration::from_millis(1));
        assert!(sys::usage().unwrap().voluntary_switches > worked.voluntary_switches);
    }

    #[test]
    fn a_readable_descriptor_ends_the_wait_until_it_is_removed() {
        let (mut waiter, _waker) = Waiter::new().unwrap();
        let fd = sys::eventfd().unwrap();
        waiter.add(fd.as_raw_fd()).unwrap();
        assert_eq!(waiter.wait(Duration::ZERO), WakeReason::Timeout);
        sys::signal(&fd);
        assert_eq!(waiter.wait(Duration::from_secs(60)), WakeReason::Ready);
        waiter.remove(fd.as_raw_fd());
        assert_eq!(waiter.wait(Duration::ZERO), WakeReason::Timeout);
    }

    #[test]
    fn wait_lasts_for_the_requested_time() {
        let (mut waiter, _waker) = Waiter::new().unwrap();
        let start = std::time::Instant::now();
        assert_eq!(waiter.wait(Duration::from_micros(300)), WakeReason::Timeout);
        assert!(start.elapsed() >= Duration::from_micros(300));
    }
}
