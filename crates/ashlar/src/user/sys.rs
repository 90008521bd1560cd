//! Changing the user of all threads.
#![allow(unsafe_code)]

use std::io;

/// Sets user, group and further groups of all threads of the process.
pub(super) fn change(user: u32, group: u32, groups: &[u32]) -> io::Result<()> {
    let check = |result: i32| match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: the list and its length match; the C library applies the change to all threads.
    unsafe {
        check(libc::setgroups(groups.len(), groups.as_ptr()))?;
        check(libc::setresgid(group, group, group))?;
        check(libc::setresuid(user, user, user))
    }
}
