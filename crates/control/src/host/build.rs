//! Identity of the running program: its version, and the linker's number of its build.
//!
//! Builds of one version may differ, and servers of a cluster should not. GNU's linker, and those like it, write a
//! digest of the program into a note of the file (ELF, type NT_GNU_BUILD_ID).

use std::fmt::Write;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Number of bytes of the digest that are shown.
const SHOWN: usize = 4;
/// Maximum number of program headers, and maximum length of a note segment in bytes, that are read.
const HEADERS_MAX: u64 = 64;
const NOTES_MAX: u64 = 64 << 10;
/// Values of ELF: a segment with notes, and the type of the note.
const PT_NOTE: u64 = 4;
const NT_GNU_BUILD_ID: u64 = 3;

/// Version of the program, such as `0.1.0+0e054ad9`: the number of the build follows if the file has one.
pub(crate) fn program() -> String {
    let mut text = env!("CARGO_PKG_VERSION").to_owned();
    // The file that runs, also if another one has taken its name.
    let build = File::open("/proc/self/exe")
        .ok()
        .and_then(|file| build_id(&file));
    if let Some(build) = build {
        text.push('+');
        for byte in build.iter().take(SHOWN) {
            let _ = write!(text, "{byte:02x}");
        }
    }
    text
}

/// The build's digest in a file of ELF for 64 bits, little-endian.
fn build_id(file: &File) -> Option<Vec<u8>> {
    let head = read(file, 0, 64)?;
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (start, size, count) = (
        number(&head, 32, 8)?,
        number(&head, 54, 2)?,
        number(&head, 56, 2)?,
    );
    for header in 0..count.min(HEADERS_MAX) {
        let segment = read(file, start.checked_add(header * size)?, 56)?;
        if number(&segment, 0, 4)? != PT_NOTE {
            continue;
        }
        let length = number(&segment, 32, 8)?.min(NOTES_MAX);
        let notes = read(file, number(&segment, 8, 8)?, length)?;
        if let Some(found) = build_id_of(&notes) {
            return Some(found.to_vec());
        }
    }
    None
}

fn read(file: &File, at: u64, length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
}

/// Number of some bytes, the lowest first.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |sum, byte| (sum << 8) | u64::from(*byte)),
    )
}

/// The digest among the notes of a segment. Each has three numbers of four bytes, a name, and contents, both padded.
fn build_id_of(mut notes: &[u8]) -> Option<&[u8]> {
    loop {
        let field = |at| usize::try_from(number(notes, at, 4)?).ok();
        let (name, contents) = (field(0)?, field(4)?);
        let kind = number(notes, 8, 4)?;
        let start = 12 + name.checked_next_multiple_of(4)?;
        let end = start.checked_add(contents)?;
        if kind == NT_GNU_BUILD_ID && notes.get(12..12 + name)? == b"GNU\0" {
            return notes.get(start..end);
        }
        notes = notes.get(end.checked_next_multiple_of(4)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: u8, name: &[u8], contents: &[u8]) -> Vec<u8> {
        let mut all = vec![
            name.len() as u8,
            0,
            0,
            0,
            contents.len() as u8,
            0,
            0,
            0,
            kind,
            0,
            0,
            0,
        ];
        for part in [name, contents] {
            all.extend_from_slice(part);
            all.resize(all.len().next_multiple_of(4), 0);
        }
        all
    }

    #[test]
    fn the_builds_note_is_found_among_others() {
        let mut notes = note(1, b"GNU\0", &[1, 2, 3, 4, 5]);
        notes.extend(note(3, b"Other\0", &[9]));
        notes.extend(note(3, b"GNU\0", &[0xab, 0xcd, 0xef]));
        assert_eq!(build_id_of(&notes), Some(&[0xab, 0xcd, 0xef][..]));
        for length in 0..notes.len() - 1 {
            assert_eq!(build_id_of(&notes[..length]), None, "{length}");
        }
        let mut wrong = notes.clone();
        for at in 0..notes.len() {
            wrong[at] = 0xff;
            let _ = build_id_of(&wrong);
            wrong[at] = notes[at];
        }
    }

    #[test]
    fn program_begins_with_its_version() {
        let program = program();
        let (version, build) = program.split_once('+').unwrap_or((&*program, "00000000"));
        assert_eq!(version, env!("CARGO_PKG_VERSION"));
        assert!(
            build.len() == 2 * SHOWN && build.bytes().all(|c| c.is_ascii_hexdigit()),
            "{program}"
        );
        // A file that is no program.
        let file = File::open("/proc/self/status").expect("there is one");
        assert_eq!(build_id(&file), None);
    }
}
