//! The devices of a confined program: those that any program expects, and the one that makes TAP interfaces. All
//! others, such as /dev/fuse, /dev/kvm and /dev/vsock, would expose more kernel code. /dev/zero is missing, too,
//! because shared mappings of it are memory that no limit covers.

use rustix::fs::{CWD, Mode, mkdirat, symlink};
use rustix::mount::{MountFlags, mount, mount_bind, mount_move};
use std::fs::File;
use std::io;
use std::path::Path;

const FEW: [&str; 5] = ["null", "full", "random", "urandom", "net/tun"];
const LINKS: [(&str, &str); 4] = [
    ("/proc/self/fd", "fd"),
    ("/proc/self/fd/0", "stdin"),
    ("/proc/self/fd/1", "stdout"),
    ("/proc/self/fd/2", "stderr"),
];

/// Replaces the machine's /dev by one with few devices, which is built at `aside` first. The mounts must be private.
pub(super) fn mount_few(aside: &Path) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount(
        "ashlar",
        aside,
        "tmpfs",
        flags,
        c"size=64k,nr_inodes=64,mode=0755",
    )?;
    mkdirat(CWD, aside.join("net"), Mode::from_raw_mode(0o755))?;
    for name in FEW {
        let (from, to) = (Path::new("/dev").join(name), aside.join(name));
        if from.exists() {
            File::create_new(&to)?;
            mount_bind(&from, &to)?;
        }
    }
    for (target, name) in LINKS {
        symlink(target, aside.join(name))?;
    }
    Ok(mount_move(aside, "/dev")?)
}
