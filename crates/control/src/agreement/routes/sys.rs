//! Registration of descriptors with tokio.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A descriptor of which tokio tells when it is readable.
///
/// # Errors
///
/// The kernel cannot watch the descriptor.
pub(super) fn readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the value owns the descriptor, which stays open and the same until the registration has ended.
    let registered = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    registered.map_err(io::Error::from)
}
