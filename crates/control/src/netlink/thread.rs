//! The thread that follows the kernel.

use super::collector::Collector;
use super::counts::Counts;
use super::follow::{Follower, Sockets};
use super::fpm::{Fpm, Listen};
use super::watched_thread::{ThreadState, Watched, WatchedJob, room_or, run_in_namespace};
use forwarding::Kernel;
use forwarding::RouteBound;
use ports::Namespace;
use rustix::event::{PollFd, PollFlags};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Receive buffer size in bytes, for some hundred thousand routes.
const RECEIVE_BUFFER_BYTES: usize = 256 << 20;
/// Polling interval for neighbour requests if no descriptor announces them.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Thread that follows a kernel until this value is dropped.
pub(crate) struct Netlink {
    counts: Arc<Counts>,
    thread: Watched,
}

/// Network namespace whose kernel state is followed.
struct FollowedNamespace {
    namespace: Option<Arc<Namespace>>,
    receive_buffer_bytes: usize,
}

/// State of the thread.
struct Following {
    namespace: FollowedNamespace,
    kernel: Arc<Kernel>,
    counts: Arc<Counts>,
    follower: Follower,
}

impl Netlink {
    /// Starts to follow the kernel in a namespace, by default the namespace of the process.
    ///
    /// # Errors
    ///
    /// Memory for the routes ran out, or a socket cannot be opened; a message.
    pub(crate) fn start(
        (kernel, bound): (Arc<Kernel>, Arc<RouteBound>),
        namespace: Option<Arc<Namespace>>,
        fpm: Option<Listen>,
    ) -> Result<Netlink, String> {
        if kernel.routes4().is_err() || kernel.routes6().is_err() {
            return Err("there is no memory for the kernel's routes".to_owned());
        }
        let place = FollowedNamespace {
            namespace,
            receive_buffer_bytes: room_or(RECEIVE_BUFFER_BYTES),
        };
        let fpm = fpm.map(|listen| place.listen(listen)).transpose()?;
        let of_follower = Arc::clone(&kernel);
        Netlink::run(place, kernel, move |counts| {
            Follower::new((of_follower, bound), counts, fpm)
        })
    }

    /// Starts to collect the routes of a namespace's kernel.
    ///
    /// # Errors
    ///
    /// A socket cannot be opened; a message.
    pub(crate) fn collect(
        collector: Arc<Collector>,
        namespace: Arc<Namespace>,
    ) -> Result<Netlink, String> {
        let place = FollowedNamespace {
            namespace: Some(namespace),
            receive_buffer_bytes: room_or(RECEIVE_BUFFER_BYTES),
        };
        let kernel = Arc::clone(collector.kernel());
        Netlink::run(place, kernel, |counts| {
            Follower::collecting(collector, counts)
        })
    }

    fn run(
        namespace: FollowedNamespace,
        kernel: Arc<Kernel>,
        follower: impl FnOnce(Arc<Counts>) -> Follower + Send + 'static,
    ) -> Result<Netlink, String> {
        let failed = |e: io::Error| format!("cannot follow the kernel's routes: {e}");
        let sockets = namespace.open().map_err(failed)?;
        let counts: Arc<Counts> = Arc::default();
        let of_thread = Arc::clone(&counts);
        let thread = Watched::start("netlink", move |post| {
            let follower = follower(Arc::clone(&of_thread));
            let mut following = Following {
                namespace,
                kernel,
                counts: of_thread,
                follower,
            };
            post.run_job(&mut following, sockets);
        });
        Ok(Netlink {
            counts,
            thread: thread.map_err(failed)?,
        })
    }

    /// True if the thread makes progress; see [`Watched::is_alive`].
    pub(crate) fn is_alive(&self) -> bool {
        self.thread.is_alive()
    }

    /// Makes the thread match links to interfaces again, after a change of the configuration.
    pub(crate) fn rematch(&self) {
        self.thread.wake();
    }

    /// Counters of messages and actions.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }
}

impl FollowedNamespace {
    fn open(&self) -> io::Result<Sockets> {
        let receive_buffer_bytes = self.receive_buffer_bytes;
        run_in_namespace(&self.namespace, move || Sockets::open(receive_buffer_bytes))
    }

    /// Listens for a routing daemon in the followed namespace.
    ///
    /// # Errors
    ///
    /// The address cannot be used; a message.
    fn listen(&self, listen: Listen) -> Result<Fpm, String> {
        let address = listen.address;
        let opened = run_in_namespace(&self.namespace, move || Fpm::open(listen));
        opened.map_err(|e| format!("cannot wait for a routing daemon (FPM) at {address}: {e}"))
    }
}

impl WatchedJob for Following {
    type Sockets = Sockets;

    fn open(&self) -> io::Result<Sockets> {
        self.namespace.open()
    }

    fn follow(&mut self, post: &ThreadState, sockets: &mut Sockets) -> io::Result<()> {
        let follower = &mut self.follower;
        while !post.is_stopped() {
            if follower.process_pending(sockets, &|| post.is_stopped())? {
                continue;
            }
            let due = follower.wake_at();
            let rest = due.map(|at| at.saturating_duration_since(Instant::now()));
            let doorbell = self.kernel.doorbell();
            let rest = match doorbell {
                Some(_) => rest,
                None => Some(rest.unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL)),
            };
            let (changes, answers) = (sockets.changes.fd(), sockets.requests.fd());
            let fds = [Some(changes), Some(answers), doorbell]
                .into_iter()
                .flatten();
            let fds = fds.chain(follower.daemon_fds());
            let fds: Vec<PollFd<'_>> = fds
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
                .collect();
            post.wait(&fds, rest);
        }
        Ok(())
    }

    fn sockets_failed(&mut self, why: &io::Error) {
        warn!("the kernel cannot be followed ({why}): forwarding continues by the known state");
        self.counts.synced.set(0);
    }

    fn sockets_opened(&mut self) {
        info!("the kernel is followed again");
        self.follower.start_again();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hanging_thread_is_detected() {
        let mut netlink = Netlink::start(Default::default(), None, None).expect("it starts");
        assert!(netlink.is_alive());
        for _ in 0..3 {
            testkit::wait_until("it does something", || netlink.is_alive());
        }
        // The thread ends here; for its callers it is as if it hung.
        netlink.thread.halt();
        netlink.is_alive();
        assert!(!netlink.is_alive() && !netlink.is_alive());
    }
}
