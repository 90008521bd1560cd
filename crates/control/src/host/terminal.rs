//! A live table on a terminal: reads keys without Enter, and restores the terminal on every exit.

use rustix::termios::{self, LocalModes, OptionalActions, Termios};
use std::io::{IsTerminal, Read, stdin, stdout};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{Receiver, channel};

/// Wait between two updates of a live table.
pub struct Pause {
    runtime: tokio::runtime::Runtime,
    /// Kept, so that a signal between two pauses ends the next one.
    signals: [Signal; 2],
    quit_key: Option<Receiver<()>>,
    saved_mode: Option<Termios>,
}

/// Reason why a pause ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseEnd {
    /// The time is over.
    Time,
    /// `q`, Ctrl-C or a signal.
    Quit,
}

impl Pause {
    /// Prepares the terminal, if there is one. The error is a sentence.
    pub fn new() -> Result<Pause, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|e| e.to_string())?;
        let signals = {
            let _inside = runtime.enter();
            let on = |kind| signal(kind).map_err(|e| e.to_string());
            [on(SignalKind::interrupt())?, on(SignalKind::terminate())?]
        };
        let mut before = None;
        if stdin().is_terminal()
            && stdout().is_terminal()
            && let Ok(now) = termios::tcgetattr(stdin())
        {
            let mut raw = now.clone();
            raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            if termios::tcsetattr(stdin(), OptionalActions::Now, &raw).is_ok() {
                before = Some(now);
            }
        }
        Ok(Pause {
            runtime,
            signals,
            quit_key: before.is_some().then(quit_key),
            saved_mode: before,
        })
    }

    /// True if keys are read and updates may overwrite each other.
    pub fn is_live(&self) -> bool {
        self.saved_mode.is_some()
    }

    /// Number of lines of the terminal; `None` without one.
    pub fn lines(&self) -> Option<usize> {
        let size = termios::tcgetwinsize(stdout()).ok()?;
        (size.ws_row > 0).then_some(usize::from(size.ws_row))
    }

    /// Waits for some time, a signal, or `q`.
    pub fn wait(&mut self, time: Duration) -> PauseEnd {
        let [interrupt, terminate] = &mut self.signals;
        let keys = &mut self.quit_key;
        let quit = async {
            match keys {
                Some(keys) => keys.recv().await,
                None => std::future::pending().await,
            }
        };
        self.runtime.block_on(async {
            tokio::select! {
                () = tokio::time::sleep(time) => PauseEnd::Time,
                _ = interrupt.recv() => PauseEnd::Quit,
                _ = terminate.recv() => PauseEnd::Quit,
                _ = quit => PauseEnd::Quit,
            }
        })
    }
}

/// Number of columns of the terminal on standard output; `None` without one.
pub fn columns() -> Option<usize> {
    let size = termios::tcgetwinsize(stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Receiver of a message when `q` is pressed. The thread that reads keys ends with the program.
fn quit_key() -> Receiver<()> {
    let (say, pressed) = channel(1);
    std::thread::spawn(move || {
        let mut key = [0; 16];
        while let Ok(n @ 1..) = stdin().lock().read(&mut key) {
            if key[..n].contains(&b'q') {
                break;
            }
        }
        let _ = say.blocking_send(());
    });
    pressed
}

impl Drop for Pause {
    fn drop(&mut self) {
        if let Some(before) = &self.saved_mode {
            // The terminal may be gone.
            let _ = termios::tcsetattr(stdin(), OptionalActions::Now, before);
        }
    }
}
