//! Signals: handled by elements, otherwise by the driver.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_default};
use signal_hook::low_level::pipe;
use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A signal with an installed handler.
struct Caught {
    /// True if the signal has arrived.
    arrived: Arc<AtomicBool>,
    /// True if no element handles the signal: it then has its default effect.
    terminates: Arc<AtomicBool>,
}

/// The signals of the process.
pub(super) struct Signals {
    caught: BTreeMap<i32, Caught>,
    pipe: (UnixStream, UnixStream),
}

impl Signals {
    /// Catches the signals that end the driver in order.
    pub(super) fn new() -> std::io::Result<Signals> {
        let bell = UnixStream::pair()?;
        bell.0.set_nonblocking(true)?;
        bell.1.set_nonblocking(true)?;
        let mut signals = Signals {
            caught: BTreeMap::new(),
            pipe: bell,
        };
        for signal in [SIGINT, SIGTERM] {
            signals.catch(signal)?;
        }
        Ok(signals)
    }

    /// Descriptor that becomes readable when a signal arrives.
    pub(super) fn fd(&self) -> RawFd {
        self.pipe.0.as_raw_fd()
    }

    /// Installs handlers for the signals that elements handle, and removes the other handlers. Returns the signals that
    /// cannot be caught.
    pub(super) fn set_caught(&mut self, wanted: &[i32]) -> Vec<i32> {
        let ends = |signal: i32| signal == SIGINT || signal == SIGTERM;
        for (&signal, caught) in &self.caught {
            let deadly = !wanted.contains(&signal) && !ends(signal);
            caught.terminates.store(deadly, Ordering::Relaxed);
        }
        let new = wanted.iter().copied();
        new.filter(|&s| !self.caught.contains_key(&s) && self.catch(s).is_err())
            .collect()
    }

    fn catch(&mut self, signal: i32) -> std::io::Result<()> {
        let (arrived, terminates) = (Arc::default(), Arc::default());
        register_conditional_default(signal, Arc::clone(&terminates))?;
        register(signal, Arc::clone(&arrived))?;
        pipe::register(signal, self.pipe.1.try_clone()?)?;
        self.caught.insert(
            signal,
            Caught {
                arrived,
                terminates,
            },
        );
        Ok(())
    }

    /// Takes the signals that have arrived since the last call.
    pub(super) fn take(&mut self) -> Vec<i32> {
        let mut bytes = [0; 64];
        while self.pipe.0.read(&mut bytes).is_ok_and(|n| n == bytes.len()) {}
        let caught = self.caught.iter();
        caught
            .filter(|(_, c)| c.arrived.swap(false, Ordering::AcqRel))
            .map(|(&signal, _)| signal)
            .collect()
    }

    /// Makes a second signal kill the driver, if the first has not ended it.
    pub(super) fn give_up(&self, signal: i32) {
        if let Some(caught) = self.caught.get(&signal) {
            caught.terminates.store(true, Ordering::Relaxed);
        }
    }

    /// True if a signal is pending.
    pub(super) fn any(&self) -> bool {
        self.caught
            .values()
            .any(|c| c.arrived.load(Ordering::Relaxed))
    }
}
