//! `ashlar run --user`: another user's rights, and of root's only two.

mod sys;

use rustix::process::{getppid, parent_process_death_signal, set_parent_process_death_signal};
use rustix::thread::{
    CapabilitySet, CapabilitySets, set_capabilities, set_keep_capabilities, set_no_new_privs,
};
use std::fs::read_to_string;
use std::io;

/// What opening ports and asking the kernel takes, at the start and with every reload.
const KEPT: CapabilitySet = CapabilitySet::NET_ADMIN.union(CapabilitySet::NET_RAW);

/// A user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    id: u32,
    group: u32,
    /// Further groups.
    groups: Vec<u32>,
}

impl User {
    /// A user by its name in /etc/passwd. The error is a sentence.
    pub(crate) fn named(name: &str) -> Result<User, String> {
        let read = |path| read_to_string(path).map_err(|e| format!("cannot read {path}: {e}"));
        User::of(name, &read("/etc/passwd")?, &read("/etc/group")?).ok_or_else(|| {
            format!(
                "there is no user {name} in /etc/passwd: make one with `useradd --system {name}`"
            )
        })
    }

    /// As passwd(5) and group(5) have it.
    fn of(name: &str, users: &str, groups: &str) -> Option<User> {
        let mut lines = users.lines().map(|line| line.split(':'));
        let mut fields = lines.find_map(|mut f| (f.next() == Some(name)).then_some(f))?;
        let mut number = |skip: usize| fields.nth(skip)?.parse().ok();
        let (id, group) = (number(1)?, number(0)?);
        let member = |line: &str| {
            let mut fields = line.split(':').skip(2);
            let (id, members) = (fields.next()?, fields.next()?);
            members
                .split(',')
                .any(|m| m == name)
                .then(|| id.parse().ok())?
        };
        let groups = groups.lines().filter_map(member).collect();
        Some(User { id, group, groups })
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Whether the process is this user already.
    pub(crate) fn is_ours(&self) -> bool {
        rustix::process::geteuid().as_raw() == self.id
    }

    /// Has no thread that the process starts from now on, DPDK's among them, gain rights by running a program.
    /// The error is a sentence.
    pub(crate) fn no_more_rights() -> Result<(), String> {
        set_no_new_privs(true).map_err(|e| format!("cannot renounce further rights: {e}"))
    }

    /// Has the process be this user for good. Of root's rights the calling thread and those that it starts
    /// from now on keep CAP_NET_ADMIN and CAP_NET_RAW, as does the one that `also` runs its argument on;
    /// threads that run already keep none,
    /// unless the process [is this user](Self::is_ours): then call it before there are any. The error is a
    /// sentence.
    pub(crate) fn become_for_good(
        &self,
        also: impl Fn(fn() -> io::Result<()>) -> io::Result<()>,
    ) -> Result<(), String> {
        let wrong = |e: io::Error| {
            format!(
                "cannot give rights up to another user: {e}; run as root, or as that user with CAP_NET_ADMIN and CAP_NET_RAW"
            )
        };
        let before = || Ok(set_keep_capabilities(true)?);
        before().and_then(|()| also(before)).map_err(wrong)?;
        if !self.is_ours() {
            // The kernel forgets it with the user (prctl(2)): a router would outlive its keeper.
            let (parent, signal) = (getppid(), parent_process_death_signal());
            let signal = signal.map_err(|e| wrong(e.into()))?;
            sys::change(self.id, self.group, &self.groups).map_err(wrong)?;
            set_parent_process_death_signal(signal).map_err(|e| wrong(e.into()))?;
            if signal.is_some() && getppid() != parent {
                return Err("the keeper has ended".to_owned());
            }
        }
        confine().and_then(|()| also(confine)).map_err(wrong)
    }
}

/// Leaves this thread what is kept.
fn confine() -> io::Result<()> {
    let sets = CapabilitySets {
        effective: KEPT,
        permitted: KEPT,
        inheritable: CapabilitySet::empty(),
    };
    Ok(set_capabilities(None, sets)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "root:x:0:0:root:/root:/bin/bash\nrouter:x:990:980::/:/usr/sbin/nologin\n";
    const GROUPS: &str = "root:x:0:\nrouter:x:980:\nvfio:x:970:other,router\nkvm:x:960:routers\n";

    #[test]
    fn a_user_has_the_groups_that_name_it() {
        let (id, group, groups) = (990, 980, vec![970]);
        assert_eq!(
            User::of("router", USERS, GROUPS),
            Some(User { id, group, groups })
        );
        assert_eq!(User::of("route", USERS, GROUPS), None);
        assert_eq!(User::of("", USERS, GROUPS), None);
        assert_eq!(User::of("broken", "broken:x:1\n", GROUPS), None);
    }
}
