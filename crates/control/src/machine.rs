//! What the router stands on: its ports, and what its workers sleep on.

use engine::wake::WakeFn;
use engine::worker::Waiter;
use ports::Directory;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

/// All ports, none of them open.
pub fn directory() -> Arc<Directory> {
    Arc::new(Directory::new())
}

/// A worker's waiter: epoll over the descriptors that it names at each sleep.
struct Epoll {
    inner: ports::waiter::Waiter,
    fds: Vec<RawFd>,
}

impl Waiter for Epoll {
    fn wait(&mut self, fds: &[RawFd], at_most: Duration) {
        // The list changes at a reload and when a source ends, hardly ever between two sleeps.
        if self.fds != fds {
            self.fds.iter().for_each(|&fd| self.inner.remove(fd));
            // A descriptor that cannot be waited for is found by the time limit instead.
            self.fds = fds.to_vec();
            self.fds.retain(|&fd| self.inner.add(fd).is_ok());
        }
        self.inner.wait(at_most);
    }
}

/// Makes what a worker sleeps on, and what wakes it.
pub fn make_waiter() -> std::io::Result<(Box<dyn Waiter>, WakeFn)> {
    let (inner, waker) = ports::waiter::Waiter::new()?;
    let waiter = Epoll {
        inner,
        fds: Vec::new(),
    };
    Ok((Box::new(waiter), Box::new(move || waker.wake())))
}
