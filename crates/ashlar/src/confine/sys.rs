//! Namespaces, a child in them, and file systems that cannot be written to.
#![allow(unsafe_code)]

use rustix::process::Pid;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

fn check(result: i64) -> io::Result<i64> {
    match result {
        ..0 => Err(io::Error::last_os_error()),
        _ => Ok(result),
    }
}

/// Leaves namespaces for new ones. The process must have one thread.
pub(super) fn unshare(what: UnshareFlags) -> io::Result<()> {
    // SAFETY: namespaces only: memory, files and descriptors stay shared as they were.
    Ok(unsafe { unshare_unsafe(what) }?)
}

/// Starts a copy of this process, which must have one thread: the copy's number, or `None` in the copy.
pub(super) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: with no other thread, nothing is left half done in the copy, which may do all that we may.
    let pid = check(unsafe { libc::fork() }.into())?;
    Ok(Pid::from_raw(pid as i32))
}

/// Has nobody here write to what is mounted at a path, and below; or has the path alone be written to again.
pub(super) fn read_only(path: &Path, is_so: bool) -> io::Result<()> {
    const RDONLY: u64 = 1;
    const RECURSIVE: libc::c_uint = 0x8000;
    // As mount_setattr(2) has it: what to set, what to clear, propagation, a user namespace.
    let (attributes, flags): ([u64; 4], _) = match is_so {
        true => ([RDONLY, 0, 0, 0], RECURSIVE),
        false => ([0, RDONLY, 0, 0], 0),
    };
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path ends with a zero, and the length is that of the attributes; both outlive the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            attributes.as_ptr(),
            size_of_val(&attributes),
        )
    })
    .map(drop)
}
