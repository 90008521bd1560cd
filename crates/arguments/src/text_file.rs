//! Reads the files of configurations. Some are named by configurations and their elements, whose text nobody may have looked at yet: a
//! name may mean a device that never ends, or a pipe that nobody fills.

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{Error, Read, Result};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Bytes that are read at most: some million routes in text.
const MOST: u64 = 256 << 20;

/// Reads a file that somebody has typed the name of, such as `/dev/stdin`.
///
/// # Errors
/// It is too long, or it cannot be read.
pub fn typed(path: &Path) -> Result<Vec<u8>> {
    all(File::open(path)?)
}

/// Reads a file that a configuration names: a regular one.
///
/// # Errors
/// It is not that, it is too long, or it cannot be read.
pub fn named(path: &Path) -> Result<Vec<u8>> {
    // To open a pipe would wait for who fills it.
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

/// As [`named`]; what is no text is an error, too.
///
/// # Errors
/// As [`named`].
pub fn named_text(path: &Path) -> Result<String> {
    String::from_utf8(named(path)?).map_err(Error::other)
}

fn all(file: File) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST {
        return Err(Error::other(format!(
            "it is longer than {} MiB",
            MOST >> 20
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
    fn what_a_configuration_names_is_a_regular_file_of_bounded_length() {
        let folder = std::env::temp_dir().join(format!("ashlar-files-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("temporary files can be made");
        let file = |name: &str| folder.join(name);
        fs::write(file("text"), "Idle;").expect("the folder is ours");
        assert_eq!(named_text(&file("text")).expect("it is text"), "Idle;");
        fs::write(file("bytes"), b"\xff").expect("the folder is ours");
        assert!(named(&file("bytes")).is_ok() && named_text(&file("bytes")).is_err());
        // It takes no room on the disk, and would take it in memory.
        let long = File::create(file("long")).expect("the folder is ours");
        long.set_len(MOST + 1).expect("it has holes");
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
