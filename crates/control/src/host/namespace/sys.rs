//! Queries about namespaces (ioctl_ns(2)).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const USERNS: libc::Ioctl = 0xb701;
const PARENT: libc::Ioctl = 0xb702;
const OWNER_UID: libc::Ioctl = 0xb704;

fn opened(namespace: BorrowedFd, what: libc::Ioctl) -> io::Result<OwnedFd> {
    // SAFETY: the request takes no argument. It returns -1 or a new descriptor that nobody else owns.
    unsafe {
        match libc::ioctl(namespace.as_raw_fd(), what) {
            ..0 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

/// User namespace that owns a namespace.
pub(super) fn user_namespace(namespace: BorrowedFd) -> io::Result<OwnedFd> {
    opened(namespace, USERNS)
}

/// Parent of a user namespace.
pub(super) fn parent(namespace: BorrowedFd) -> io::Result<OwnedFd> {
    opened(namespace, PARENT)
}

/// User who created a user namespace.
pub(super) fn owner(namespace: BorrowedFd) -> io::Result<u32> {
    let mut user: libc::uid_t = 0;
    // SAFETY: the request writes one user ID, and `user` outlives the call.
    match unsafe { libc::ioctl(namespace.as_raw_fd(), OWNER_UID, &raw mut user) } {
        ..0 => Err(io::Error::last_os_error()),
        _ => Ok(user),
    }
}
