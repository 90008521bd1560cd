//! `ashlar confine`: runs a program that is not trusted, so that it cannot do more than its own work. A router of a process
//! with `isolation = "process"` runs like this (docs/routers.md).
//!
//! The program is another user, without root's rights but for CAP_NET_ADMIN and CAP_NET_RAW in a network namespace of its own; it sees
//! no process but its own, writes to no file but in one folder, and has bounds of memory, files and processes. It cannot call
//! what would get it out of this or reach deep into the kernel. All its processes end with this one.

mod calls;
mod sys;

use crate::cli::Confine;
use crate::keep::code;
use crate::user;
use control::user::User;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, getppid, kill_process,
    set_parent_process_death_signal, setrlimit, waitpid,
};
use rustix::thread::{
    CpuSet, LinkNameSpaceType, UnshareFlags, move_into_link_name_space, sched_setaffinity,
};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Addresses that it may have beyond its memory.
const ROOM: u64 = 4 << 30;
/// Bytes of each file that it writes.
const FILE: u64 = 16 << 20;
/// Files that it may have open, and processes and threads of its user.
const FILES: u64 = 1024;
const PROCESSES: u64 = 512;

/// Runs the program, and gives its status when it has ended.
pub(crate) fn confine(asked: &Confine) -> Result<ExitCode, String> {
    let user = User::named(&asked.user)?;
    if user.id == 0 {
        return Err("root cannot be confined: name another --user".to_owned());
    }
    let failed = |what: &'static str| move |e: io::Error| format!("cannot {what}: {e}");
    // Whoever has started us may be gone before we are told.
    let parent = getppid();
    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|e| failed("be ended")(e.into()))?;
    if getppid() != parent {
        return Err("who has started it has ended".to_owned());
    }
    let mut signals =
        Signals::new([SIGTERM, SIGINT, SIGHUP, SIGCHLD]).map_err(failed("wait for signals"))?;
    let mut apart =
        UnshareFlags::NEWNS | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS | UnshareFlags::NEWPID;
    match &asked.netns {
        Some(path) => enter(path)?,
        None => apart |= UnshareFlags::NEWNET,
    }
    sys::unshare(apart).map_err(failed("have namespaces of its own (run as root)"))?;
    let inside = sys::fork().map_err(failed("start a process"))?;
    let Some(inside) = inside else {
        let why = become_it(asked, &user);
        return Err(format!("{}: {why}", asked.command[0]));
    };
    wait(inside, &mut signals)
}

/// Ends when the program does, and passes signals on. A thread could not be had any more.
fn wait(inside: Pid, signals: &mut Signals) -> Result<ExitCode, String> {
    for signal in signals.forever() {
        let signal = match signal {
            SIGCHLD => {
                let ended = waitpid(Some(inside), WaitOptions::NOHANG);
                match ended.map_err(|e| format!("the program is lost: {e}"))? {
                    Some((_, status)) => return Ok(code(status)),
                    None => continue,
                }
            }
            SIGHUP => Signal::HUP,
            _ => Signal::TERM,
        };
        // It may have ended.
        let _ = kill_process(inside, signal);
    }
    Err("no signals come any more".to_owned())
}

fn enter(path: &str) -> Result<(), String> {
    let failed = |e: io::Error| format!("cannot enter network namespace {path}: {e}");
    let file = File::open(path).map_err(failed)?;
    let entered = move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network));
    entered.map_err(|e| failed(e.into()))
}

/// Gives up all that the program must not have, and becomes it; why not, if that fails.
fn become_it(asked: &Confine, user: &User) -> String {
    if let Err(why) = prepare(asked, user) {
        return why;
    }
    // clap sees to it that there is a word.
    let mut program = Command::new(&asked.command[0]);
    program.args(&asked.command[1..]).env_clear();
    program.env(
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    );
    for place in ["HOME", "TMPDIR", "XDG_RUNTIME_DIR"] {
        program.env(place, &asked.folder);
    }
    program.exec().to_string()
}

fn prepare(asked: &Confine, user: &User) -> Result<(), String> {
    let failed = |what: &'static str| move |e: io::Error| format!("cannot {what}: {e}");
    let files = || -> io::Result<()> {
        mount_change(
            "/",
            MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
        )?;
        mount_bind(&asked.folder, &asked.folder)?;
        if let Some(program) = &asked.program {
            let place = asked.folder.join("program");
            // The folder is the user's: there may be anything.
            let _ = std::fs::remove_file(&place);
            File::create_new(&place)?;
            mount_bind(program, &place)?;
        }
        sys::read_only("/".as_ref(), true)?;
        sys::read_only(&asked.folder, false)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        // Its own processes only.
        Ok(mount("proc", "/proc", "proc", flags, None)?)
    };
    files().map_err(failed("have its own view of files"))?;
    let bounds = [
        (Resource::Data, asked.memory),
        // Programs, and memory shared with others; stacks and heaps of threads that are not used.
        (
            Resource::As,
            asked.memory.map(|bytes| bytes.saturating_add(ROOM)),
        ),
        (Resource::Fsize, Some(FILE)),
        (Resource::Nofile, Some(FILES)),
        (Resource::Nproc, Some(PROCESSES)),
        (Resource::Core, Some(0)),
        (Resource::Memlock, Some(0)),
        (Resource::Rtprio, Some(0)),
        (Resource::Msgqueue, Some(0)),
    ];
    for (resource, bound) in bounds {
        if bound.is_some() {
            let limit = Rlimit {
                current: bound,
                maximum: bound,
            };
            setrlimit(resource, limit).map_err(|e| failed("be bounded")(e.into()))?;
        }
    }
    if let Some(cores) = &asked.cores {
        let mut set = CpuSet::new();
        cores.0.iter().for_each(|core| set.set(*core));
        sched_setaffinity(None, &set).map_err(|e| failed("run on those processors")(e.into()))?;
    }
    user::no_more_rights()?;
    user::become_with_ambient(user, asked.netns.is_some())?;
    // The kernel has forgotten it with the user.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|e| failed("be ended")(e.into()))?;
    std::env::set_current_dir(&asked.folder).map_err(failed("enter its folder"))?;
    calls::forbid()
}
