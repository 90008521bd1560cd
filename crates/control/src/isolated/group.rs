//! Control group of an isolated router: a limit of memory and of processes for all of its processes, including kernel
//! memory that they use.
//!
//! The group is a child of this process's group, so that a limit of that group (`MemoryMax=` of systemd) covers it,
//! too. In cgroup 2, only groups without processes can have limited children: if this process's group contains other
//! processes, the parent is the root group.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Mount point of the control group hierarchy.
const MOUNT: &str = "/sys/fs/cgroup";
/// Maximum number of processes and threads in a group.
const PROCESSES_MAX: u32 = 512;

/// A control group, which is removed on drop.
pub(super) struct Group {
    folder: PathBuf,
}

impl Group {
    /// Creates the control group of a router, whose process has its files in `router_folder`. `memory` is in bytes.
    ///
    /// # Errors
    ///
    /// No group with a memory limit can be created; a message.
    pub(super) fn new(router_folder: &Path, router: &str, memory: u64) -> Result<Group, String> {
        let failed = |e: io::Error| format!("no control group can be made below {MOUNT}: {e}");
        let process = router_folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        let name = format!("ashlar-{process}-{router}");
        let own = fs::read_to_string("/proc/self/cgroup").map_err(failed)?;
        let group = |parent: &Path| -> io::Result<Group> {
            let folder = parent.join(&name);
            match fs::create_dir(&folder) {
                // A killed process may have left the group behind.
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                _ => {}
            }
            Ok(Group { folder })
        };
        if let Some(path) = own_path(&own, |kinds| kinds.split(',').any(|kind| kind == "memory")) {
            // In version 1 of control groups, each controller has its own hierarchy.
            let made = group(&below(&Path::new(MOUNT).join("memory"), path)).map_err(failed)?;
            made.bound("memory.limit_in_bytes", memory)
                .map_err(failed)?;
            // Some kernels lack swap accounting.
            let _ = made.bound("memory.memsw.limit_in_bytes", memory);
            return Ok(made);
        }
        let path = own_path(&own, str::is_empty).unwrap_or("/");
        let root = Path::new(MOUNT);
        let made = [below(root, path), root.to_owned()]
            .iter()
            .find_map(|parent| {
                let kinds = "+memory +pids";
                fs::write(parent.join("cgroup.subtree_control"), kinds).ok()?;
                group(parent).ok()
            });
        let made = made.ok_or_else(|| {
            format!("no control group with a bound of memory can be made below {MOUNT}")
        })?;
        made.bound("memory.max", memory).map_err(failed)?;
        made.bound("pids.max", PROCESSES_MAX.into())
            .map_err(failed)?;
        // Some kernels lack these controls.
        let _ = made.bound("memory.swap.max", 0);
        let _ = made.bound("memory.oom.group", 1);
        Ok(made)
    }

    fn bound(&self, file: &str, value: u64) -> io::Result<()> {
        fs::write(self.folder().join(file), value.to_string())
    }

    /// Folder of the group, through which processes join it.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Removal fails while processes are still ending; the router's next group then uses the same folder.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Path of this process's group in the hierarchy of some controllers.
fn own_path(own: &str, is_it: impl Fn(&str) -> bool) -> Option<&str> {
    own.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (kinds, path) = rest.split_once(':')?;
        is_it(kinds).then_some(path)
    })
}

fn below(mount: &Path, path: &str) -> PathBuf {
    mount.join(path.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_group_is_found_by_the_kind_of_its_tree() {
        let of = |own, kind: &str| own_path(own, |kinds| kinds.split(',').any(|k| k == kind));
        let both = "8:pids:/a\n4:cpu,memory:/b\n0::/c\n";
        assert_eq!(of(both, "memory"), Some("/b"));
        assert_eq!(of(both, ""), Some("/c"));
        assert_eq!(of("0::/system.slice/ashlar.service\n", "memory"), None);
        assert_eq!(below(Path::new("/x"), "/a/b"), PathBuf::from("/x/a/b"));
        assert_eq!(below(Path::new("/x"), "/"), PathBuf::from("/x/"));
    }
}
