//! A live table on a terminal: reads keys without Enter, and restores the terminal on every exit.

use rustix::termios::{self, LocalModes, OptionalActions, Termios};
use std::io::{IsTerminal, Read, stdin, stdout};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{Receiver, channel};

/// Waits between two pictures of a live table.
pub struct Pause {
    runtime: tokio::runtime::Runtime,
    /// Kept, so that a signal between two pauses ends the next one.
    signals: [Signal; 2],
    keys: Option<Receiver<()>>,
    before: Option<Termios>,
}

/// Reason why a pause ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
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
            keys: before.is_some().then(quit_key),
            before,
        })
    }

    /// True if keys are read and pictures may overwrite each other.
    pub fn is_live(&self) -> bool {
        self.before.is_some()
    }

    /// Lines that fit on the terminal, if there is one.
    pub fn lines(&self) -> Option<usize> {
        let size = termios::tcgetwinsize(stdout()).ok()?;
        (size.ws_row > 0).then_some(usize::from(size.ws_row))
    }

    /// Waits for some time, a signal, or `q`.
    pub fn wait(&mut self, time: Duration) -> Why {
        let [interrupt, terminate] = &mut self.signals;
        let keys = &mut self.keys;
        let quit = async {
            match keys {
                Some(keys) => keys.recv().await,
                None => std::future::pending().await,
            }
        };
        self.runtime.block_on(async {
            tokio::select! {
                () = tokio::time::sleep(time) => Why::Time,
                _ = interrupt.recv() => Why::Quit,
                _ = terminate.recv() => Why::Quit,
                _ = quit => Why::Quit,
            }
        })
    }
}

/// Columns of the terminal that standard output is, if it is one.
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
        if let Some(before) = &self.before {
            // The terminal may be gone.
            let _ = termios::tcsetattr(stdin(), OptionalActions::Now, before);
        }
    }
}
