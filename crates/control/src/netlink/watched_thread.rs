//! Watched thread that follows the kernel by sockets: its owner can check its progress, wake it, and end it.

use ports::Namespace;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Delay before failed sockets are reopened.
const REOPEN_DELAY: Duration = Duration::from_secs(1);

/// Thread that ends when this value is dropped.
pub(super) struct Watched {
    state: Arc<ThreadState>,
    thread: Option<JoinHandle<()>>,
    /// Progress counter of the thread at the last query.
    last_progress: AtomicU64,
}

/// State shared with the thread: its progress counter, stop flag and wake-up descriptor.
pub(super) struct ThreadState {
    stop: AtomicBool,
    /// Progress counter of the thread; a constant value means that the thread hangs.
    progress: AtomicU64,
    /// Event descriptor that wakes the thread.
    wake_fd: OwnedFd,
}

/// A job of the thread.
pub(super) trait WatchedJob {
    /// Socket type of the job.
    type Sockets;

    /// Opens new sockets.
    fn open(&self) -> io::Result<Self::Sockets>;

    /// Runs the job until it is to stop.
    ///
    /// # Errors
    ///
    /// The sockets have failed and must be reopened.
    fn follow(&mut self, state: &ThreadState, sockets: &mut Self::Sockets) -> io::Result<()>;

    /// Handles failed sockets, or a failure to open them.
    fn sockets_failed(&mut self, why: &io::Error);

    /// Handles newly opened sockets.
    fn sockets_opened(&mut self);
}

impl Watched {
    /// Starts the thread.
    pub(super) fn start(
        name: &str,
        run: impl FnOnce(&ThreadState) + Send + 'static,
    ) -> io::Result<Watched> {
        let state = Arc::new(ThreadState {
            stop: AtomicBool::new(false),
            progress: AtomicU64::new(1),
            wake_fd: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        });
        let of_thread = Arc::clone(&state);
        let thread = std::thread::Builder::new().name(name.into());
        let thread = thread.spawn(move || run(&of_thread))?;
        Ok(Watched {
            state,
            thread: Some(thread),
            last_progress: AtomicU64::new(0),
        })
    }

    /// True if the thread has made progress since the last call. Wakes the thread, so that it makes progress until the
    /// next call.
    pub(super) fn is_alive(&self) -> bool {
        let now = self.state.progress.load(Ordering::Relaxed);
        let before = self.last_progress.swap(now, Ordering::Relaxed);
        self.wake();
        now != before
    }

    /// Wakes the thread.
    pub(super) fn wake(&self) {
        // If the event counter is full, the thread is about to wake.
        let _ = rustix::io::write(&self.state.wake_fd, &1u64.to_ne_bytes());
    }

    fn end(&mut self) {
        self.state.stop.store(true, Ordering::Release);
        self.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread is already in the log.
            let _ = thread.join();
        }
    }

    /// Ends the thread, which then appears to hang, for tests.
    #[cfg(test)]
    pub(super) fn halt(&mut self) {
        self.end();
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.end();
    }
}

impl ThreadState {
    /// True if the thread is to end. Each call increments the progress counter.
    pub(super) fn is_stopped(&self) -> bool {
        self.progress.fetch_add(1, Ordering::Relaxed);
        self.stop.load(Ordering::Acquire)
    }

    /// Waits for input on a descriptor, for a wake-up, or for a timeout.
    pub(super) fn wait(&self, fds: &[PollFd<'_>], at_most: Option<Duration>) {
        let mut all: Vec<PollFd<'_>> = fds.to_vec();
        all.push(PollFd::new(&self.wake_fd, PollFlags::IN));
        let at_most = at_most.map(|d| Timespec {
            tv_sec: d.as_secs() as i64,
            tv_nsec: i64::from(d.subsec_nanos()),
        });
        // An interrupted poll is harmless, because everything is checked again.
        let _ = poll(&mut all, at_most.as_ref());
        let _ = rustix::io::read(&self.wake_fd, &mut [0; 8]);
    }

    /// Runs the job until the thread is to end, and reopens failed sockets.
    pub(super) fn run_job<F: WatchedJob>(&self, job: &mut F, sockets: F::Sockets) {
        let mut sockets = Some(sockets);
        while !self.is_stopped() {
            let ended = match &mut sockets {
                Some(sockets) => job.follow(self, sockets),
                None => job.open().map(|opened| {
                    job.sockets_opened();
                    sockets = Some(opened);
                }),
            };
            if let Err(e) = ended
                && !self.is_stopped()
            {
                job.sockets_failed(&e);
                sockets = None;
                self.wait(&[], Some(REOPEN_DELAY));
            }
        }
    }
}

/// Runs a job in a namespace, by default the namespace of the process.
pub(super) fn run_in_namespace<T: Send + 'static>(
    namespace: &Option<Arc<Namespace>>,
    job: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match namespace {
        Some(namespace) => namespace.run(job),
        None => job(),
    }
}

/// Receive buffer size in bytes: the variable `ASHLAR_NETLINK_BUFFER`, otherwise `room`. Tests set a small value to
/// provoke lost messages.
pub(super) fn room_or(room: usize) -> usize {
    let asked = std::env::var("ASHLAR_NETLINK_BUFFER");
    asked.ok().and_then(|n| n.parse().ok()).unwrap_or(room)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Reports each request; fails each time after one query.
    struct Failing(Sender<&'static str>);

    impl WatchedJob for Failing {
        type Sockets = ();

        fn open(&self) -> io::Result<()> {
            self.0.send("open").map_err(io::Error::other)
        }

        fn follow(&mut self, _: &ThreadState, (): &mut ()) -> io::Result<()> {
            let _ = self.0.send("follow");
            Err(io::Error::other("gone"))
        }

        fn sockets_failed(&mut self, why: &io::Error) {
            assert_eq!(why.to_string(), "gone");
            let _ = self.0.send("lost");
        }

        fn sockets_opened(&mut self) {
            let _ = self.0.send("found");
        }
    }

    #[test]
    fn failed_sockets_are_reopened_without_blocking_wake() {
        let (say, hear): (_, Receiver<&'static str>) = channel();
        let watched = Watched::start("test", move |state| state.run_job(&mut Failing(say), ()));
        let watched = watched.expect("it starts");
        let all = ["follow", "lost", "open", "found", "follow", "lost", "open"];
        for wanted in all {
            let limit = Duration::from_secs(60);
            assert_eq!(hear.recv_timeout(limit), Ok(wanted));
            if wanted == "lost" {
                watched.wake();
            }
        }
        // The thread ends while it waits, and sends nothing more.
        drop(watched);
        hear.iter().for_each(drop);
    }

    #[test]
    fn waiting_thread_is_alive_and_hanging_thread_is_not() {
        let hangs = Arc::new(Mutex::new(()));
        let of_thread = Arc::clone(&hangs);
        let watched = Watched::start("test", move |state| {
            while !state.is_stopped() {
                state.wait(&[], None);
                drop(of_thread.lock());
            }
        });
        let watched = watched.expect("it starts");
        for _ in 0..3 {
            testkit::wait_until("it does something", || watched.is_alive());
        }
        let held = hangs.lock();
        testkit::wait_until("it hangs", || !watched.is_alive());
        assert!(!watched.is_alive() && !watched.is_alive());
        drop(held);
        testkit::wait_until("it goes on", || watched.is_alive());
    }
}
