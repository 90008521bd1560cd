//! `ashlar netns`: creates a network namespace in which one user has capabilities, and only there.

use super::sys;
use crate::cli::Netns;
use crate::user;
use control::namespace::{Owned, path_of};
use control::user::User;
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use rustix::thread::UnshareFlags;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

/// Creates the network namespace. The error is a sentence.
pub(crate) fn make(args: &Netns) -> Result<(), String> {
    let Netns { name, user } = args;
    let user = User::named(user)?;
    if user.id == 0 {
        return Err("root's rights count everywhere: name another --user".to_owned());
    }
    // iproute2 creates the name, in a folder that is visible in other mount namespaces.
    ip("add", name)?;
    let made = fill(&path_of(name), &user);
    made.inspect_err(|_| _ = ip("delete", name))
        .map_err(|why| format!("cannot make network namespace {name}: {why}"))
}

fn ip(verb: &str, name: &str) -> Result<(), String> {
    match machine::program("ip").args(["netns", verb, name]).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(format!("`ip netns {verb} {name}` has failed")),
        Err(e) => Err(format!("cannot run `ip`: {e}")),
    }
}

/// Binds a name to a new network namespace of a new user namespace, which maps this user and its groups.
fn fill(path: &Path, user: &User) -> Result<(), String> {
    let failed = |e: io::Error| e.to_string();
    let [ready, tell] = sys::pipe().map_err(failed)?;
    let holder = sys::fork().map_err(failed)?;
    let Some(holder) = holder else {
        drop(ready);
        // If the child fails, it exits, and the parent sees the end of the pipe.
        let apart = UnshareFlags::NEWUSER | UnshareFlags::NEWNET;
        let made = user::own_by(user, || sys::unshare(apart));
        if made.is_ok() && rustix::io::write(&tell, b"x").is_ok() {
            loop {
                std::thread::park();
            }
        }
        std::process::exit(1);
    };
    drop(tell);
    let done = || {
        let told = rustix::io::read(&ready, &mut [0; 1]);
        if !matches!(told, Ok(1)) {
            return Err(
                "there is no user namespace to be had: see sysctl user.max_user_namespaces"
                    .to_owned(),
            );
        }
        give_names(holder, user, path).map_err(failed)
    };
    let done = done();
    let _ = kill_process(holder, Signal::KILL);
    let _ = waitpid(Some(holder), WaitOptions::empty());
    done?;
    Owned::open(path, user).map(drop)
}

fn give_names(holder: Pid, user: &User, path: &Path) -> io::Result<()> {
    let of = |what: &str| format!("/proc/{}/{what}", holder.as_raw_pid());
    std::fs::write(of("uid_map"), format!("{0} {0} 1\n", user.id))?;
    let mut groups = user.groups.clone();
    groups.push(user.group);
    groups.sort_unstable();
    groups.dedup();
    let mut map = String::new();
    for group in groups {
        let _ = writeln!(map, "{group} {group} 1");
    }
    std::fs::write(of("gid_map"), map)?;
    unmount(path, UnmountFlags::DETACH)?;
    Ok(mount_bind(of("ns/net"), path)?)
}
