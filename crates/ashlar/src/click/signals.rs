//! Signals: those that elements handle, else the driver's reactions.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_default};
use signal_hook::low_level::pipe;
use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A signal that is caught.
struct Caught {
    /// True if the signal has come.
    came: Arc<AtomicBool>,
    /// True if no element handles the signal: it then acts as on other programs.
    deadly: Arc<AtomicBool>,
}

/// The signals of the process.
pub(super) struct Signals {
    caught: BTreeMap<i32, Caught>,
    bell: (UnixStream, UnixStream),
}

impl Signals {
    /// Catches the signals that end the driver in order.
    pub(super) fn new() -> std::io::Result<Signals> {
        let bell = UnixStream::pair()?;
        bell.0.set_nonblocking(true)?;
        bell.1.set_nonblocking(true)?;
        let mut signals = Signals {
            caught: BTreeMap::new(),
            bell,
        };
        for signal in [SIGINT, SIGTERM] {
            signals.catch(signal)?;
        }
        Ok(signals)
    }

    /// Becomes readable when a signal comes.
    pub(super) fn fd(&self) -> RawFd {
        self.bell.0.as_raw_fd()
    }

    /// Catches the signals that elements want, and releases the others. Returns the signals that cannot be caught.
    pub(super) fn want(&mut self, wanted: &[i32]) -> Vec<i32> {
        let ends = |signal: i32| signal == SIGINT || signal == SIGTERM;
        for (&signal, caught) in &self.caught {
            let deadly = !wanted.contains(&signal) && !ends(signal);
            caught.deadly.store(deadly, Ordering::Relaxed);
        }
        let new = wanted.iter().copied();
        new.filter(|&s| !self.caught.contains_key(&s) && self.catch(s).is_err())
            .collect()
    }

    fn catch(&mut self, signal: i32) -> std::io::Result<()> {
        let (came, deadly) = (Arc::default(), Arc::default());
        register_conditional_default(signal, Arc::clone(&deadly))?;
        register(signal, Arc::clone(&came))?;
        pipe::register(signal, self.bell.1.try_clone()?)?;
        self.caught.insert(signal, Caught { came, deadly });
        Ok(())
    }

    /// Takes the signals that have arrived since the last call.
    pub(super) fn take(&mut self) -> Vec<i32> {
        let mut bytes = [0; 64];
        while self.bell.0.read(&mut bytes).is_ok_and(|n| n == bytes.len()) {}
        let came = self.caught.iter();
        came.filter(|(_, c)| c.came.swap(false, Ordering::AcqRel))
            .map(|(&signal, _)| signal)
            .collect()
    }

    /// The second interrupt of a driver that does not end kills it.
    pub(super) fn give_up(&self, signal: i32) {
        if let Some(caught) = self.caught.get(&signal) {
            caught.deadly.store(true, Ordering::Relaxed);
        }
    }

    /// True if some signal waits to be taken.
    pub(super) fn any(&self) -> bool {
        self.caught.values().any(|c| c.came.load(Ordering::Relaxed))
    }
}
