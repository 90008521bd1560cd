//! Start of a program with descriptors at fixed numbers.
#![allow(unsafe_code)]

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The number of the first descriptor that is passed on (SD_LISTEN_FDS_START).
const FIRST_DESCRIPTOR: i32 = 3;

fn check(result: i32) -> io::Result<i32> {
    match result {
        ..0 => Err(io::Error::last_os_error()),
        _ => Ok(result),
    }
}

/// Starts a program with these descriptors open from number 3 on, and LISTEN_PID set. The program is killed when this
/// process ends. Signals sent to the program reach it, however early. This process must have one thread.
pub(super) fn spawn(command: &mut Command, descriptors: &[BorrowedFd]) -> io::Result<Pid> {
    let us = getpid();
    // Until exec, the child has the parent's signal handlers, which would swallow signals. So signals are blocked.
    let signals = block_signals()?;
    // SAFETY: without other threads, no lock is held in the child, which may do anything that the parent may.
    let forked = check(unsafe { libc::fork() }).map(Pid::from_raw);
    if let Ok(None) = forked {
        run(command, descriptors, us, &signals);
    }
    set_signals(&signals)?;
    Ok(forked?.expect("the child has left"))
}

/// Code of the child process: prepares and executes the program.
fn run(
    command: &mut Command,
    descriptors: &[BorrowedFd],
    parent: Pid,
    signals: &libc::sigset_t,
) -> ! {
    let error = become_it(command, descriptors, parent, signals);
    control::log::write(&format!(
        "ashlar keep: cannot run {:?}: {error}\n",
        command.get_program()
    ));
    // SAFETY: ends the child at once, without the cleanup that the parent does at its exit.
    unsafe { libc::_exit(127) }
}

/// Replaces the child by the program; returns only on failure.
fn become_it(
    command: &mut Command,
    descriptors: &[BorrowedFd],
    parent: Pid,
    signals: &libc::sigset_t,
) -> io::Error {
    command.env("LISTEN_PID", std::process::id().to_string());
    let prepare = || {
        place(descriptors)?;
        set_parent_process_death_signal(Some(Signal::TERM))?;
        // The kernel sends this signal only for a parent that ends later, not for one that has ended already.
        if getppid() != Some(parent) {
            return Err(io::Error::other("its keeper has ended"));
        }
        forget_handlers();
        set_signals(signals)
    };
    match prepare() {
        Ok(()) => command.exec(),
        Err(e) => e,
    }
}

/// Blocks all signals; those that were blocked before.
fn block_signals() -> io::Result<libc::sigset_t> {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: each call fills a set that outlives it; the first cannot fail.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        let done = libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        check(done).map(|_| before.assume_init())
    }
}

fn set_signals(blocked: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: the set is valid, and nothing is written.
    check(unsafe { libc::sigprocmask(libc::SIG_SETMASK, blocked, std::ptr::null_mut()) }).map(drop)
}

/// Resets the child's signals to their defaults, and ignores SIGHUP: it requests a reload, which a program that has
/// just started does not need.
fn forget_handlers() {
    let kinds = super::SIGNALS.map(|signal| (signal, libc::SIG_DFL));
    for (signal, action) in kinds.into_iter().chain([(libc::SIGHUP, libc::SIG_IGN)]) {
        // SAFETY: no handler is set; it cannot fail for these signals.
        unsafe { libc::signal(signal, action) };
    }
}

fn place(descriptors: &[BorrowedFd]) -> io::Result<()> {
    let beyond =
        FIRST_DESCRIPTOR + i32::try_from(descriptors.len()).unwrap_or(i32::MAX - FIRST_DESCRIPTOR);
    // Descriptors are first copied to numbers that no other one needs.
    let copy = |fd: &BorrowedFd| {
        // SAFETY: a plain call on an open descriptor; the copy is closed when the program begins.
        check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, beyond) })
    };
    let copies = descriptors
        .iter()
        .map(copy)
        .collect::<io::Result<Vec<_>>>()?;
    for (number, copy) in (FIRST_DESCRIPTOR..).zip(copies) {
        // SAFETY: the number's former descriptor is of no use to the child, which runs another program
        // from here on or ends.
        check(unsafe { libc::dup2(copy, number) })?;
    }
    // The keeper's parent may have files open without close-on-exec.
    machine::close_on_exec(beyond as u32)
}
