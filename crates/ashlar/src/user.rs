//! `ashlar run --user` and `ashlar confine`: change of the user, with at most two capabilities.

mod sys;

use control::user::User;
use rustix::process::{getppid, parent_process_death_signal, set_parent_process_death_signal};
use rustix::thread::{
    CapabilitySet, CapabilitySets, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities, set_no_new_privs,
};
use std::io;

/// Capabilities for opening ports and querying the kernel, at the start and with every reload.
const KEPT_CAPABILITIES: CapabilitySet = CapabilitySet::NET_ADMIN.union(CapabilitySet::NET_RAW);

/// True if the process is this user already.
pub(crate) fn is_ours(user: &User) -> bool {
    rustix::process::geteuid().as_raw() == user.id
}

/// Prevents all threads started from now on, DPDK's among them, from gaining rights by running a program.
///
/// # Errors
/// The kernel refuses (`PR_SET_NO_NEW_PRIVS`); a sentence.
pub(crate) fn no_more_rights() -> Result<(), String> {
    set_no_new_privs(true).map_err(|e| format!("cannot renounce further rights: {e}"))
}

/// Makes the process run as this user permanently. Of root's rights, the calling thread and those that it starts from
/// now on keep CAP_NET_ADMIN and CAP_NET_RAW, as does the thread on which `also` runs its argument. Running threads
/// keep none, unless the process [is this user](is_ours): then call it before there are any.
///
/// # Errors
/// The process may not change its user, or lacks the capabilities; a sentence.
pub(crate) fn become_for_good(
    user: &User,
    also: impl Fn(fn() -> io::Result<()>) -> io::Result<()>,
) -> Result<(), String> {
    let wrong = |e: io::Error| {
        format!(
            "cannot give rights up to another user: {e}; run as root, or as that user with CAP_NET_ADMIN and \
                CAP_NET_RAW"
        )
    };
    let before = || Ok(set_keep_capabilities(true)?);
    before().and_then(|()| also(before)).map_err(wrong)?;
    if !is_ours(user) {
        // The kernel clears the death signal with the change of user (prctl(2)): a router would outlive its keeper.
        let (parent, signal) = (getppid(), parent_process_death_signal());
        let signal = signal.map_err(|e| wrong(e.into()))?;
        sys::change(user.id, user.group, &user.groups).map_err(wrong)?;
        set_parent_process_death_signal(signal).map_err(|e| wrong(e.into()))?;
        if signal.is_some() && getppid() != parent {
            return Err("the keeper has ended".to_owned());
        }
    }
    let keep = || set_capability_sets(KEPT_CAPABILITIES, CapabilitySet::empty());
    keep().and_then(|()| also(keep)).map_err(wrong)
}

/// Makes the process, and any program that it executes, run as this user permanently. The process loses root's rights,
/// except for these two if it `has_network` of its own. The process must have one thread.
///
/// # Errors
/// The process may not change its user, or lacks the capabilities; a sentence.
pub(crate) fn become_with_ambient(user: &User, has_network: bool) -> Result<(), String> {
    let kept = match has_network {
        true => KEPT_CAPABILITIES,
        false => CapabilitySet::empty(),
    };
    let change = || -> io::Result<()> {
        for one in CapabilitySet::all().difference(kept).iter() {
            match remove_capability_from_bounding_set(one) {
                // An older kernel has fewer capabilities.
                Ok(()) | Err(rustix::io::Errno::INVAL) => {}
                Err(e) => return Err(e.into()),
            }
        }
        set_keep_capabilities(true)?;
        sys::change(user.id, user.group, &user.groups)?;
        set_capability_sets(kept, kept)?;
        for one in kept.iter() {
            configure_capability_in_ambient_set(one, true)?;
        }
        Ok(())
    };
    change().map_err(|e| format!("cannot become user {}: {e}", user.id))
}

/// Runs `make` as this user with the right to make namespaces, and stays this user. The process must have one thread.
pub(crate) fn own_by(user: &User, make: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    set_keep_capabilities(true)?;
    sys::change(user.id, user.group, &user.groups)?;
    set_capability_sets(CapabilitySet::SYS_ADMIN, CapabilitySet::empty())?;
    make()
}

/// Drops all capabilities of this process except CAP_KILL; the process keeps running as root. The error is a sentence.
pub(crate) fn keep_kill_only() -> Result<(), String> {
    set_capability_sets(CapabilitySet::KILL, CapabilitySet::empty())
        .map_err(|e| format!("cannot renounce rights: {e}"))
}

/// Sets the capabilities that this thread keeps, and those that its programs inherit.
fn set_capability_sets(kept: CapabilitySet, inheritable: CapabilitySet) -> io::Result<()> {
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable,
    };
    Ok(set_capabilities(None, sets)?)
}
