//! `ashlar confine`: runs an untrusted program so that it cannot affect anything outside its confinement. A router of
//! a process with `isolation = "process"` runs in this way (docs/routers.md).
//!
//! The program runs as another user without root's rights. It has CAP_NET_ADMIN and CAP_NET_RAW only in a user
//! namespace that owns its network namespace (`ashlar netns`), so they are not valid for any other network. The program
//! sees only its own processes, writes only to files in one folder, and has limits of memory, files and processes. A
//! system call filter denies calls by which it could leave the confinement.
//!
//! There are three processes. The *outer* one, this process, waits outside, passes signals on, and kills the others
//! if necessary. The *first* one is process 1 of the program's PID namespace: when it ends, all processes there end.
//! The third one becomes the program. The first one runs as root, so the program can neither end it nor keep it from
//! ending with the outer one.
//!
//! A card belongs to the program if the program's user owns the file of the card's IOMMU group. The IOMMU lets the card
//! reach the program's memory only.

mod devices;
pub(crate) mod namespace;
mod seccomp;
mod sys;

use crate::cli::Confine;
use crate::keep::code;
use crate::user;
use control::namespace::Owned;
use control::user::User;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, getppid, kill_process,
    set_parent_process_death_signal, setrlimit, wait, waitpid,
};
use rustix::thread::{
    CpuSet, LinkNameSpaceType, UnshareFlags, move_into_link_name_space, sched_setaffinity,
};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use sys::Signals;

/// Address space in bytes that the program may use beyond its memory limit.
const EXTRA_ADDRESS_SPACE: u64 = 4 << 30;
/// Maximum size of a file that the program writes, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Maximum number of the program's open files, and of its user's processes and threads.
const FILES_MAX: u64 = 1024;
const PROCESSES: u64 = 512;
/// Time in which the program must end by itself after SIGTERM.
const END_TIMEOUT: Duration = Duration::from_secs(2);

fn failed(what: &'static str) -> impl Fn(io::Error) -> String {
    move |e| format!("cannot {what}: {e}")
}

/// Runs the program, and returns its exit status.
pub(crate) fn confine(args: &Confine) -> Result<ExitCode, String> {
    // The parent may have files and devices open that are not close-on-exec.
    sys::close_all_but_standard().map_err(failed("close what was inherited"))?;
    let user = User::named(&args.user)?;
    if user.id == 0 {
        return Err("root cannot be confined: name another --user".to_owned());
    }
    // The parent may have ended before its death signal was requested.
    let parent = getppid();
    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|e| failed("be ended")(e.into()))?;
    if getppid() != parent {
        return Err("its parent process has ended".to_owned());
    }
    let signals = Signals::block().map_err(failed("wait for signals"))?;
    if let Some(group) = &args.cgroup {
        let procs = group.join("cgroup.procs");
        std::fs::write(procs, "0").map_err(failed("enter its control group"))?;
    }
    let mut apart =
        UnshareFlags::NEWNS | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS | UnshareFlags::NEWPID;
    let mut owned = None;
    match &args.netns {
        Some(path) => {
            let found = Owned::open(path.as_ref(), &user)?;
            let entered =
                move_into_link_name_space(found.network.as_fd(), Some(LinkNameSpaceType::Network));
            entered.map_err(|e| format!("cannot enter network namespace {path}: {e}"))?;
            owned = Some(found);
        }
        None => apart |= UnshareFlags::NEWNET,
    }
    sys::unshare(apart).map_err(failed("have namespaces of its own (run as root)"))?;
    let lives = sys::pipe().map_err(failed("start a process"))?;
    let first = sys::fork().map_err(failed("start a process"))?;
    let Some(first) = first else {
        let [alive, ours] = lives;
        drop(ours);
        return be_first(args, &user, owned, &signals, &alive);
    };
    let [_, _alive] = lives;
    let mut end: Option<Instant> = None;
    loop {
        let remaining = end.map(|end| end.saturating_duration_since(Instant::now()));
        let signal = signals
            .next(remaining)
            .map_err(failed("wait for signals"))?;
        let ended = waitpid(Some(first), WaitOptions::NOHANG);
        if let Some((_, status)) = ended.map_err(|e| format!("the program is lost: {e}"))? {
            return Ok(code(status));
        }
        match signal {
            None => {
                // When the first process ends, all processes of the program end.
                let _ = kill_process(first, Signal::KILL);
                end = None;
            }
            Some(libc::SIGCHLD) => {}
            Some(libc::SIGHUP) => _ = kill_process(first, Signal::HUP),
            Some(_) => {
                let _ = kill_process(first, Signal::TERM);
                end.get_or_insert(Instant::now() + END_TIMEOUT);
            }
        }
    }
}

/// Runs the first process: starts the program, and ends when the program ends, even if other processes are left.
fn be_first(
    args: &Confine,
    user: &User,
    owned: Option<Owned>,
    signals: &Signals,
    alive: &impl AsFd,
) -> Result<ExitCode, String> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|e| failed("be ended")(e.into()))?;
    // The kernel sends the death signal only for a parent that ends later, not for one that has already ended.
    if sys::is_closed(alive) {
        return Err("its parent process has ended".to_owned());
    }
    let cards = devices::cards_of(user.id).map_err(failed("look for its cards"))?;
    own_view_of_files(args, &cards).map_err(failed("have its own view of files"))?;
    if let Some(cores) = &args.cores {
        let mut set = CpuSet::new();
        cores.0.iter().for_each(|core| set.set(*core));
        sched_setaffinity(None, &set).map_err(|e| failed("run on those processors")(e.into()))?;
    }
    let program = sys::fork().map_err(failed("start a process"))?;
    let Some(program) = program else {
        let why = become_it(args, user, owned, signals, !cards.is_empty());
        return Err(format!("{}: {why}", args.command[0]));
    };
    drop(owned);
    user::keep_kill_only()?;
    loop {
        if let Some(status) = reap(program) {
            return Ok(code(status));
        }
        let signal = match signals.next(None).map_err(failed("wait for signals"))? {
            Some(libc::SIGHUP) => Signal::HUP,
            Some(libc::SIGCHLD) | None => continue,
            Some(_) => Signal::TERM,
        };
        // The program may have ended already.
        let _ = kill_process(program, signal);
    }
}

/// Reaps all ended processes, including orphans. Returns the program's status if the program is among them.
fn reap(program: Pid) -> Option<WaitStatus> {
    while let Ok(Some((ended, status))) = wait(WaitOptions::NOHANG) {
        if ended == program {
            return Some(status);
        }
    }
    None
}

/// Drops forbidden rights and executes the program; returns the reason if that fails.
fn become_it(
    args: &Confine,
    user: &User,
    owned: Option<Owned>,
    signals: &Signals,
    has_cards: bool,
) -> String {
    if let Err(why) = give_up(args, user, owned, has_cards) {
        return why;
    }
    // clap ensures that there is at least one word.
    let mut program = Command::new(&args.command[0]);
    program.args(&args.command[1..]).env_clear();
    program.env(
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    );
    for place in ["HOME", "TMPDIR", "XDG_RUNTIME_DIR"] {
        program.env(place, &args.folder);
    }
    match signals.unblock() {
        Ok(()) => program.exec().to_string(),
        Err(e) => e.to_string(),
    }
}

fn own_view_of_files(args: &Confine, cards: &[String]) -> io::Result<()> {
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )?;
    devices::mount_few(&args.folder, cards)?;
    mount_bind(&args.folder, &args.folder)?;
    if let Some(program) = &args.program {
        let place = args.folder.join("program");
        // The user owns the folder, so it may already contain anything.
        let _ = std::fs::remove_file(&place);
        File::create_new(&place)?;
        mount_bind(program, &place)?;
    }
    sys::read_only("/".as_ref(), true)?;
    sys::read_only(&args.folder, false)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    // The new /proc shows only the program's own processes.
    Ok(mount("proc", "/proc", "proc", flags, None)?)
}

fn give_up(
    args: &Confine,
    user: &User,
    owned: Option<Owned>,
    has_cards: bool,
) -> Result<(), String> {
    // vfio counts the memory that a card may reach as locked.
    let locked = if has_cards { args.memory } else { Some(0) };
    let bounds = [
        (Resource::Data, args.memory),
        // Address space for programs, for memory shared with others, and for unused stacks and heaps of threads.
        (
            Resource::As,
            args.memory
                .map(|bytes| bytes.saturating_add(EXTRA_ADDRESS_SPACE)),
        ),
        (Resource::Fsize, Some(FILE_BYTES_MAX)),
        (Resource::Nofile, Some(FILES_MAX)),
        (Resource::Nproc, Some(PROCESSES)),
        (Resource::Core, Some(0)),
        (Resource::Memlock, locked),
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
    user::no_more_rights()?;
    if let Some(Owned { users, .. }) = &owned {
        let entered = move_into_link_name_space(users.as_fd(), Some(LinkNameSpaceType::User));
        entered.map_err(|e| failed("enter the user namespace of its network")(e.into()))?;
    }
    user::become_with_ambient(user, owned.is_some())?;
    drop(owned);
    std::env::set_current_dir(&args.folder).map_err(failed("enter its folder"))?;
    seccomp::forbid()
}
