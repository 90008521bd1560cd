//! Messages whose only effect is a wake-up, on a descriptor that the other end may have made.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, OwnedFd};

/// Sends a few bytes, or none if there is no room. It never blocks, whatever the other end does with its descriptor.
pub(super) fn send_wake_up(socket: &OwnedFd) {
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

/// Maximum number of messages read in one call. A sender waits for answers, so it needs no more; a hostile one could
/// send without end.
const MESSAGES_MAX: usize = 4;

/// Reads pending messages, a few at most; it never waits.
pub(super) fn drain(socket: &OwnedFd) {
    let mut bytes = [0u8; 64];
    for _ in 0..MESSAGES_MAX {
        // SAFETY: pointer and length describe `bytes`.
        let got = unsafe {
            libc::recv(
                socket.as_raw_fd(),
                bytes.as_mut_ptr().cast(),
                bytes.len(),
                libc::MSG_DONTWAIT,
            )
        };
        if got <= 0 {
            break;
        }
    }
}
