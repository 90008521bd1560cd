//! Messages that only wake, on a descriptor that the other end may have made.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, OwnedFd};

/// Sends a few bytes, or none if there is no room: it never waits, whatever the other end does with its descriptor.
pub(super) fn nudge(socket: &OwnedFd) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: pointer and length describe `one`.
    unsafe {
        libc::send(
            socket.as_raw_fd(),
            one.as_ptr().cast(),
            one.len(),
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        )
    };
}

/// Takes out what has been sent; it never waits.
pub(super) fn drain(socket: &OwnedFd) {
    let mut bytes = [0u8; 64];
    // SAFETY: pointer and length describe `bytes`.
    while unsafe {
        libc::recv(
            socket.as_raw_fd(),
            bytes.as_mut_ptr().cast(),
            bytes.len(),
            libc::MSG_DONTWAIT,
        )
    } > 0
    {}
}
