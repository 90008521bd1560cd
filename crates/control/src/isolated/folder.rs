//! Files of an isolated router's process: its folder, its graph, its definitions; and the command that starts it.

use super::group::Group;
use super::remote::RemoteAddress;
use crate::compile::gate::{Isolated, SharedMemoryLink};
use crate::description::source::saved_file;
use crate::host::namespace::path_of;
use crate::host::user::User;
use rustix::fs::Gid;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::CString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Size limit of a router's folder, in bytes, and its maximum number of files.
const ROOM: u32 = 16 << 20;
const FILES: u32 = 1024;

impl Isolated {
    /// Folder of all isolated routers of this process.
    pub(super) fn all(&self) -> &Path {
        self.folder.parent().unwrap_or(Path::new("/"))
    }

    /// Number of the router's workers.
    pub(super) fn workers(&self) -> usize {
        self.isolation.workers.into()
    }

    /// Address of the router's control socket.
    pub(super) fn remote_address(&self) -> RemoteAddress {
        RemoteAddress {
            socket: self.folder.join("control.sock"),
            user: self.user.id,
        }
    }

    /// True if the process started for this router can run `other` after a reload of its file.
    pub(super) fn starts_like(&self, other: &Isolated) -> bool {
        self.user == other.user
            && self.program_args(None) == other.program_args(None)
            && self.source.definitions == other.source.definitions
    }

    /// Control group for all processes of the router.
    pub(super) fn group(&self) -> Result<Group, String> {
        Group::new(self.all(), &self.name, self.isolation.memory)
    }

    /// Command-line arguments of the router's process in a control group, after the program's name.
    pub(super) fn program_args(&self, group: Option<&Path>) -> Vec<String> {
        let (program, inside) = (program(), self.folder.join("program").display().to_string());
        let mut words: Vec<String> = Vec::new();
        let mut add = |all: &[&str]| words.extend(all.iter().map(|&word| word.to_owned()));
        let memory = self.isolation.memory.to_string();
        let folder = self.folder.display().to_string();
        add(&[
            "confine",
            "--user",
            &self.user_name,
            "--folder",
            &folder,
            "--memory",
            &memory,
            "--program",
            &program,
        ]);
        if let Some(netns) = &self.netns {
            add(&["--netns", &path_of(netns).display().to_string()]);
        }
        if let Some(cores) = &self.isolation.cores {
            add(&["--cores", cores]);
        }
        if let Some(group) = group {
            add(&["--cgroup", &group.display().to_string()]);
        }
        let graph = self.graph.display().to_string();
        let socket = self.remote_address().socket.display().to_string();
        let workers = self.isolation.workers.to_string();
        add(&["--", &inside, "keep", "--", &inside, "run", &graph]);
        add(&[
            "--name",
            &self.name,
            "--socket",
            &socket,
            "--workers",
            &workers,
        ]);
        for SharedMemoryLink { name, inside, .. } in &self.links {
            add(&["--port", &format!("{name}={inside}")]);
        }
        add(&[
            "--definitions-from",
            &self.definitions.display().to_string(),
        ]);
        words
    }

    /// File with the router's saved settings (`ashlar save`), next to the original graph.
    pub(super) fn saved(&self) -> Option<PathBuf> {
        let path = self.source.path.as_deref()?;
        Some(saved_file(path, Some(&self.name)))
    }

    /// Copies saved settings for the router's process. This process does not interpret them.
    pub(super) fn bring_saved(&self) -> Result<(), String> {
        let (Some(from), to) = (self.saved(), saved_file(&self.graph, None)) else {
            return Ok(());
        };
        match fs::read(&from) {
            Ok(text) => self.write_for_group(&to, &text),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let _ = fs::remove_file(&to);
                Ok(())
            }
            Err(e) => Err(format!("cannot read {}: {e}", from.display())),
        }
    }

    /// Writes the graph where the router's process reads it.
    ///
    /// # Errors
    ///
    /// The file cannot be written; a message.
    pub(super) fn write(&self) -> Result<(), String> {
        let mut all = DirBuilder::new();
        all.recursive(true)
            .mode(0o711)
            .create(self.all())
            .map_err(|e| format!("cannot make {}: {e}", self.all().display()))?;
        self.write_for_group(&self.graph, self.source.text.as_bytes())?;
        let definitions = serde_json::to_vec(&self.source.definitions).unwrap_or_default();
        self.write_for_group(&self.definitions, &definitions)
    }

    /// Writes a file that only root can change and only the router's group can read. Concurrent readers see the old
    /// file.
    ///
    /// # Errors
    ///
    /// The file cannot be written; a message.
    fn write_for_group(&self, path: &Path, bytes: &[u8]) -> Result<(), String> {
        let mut fresh = path.as_os_str().to_owned();
        fresh.push(".new");
        let fresh = PathBuf::from(fresh);
        let _ = fs::remove_file(&fresh);
        let write = || {
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o640)
                .open(&fresh)?;
            rustix::fs::fchown(&file, None, Some(Gid::from_raw(self.user.group)))?;
            file.write_all(bytes)?;
            fs::rename(&fresh, path)
        };
        write().map_err(|e| format!("cannot write {}: {e}", path.display()))
    }

    /// Creates the router's folder as a separate file system, which only the router's user can enter. The file system
    /// bounds the size of all files in it.
    ///
    /// # Errors
    ///
    /// The folder cannot be created or mounted; a message.
    pub(super) fn make_folder(&self) -> Result<(), String> {
        let User { id, group, .. } = &self.user;
        let options = format!("size={ROOM},nr_inodes={FILES},mode=0700,uid={id},gid={group}");
        let options = CString::new(options).unwrap_or_default();
        let make = || -> io::Result<()> {
            self.remove_folder()?;
            DirBuilder::new().mode(0o700).create(&self.folder)?;
            let flags = MountFlags::NOSUID | MountFlags::NODEV;
            Ok(mount("ashlar", &self.folder, "tmpfs", flags, &*options)?)
        };
        make().map_err(|e| format!("cannot make the folder {}: {e}", self.folder.display()))
    }

    /// Removes the router's folder if it exists, perhaps after a process was killed.
    fn remove_folder(&self) -> io::Result<()> {
        // The folder need not be a mount point.
        let _ = unmount(&self.folder, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        match fs::remove_dir_all(&self.folder) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// Removes the files of the router's process.
    pub(super) fn clean(&self) {
        let _ = self.remove_folder();
        let _ = fs::remove_file(&self.graph);
        let _ = fs::remove_file(&self.definitions);
        let _ = fs::remove_file(saved_file(&self.graph, None));
        // The common folder is removed with the last router.
        let _ = fs::remove_dir(self.all());
    }
}

/// Path of this program's file.
pub(super) fn program() -> String {
    let path = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("ashlar"));
    let path = path.display().to_string();
    // After an upgrade, a new file has the path of the deleted one.
    path.trim_end_matches(" (deleted)").to_owned()
}
