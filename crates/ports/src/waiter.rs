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
pub enum Woken {
    /// A descriptor is readable.
    Ready,
    /// Another thread called [`Waker::wake`].
    Called,
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
    pub fn wait(&mut self, limit: Duration) -> Woken {
        if !self.precise {
            // The timer slack belongs to the thread, and only here is the sleeping thread known.
            sys::precise_sleep();
            self.precise = true;
        }
        if !sys::epoll_wait(&self.set, limit) {
            return Woken::Timeout;
        }
        if sys::clear(&self.bell) {
            Woken::Called
        } else {
            Woken::Ready
        }
    }
}

/// A worker's waiter, which waits for the descriptors of the queues that the worker owns just then.
struct OfWorker {
    waiter: Waiter,
    known: Vec<RawFd>,
}

impl engine::waiter::Waiter for OfWorker {
    fn wait(&mut self, fds: &[RawFd], at_most: Duration) {
        if self.known != fds {
            self.known.iter().for_each(|&fd| self.waiter.remove(fd));
            // A queue that cannot wake the worker is polled: `at_most` bounds the sleep nevertheless.
            self.known = fds
                .iter()
                .copied()
                .filter(|&fd| self.waiter.add(fd).is_ok())
                .collect();
        }
        self.waiter.wait(at_most);
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
    let waiter = OfWorker {
        waiter,
        known: Vec::new(),
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
        assert_eq!(waiter.wait(Duration::from_secs(60)), Woken::Called);
        caller.join().unwrap();
        assert_eq!(waiter.wait(Duration::ZERO), Woken::Timeout);
    }

    #[test]
    fn a_thread_that_works_runs_and_one_that_sleeps_rests() {
        let begin = sys::usage().unwrap();
        while sys::usage().unwrap().ran == begin.ran {}
        let worked = sys::usage().unwrap();
        std::thread::sleep(Duration::from_millis(1));
        assert!(sys::usage().unwrap().rests > worked.rests);
    }

    #[test]
    fn a_readable_descriptor_ends_the_wait_until_it_is_removed() {
        let (mut waiter, _waker) = Waiter::new().unwrap();
        let fd = sys::eventfd().unwrap();
        waiter.add(fd.as_raw_fd()).unwrap();
        assert_eq!(waiter.wait(Duration::ZERO), Woken::Timeout);
        sys::signal(&fd);
        assert_eq!(waiter.wait(Duration::from_secs(60)), Woken::Ready);
        waiter.remove(fd.as_raw_fd());
        assert_eq!(waiter.wait(Duration::ZERO), Woken::Timeout);
    }

    #[test]
    fn a_wait_takes_as_long_as_asked() {
        let (mut waiter, _waker) = Waiter::new().unwrap();
        let start = std::time::Instant::now();
        assert_eq!(waiter.wait(Duration::from_micros(300)), Woken::Timeout);
        assert!(start.elapsed() >= Duration::from_micros(300));
    }
}
