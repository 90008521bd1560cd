//! Watches a Linux interface while it goes down, disappears, comes back, and gets other addresses.
//!
//! The watcher runs on a thread of its own, outside the packet path. It sleeps on netlink and reads the interface's
//! state when any link or address changes, so it need not parse messages and cannot miss a change.

use crate::counts::Count;
use crate::events::Events;
use crate::sys::{self, Interface};
use engine::port::PortInfo;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;
use sync::Lock;

/// Maximum interval between two checks of the interface, even without netlink messages.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Interval between attempts to bind sockets to an interface.
const REBIND_INTERVAL: Duration = Duration::from_millis(100);

/// An interface as the watcher sees it.
pub(crate) struct Watched {
    pub(crate) name: String,
    events: Events,
    /// Present state, `None` while the interface is gone; and the last known state.
    states: Lock<(Option<Interface>, Option<Interface>)>,
    running: AtomicBool,
    mtu: AtomicUsize,
    /// True if the interface is to be promiscuous.
    promiscuous: AtomicBool,
    /// Number of times that the interface went up, down, away or came back.
    pub(crate) changes: Count,
    /// Wakes the watcher.
    wake_fd: OwnedFd,
}

impl Watched {
    /// # Errors
    /// A sentence: no descriptors left.
    pub(crate) fn new(
        name: &str,
        promiscuous: bool,
        events: &Events,
    ) -> Result<Arc<Watched>, String> {
        let failed = |e: io::Error| format!("cannot watch {name}: {e}");
        let control = sys::control_socket().map_err(failed)?;
        let now = sys::interface(&control, name).ok();
        Ok(Arc::new(Watched {
            name: name.to_owned(),
            events: events.clone(),
            running: AtomicBool::new(now.as_ref().is_some_and(|now| now.running)),
            mtu: AtomicUsize::new(now.as_ref().map_or(0, |now| now.mtu)),
            promiscuous: AtomicBool::new(promiscuous),
            states: Lock::new((now.clone(), now)),
            changes: Count::default(),
            wake_fd: sys::eventfd().map_err(failed)?,
        }))
    }

    /// True if the interface exists, is up, and has a carrier.
    pub(crate) fn link_up(&self) -> bool {
        self.running.load(Relaxed)
    }

    /// Present MTU.
    pub(crate) fn mtu(&self) -> usize {
        self.mtu.load(Relaxed)
    }

    /// Description of its port now: with the present, or last known, address and MTU.
    pub(crate) fn info(&self, info: &PortInfo) -> PortInfo {
        let seen = self.states.lock();
        let mut info = info.clone();
        if let Some(last) = &seen.1 {
            (info.mac, info.mtu) = (last.mac, last.mtu);
        }
        info
    }

    /// True if frames for other stations are wanted, too.
    pub(crate) fn is_promiscuous(&self) -> bool {
        self.promiscuous.load(Relaxed)
    }

    /// Makes the watcher switch promiscuous mode on or off.
    pub(crate) fn set_promiscuous(&self, promiscuous: bool) {
        if self.promiscuous.swap(promiscuous, Relaxed) != promiscuous {
            self.look_again();
        }
    }

    /// Logs a message about the interface.
    pub(crate) fn log(&self, text: &str) {
        self.events.add(format!("{}: {text}", self.name));
    }

    /// Makes the watcher check the interface now.
    pub(crate) fn look_again(&self) {
        sys::signal(&self.wake_fd);
    }

    /// Compares the interface with the last known state, and reports changes.
    fn check_interface(&self, control: &OwnedFd) -> Option<Interface> {
        let now = sys::interface(control, &self.name).ok();
        let mut seen = self.states.lock();
        let before = std::mem::replace(&mut seen.0, now.clone());
        if let Some(now) = &now {
            self.mtu.store(now.mtu, Relaxed);
            seen.1 = Some(now.clone());
        }
        drop(seen);
        let running = now.as_ref().is_some_and(|now| now.running);
        self.running.store(running, Relaxed);
        if let Some(text) = change(before.as_ref(), now.as_ref()) {
            self.changes.add_shared(1);
            self.log(&text);
        }
        now
    }
}

/// Thread that watches interfaces until it is dropped.
pub(crate) struct Watcher {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Starts watching, in the network namespace of the caller. `follow` gets the state of the interface, now and
    /// whenever it may have changed.
    ///
    /// # Errors
    /// A sentence: `follow` failed now, or the process has no descriptors or threads left.
    pub(crate) fn start(
        watched: &Arc<Watched>,
        mut follow: impl FnMut(Option<&Interface>) -> io::Result<()> + Send + 'static,
    ) -> Result<Watcher, String> {
        let text = |e: io::Error| format!("cannot watch {}: {e}", watched.name);
        let events = sys::interface_events().map_err(text)?;
        let control = sys::control_socket().map_err(text)?;
        let stop = Arc::new(sys::eventfd().map_err(text)?);
        follow(watched.check_interface(&control).as_ref())
            .map_err(|e| format!("cannot receive from {}: {e}", watched.name))?;
        let (bell, own) = (Arc::clone(&stop), Arc::clone(watched));
        let run = move || {
            let mut bytes = [0; 8192];
            let mut complained = false;
            loop {
                let fds = [&events, &own.wake_fd, &*bell].map(AsRawFd::as_raw_fd);
                let [_, called, stopped] = sys::poll(fds, CHECK_INTERVAL);
                if stopped {
                    return;
                }
                if called {
                    sys::clear(&own.wake_fd);
                }
                while sys::read(events.as_raw_fd(), &mut bytes) > 0 {}
                match follow(own.check_interface(&control).as_ref()) {
                    Ok(()) => complained = false,
                    Err(e) => {
                        if !complained {
                            complained = true;
                            own.log(&format!("cannot tie sockets to it again: {e}"));
                        }
                        // The failed attempt may have caused events, too.
                        if sys::poll([bell.as_raw_fd()], REBIND_INTERVAL) == [true] {
                            return;
                        }
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name(format!("watch {}", watched.name));
        Ok(Watcher {
            stop,
            thread: Some(thread.spawn(run).map_err(text)?),
        })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        sys::signal(&self.stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Text about a change, reported once.
fn change(before: Option<&Interface>, now: Option<&Interface>) -> Option<String> {
    match (before, now) {
        (Some(_), None) => Some("the interface is gone; waiting for it to come back".into()),
        (None, Some(n)) => Some(format!("the interface is there, with index {}", n.index)),
        (Some(b), Some(n)) if b.index != n.index => Some(format!(
            "the interface was replaced: index {} became {}",
            b.index, n.index
        )),
        (Some(b), Some(n)) if b.running != n.running => Some(format!(
            "the link is {}",
            if n.running { "up" } else { "down" }
        )),
        _ => None,
    }
}
