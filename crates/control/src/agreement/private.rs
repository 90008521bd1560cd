//! Files that only their owner may read, replaced as a whole.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;

/// Makes a folder that only its owner may enter, unless there is one. The error is a sentence.
pub(super) fn folder(path: &Path) -> Result<(), String> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|e| format!("cannot make {}: {e}", path.display()))
}

/// Writes a file of mode 0600 that the folder's owner has, or leaves the old one unchanged. The file survives a power
/// cut. The error is a sentence.
pub(super) fn write(path: &Path, contents: &[u8]) -> Result<(), String> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(format!(".{}", std::process::id()));
    let fresh = Path::new(&fresh);
    let written = replace(path, fresh, contents);
    if written.is_err() {
        let _ = fs::remove_file(fresh);
    }
    written.map_err(|e| format!("cannot write {}: {e}", path.display()))
}

fn replace(path: &Path, fresh: &Path, contents: &[u8]) -> std::io::Result<()> {
    // A file that an ended process of this number has left, or that somebody has put there.
    let _ = fs::remove_file(fresh);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(fresh)?;
    // Root writes for the user who has the folder.
    let folder = fs::metadata(path.parent().unwrap_or(Path::new(".")))?;
    if folder.uid() != file.metadata()?.uid() {
        fchown(&file, Some(folder.uid()), Some(folder.gid()))?;
    }
    file.write_all(contents)?;
    file.sync_all()?;
    fs::rename(fresh, path)?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_only_its_owner_reads_it() {
        let folder = std::env::temp_dir().join(format!("ashlar-private-{}", std::process::id()));
        super::folder(&folder).unwrap();
        let path = folder.join("kept.json");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&folder)), (0o600, 0o700));
        // No temporary file is left, even after a failure.
        fs::create_dir(folder.join("taken")).unwrap();
        assert!(write(&folder.join("taken"), b"three").is_err());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        fs::remove_dir_all(&folder).unwrap();
    }

    mod needs_root {
        use super::super::*;

        #[test]
        fn what_root_writes_belongs_to_the_folders_user() {
            testkit::root();
            let name = format!("ashlar-private-owner-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            folder(&path).unwrap();
            std::os::unix::fs::chown(&path, Some(65534), Some(65534)).unwrap();
            let file = path.join("server.key");
            // Somebody has put a link where the file is written first.
            let fresh = path.join(format!("server.key.{}", std::process::id()));
            std::os::unix::fs::symlink("/nowhere", &fresh).unwrap();
            write(&file, b"key").unwrap();
            let about = fs::metadata(&file).unwrap();
            assert_eq!((about.uid(), about.gid()), (65534, 65534));
            fs::remove_dir_all(&path).unwrap();
        }
    }
}
