//! Programs that this one starts.

use std::ffi::OsStr;
use std::process::Command;

/// A command for a program that inherits standard input, output and error, and no other descriptor. This process starts
/// all child programs by this function, except programs that replace the process itself.
///
/// Descriptors are marked close-on-exec here and not in the child. With code between fork and exec the standard library
/// would use fork, which makes all private memory copy-on-write. Every worker would then have a page fault for each
/// page that it writes.
pub fn program(name: impl AsRef<OsStr>) -> Command {
    // Linux before 5.11 does not know the call; what Rust opens closes without it.
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
        // Keeps the file open over exec, as C libraries do.
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
