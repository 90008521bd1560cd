//! Descriptors that the process was started with.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Takes ownership of the descriptors that the service manager has passed (LISTEN_FDS), with their names. Later calls
/// return none.
pub(super) fn take() -> io::Result<Vec<(OwnedFd, String)>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let passed = sd_notify::listen_fds_with_names()?;
    // SAFETY: the manager has opened these for this process (LISTEN_PID says so, and each was found
    // open), nothing else here knows their numbers, and they are taken once only.
    Ok(passed
        .map(|(fd, name)| (unsafe { OwnedFd::from_raw_fd(fd) }, name))
        .collect())
}
