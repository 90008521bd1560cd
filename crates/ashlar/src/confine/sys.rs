//! System calls for namespaces, for a child process in them and its signals, and for read-only mounts.
#![allow(unsafe_code)]

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::time::Duration;

fn check(result: i64) -> io::Result<i64> {
    match result {
        ..0 => Err(io::Error::last_os_error()),
        _ => Ok(result),
    }
}

/// Closes all descriptors except standard input, output and error. No value of this process may own one of them.
pub(super) fn close_all_but_standard() -> io::Result<()> {
    // SAFETY: the caller has opened nothing yet, so no value owns any of the descriptors.
    check(unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) }).map(drop)
}

/// Moves this process to new namespaces. It must have only one thread.
pub(super) fn unshare(what: UnshareFlags) -> io::Result<()> {
    // SAFETY: it changes namespaces only: memory, files and descriptors remain as they were.
    Ok(unsafe { unshare_unsafe(what) }?)
}

/// Forks this process, which must have only one thread. Returns the child's number; in the child, `None`.
pub(super) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: without other threads, no lock is held in the child, so it may do anything that the parent may.
    let pid = check(unsafe { libc::fork() }.into())?;
    Ok(Pid::from_raw(pid as i32))
}

/// A pipe: its reading end and its writing end.
pub(super) fn pipe() -> io::Result<[OwnedFd; 2]> {
    let (from, to) = pipe_with(PipeFlags::CLOEXEC)?;
    Ok([from, to])
}

/// True if all writers of a pipe have closed it.
pub(super) fn is_closed(pipe: &impl AsFd) -> bool {
    let mut looked = [PollFd::new(pipe, PollFlags::IN)];
    let _ = poll(&mut looked, Some(&Timespec::default()));
    looked[0].revents().contains(PollFlags::HUP)
}

/// Blocked signals, which stay pending until they are read; a forked process has its own pending signals.
pub(super) struct Signals {
    waits_for: libc::sigset_t,
    before: libc::sigset_t,
}

impl Signals {
    /// Blocks SIGTERM, SIGINT, SIGHUP and SIGCHLD.
    pub(super) fn block() -> io::Result<Signals> {
        let (mut set, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: each call fills or reads a set that outlives it; the signals' numbers are valid.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGCHLD] {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            check(libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr()).into())?;
            Ok(Signals {
                waits_for: set.assume_init(),
                before: before.assume_init(),
            })
        }
    }

    /// The next pending signal; `None` if none arrives within this time.
    pub(super) fn next(&self, within: Option<Duration>) -> io::Result<Option<i32>> {
        let limit = within.map(|within| libc::timespec {
            tv_sec: within.as_secs() as _,
            tv_nsec: within.subsec_nanos().into(),
        });
        let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the set and the time outlive the call; a null pointer requests no further information.
        match check(unsafe { libc::sigtimedwait(&self.waits_for, null_mut(), limit) }.into()) {
            Ok(signal) => Ok(Some(signal as i32)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            // The process was stopped and has continued.
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(Some(libc::SIGCHLD)),
            Err(e) => Err(e),
        }
    }

    /// Unblocks the signals, so that they have their usual effect again.
    pub(super) fn unblock(&self) -> io::Result<()> {
        // SAFETY: the set is valid, and a null pointer requests no old mask.
        let done = unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.before, null_mut()) };
        check(done.into()).map(drop)
    }
}

/// Makes the mount at a path and all mounts below it read-only, if `is_so` is true. Otherwise makes only the mount at
/// the path writable.
pub(super) fn read_only(path: &Path, is_so: bool) -> io::Result<()> {
    const RDONLY: u64 = 1;
    const RECURSIVE: libc::c_uint = 0x8000;
    // Fields of `struct mount_attr` (mount_setattr(2)): attributes to set, attributes to clear, propagation, user
    // namespace.
    let (attributes, flags): ([u64; 4], _) = match is_so {
        true => ([RDONLY, 0, 0, 0], RECURSIVE),
        false => ([0, RDONLY, 0, 0], 0),
    };
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path is terminated by a zero, and the length is that of the attributes; both outlive the call.
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
