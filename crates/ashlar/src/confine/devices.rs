//! The devices in a confined program's /dev: those that every program expects, /dev/net/tun for TAP interfaces, and the
//! cards of the program's user. All others, such as /dev/fuse, /dev/kvm and /dev/vsock, would expose more kernel code.
//! /dev/zero is missing, too, because shared mappings of it are memory that no limit covers.

use rustix::fs::{CWD, Mode, mkdirat, symlink};
use rustix::mount::{MountFlags, mount, mount_bind, mount_move};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const FEW: [&str; 5] = ["null", "full", "random", "urandom", "net/tun"];
const LINKS: [(&str, &str); 4] = [
    ("/proc/self/fd", "fd"),
    ("/proc/self/fd/0", "stdin"),
    ("/proc/self/fd/1", "stdout"),
    ("/proc/self/fd/2", "stderr"),
];

/// Names, below /dev, of the files by which the user may open cards: the IOMMU groups whose files the user owns, and
/// vfio's own file. Empty if the user has no card.
pub(super) fn cards_of(user: u32) -> io::Result<Vec<String>> {
    let groups = match std::fs::read_dir("/dev/vfio") {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        groups => groups?,
    };
    let mut found = Vec::new();
    for group in groups {
        let group = group?;
        if let Some(name) = group.file_name().to_str()
            // Without an IOMMU (`noiommu-5`) a card reaches all memory of the machine.
            && name.bytes().all(|b| b.is_ascii_digit())
            && group.metadata()?.uid() == user
        {
            found.push(format!("vfio/{name}"));
        }
    }
    if !found.is_empty() {
        found.push("vfio/vfio".to_owned());
    }
    Ok(found)
}

/// Replaces /dev by one with the standard devices and `cards`, which is built at `aside` first. Mount propagation must
/// be private.
pub(super) fn mount_few(aside: &Path, cards: &[String]) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount(
        "ashlar",
        aside,
        "tmpfs",
        flags,
        c"size=64k,nr_inodes=64,mode=0755",
    )?;
    for folder in ["net", "vfio"] {
        mkdirat(CWD, aside.join(folder), Mode::from_raw_mode(0o755))?;
    }
    for name in FEW.into_iter().chain(cards.iter().map(String::as_str)) {
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
