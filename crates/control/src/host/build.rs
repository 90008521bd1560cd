//! Identity of the running program: its version, and the linker's number of its build.
//!
//! Builds of one version may differ, and servers of a cluster should not. GNU's linker, and those like it, write a
//! digest of the program into a note of the file (ELF, type NT_GNU_BUILD_ID).

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ReadCache};
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

/// The build's digest in a file of ELF for 64 bits.
fn build_id(file: File) -> Option<Vec<u8>> {
    let data = ReadCache::new(file);
    let program = ElfFile64::<Endianness, _>::parse(&data).ok()?;
    Some(program.build_id().ok()??.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(build_id(file), None);
    }
}
