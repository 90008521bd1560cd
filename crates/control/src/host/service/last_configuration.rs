//! The last running configuration. The service manager stores its files in memory, so that after a crash the router
//! runs even if the files on disk have errors meanwhile. The copies are dropped when the service is stopped, so a
//! manual start reads the files on disk.

use super::{NOT_RETURNED, notify, remove_stored};
use arguments::text_file::Copies;
use rustix::fs::{MemfdFlags, memfd_create};
use sd_notify::NotifyState;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use sync::Lock;
use tracing::warn;

/// Name of the descriptor in the service manager's store. No interface has such a name.
const LAST_NAME: &str = "/last";
/// Maximum total length of the stored files, in bytes.
const BYTES_MAX: usize = 64 << 20;

/// Configuration files in the service manager's store.
static FILES: Lock<Copies> = Lock::new(Copies::new());
/// Name of the erroneous configuration that the stored one replaces; empty if none is replaced.
static REPLACED_NAME: Lock<String> = Lock::new(String::new());

/// Configuration files of the last good configuration, if the service manager has stored them.
pub fn last_configuration() -> Option<Copies> {
    let mut kept = NOT_RETURNED.lock();
    let kept = kept.get_or_insert_with(super::take);
    let mut file = File::from(kept.remove(LAST_NAME)?.pop()?);
    let mut bytes = Vec::new();
    let read = file.seek(SeekFrom::Start(0));
    let read = read.and_then(|_| file.read_to_end(&mut bytes));
    read.ok().and_then(|_| read_copies(&bytes))
}

/// Records that the router runs the last good configuration, because `name` has errors.
pub fn runs_the_last(name: &str) {
    let status = format!(
        "runs the configuration that ran before: {name} has mistakes; mend it, then `ashlar reload`"
    );
    // The log is not open yet.
    crate::host::log::write(&format!("warning: the router {status}\n"));
    *REPLACED_NAME.lock() = status;
}

/// Status text for the service manager; empty if nothing is unusual.
pub(super) fn status() -> String {
    REPLACED_NAME.lock().clone()
}

/// Stores the files of a configuration that a reload has applied.
pub(crate) fn reloaded(read: Copies) {
    REPLACED_NAME.lock().clear();
    notify(&[NotifyState::Status("")]);
    keep_configuration(read);
}

/// Stores the files of the running configuration.
pub fn keep_configuration(read: Copies) {
    if std::env::var_os("NOTIFY_SOCKET").is_none() || read.is_empty() {
        return;
    }
    let mut files = FILES.lock();
    files.extend(read);
    if files.values().map(Vec::len).sum::<usize>() > BYTES_MAX {
        files.clear();
        return remove_stored(LAST_NAME);
    }
    let bytes = write_copies(&files);
    let made =
        memfd_create("ashlar-configuration", MemfdFlags::CLOEXEC).map_err(std::io::Error::from);
    let made = made
        .map(File::from)
        .and_then(|mut file| file.write_all(&bytes).map(|()| file));
    remove_stored(LAST_NAME);
    let kept = made.and_then(|file| {
        let what = [NotifyState::FdStore, NotifyState::FdName(LAST_NAME)];
        sd_notify::notify_with_fds(&what, &[file.as_fd()])
    });
    if let Err(why) = kept {
        warn!("the service manager cannot keep the configuration: {why}");
    }
}

/// Encodes for each file the length of its name, the name, the length of its content, and the content.
fn write_copies(files: &Copies) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, content) in files {
        for part in [name.as_os_str().as_bytes(), content] {
            bytes.extend((part.len() as u64).to_le_bytes());
            bytes.extend(part);
        }
    }
    bytes
}

fn read_copies(mut bytes: &[u8]) -> Option<Copies> {
    let mut part = || {
        let (len, rest) = bytes.split_first_chunk::<8>()?;
        let (part, rest) =
            rest.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)?;
        bytes = rest;
        Some(part.to_vec())
    };
    let mut files = Copies::new();
    while let Some(name) = part() {
        let name = PathBuf::from(std::ffi::OsString::from_vec(name));
        files.insert(name, part()?);
    }
    (!files.is_empty()).then_some(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_they_were_written() {
        let files: Copies = [
            ("/etc/a.click", &b"Idle;"[..]),
            ("/etc/rules", b""),
            ("/r\u{e9}", b"\0\n"),
        ]
        .into_iter()
        .map(|(name, content)| (PathBuf::from(name), content.to_vec()))
        .collect();
        let bytes = write_copies(&files);
        assert_eq!(read_copies(&bytes), Some(files));
        // A truncated text is refused, or has whole files only.
        for len in 0..bytes.len() {
            let _ = read_copies(&bytes[..len]);
        }
        assert_eq!(read_copies(b""), None);
        assert_eq!(read_copies(&[0xff; 40]), None);
    }
}
