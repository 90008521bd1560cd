//! Identity of the running program: its version, and the linker's number of its build.
//!
//! Builds of one version may differ, and servers of a cluster should not. GNU's linker, and those like it, write a
//! digest of the program into a note of the file (ELF, type NT_GNU_BUILD_ID).

use object::elf::{ELF_NOTE_GNU, FileHeader64, NT_GNU_BUILD_ID};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache};
use std::fmt::Write;
use std::fs::File;

/// Number of bytes of the digest that are shown.
const SHOWN: usize = 4;

/// Version of the program, such as `0.1.0+0e054ad9`: the number of the build follows if the file has one.
pub(crate) fn program() -> String {
    let mut text = env!("CARGO_PKG_VERSION").to_owned();
    // The file that runs, also if another one has taken its name.
    let build = File::open("/proc/self/exe").ok().and_then(build_id);
    if let Some(build) = build {
        text.push('+');
        for byte in build.iter().take(SHOWN) {
            let _ = write!(text, "{byte:02x}");
        }
    }
    text
}

/// The build's digest in a file of ELF for 64 bits. Only headers and notes are read: symbols take megabytes.
fn build_id(file: File) -> Option<Vec<u8>> {
    let data = ReadCache::new(file);
    let header = FileHeader64::<Endianness>::parse(&data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, &data).ok()?.iter();
    let notes = segments.filter_map(|segment| segment.notes(endian, &data).ok()?);
    let mut notes = notes.flat_map(|notes| notes.map_while(Result::ok));
    let is_build = |name: &[u8], kind| name == ELF_NOTE_GNU && kind == NT_GNU_BUILD_ID;
    let build = notes.find(|note| is_build(note.name(), note.n_type(endian)))?;
    Some(build.desc().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_has_its_version_and_the_number_in_its_note() {
        let file = || File::open("/proc/self/exe").expect("it runs");
        let bytes = std::fs::read("/proc/self/exe").expect("it runs");
        // Lengths of name and digest, type, name. The note is before all data of the program.
        let header = [&[4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0][..], b"GNU\0"].concat();
        let note = bytes.windows(header.len()).position(|part| part == header);
        let digest = note.map(|at| bytes[at + 16..at + 36].to_vec());
        assert_eq!(build_id(file()), digest);
        let digits = |digest: Vec<u8>| -> String {
            let shown = digest.iter().take(SHOWN);
            shown.map(|byte| format!("{byte:02x}")).collect()
        };
        let number = digest.map_or(String::new(), |digest| format!("+{}", digits(digest)));
        assert_eq!(program(), format!("{}{number}", env!("CARGO_PKG_VERSION")));
        // A file that is no program.
        let file = File::open("/proc/self/status").expect("there is one");
        assert_eq!(build_id(file), None);
    }
}
