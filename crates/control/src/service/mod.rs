//! Messages to the service manager (systemd's protocol, sd_notify(3)), and descriptors that it keeps for us.
//!
//! The manager holds the queues of TAP interfaces while the process is replaced or killed: as long as one descriptor of
//! a TAP's queue is open, the kernel and its daemons see no loss of carrier. `ashlar keep` speaks the same protocol
//! where no systemd runs. Without either, all of this does nothing.

mod last;
mod sys;

pub(crate) use last::reloaded;
pub use last::{keep_configuration, last_configuration, runs_the_last};
use sync::Lock;

use ports::Tap;
use sd_notify::NotifyState;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;
use tracing::warn;

/// Descriptors that the service manager has kept, by the name under which they were stored.
pub type Inherited = BTreeMap<String, Vec<OwnedFd>>;

/// Name under which the manager keeps a mark for each start, until the router forwards. No interface has such a name.
const STARTS: &str = "/start";
/// Number of failed starts in a row after which daemons are told that there is no router: with a carrier and no router
/// they would send packets in vain.
const STARTS_MAX: usize = 3;

/// Takes what the manager has kept for this process. The second time there is nothing. Nor is there, from then
/// on, if the starts before this one have come to nothing.
pub fn inherited() -> Inherited {
    let before = KEPT.lock().take();
    let mut kept = before.unwrap_or_else(take);
    let starts = kept.remove(STARTS).unwrap_or_default();
    if starts.len() < STARTS_MAX {
        note_start();
    } else if !kept.is_empty() {
        warn!(
            "{STARTS_MAX} starts have come to nothing: TAP interfaces have no carrier until one does not"
        );
        kept.keys().for_each(|name| forget(name));
        kept.clear();
    }
    kept
}

/// Kept descriptors that have not been asked for yet.
static KEPT: Lock<Option<Inherited>> = Lock::new(None);

/// All descriptors that the manager has kept; they are returned once.
fn take() -> Inherited {
    let mut kept = Inherited::new();
    match sys::take() {
        Ok(list) => list
            .into_iter()
            .for_each(|(fd, name)| kept.entry(name).or_default().push(fd)),
        Err(e) => warn!("cannot take over what the service manager has kept: {e}"),
    }
    kept
}

/// Makes the manager keep a mark of this start for the next process.
fn note_start() {
    // systemd keeps only one of two descriptors of the same file.
    let done = UnixDatagram::unbound().and_then(|mark| {
        let what = [NotifyState::FdStore, NotifyState::FdName(STARTS)];
        sd_notify::notify_with_fds(&what, &[mark.as_fd()])
    });
    if let Err(e) = done {
        warn!("cannot tell the service manager of the start: {e}");
    }
}

/// The router forwards.
pub(crate) fn ready() {
    tell(&[NotifyState::Ready, NotifyState::Status(&last::status())]);
    forget(STARTS);
}

/// Interval at which the manager wants to be told that the router [is alive](alive), if it does.
pub(crate) fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|limit| limit / 3)
}

/// The router is alive.
pub(crate) fn alive() {
    tell(&[NotifyState::Watchdog]);
}

/// The router ends.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// The configuration is being replaced, until the router is ready again.
pub(crate) fn reloading() {
    let now = NotifyState::monotonic_usec_now();
    let states = std::iter::once(NotifyState::Reloading).chain(now);
    tell(&states.collect::<Vec<_>>());
}

/// Makes the manager keep the queues of a TAP interface, and no others, under this name.
pub(crate) fn keep(tap: &Tap, name: &str) {
    forget(name);
    let queues: Vec<_> = tap.queues().collect();
    let what = [NotifyState::FdStore, NotifyState::FdName(name)];
    if let Err(e) = sd_notify::notify_with_fds(&what, &queues) {
        warn!(
            interface = tap.name(),
            "the service manager cannot keep its queues: {e}"
        );
    }
}

/// Makes the manager drop everything under this name.
pub(crate) fn forget(name: &str) {
    tell(&[NotifyState::FdStoreRemove, NotifyState::FdName(name)]);
}

fn tell(states: &[NotifyState]) {
    if let Err(e) = sd_notify::notify(states) {
        warn!("cannot tell the service manager: {e}");
    }
}
