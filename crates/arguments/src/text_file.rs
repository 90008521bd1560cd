//! Reads the files of configurations.
//!
//! A configuration names files, and its text may be unchecked. A name may refer to a device that never ends, or to a
//! pipe without a writer.

use rustix::fs::OFlags;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Error, Read, Result};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Maximum length of a file in bytes: enough for some million routes in text.
const LENGTH_MAX: u64 = 256 << 20;

/// Non-empty lines with their numbers, counted from 1. `#` starts a comment.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate();
    let bare = lines.map(|(i, l)| (i + 1, l.split('#').next().unwrap_or(l).trim()));
    bare.filter(|(_, line)| !line.is_empty())
}

/// Reads a file named on the command line, such as `/dev/stdin`.
///
/// # Errors
/// The file is too long, or cannot be read.
pub fn typed(path: &Path) -> Result<Vec<u8>> {
    through_copies(path, || all(File::open(path)?))
}

/// Reads a file that a configuration names. It must be a regular file.
///
/// # Errors
/// The file is not regular, is too long, or cannot be read.
pub fn named(path: &Path) -> Result<Vec<u8>> {
    through_copies(path, || regular(path))
}

fn regular(path: &Path) -> Result<Vec<u8>> {
    // Opening a named pipe would block until a writer opens it.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(Error::other("it is no regular file"));
    }
    all(file)
}

/// Like [`named`], for text.
///
/// # Errors
/// As [`named`], or the file is not UTF-8.
pub fn named_text(path: &Path) -> Result<String> {
    String::from_utf8(named(path)?).map_err(Error::other)
}

/// Files and their content.
pub type Copies = BTreeMap<PathBuf, Vec<u8>>;

/// Maximum length in bytes of a recorded file: longer ones, such as full tables of routes, are read again when
/// needed.
const RECORDED_MAX: usize = 16 << 20;

thread_local! {
    /// Copies that this thread reads in place of files.
    static IN_PLACE: RefCell<Copies> = RefCell::default();
    /// Files that this thread has read since [`record`], if it records them.
    static RECORD: RefCell<Option<Copies>> = RefCell::default();
}

/// Runs a job, and returns the files that it has read by this module on this thread.
pub fn recorded<R>(job: impl FnOnce() -> R) -> (R, Copies) {
    record();
    (job(), take_record())
}

/// Starts to record the files that this thread reads.
pub fn record() {
    RECORD.set(Some(Copies::new()));
}

/// Files that this thread has read since [`record`].
pub fn take_record() -> Copies {
    RECORD.take().unwrap_or_default()
}

/// Makes this thread read `copies` instead of files, until the next call.
pub fn read_in_place(copies: Copies) {
    IN_PLACE.set(copies);
}

/// Canonical path of a file, its key in [`Copies`].
pub fn name_in_copies(path: &Path) -> PathBuf {
    let absolute = || std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    std::fs::canonicalize(path).unwrap_or_else(|_| absolute())
}

fn through_copies(path: &Path, read: impl FnOnce() -> Result<Vec<u8>>) -> Result<Vec<u8>> {
    let records = RECORD.with_borrow(Option::is_some);
    if !records && IN_PLACE.with_borrow(Copies::is_empty) {
        return read();
    }
    let name = name_in_copies(path);
    let copy = IN_PLACE.with_borrow(|copies| copies.get(&name).cloned());
    let bytes = copy.map_or_else(read, Ok)?;
    if bytes.len() <= RECORDED_MAX {
        RECORD.with_borrow_mut(|record| {
            if let Some(record) = record {
                record.insert(name, bytes.clone());
            }
        });
    }
    Ok(bytes)
}

/// A file that an element's configuration names, with a hash of its content when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Path of the file.
    pub path: PathBuf,
    /// Hash of the content; `None` if it could not be read.
    pub content: Option<u64>,
}

impl Seen {
    /// State of a file now.
    pub fn read_now(path: &Path) -> Seen {
        Seen::with_content(path, named(path).ok().as_deref())
    }

    /// A file with this content.
    pub fn with_content(path: &Path, content: Option<&[u8]>) -> Seen {
        Seen {
            path: path.to_owned(),
            content: content.map(fingerprint),
        }
    }

    /// True if the file has changed since it was read.
    pub fn has_changed(&self) -> bool {
        Seen::read_now(&self.path) != *self
    }
}

/// FNV-1a of 64 bits. It is the same in every version of the program, since it is written to files. It does not
/// protect against forgery.
pub fn fingerprint(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

fn all(file: File) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(LENGTH_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LENGTH_MAX {
        return Err(Error::other(format!(
            "it is longer than {} MiB",
            LENGTH_MAX >> 20
        )));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::fs;

    #[test]
    fn fingerprints_are_those_of_fnv_1a() {
        // Test vectors of draft-eastlake-fnv.
        for (text, hash) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            assert_eq!(fingerprint(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn recorded_copies_are_read_in_place_of_files() {
        let file = std::env::temp_dir().join(format!("ashlar-copies-{}", std::process::id()));
        fs::write(&file, "old").expect("temporary files can be made");
        let (read, copies) = recorded(|| named_text(&file));
        assert_eq!(read.expect("it is text"), "old");
        assert_eq!(copies.len(), 1);
        fs::write(&file, "new").expect("it is ours");
        assert_eq!(named_text(&file).expect("it is text"), "new");
        read_in_place(copies);
        assert_eq!(typed(&file).expect("there is a copy"), b"old");
        // Recording the copies again gives the same copies.
        assert_eq!(
            recorded(|| named(&file))
                .1
                .into_values()
                .collect::<Vec<_>>(),
            [b"old"]
        );
        read_in_place(Copies::new());
        assert_eq!(named_text(&file).expect("it is text"), "new");
        fs::remove_file(file).expect("it is ours");
    }

    #[test]
    fn configurations_name_regular_files_of_bounded_length_only() {
        let folder = std::env::temp_dir().join(format!("ashlar-files-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("temporary files can be made");
        let file = |name: &str| folder.join(name);
        fs::write(file("text"), "Idle;").expect("the folder is ours");
        assert_eq!(named_text(&file("text")).expect("it is text"), "Idle;");
        fs::write(file("bytes"), b"\xff").expect("the folder is ours");
        assert!(named(&file("bytes")).is_ok() && named_text(&file("bytes")).is_err());
        // A sparse file takes no room on the disk, but would in memory.
        let long = File::create(file("long")).expect("the folder is ours");
        long.set_len(LENGTH_MAX + 1).expect("it has holes");
        mknodat(CWD, file("pipe"), FileType::Fifo, Mode::RUSR, 0).expect("the folder is ours");
        for (name, why) in [
            (file("long"), "longer than 256 MiB"),
            (file("pipe"), "no regular file"),
            ("/dev/zero".into(), "no regular file"),
            (folder.clone(), "no regular file"),
        ] {
            let said = named(&name).expect_err("it is refused").to_string();
            assert!(said.contains(why), "{}: {said}", name.display());
        }
        let said = typed(Path::new("/dev/zero")).expect_err("it never ends");
        assert!(said.to_string().contains("longer than 256 MiB"), "{said}");
        fs::remove_dir_all(&folder).expect("it is ours");
    }
}
