//! The network namespace of an isolated router, which a user namespace of its own must own.
//!
//! CAP_NET_ADMIN in the machine's own user namespace counts in every network that belongs to that: by netlink a process
//! reaches interfaces of another namespace without entering it (RTM_NEWNSID, IFLA_TARGET_NETNSID). In a user namespace
//! of its own the right counts for the networks of that one only.

mod sys;

use super::user::User;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// File of a network namespace: `name` is a path, or a name known to `ip netns`.
pub fn path_of(name: &str) -> PathBuf {
    match name.contains('/') {
        true => PathBuf::from(name),
        false => PathBuf::from("/run/netns").join(name),
    }
}

/// A network namespace and the user namespace that owns it.
pub struct Owned {
    /// The network namespace.
    pub network: OwnedFd,
    /// The user namespace, a child of this process's user namespace.
    pub users: OwnedFd,
}

impl Owned {
    /// Opens a network namespace that belongs to a user.
    ///
    /// # Errors
    ///
    /// The namespace does not exist, or the user's rights in it would extend beyond it; a message.
    pub fn open(path: &Path, user: &User) -> Result<Owned, String> {
        let shown = path.display();
        let failed = |e: io::Error| format!("cannot use network namespace {shown}: {e}");
        let network = File::open(path).map_err(failed)?;
        let users = sys::user_namespace(network.as_fd()).map_err(failed)?;
        let id = |file: &File| file.metadata().map(|seen| (seen.dev(), seen.ino()));
        let users = File::from(users);
        let own = File::open("/proc/self/ns/user").map_err(failed)?;
        let own = id(&own).map_err(failed)?;
        if id(&users).map_err(failed)? == own {
            return Err(format!(
                "network namespace {shown} belongs to the machine: rights in it would count in all others. Make one \
                    for the router's user: `ip netns delete NAME`, `ashlar netns NAME --user USER`"
            ));
        }
        let parent = sys::parent(users.as_fd()).map_err(failed)?;
        let owner = sys::owner(users.as_fd()).map_err(failed)?;
        if id(&File::from(parent)).map_err(failed)? != own || owner != user.id {
            return Err(format!(
                "network namespace {shown} belongs to user {owner}, not to user {}: make another with `ashlar netns`",
                user.id
            ));
        }
        Ok(Owned {
            network: network.into(),
            users: users.into(),
        })
    }
}
