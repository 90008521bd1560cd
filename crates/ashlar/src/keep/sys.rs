//! Starting a program with descriptors that it finds by number.
#![allow(unsafe_code)]

use rustix::process::{Pid, Signal, set_parent_process_death_signal};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The number of the first descriptor that is passed on (SD_LISTEN_FDS_START).
const FIRST: i32 = 3;

fn check(result: i32) -> io::Result<i32> {
    match result {
        ..0 => Err(io::Error::last_os_error()),
        _ => Ok(result),
    }
}

/// Starts a program with these descriptors open from number 3 on, and LISTEN_PID set. It ends with us. The
/// process must have one thread.
pub(super) fn spawn(command: &mut Command, descriptors: &[BorrowedFd]) -> io::Result<Pid> {
    // SAFETY: with no other thread, nothing is left half done in the child, which may do all that we may.
    let pid = check(unsafe { libc::fork() })?;
    if let Some(pid) = Pid::from_raw(pid) {
        return Ok(pid);
    }
    let error = become_it(command, descriptors);
    eprintln!(
        "ashlar keep: cannot run {:?}: {error}",
        command.get_program()
    );
    // SAFETY: ends the child at once; what the parent's exit would do is not its business.
    unsafe { libc::_exit(127) }
}

/// In the child: only returns if it fails.
fn become_it(command: &mut Command, descriptors: &[BorrowedFd]) -> io::Error {
    if let Err(e) =
        place(descriptors).and_then(|()| Ok(set_parent_process_death_signal(Some(Signal::TERM))?))
    {
        return e;
    }
    command
        .env("LISTEN_PID", std::process::id().to_string())
        .exec()
}

fn place(descriptors: &[BorrowedFd]) -> io::Result<()> {
    let beyond = FIRST + i32::try_from(descriptors.len()).unwrap_or(i32::MAX - FIRST);
    // First out of each other's way.
    let copy = |fd: &BorrowedFd| {
        // SAFETY: a plain call on an open descriptor; the copy is closed when the program begins.
        check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, beyond) })
    };
    let copies = descriptors
        .iter()
        .map(copy)
        .collect::<io::Result<Vec<_>>>()?;
    for (number, copy) in (FIRST..).zip(copies) {
        // SAFETY: the number's former descriptor is of no use to the child, which runs another program
        // from here on or ends.
        check(unsafe { libc::dup2(copy, number) })?;
    }
    Ok(())
}
