//! Start of other programs.

use std::ffi::OsStr;
use std::process::Command;

/// A command for a program that inherits standard input, output and error, but no other descriptor. This process starts
/// all child programs by this function, except a program that replaces the process itself.
///
/// Descriptors are marked close-on-exec here and not in the child. With code between fork and exec the standard
/// library would use fork, which makes all private memory copy-on-write. Every worker would then take a page fault
/// for each page that it writes.
pub fn program(name: impl AsRef<OsStr>) -> Command {
    // Linux before 5.11 lacks the call; but files that Rust opens are close-on-exec anyway.
    let _ = crate::close_on_exec(3);
    Command::new(name)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::Command;

    #[test]
    fn program_inherits_no_descriptor_of_a_library() {
        let path = std::env::current_exe().unwrap();
        let file = File::open(&path).unwrap();
        // Lets the file stay open over exec, as files of C libraries do.
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
        let has_file = |mut command: Command| {
            let listed = command.args(["-l", "/proc/self/fd"]).output().unwrap();
            String::from_utf8(listed.stdout)
                .unwrap()
                .contains(path.to_str().unwrap())
        };
        assert!(has_file(Command::new("ls")));
        assert!(!has_file(super::program("ls")));
    }
}
