//! Structured logs on standard error: one event a line, as text or JSON.
//!
//! Logging neither ends nor blocks the program. [`write`] waits briefly for room in a full pipe, then drops the line.
//! While lines are being dropped, it does not wait at all.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fmt::Write as _;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use sync::Lock;
pub use tracing::level_filters::LevelFilter as Level;
use tracing_subscriber::fmt;

/// Time that a line waits for room.
const WRITE_TIMEOUT: Duration = Duration::from_millis(100);
/// Time that a program's last lines wait.
const LAST_LINES_TIMEOUT: Duration = Duration::from_secs(1);
/// Number of bytes that a pipe accepts at once if it accepts any (PIPE_BUF of limits.h).
const PIPE_BUF: usize = 4096;

/// Format of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// True if lines are JSON.
static JSON: AtomicBool = AtomicBool::new(false);
/// Lines for standard error.
static LINES: Lock<Lines> = Lock::new(Lines { lost: 0 });

/// Starts logging for the process; a second call changes nothing.
pub fn start(format: Format, level: Level) {
    let base = fmt()
        .with_writer(|| Writer)
        .with_ansi(false)
        .with_target(false)
        .with_max_level(level)
        // Internal errors would be printed to standard error, which panics if it is closed.
        .log_internal_errors(false);
    // The error says that logging runs already.
    let _ = match format {
        Format::Text => tracing::subscriber::set_global_default(base.finish()),
        Format::Json => {
            JSON.store(true, Ordering::Relaxed);
            tracing::subscriber::set_global_default(base.json().finish())
        }
    };
}

/// Writes lines to standard error, or drops them if the pipe stays full.
pub fn write(lines: &str) {
    let mut out = LINES.lock();
    out.write(io::stderr().as_fd(), lines.as_bytes());
}

/// Makes a panic end the process, by SIGABRT, with a message and a backtrace on standard error.
///
/// A router without one of its threads would appear to run, but forward no packets or answer no requests. If the
/// process ends, its supervisor (systemd, `ashlar keep`) restarts it. The process ends before the stack is unwound, so
/// no code can catch a panic and continue.
pub fn end_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        // The lines of the log may be locked by the thread that panics.
        let say = |text: String| {
            let until = Instant::now() + LAST_LINES_TIMEOUT;
            let _ = write_until(io::stderr().as_fd(), text.as_bytes(), until);
        };
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("without a name");
        say(format!("ashlar: thread {name} {panic}\n"));
        let trace = std::backtrace::Backtrace::force_capture();
        say(format!(
            "{trace}ashlar: this is a mistake of the program, which ends\n"
        ));
        std::process::abort();
    }));
}

/// Output of the log.
struct Writer;

impl io::Write for Writer {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut out = LINES.lock();
        out.write(io::stderr().as_fd(), line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// State of the writer of log lines.
struct Lines {
    /// Lines lost since the last one that was written.
    lost: u64,
}

impl Lines {
    fn write(&mut self, to: BorrowedFd, line: &[u8]) {
        let now = Instant::now();
        let until = if self.lost == 0 {
            now + WRITE_TIMEOUT
        } else {
            now
        };
        let done = self.tell_lost(to, until) && write_until(to, line, until);
        self.lost = if done { 0 } else { self.lost + 1 };
    }

    /// Reports the number of lost lines, if any. Returns true if the report was written or none was needed.
    fn tell_lost(&self, to: BorrowedFd, until: Instant) -> bool {
        let mut text = String::new();
        let said = "lines of the log are lost, as they were not read in time";
        // Writing to a string cannot fail.
        let _ = match (self.lost, JSON.load(Ordering::Relaxed)) {
            (0, _) => return true,
            (n, true) => {
                writeln!(
                    text,
                    r#"{{"level":"WARN","fields":{{"message":"{n} {said}"}}}}"#
                )
            }
            (n, false) => writeln!(text, "ashlar: {n} {said}"),
        };
        write_until(to, text.as_bytes(), until)
    }
}

/// Writes until `until` at most. Returns true if everything was written.
fn write_until(to: BorrowedFd, mut bytes: &[u8], until: Instant) -> bool {
    while !bytes.is_empty() {
        let remaining = until.saturating_duration_since(Instant::now());
        let mut ready = [PollFd::new(&to, PollFlags::OUT)];
        match poll(&mut ready, Timespec::try_from(remaining).ok().as_ref()) {
            Ok(1..) => {}
            Err(Errno::INTR) => continue,
            _ => return false,
        }
        match rustix::io::write(to, &bytes[..bytes.len().min(PIPE_BUF)]) {
            Ok(n) => bytes = &bytes[n..],
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, pipe};
    use std::os::fd::AsFd;

    #[test]
    fn unread_lines_are_lost_and_counted_and_block_no_writer() {
        let (mut reader, writer) = pipe().expect("a pipe");
        let mut lines = Lines { lost: 0 };
        let line = [b'x'; 1000];
        let mut written = 0;
        while lines.lost == 0 {
            lines.write(writer.as_fd(), &line);
            written += 1;
        }
        for _ in 0..999 {
            lines.write(writer.as_fd(), &line);
        }
        assert_eq!(lines.lost, 1000);
        // The reader reads on.
        reader.read_exact(&mut vec![0; 16 << 10]).expect("bytes");
        lines.write(writer.as_fd(), b"last\n");
        assert_eq!(lines.lost, 0);
        drop(writer);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).expect("text");
        assert!(written > 10 && rest.contains("1000 lines"), "{rest}");
        assert!(rest.ends_with("\nlast\n"), "{rest}");
    }

    #[test]
    fn a_reader_that_is_gone_is_no_mistake() {
        let (reader, writer) = pipe().expect("a pipe");
        drop(reader);
        let mut lines = Lines { lost: 0 };
        lines.write(writer.as_fd(), b"line\n");
        lines.write(writer.as_fd(), b"line\n");
        assert_eq!(lines.lost, 2);
    }
}
