//! Exclusive use of a device by one program.
//!
//! Linux gives the frames of an interface to every program that asks for them: two routers on one interface forward
//! each frame twice, and neither notices. So a program that opens an interface claims it: it listens at an abstract
//! UNIX address that is named after the interface. Such addresses belong to a network namespace, as interfaces do, and
//! the kernel frees them when the process ends, however it ends.

use crate::{sys, unix_diag};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::io::ErrorKind;
use std::num::NonZeroU32;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process;

/// The right to receive frames of an interface (capabilities(7)).
const CAP_NET_RAW: u64 = 1 << 13;

/// Held as long as the device is open.
pub(crate) struct Claim {
    /// Accepts no connections: a program that connects learns from the kernel which process listens.
    _listener: UnixListener,
}

fn name_of(device: &str) -> String {
    format!("ashlar/device/{device}")
}

/// Result of a claim.
pub(crate) enum ClaimResult {
    /// This process has the device until the claim is dropped.
    Granted(Claim),
    /// This process has claimed the device before.
    AlreadyClaimed,
    /// A program without the right to open the device has claimed it, so the device may be opened. A text for people.
    ClaimedWithoutRight(String),
}

/// Claims a device of the calling thread's network namespace.
///
/// # Errors
/// A sentence: another program has it.
pub(crate) fn device(device: &str) -> Result<ClaimResult, String> {
    let name = name_of(device);
    let address = SocketAddr::from_abstract_name(&name);
    let listener = match address.and_then(|address| UnixListener::bind_addr(&address)) {
        Ok(listener) => listener,
        Err(e) if e.kind() == ErrorKind::AddrInUse => {
            let holder = holder(&name);
            return match holder {
                Some(holder) if holder.is_this() => Ok(ClaimResult::AlreadyClaimed),
                Some(holder) if holder.may_have_devices() => Err(format!(
                    "{} has {device}, and each would get all of its frames: end that one, or have both by \
                     --share-devices",
                    holder.describe()
                )),
                _ => Ok(ClaimResult::ClaimedWithoutRight(format!(
                    "{device}: a program that has no right to open it has claimed it; another router on it would not \
                     be noticed"
                ))),
            };
        }
        Err(e) => return Err(format!("cannot claim {device}: {e}")),
    };
    Ok(ClaimResult::Granted(Claim {
        _listener: listener,
    }))
}

/// The router that has claimed a Linux interface of the calling thread's network namespace, in words. TAP interfaces
/// that routers make are claimed as `tap:NAME`.
pub fn user_of(device: &str) -> Option<String> {
    let holder = holder(&name_of(device))?;
    Some(holder.describe())
}

/// Process and user that listen at an abstract address.
fn holder(name: &str) -> Option<Holder> {
    if let Some((pid, user)) = connected(name) {
        let pid = NonZeroU32::new(pid);
        return Some(Holder { pid, user });
    }
    // The queue is full: no process accepts connections, and any program may fill it.
    let owner = unix_diag::owner(name)?;
    let pid = process_of(&format!("socket:[{}]", owner.inode));
    Some(Holder {
        pid,
        user: owner.user,
    })
}

/// Process and user at the other end of a connection to an abstract address.
fn connected(name: &str) -> Option<(u32, u32)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
    connect(
        &socket,
        &SocketAddrUnix::new_abstract_name(name.as_bytes()).ok()?,
    )
    .ok()?;
    sys::peer(&socket).ok()
}

/// The process that has a file open, if this one may see that.
fn process_of(file: &str) -> Option<NonZeroU32> {
    let processes = std::fs::read_dir("/proc").ok()?;
    let numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let has = |pid: &NonZeroU32| {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd"));
        let mut links = files.into_iter().flatten().flatten();
        links.any(|link| std::fs::read_link(link.path()).is_ok_and(|to| to.as_os_str() == file))
    };
    numbers.into_iter().find(has)
}

/// A process; without a number where this one cannot see it, as in another PID namespace.
struct Holder {
    pid: Option<NonZeroU32>,
    user: u32,
}

impl Holder {
    fn is_this(&self) -> bool {
        self.pid.is_some_and(|pid| pid.get() == process::id())
    }

    /// True if the process may have opened a device; other processes can be ignored.
    fn may_have_devices(&self) -> bool {
        if self.user == 0 || self.user == rustix::process::geteuid().as_raw() {
            return true;
        }
        // In its own user namespace a process has all capabilities.
        let Some(pid) = self.pid else {
            return false;
        };
        let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/user")).ok();
        let theirs = of(&pid.to_string());
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
        let status = status.unwrap_or_default();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        // A program with its owner's rights (su) has not got them from the listening user.
        let user = self.user.to_string();
        let same = |ids: &str| ids.split_whitespace().all(|id| id == user);
        if !field("Uid:").is_some_and(same) {
            return false;
        }
        let rights = field("CapEff:");
        let rights = rights.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
        theirs.is_some() && theirs == of("self") && rights.is_some_and(|r| r & CAP_NET_RAW != 0)
    }

    fn describe(&self) -> String {
        let Some(pid) = self.pid else {
            return format!("a process of user {} that this one cannot see", self.user);
        };
        let program = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        let program = program.unwrap_or_default();
        format!("process {pid} ({})", program.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_is_claimed_once_until_the_claim_is_dropped() {
        let own = format!("test-{}", process::id());
        let first = device(&own).expect("nobody has it");
        assert!(matches!(first, ClaimResult::Granted(_)));
        let holder = holder(&name_of(&own)).expect("it listens");
        assert!(holder.is_this());
        assert!(user_of(&own).is_some_and(|words| words.contains(&process::id().to_string())));
        // Use by this process is detected by other means.
        assert!(matches!(device(&own), Ok(ClaimResult::AlreadyClaimed)));
        drop(first);
        assert!(matches!(device(&own), Ok(ClaimResult::Granted(_))));
    }

    #[test]
    fn a_full_queue_does_not_hide_the_owner_of_a_device() {
        let own = format!("test-full-{}", process::id());
        let _claim = device(&own).expect("nobody has it");
        let name = SocketAddrUnix::new_abstract_name(name_of(&own).as_bytes()).expect("short");
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let connections = std::iter::from_fn(|| {
            let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
            let socket = socket.expect("there are descriptors");
            connect(&socket, &name).ok().map(|()| socket)
        });
        let _all: Vec<_> = connections.take(100_000).collect();
        assert_eq!(connected(&name_of(&own)), None, "the queue is full");
        assert!(matches!(device(&own), Ok(ClaimResult::AlreadyClaimed)));
    }

    #[test]
    fn processes_that_cannot_open_a_device_are_ignored() {
        let may = |pid, user| {
            let pid = NonZeroU32::new(pid);
            Holder { pid, user }.may_have_devices()
        };
        let us = rustix::process::geteuid().as_raw();
        assert!(may(0, 0) && may(process::id(), us));
        assert!(!may(0, us + 1), "nobody knows what it may");
        assert!(!may(u32::MAX, us + 1), "it has ended");
    }
}
