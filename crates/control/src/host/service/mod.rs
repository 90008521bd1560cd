//! Messages to the service manager (systemd's protocol, sd_notify(3)), and descriptors that it keeps for us.
//!
//! The manager holds the queues of TAP interfaces while the process is replaced or killed: as long as one descriptor of
//! a TAP's queue is open, the kernel and its daemons see no loss of carrier. `ashlar keep` speaks the same protocol
//! where no systemd runs. Without either, these functions have no effect.

mod last_configuration;
mod sys;

pub(crate) use last_configuration::reloaded;
pub use last_configuration::{keep_configuration, last_configuration, runs_the_last};
use sync::Lock;

use ports::Tap;
use sd_notify::NotifyState;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;
use tracing::warn;

/// File descriptors from the service manager's store, by name.
pub type Inherited = BTreeMap<String, Vec<OwnedFd>>;

/// Name of the descriptors that count starts, until the router forwards packets. No interface has such a name.
const START_MARK: &str = "/start";
/// Number of consecutive failed starts after which the stored TAP queues are closed. Daemons then see a lost carrier,
/// and no longer send packets in vain.
const STARTS_MAX: usize = 3;

/// File descriptors stored for this process. They are returned once; afterwards, or after too many failed starts, there
/// are none.
pub fn inherited() -> Inherited {
    let before = NOT_RETURNED.lock().take();
    let mut kept = before.unwrap_or_else(take);
    let starts = kept.remove(START_MARK).unwrap_or_default();
    if starts.len() < STARTS_MAX {
        note_start();
    } else if !kept.is_empty() {
        warn!(
            "{STARTS_MAX} starts have come to nothing: TAP interfaces have no carrier until one does not"
        );
        kept.keys().for_each(|name| remove_stored(name));
        kept.clear();
    }
    kept
}

/// Stored descriptors not yet returned.
static NOT_RETURNED: Lock<Option<Inherited>> = Lock::new(None);

/// All stored descriptors; they are returned once.
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

/// Stores a mark of this start for the next process.
fn note_start() {
    // systemd stores only one of two descriptors that refer to the same file.
    let done = UnixDatagram::unbound().and_then(|mark| {
        let what = [NotifyState::FdStore, NotifyState::FdName(START_MARK)];
        sd_notify::notify_with_fds(&what, &[mark.as_fd()])
    });
    if let Err(e) = done {
        warn!("cannot tell the service manager of the start: {e}");
    }
}

/// Reports that the router forwards packets.
pub(crate) fn ready() {
    notify(&[
        NotifyState::Ready,
        NotifyState::Status(&last_configuration::status()),
    ]);
    remove_stored(START_MARK);
}

/// Interval at which the service manager expects [`notify_watchdog`]; `None` without a watchdog.
pub(crate) fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|limit| limit / 3)
}

/// Reports that the router is alive.
pub(crate) fn notify_watchdog() {
    notify(&[NotifyState::Watchdog]);
}

/// Reports that the router is stopping.
pub(crate) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Reports that the configuration is being replaced; [`ready`] ends this.
pub(crate) fn reloading() {
    let now = NotifyState::monotonic_usec_now();
    let states = std::iter::once(NotifyState::Reloading).chain(now);
    notify(&states.collect::<Vec<_>>());
}

/// Stores the queues of a TAP interface under this name, and removes others with the name.
pub(crate) fn store_tap(tap: &Tap, name: &str) {
    remove_stored(name);
    let queues: Vec<_> = tap.queues().collect();
    let what = [NotifyState::FdStore, NotifyState::FdName(name)];
    if let Err(e) = sd_notify::notify_with_fds(&what, &queues) {
        warn!(
            interface = tap.name(),
            "the service manager cannot keep its queues: {e}"
        );
    }
}

/// Removes all descriptors with this name from the store.
pub(crate) fn remove_stored(name: &str) {
    notify(&[NotifyState::FdStoreRemove, NotifyState::FdName(name)]);
}

fn notify(states: &[NotifyState]) {
    if let Err(e) = sd_notify::notify(states) {
        warn!("cannot tell the service manager: {e}");
    }
}
