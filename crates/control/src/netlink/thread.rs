//! The thread that follows the kernel.

use super::counts::Counts;
use super::follow::{Follower, Sockets};
use super::fpm::{Fpm, Listen};
use elements::linux::Kernel;
use ports::Namespace;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Room for messages that wait: some hundred thousand routes.
const ROOM: usize = 256 << 20;
/// How often one looks for questions if no descriptor tells of them.
const WITHOUT_BELL: Duration = Duration::from_millis(2);
/// After how long sockets that failed are opened again.
const RETRY: Duration = Duration::from_secs(1);

/// Follows a kernel until it is dropped.
pub(crate) struct Netlink {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// What the thread had done when this was last asked.
    seen: AtomicU64,
}

struct Shared {
    kernel: Arc<Kernel>,
    namespace: Option<Arc<Namespace>>,
    counts: Arc<Counts>,
    room: usize,
    stop: AtomicBool,
    /// Counts what the thread does; one that hangs does nothing.
    steps: AtomicU64,
    /// Wakes the thread.
    poke: OwnedFd,
}

impl Netlink {
    /// Begins to follow what the kernel says in a namespace; without one, in that of the process. The error is
    /// a sentence.
    pub(crate) fn start(
        kernel: Arc<Kernel>,
        namespace: Option<Arc<Namespace>>,
        fpm: Option<Listen>,
    ) -> Result<Netlink, String> {
        if kernel.routes4().is_err() || kernel.routes6().is_err() {
            return Err("there is no memory for the kernel's routes".to_owned());
        }
        let failed = |e: io::Error| format!("cannot follow what the kernel says of routes: {e}");
        let shared = Arc::new(Shared {
            kernel,
            namespace,
            counts: Arc::default(),
            room: room_or(ROOM),
            stop: AtomicBool::new(false),
            steps: AtomicU64::new(1),
            poke: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
                .map_err(|e| failed(e.into()))?,
        });
        let sockets = shared.open().map_err(failed)?;
        let fpm = fpm.map(|listen| shared.listen(listen)).transpose()?;
        let thread = std::thread::Builder::new().name("netlink".into());
        let of_thread = Arc::clone(&shared);
        let thread = thread
            .spawn(move || of_thread.run(sockets, fpm))
            .map_err(failed)?;
        Ok(Netlink {
            shared,
            thread: Some(thread),
            seen: AtomicU64::new(0),
        })
    }

    /// Whether the thread has done something since this was last asked. It is woken, so that it will have the next time.
    pub(crate) fn is_alive(&self) -> bool {
        let now = self.shared.steps.load(Ordering::Relaxed);
        let before = self.seen.swap(now, Ordering::Relaxed);
        self.shared.wake();
        now != before
    }

    /// The configuration may name other interfaces than before.
    pub(crate) fn look(&self) {
        self.shared.wake();
    }

    /// What has been heard and done.
    pub(crate) fn counts(&self) -> &Counts {
        &self.shared.counts
    }
}

impl Drop for Netlink {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            // What a panic has said has been said.
            let _ = thread.join();
        }
    }
}

/// The size of the buffer of changes in bytes: `ASHLAR_NETLINK_BUFFER`, if that is set. A small one has
/// messages lost soon, which tests want.
pub(super) fn room_or(room: usize) -> usize {
    let asked = std::env::var("ASHLAR_NETLINK_BUFFER");
    asked.ok().and_then(|n| n.parse().ok()).unwrap_or(room)
}

impl Shared {
    fn open(&self) -> io::Result<Sockets> {
        let room = self.room;
        match &self.namespace {
            Some(namespace) => namespace.within(move || Sockets::open(room)),
            None => Sockets::open(room),
        }
    }

    /// Waits for a routing daemon. The error is a sentence.
    fn listen(&self, listen: Listen) -> Result<Fpm, String> {
        let address = listen.address;
        let opened = match &self.namespace {
            Some(namespace) => namespace.within(move || Fpm::open(listen)),
            None => Fpm::open(listen),
        };
        opened.map_err(|e| format!("cannot wait for a routing daemon (FPM) at {address}: {e}"))
    }

    /// Asked by the thread before each step.
    fn is_stopped(&self) -> bool {
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.stop.load(Ordering::Acquire)
    }

    fn wake(&self) {
        // Full: it is about to wake.
        let _ = rustix::io::write(&self.poke, &1u64.to_ne_bytes());
    }

    fn run(&self, sockets: Sockets, fpm: Option<Fpm>) {
        let (kernel, counts) = (Arc::clone(&self.kernel), Arc::clone(&self.counts));
        let mut follower = Follower::new(kernel, counts, fpm);
        let mut sockets = Some(sockets);
        while !self.is_stopped() {
            let ended = match &mut sockets {
                Some(sockets) => self.follow(&mut follower, sockets),
                None => self.open().map(|opened| {
                    info!("the kernel is followed again");
                    follower.start_again();
                    sockets = Some(opened);
                }),
            };
            if let Err(e) = ended
                && !self.is_stopped()
            {
                warn!("the kernel cannot be followed ({e}): forwarding goes on by what is known");
                self.counts.synced.set(0);
                sockets = None;
                self.wait(&mut [], Some(RETRY));
            }
        }
    }

    /// Follows the kernel until it is to stop, or the sockets are of no use.
    fn follow(&self, follower: &mut Follower, sockets: &mut Sockets) -> io::Result<()> {
        while !self.is_stopped() {
            if follower.turn(sockets, &|| self.is_stopped())? {
                continue;
            }
            let due = follower.wake_at();
            let rest = due.map(|at| at.saturating_duration_since(Instant::now()));
            let doorbell = self.kernel.doorbell();
            let rest = match doorbell {
                Some(_) => rest,
                None => Some(rest.unwrap_or(WITHOUT_BELL).min(WITHOUT_BELL)),
            };
            let (changes, answers) = (sockets.changes.fd(), sockets.requests.fd());
            let fds = [Some(changes), Some(answers), doorbell]
                .into_iter()
                .flatten();
            let fds = fds.chain(follower.daemon_fds());
            let mut fds: Vec<PollFd<'_>> = fds
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
                .collect();
            self.wait(&mut fds, rest);
        }
        Ok(())
    }

    /// Waits for one of the descriptors, for a poke, or so long.
    fn wait(&self, fds: &mut [PollFd<'_>], at_most: Option<Duration>) {
        let mut all: Vec<PollFd<'_>> = fds.to_vec();
        all.push(PollFd::new(&self.poke, PollFlags::IN));
        let at_most = at_most.map(|d| Timespec {
            tv_sec: d.as_secs() as i64,
            tv_nsec: i64::from(d.subsec_nanos()),
        });
        // An interruption is no harm: everything is looked at again.
        let _ = poll(&mut all, at_most.as_ref());
        let _ = rustix::io::read(&self.poke, &mut [0; 8]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_hangs_is_noticed() {
        let mut netlink = Netlink::start(Arc::default(), None, None).expect("it starts");
        assert!(netlink.is_alive());
        for _ in 0..3 {
            testkit::until("it does something", || netlink.is_alive());
        }
        // The thread ends here; to whoever asks, it is as if it hung.
        netlink.shared.stop.store(true, Ordering::Release);
        netlink.shared.wake();
        netlink.thread.take().map(JoinHandle::join);
        netlink.is_alive();
        assert!(!netlink.is_alive() && !netlink.is_alive());
    }
}
