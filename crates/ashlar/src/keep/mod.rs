//! `ashlar keep`: a minimal service manager. It starts a router, holds the queues of its TAP interfaces by the protocol
//! of systemd's descriptor store (sd_notify(3), sd_listen_fds(3)), and starts it again after a crash. A router that no
//! longer sends keep-alive messages (sd_watchdog_enabled(3)) is killed. `ashlar keep` has one thread and processes no
//! packets, so few faults can end it.

pub(crate) mod fd_store;
mod sys;
mod watchdog;

use crate::cli::Keep;
use crate::cmd::complain;
use fd_store::Store;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, WaitOptions, WaitStatus, kill_process, waitpid};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR2};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use watchdog::Watchdog;

/// Signals with handlers.
const SIGNALS: [i32; 5] = [SIGTERM, SIGINT, SIGUSR2, SIGHUP, SIGCHLD];
/// Run time after which a program counts as stable. It is then restarted at once; otherwise the delay before a restart
/// grows.
const STABLE_AFTER: Duration = Duration::from_secs(1);
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Runs the program until it ends in order or is told to end. Returns the program's status. As in systemd, a program
/// that dies by the signal that was sent to end it was successful: before it has installed a handler, it cannot end
/// otherwise.
pub(crate) fn keep(keep: &Keep) -> Result<ExitCode, String> {
    let mut keeper = Keeper {
        signals: Signals::new().map_err(|e| format!("cannot wait for signals: {e}"))?,
        store: Store::new()?,
        watchdog: Watchdog::new(Duration::from_secs(keep.watchdog.into())),
    };
    let (mut pause, mut worked) = (Duration::ZERO, false);
    loop {
        let begun = Instant::now();
        let status = keeper.run(&keep.command)?;
        let restart = keeper.signals.take_restart();
        let was_ready = keeper.store.is_ready();
        worked |= was_ready;
        if keeper.signals.end() {
            let by_it = status.terminating_signal() == Some(SIGTERM);
            return Ok(if by_it {
                ExitCode::SUCCESS
            } else {
                code(status)
            });
        }
        // A program that was never ready has a permanent fault, so it is not restarted.
        if !restart && (status.exit_status() == Some(0) || !worked) {
            return Ok(code(status));
        }
        if restart || was_ready && begun.elapsed() >= STABLE_AFTER {
            pause = Duration::ZERO;
        } else {
            keeper.wait(Some(pause));
            pause = (pause * 2).clamp(PAUSES.0, PAUSES.1);
        }
        if keeper.signals.end() {
            complain(&status_text(status));
            return Ok(ExitCode::SUCCESS);
        }
        complain(&format!("{}; starting it again", status_text(status)));
    }
}

struct Keeper {
    signals: Signals,
    store: Store,
    watchdog: Watchdog,
}

impl Keeper {
    /// Runs the program once.
    fn run(&mut self, command: &[String]) -> Result<WaitStatus, String> {
        let failed = |e: std::io::Error| format!("cannot run {}: {e}", command.join(" "));
        // clap ensures that there is at least one word.
        let mut program = Command::new(&command[0]);
        program.args(&command[1..]);
        self.store.pass_to(&mut program);
        self.watchdog.pass_to(&mut program);
        // An earlier request for a start is fulfilled by this one.
        self.signals.restart.store(false, Ordering::Relaxed);
        let child = sys::spawn(&mut program, &self.store.descriptors()).map_err(failed)?;
        self.store.listen_to(child);
        loop {
            self.wait(self.watchdog.next_check());
            if self.store.receive() {
                self.watchdog.restart();
            }
            let forwarded = self.signals.forwarded();
            let status = waitpid(Some(child), WaitOptions::NOHANG).map_err(|e| failed(e.into()))?;
            if let Some((_, status)) = status {
                // Read the last messages of the ended program.
                self.store.receive();
                return Ok(status);
            }
            for signal in forwarded {
                // The program may have ended already.
                let _ = kill_process(child, signal);
            }
            if self.store.is_ready() && self.watchdog.is_hung() {
                complain("it has not said that it lives: it hangs, and is killed");
                let _ = kill_process(child, Signal::KILL);
            }
        }
    }

    /// Waits for a message, a signal, or the end of a pause.
    fn wait(&mut self, pause: Option<Duration>) {
        let mut waited = [
            PollFd::new(&self.signals.signal_pipe, PollFlags::IN),
            PollFd::new(self.store.socket(), PollFlags::IN),
        ];
        let pause = pause.and_then(|p| Timespec::try_from(p).ok());
        // Spurious wake-ups are harmless, because everything is checked again.
        let _ = poll(&mut waited, pause.as_ref());
        self.signals.drain_signal_pipe();
    }
}

/// Received signals. SIGTERM and SIGINT end the program and this process, SIGUSR2 restarts the program, and SIGHUP is
/// passed on.
struct Signals {
    signal_pipe: UnixStream,
    end: Arc<AtomicBool>,
    ended: bool,
    restart: Arc<AtomicBool>,
    restarts: bool,
    hang_up: Arc<AtomicBool>,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        let (bell, ring) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        let flags: [Arc<AtomicBool>; 3] = Default::default();
        let numbers = [(SIGTERM, 0), (SIGINT, 0), (SIGUSR2, 1), (SIGHUP, 2)];
        for (number, flag) in numbers {
            signal_hook::flag::register(number, Arc::clone(&flags[flag]))?;
        }
        for number in SIGNALS {
            signal_hook::low_level::pipe::register(number, ring.try_clone()?)?;
        }
        let [end, restart, hang_up] = flags;
        let (ended, restarts) = (false, false);
        Ok(Signals {
            signal_pipe: bell,
            end,
            ended,
            restart,
            restarts,
            hang_up,
        })
    }

    fn drain_signal_pipe(&mut self) {
        while self.signal_pipe.read(&mut [0; 64]).is_ok_and(|n| n > 0) {}
    }

    /// Signals to pass on to the program: those received since the last call.
    fn forwarded(&mut self) -> Vec<Signal> {
        let take = |flag: &AtomicBool| flag.swap(false, Ordering::Relaxed);
        let (end, restart) = (take(&self.end), take(&self.restart));
        self.ended |= end;
        self.restarts |= restart;
        let asked = [
            (end || restart, Signal::TERM),
            (take(&self.hang_up), Signal::HUP),
        ];
        let asked = asked.into_iter().filter(|(is, _)| *is);
        asked.map(|(_, signal)| signal).collect()
    }

    /// True if a signal to end has arrived.
    fn end(&self) -> bool {
        self.ended || self.end.load(Ordering::Relaxed)
    }

    /// True if the program was told to end so that it can be restarted.
    fn take_restart(&mut self) -> bool {
        std::mem::take(&mut self.restarts)
    }
}

fn status_text(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(0), _) => "it has ended on request".to_owned(),
        (Some(code), _) => format!("it has ended with status {code}"),
        (_, Some(signal)) => format!("it was ended by signal {signal}"),
        _ => "it has ended".to_owned(),
    }
}

/// Exit code as in a shell: 128 plus the signal's number for a program that a signal ended.
pub(crate) fn code(status: WaitStatus) -> ExitCode {
    let code = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code,
        (_, signal) => 128 + signal.unwrap_or(0),
    };
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
