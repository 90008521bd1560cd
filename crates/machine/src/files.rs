//! Small files of `/sys` and `/proc`, below a root folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub(crate) struct Files {
    root: PathBuf,
}

impl Files {
    pub(crate) fn at(root: &Path) -> Files {
        Files {
            root: root.to_owned(),
        }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// A file's text without surrounding white space. `None` also if the kernel refuses to answer, as for the speed
    /// of an interface without one.
    pub(crate) fn read(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.path(path)).ok()?;
        Some(text.trim().to_owned())
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, path: &str) -> Option<T> {
        self.read(path)?.parse().ok()
    }

    /// The number in a file with hexadecimal text such as 0x8086.
    pub(crate) fn hex(&self, path: &str) -> Option<u32> {
        let text = self.read(path)?;
        u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    }

    /// Last part of a link's target: a driver's name, a group's number.
    pub(crate) fn link(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    /// Names in a folder, sorted.
    pub(crate) fn list(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(path)) else {
            return Vec::new();
        };
        let names = entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    pub(crate) fn write(&self, path: &str, text: &str) -> io::Result<()> {
        // The file must exist: creating one in /sys is useless, and would hide a test's mistake.
        fs::OpenOptions::new()
            .write(true)
            .truncate(cfg!(test))
            .open(self.path(path))
            .and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()))
    }
}
