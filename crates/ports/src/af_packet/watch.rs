//! Keeps a port's sockets tied to its interface while that goes down, disappears and comes back.
//!
//! Runs on a thread of its own, beside the packet path: it sleeps on netlink and looks at the
//! interface when any link changes, so it needs to understand no message and can miss none.

use super::{Shared, lock, sys as packet};
use crate::napi::{By, Napi};
use crate::sys::{self, Interface};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;

/// Time after which the interface is looked at even if netlink was silent.
const FALLBACK: Duration = Duration::from_secs(1);

pub(super) struct Watcher {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Ties the sockets now and watches from here on, in the network namespace of the caller.
    ///
    /// # Errors
    /// The first attempt failed for another reason than the interface being down, or the process
    /// has no descriptors or threads left.
    pub(super) fn start(shared: Arc<Shared>) -> Result<Watcher, String> {
        let text = |e: std::io::Error| format!("cannot watch {}: {e}", shared.name);
        let events = sys::link_events().map_err(text)?;
        let control = sys::control_socket().map_err(text)?;
        let stop = Arc::new(sys::eventfd().map_err(text)?);
        let mut tie = Tie {
            shared: Arc::clone(&shared),
            control,
            bound: None,
            napi: None,
            arranged: None,
        };
        tie.look()
            .map_err(|e| format!("cannot receive from {}: {e}", shared.name))?;
        let bell = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name(format!("watch {}", shared.name))
            .spawn(move || tie.run(&events, &bell))
            .map_err(text)?;
        Ok(Watcher {
            stop,
            thread: Some(thread),
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

struct Tie {
    shared: Arc<Shared>,
    control: OwnedFd,
    /// Index of the interface that the sockets are tied to.
    bound: Option<i32>,
    napi: Option<Napi>,
    /// Index of the interface whose receive work was seen to, once it was up.
    arranged: Option<i32>,
}

impl Tie {
    fn run(mut self, events: &OwnedFd, stop: &OwnedFd) {
        let mut bytes = [0; 8192];
        let mut complained = false;
        loop {
            let [_, stopped] = sys::poll([events.as_raw_fd(), stop.as_raw_fd()], FALLBACK);
            if stopped {
                return;
            }
            while sys::read(events.as_raw_fd(), &mut bytes) > 0 {}
            match self.look() {
                Ok(()) => complained = false,
                Err(e) if !complained => {
                    complained = true;
                    self.shared
                        .say(format!("cannot tie sockets to it again: {e}"));
                }
                Err(_) => (),
            }
        }
    }

    /// Compares the interface with what is known, says what changed, ties sockets if needed.
    fn look(&mut self) -> std::io::Result<()> {
        let now = sys::interface(&self.control, &self.shared.name).ok();
        let before = self.shared.swap_state(now.clone());
        if let Some(text) = change(before.as_ref(), now.as_ref()) {
            self.shared.changes.add_shared(1);
            self.shared.say(text);
        }
        let Some(now) = now else {
            self.bound = None;
            return Ok(());
        };
        // A veth has NAPI only while it is up.
        if now.up && self.arranged != Some(now.index) {
            self.arranged = Some(now.index);
            self.arrange();
        }
        if self.bound == Some(now.index) {
            return Ok(());
        }
        match self.tie(now.index) {
            Ok(()) => self.bound = Some(now.index),
            // Kernels before 6.13 let sockets join a fan-out group only while the interface is up:
            // its coming up is an event, and then this is tried again.
            Err(_) if !now.up => (),
            Err(e) => return Err(e),
        }
        Ok(())
    }

    /// Has the kernel receive by a thread. An interface that came back does not know of it.
    fn arrange(&mut self) {
        self.napi = None;
        let arranged = Napi::arrange(&self.shared.name, By::Thread);
        let remark = arranged.map(|napi| self.napi = Some(napi)).err();
        *lock(&self.shared.remark) = remark;
    }

    /// Makes fresh receive sockets in the place of the old ones: a socket that lost its interface
    /// stays in a fan-out group that cannot be tied to another.
    fn tie(&self, index: i32) -> std::io::Result<()> {
        let shared = &self.shared;
        let mut fresh = Vec::new();
        for _ in &shared.rx {
            let (socket, forced) = packet::rx_socket(shared.buffer_bytes)?;
            shared.small_buffer.store(!forced, Relaxed);
            packet::bind(&socket, index, true)?;
            fresh.push(socket);
        }
        if fresh.len() > 1 {
            packet::fan_out(fresh.iter())?;
        }
        if let Some(first) = fresh.first() {
            packet::hear(first, index, shared.promiscuous)?;
        }
        for (old, new) in shared.rx.iter().zip(fresh) {
            old.count_drops();
            sys::replace(&old.fd, new)?;
            // The set forgot the old socket when it was closed.
            sys::epoll_add(&old.ready, old.fd.as_raw_fd())?;
        }
        for socket in &shared.tx {
            packet::bind(&socket.fd, index, false)?;
        }
        Ok(())
    }
}

/// What to say about a change, once.
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
