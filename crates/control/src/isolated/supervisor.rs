//! A thread that keeps an isolated router's process running, until it is stopped.

use super::PlannedNames;
use super::folder::program;
use super::group::Group;
use crate::compile::gate::Isolated;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ChildStderr, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use tracing::{Level, debug, error, info, warn};

/// Minimum and maximum delay before a restart. The delay doubles while processes end earlier than `SETTLED`.
const RESTART_DELAYS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
const SETTLED: Duration = Duration::from_secs(10);
/// Timeout for a process to end after a signal.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval of checks for changed saved settings.
const SETTINGS_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of log lines relayed per second, and maximum length of each in bytes.
const LOG_LINES_PER_S: u32 = 50;
const LINE: usize = 1000;
/// Maximum number of log bytes read per second.
const LOG_BYTES_PER_S: usize = 256 << 10;
/// Maximum number of log bytes read at once.
const LOG_READ_BYTES: usize = 4096;
const SECOND: Duration = Duration::from_secs(1);

/// Supervisor of an isolated router's process. The process ends when this value is dropped.
pub(super) struct Supervisor {
    pub(super) isolated: Isolated,
    /// Elements and ports that the process may report.
    pub(super) planned: Arc<PlannedNames>,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

struct State {
    stop: OwnedFd,
    starts: AtomicU64,
    runs: AtomicBool,
}

impl Supervisor {
    /// Starts the router's process and the thread that restarts it.
    ///
    /// # Errors
    ///
    /// This process lacks root's rights, or the router's folder or the thread cannot be created; a message.
    pub(super) fn start(
        isolated: Isolated,
        planned: Arc<PlannedNames>,
    ) -> Result<Supervisor, String> {
        let failed = |e: io::Error| format!("router {} cannot run: {e}", isolated.name);
        if !rustix::process::geteuid().is_root() {
            let text = format!(
                "router {} is isolated, which takes root's rights",
                isolated.name
            );
            return Err(text);
        }
        isolated.make_folder()?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let state = Arc::new(State {
            stop: eventfd(0, flags).map_err(|e| failed(e.into()))?,
            starts: AtomicU64::new(0),
            runs: AtomicBool::new(false),
        });
        let group = isolated.group();
        let group = group.inspect_err(|why| {
            warn!(
                router = isolated.name,
                "{why}: its bound of memory holds for each of its programs, not for all together"
            );
        });
        let life = Life {
            group: group.ok(),
            isolated: isolated.clone(),
            state: Arc::clone(&state),
            log: Log::new(&isolated.name),
            saved_modified: None,
            settings_checked_at: Instant::now(),
        };
        let thread = std::thread::Builder::new().name("isolated".to_owned());
        let thread = thread.spawn(move || life.run()).map_err(failed)?;
        Ok(Supervisor {
            isolated,
            planned,
            state,
            thread: Some(thread),
        })
    }

    /// Requests the end of the process, without waiting.
    pub(super) fn stop(&self) {
        // If the event counter is full, it is readable already.
        let _ = rustix::io::write(&self.state.stop, &1u64.to_ne_bytes());
    }

    /// Number of starts of the process.
    pub(super) fn starts(&self) -> u64 {
        self.state.starts.load(Relaxed)
    }

    /// True if the router's process runs.
    pub(super) fn runs(&self) -> bool {
        self.state.runs.load(Relaxed)
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.isolated.clean();
    }
}

/// State of the supervising thread.
struct Life {
    isolated: Isolated,
    group: Option<Group>,
    state: Arc<State>,
    log: Log,
    /// Modification time of the saved settings that the process has; `None` before the first check.
    saved_modified: Option<Option<SystemTime>>,
    /// Time of the last check for changed saved settings.
    settings_checked_at: Instant,
}

impl Life {
    fn run(mut self) {
        let mut pause = Duration::ZERO;
        loop {
            let begun = Instant::now();
            let ended = self.run_process();
            self.state.runs.store(false, Relaxed);
            match ended {
                Ok(None) => return,
                Ok(Some(status)) => {
                    error!(
                        router = self.isolated.name,
                        "its process has ended ({status}); it starts again"
                    );
                }
                Err(e) => error!(
                    router = self.isolated.name,
                    "cannot run: {e}; it is tried again"
                ),
            }
            pause = match begun.elapsed() > SETTLED {
                true => Duration::ZERO,
                false => (pause * 2).clamp(RESTART_DELAYS.0, RESTART_DELAYS.1),
            };
            if self.stopped(pause) {
                return;
            }
        }
    }

    /// Waits for a stop request, at most for the duration `within`. Returns true if one arrived.
    fn stopped(&self, within: Duration) -> bool {
        let mut fds = [PollFd::new(&self.state.stop, PollFlags::IN)];
        let limit = Timespec::try_from(within).ok();
        poll(&mut fds, limit.as_ref()).is_ok_and(|ready| ready > 0)
    }

    /// Runs the process once. Returns its status, or `None` if it was told to end.
    fn run_process(&mut self) -> io::Result<Option<ExitStatus>> {
        self.saved_modified = None;
        self.follow_saved();
        let mut command = machine::program(program());
        let group = self.group.as_ref().map(Group::folder);
        command.args(self.isolated.program_args(group));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        self.state.starts.fetch_add(1, Relaxed);
        self.state.runs.store(true, Relaxed);
        let watched = self.watch(&mut child);
        if watched.is_err() {
            let _ = child.kill();
        }
        let status = child.wait()?;
        Ok(match watched? {
            true => None,
            false => Some(status),
        })
    }

    /// Copies changed saved settings to the router's folder, since its process may restart.
    fn follow_saved(&mut self) {
        self.settings_checked_at = Instant::now();
        let file = self.isolated.saved();
        let now = file.and_then(|file| file.metadata().ok()?.modified().ok());
        if self.saved_modified == Some(now) {
            return;
        }
        self.saved_modified = Some(now);
        if let Err(why) = self.isolated.bring_saved() {
            let router = &self.isolated.name;
            warn!(router, "saved settings are not used: {why}");
        }
    }

    /// Relays the process's log until the process has ended. Returns true if it was stopped on request.
    fn watch(&mut self, child: &mut Child) -> io::Result<bool> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let process = pidfd_open(pid.ok_or(io::ErrorKind::NotFound)?, PidfdFlags::empty())?;
        let mut said = child.stderr.take();
        let mut end: Option<Instant> = None;
        loop {
            if self.settings_checked_at.elapsed() >= SETTINGS_INTERVAL {
                self.follow_saved();
            }
            let mut fds = vec![PollFd::new(&process, PollFlags::IN)];
            if end.is_none() {
                fds.push(PollFd::new(&self.state.stop, PollFlags::IN));
            }
            let pause = self.log.read_delay();
            let words = said.as_ref().map(AsFd::as_fd).filter(|_| pause.is_none());
            let listens = words.is_some();
            fds.extend(words.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            let remaining = end.map_or(SETTINGS_INTERVAL, |end| {
                end.saturating_duration_since(Instant::now())
            });
            let remaining = pause.map_or(remaining, |pause| remaining.min(pause));
            let limit = Timespec::try_from(remaining).ok();
            match poll(&mut fds, limit.as_ref()) {
                Err(rustix::io::Errno::INTR) => continue,
                other => _ = other?,
            }
            let has = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
            let (ended, stopped) = (has(0), end.is_none() && has(1));
            let spoke = listens && has(fds.len() - 1);
            drop(fds);
            if spoke && !self.log.pass_on(said.as_mut()) {
                said = None;
            }
            if ended {
                // The lines left in the pipe are relayed. Other processes may hold the pipe open, so its end is not
                // awaited.
                if spoke {
                    self.log.pass_on(said.as_mut());
                }
                return Ok(end.is_some());
            }
            if stopped {
                end = Some(Instant::now() + EXIT_TIMEOUT);
                pidfd_send_signal(&process, Signal::TERM)?;
            } else if end.is_some_and(|end| end <= Instant::now()) {
                pidfd_send_signal(&process, Signal::KILL)?;
                end = Some(Instant::now() + EXIT_TIMEOUT);
            }
        }
    }
}

/// Relay for a process's standard error. Content and amount of the output are not trusted.
struct Log {
    router: String,
    /// Incomplete last line.
    line: Vec<u8>,
    since: Instant,
    lines: u32,
    /// Bytes read since `since`.
    bytes: usize,
}

impl Log {
    fn new(router: &str) -> Log {
        Log {
            router: router.to_owned(),
            line: Vec::new(),
            since: Instant::now(),
            lines: 0,
            bytes: 0,
        }
    }

    /// Time to wait before the next read if the limit of bytes per second is reached. Meanwhile the process blocks or
    /// loses lines.
    fn read_delay(&mut self) -> Option<Duration> {
        let spent = self.since.elapsed();
        if spent >= SECOND {
            if self.lines > LOG_LINES_PER_S {
                let lost = self.lines - LOG_LINES_PER_S;
                info!(router = self.router, "it has said {lost} lines more");
            }
            (self.since, self.lines, self.bytes) = (Instant::now(), 0, 0);
        }
        (self.bytes >= LOG_BYTES_PER_S).then(|| SECOND.saturating_sub(spent))
    }

    /// Relays the available text. Returns false at its end.
    fn pass_on(&mut self, from: Option<&mut ChildStderr>) -> bool {
        let mut bytes = [0; LOG_READ_BYTES];
        let read = from.map_or(Ok(0), |from| from.read(&mut bytes));
        let read = match read {
            Ok(0) => return false,
            Ok(read) => read,
            Err(e) => return e.kind() == io::ErrorKind::Interrupted,
        };
        self.bytes += read;
        for byte in &bytes[..read] {
            match byte {
                b'\n' => self.end_of_line(),
                byte if self.line.len() < LINE => self.line.push(*byte),
                _ => {}
            }
        }
        true
    }

    fn end_of_line(&mut self) {
        self.lines += 1;
        if self.lines <= LOG_LINES_PER_S {
            let text = String::from_utf8_lossy(&self.line).into_owned();
            let text: String = text
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect();
            let (level, text) = event(&text);
            let router = &self.router;
            match level {
                Level::ERROR => error!(router, "{text}"),
                Level::WARN => warn!(router, "{text}"),
                Level::INFO => info!(router, "{text}"),
                _ => debug!(router, "{text}"),
            }
        }
        self.line.clear();
    }
}

/// Level of a log line, and the line without time and level.
fn event(line: &str) -> (Level, &str) {
    let parts = line.split_once(' ').and_then(|(time, rest)| {
        let (level, text) = rest.trim_start().split_once(' ')?;
        let is_time = time.starts_with(|c: char| c.is_ascii_digit()) && time.ends_with('Z');
        Some((level.parse().ok().filter(|_| is_time)?, text))
    });
    parts.unwrap_or((Level::INFO, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_log_keep_their_level_and_lose_their_time() {
        for (line, right) in [
            (
                "2026-11-29T01:02:03.456789Z  WARN link down port=\"wan\"",
                (Level::WARN, "link down port=\"wan\""),
            ),
            (
                "2026-11-29T01:02:03.456789Z ERROR it ends",
                (Level::ERROR, "it ends"),
            ),
            (
                "ashlar: no such port",
                (Level::INFO, "ashlar: no such port"),
            ),
            ("WARN of itself", (Level::INFO, "WARN of itself")),
            ("", (Level::INFO, "")),
        ] {
            assert_eq!(event(line), right);
        }
    }

    #[test]
    fn output_without_end_is_read_up_to_its_bound_in_each_second() {
        let mut endless = machine::program("sh");
        let mut endless = endless
            .args(["-c", "exec yes >&2"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("it is everywhere");
        let mut log = Log::new("red");
        for _ in 0..2 {
            let mut reads = 0;
            while log.read_delay().is_none() {
                assert!(log.pass_on(endless.stderr.as_mut()));
                reads += 1;
                assert!(reads < 10_000, "{}", log.bytes);
            }
            assert!(
                (LOG_BYTES_PER_S..LOG_BYTES_PER_S + LOG_READ_BYTES).contains(&log.bytes),
                "{}",
                log.bytes
            );
            log.since -= SECOND;
        }
        endless.kill().expect("it runs");
        endless.wait().expect("it has ended");
    }
}
