//! What the service manager is told (systemd's protocol, sd_notify(3)), and what it keeps for us.
//!
//! It holds the queues of twins while the process is replaced or killed: as long as one descriptor of a
//! TAP's queue is open, the kernel and its daemons see no loss of carrier. `ashlar keep` speaks the same
//! protocol where no systemd runs. Without either, all of this does nothing.

mod sys;

use ports::Tap;
use sd_notify::NotifyState;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use tracing::warn;

/// Descriptors that the manager has kept, under the names that they were given by.
pub type Inherited = BTreeMap<String, Vec<OwnedFd>>;

/// Takes what the manager has kept for this process. The second time there is nothing.
pub fn inherited() -> Inherited {
    let mut kept = Inherited::new();
    match sys::take() {
        Ok(list) => list
            .into_iter()
            .for_each(|(fd, name)| kept.entry(name).or_default().push(fd)),
        Err(e) => warn!("cannot take over what the service manager has kept: {e}"),
    }
    kept
}

/// The router forwards.
pub(crate) fn ready() {
    tell(&[NotifyState::Ready]);
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

/// Has the manager keep a twin's queues, these and no others, under the twin's name.
pub(crate) fn keep(tap: &Tap) {
    forget(tap.name());
    let queues: Vec<_> = tap.queues().collect();
    let what = [NotifyState::FdStore, NotifyState::FdName(tap.name())];
    if let Err(e) = sd_notify::notify_with_fds(&what, &queues) {
        warn!(
            twin = tap.name(),
            "the service manager cannot keep its queues: {e}"
        );
    }
}

/// Has the manager keep nothing under this name any more.
pub(crate) fn forget(name: &str) {
    tell(&[NotifyState::FdStoreRemove, NotifyState::FdName(name)]);
}

fn tell(states: &[NotifyState]) {
    if let Err(e) = sd_notify::notify(states) {
        warn!("cannot tell the service manager: {e}");
    }
}
