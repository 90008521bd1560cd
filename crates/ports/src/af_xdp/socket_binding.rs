//! Binds new sockets for the queues of a port when its interface goes down, disappears, comes back, or gets more
//! queues.

use super::rx_offloads::RxOffloadsOff;
use super::socket::{self, Ends, Socket, SocketConfig};
use super::sys::{self as xdp, Attached, Filter};
use super::{QUEUES_MAX, Shared};
use crate::ethtool;
use crate::napi::{By, Napi};
use crate::sys::{self, Interface};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Interval at which the watcher retries to send while a device has no room, and maximum number of retries.
const ROOM_WAIT: (Duration, usize) = (Duration::from_millis(1), 50);

/// Binding of the sockets to an interface; the watcher renews it.
pub(super) struct SocketBinding {
    shared: Arc<Shared>,
    control: OwnedFd,
    /// XDP program that directs frames to sockets or the kernel; `None` for a port that only sends.
    filter: Option<Filter>,
    bound: Option<Bound>,
    /// Settings of the interface with this index. They are kept while sockets cannot be bound, since each change of
    /// them is an event.
    rx_offloads: Option<(i32, RxOffloadsOff)>,
    napi: Option<Napi>,
    /// Index of the interface whose receive work was configured after it came up, and the configured executor of this
    /// work.
    napi_interface: Option<(i32, By)>,
}

struct Bound {
    index: i32,
    /// Number of receive queues that the interface had when the program was attached.
    queues: usize,
    attached: Option<Attached>,
    /// Socket that makes the interface receive all multicast frames, or all frames (`true`).
    subscription: Option<(OwnedFd, bool)>,
}

impl SocketBinding {
    /// # Errors
    /// The kernel's: it refuses the program.
    pub(super) fn new(shared: &Arc<Shared>) -> io::Result<SocketBinding> {
        let filter = match shared.rx.is_empty() {
            true => None,
            false => Some(Filter::new(QUEUES_MAX)?),
        };
        Ok(SocketBinding {
            shared: Arc::clone(shared),
            control: sys::control_socket()?,
            filter,
            bound: None,
            rx_offloads: None,
            napi: None,
            napi_interface: None,
        })
    }

    /// Binds sockets to the interface, if they are not bound.
    pub(super) fn follow(&mut self, now: Option<&Interface>) -> io::Result<()> {
        let Some(now) = now else {
            // The sockets end with the interface. If it was only renamed, it is used again under its old name.
            return Ok(());
        };
        let name = Arc::clone(&self.shared.interface);
        let name = &*name.name;
        if let Some(filter) = &mut self.filter {
            let left = filter.leave(&sys::addresses(name).into_iter().collect());
            left.map_err(|e| {
                let text = format!("the XDP program cannot be told the kernel's addresses: {e}");
                io::Error::other(text)
            })?;
        }
        if self.bound.as_ref().is_none_or(|b| b.index != now.index) {
            match self.rebind(now.index) {
                Ok(bound) => self.bound = Some(bound),
                // Some drivers open queues only while the interface is up, which is an event.
                Err(_) if !now.up => return Ok(()),
                Err(e) => return Err(io::Error::other(explain(name, &e))),
            }
        }
        self.take_more_queues()?;
        self.set_promiscuous()?;
        let by = match self.receives_in_polls() {
            true => By::Worker,
            false => By::Timer,
        };
        if now.up && self.filter.is_some() && self.napi_interface != Some((now.index, by)) {
            self.napi_interface = Some((now.index, by));
            self.napi = None;
            match Napi::arrange(name, by) {
                Ok(napi) => self.napi = Some(napi),
                Err(why) => self.add_remark(why),
            }
        }
        self.send_late();
        Ok(())
    }

    /// Finds out which sockets do the kernel's receive work in polls; returns true if all receiving ones do.
    fn receives_in_polls(&self) -> bool {
        let state = self.shared.state.lock();
        let mut all = !state.sockets.is_empty();
        for socket in &state.sockets {
            let does = xdp::knows_receive_work(&socket.fd);
            socket.receives_in_polls.store(does, Relaxed);
            all &= does;
        }
        all
    }

    fn add_remark(&self, text: String) {
        let remarks = &mut self.shared.state.lock().remarks;
        if !remarks.contains(&text) {
            remarks.push(text);
        }
    }

    /// Opens sockets that replace those of an interface that is gone.
    fn rebind(&mut self, index: i32) -> io::Result<Bound> {
        self.bound = None;
        let shared = Arc::clone(&self.shared);
        let name = &*shared.interface.name;
        let mut remarks = Vec::new();
        if self.filter.is_some() && self.rx_offloads.as_ref().is_none_or(|(of, _)| *of != index) {
            // The previous `RxOffloadsOff` is dropped first: its drop would turn on again the offloads that the new one
            // turns off.
            self.rx_offloads = None;
            match RxOffloadsOff::of(name) {
                Ok(plain) => self.rx_offloads = Some((index, plain)),
                Err(e) => remarks.push(format!(
                    "VLAN tags may be missing from frames of {name}, since its driver takes them out and does not let \
                     that be switched off ({e}): name {name} without af_xdp: if there are VLANs"
                )),
            }
        }
        let queues = self.queues();
        let sockets = (0..queues.max(shared.tx.len())).map(|queue| self.open(index, queue));
        let sockets: Vec<Ends> = sockets.collect::<io::Result<_>>()?;
        let (attached, by_driver) = self.attach(index)?;
        if !by_driver {
            remarks.push(format!(
                "the driver of {name} runs no XDP program here, so the kernel copies each frame before: name {name} \
                 without af_xdp:, which may be faster"
            ));
        }
        let hears = match shared.rx.is_empty() {
            true => None,
            false => Some(self.subscribe(index)?),
        };
        let mut state = shared.state.lock();
        state.closed_counts = state.counted();
        state.sockets.clear();
        state.remarks = remarks;
        drop(state);
        shared
            .rx
            .iter()
            .for_each(|end| end.replace_rings(Vec::new()));
        shared
            .tx
            .iter()
            .for_each(|end| end.replace_rings(Vec::new()));
        for (queue, ends) in sockets.into_iter().enumerate() {
            self.pass_socket(queue, ends);
        }
        Ok(Bound {
            index,
            queues,
            attached,
            subscription: hears,
        })
    }

    /// Attaches the program to the interface, if there is one; returns true as second value if the driver runs it.
    fn attach(&self, index: i32) -> io::Result<(Option<Attached>, bool)> {
        match &self.filter {
            None => Ok((None, true)),
            Some(filter) => {
                let (attached, by_driver) = filter.attach(index)?;
                Ok((Some(attached), by_driver))
            }
        }
    }

    /// A socket that makes the interface receive the wanted frames, and true if these include other stations'.
    fn subscribe(&self, index: i32) -> io::Result<(OwnedFd, bool)> {
        let promiscuous = self.shared.interface.is_promiscuous();
        let socket = sys::packet_socket()?;
        sys::subscribe(&socket, index, promiscuous, true)?;
        Ok((socket, promiscuous))
    }

    /// Switches promiscuous mode of the socket on or off, if the setting has changed.
    fn set_promiscuous(&mut self) -> io::Result<()> {
        let wanted = self.shared.interface.is_promiscuous();
        let bound = self.bound.as_ref();
        let other = bound.filter(|b| {
            b.subscription
                .as_ref()
                .is_some_and(|(_, now)| *now != wanted)
        });
        if let Some(index) = other.map(|bound| bound.index) {
            let hears = self.subscribe(index)?;
            if let Some(bound) = &mut self.bound {
                bound.subscription = Some(hears);
            }
        }
        Ok(())
    }

    /// Number of queues from which the port receives.
    fn queues(&self) -> usize {
        match &self.filter {
            None => 0,
            Some(_) => {
                let (rx, _) = ethtool::channels(&self.control, &self.shared.interface.name);
                rx.min(QUEUES_MAX)
            }
        }
    }

    /// Serves queues that the interface did not have before.
    fn take_more_queues(&mut self) -> io::Result<()> {
        let now = self.queues();
        let Some((index, had)) = self.bound.as_ref().map(|b| (b.index, b.queues)) else {
            return Ok(());
        };
        if now <= had {
            return Ok(());
        }
        let open = self.shared.state.lock().sockets.len();
        for queue in open..now {
            let ends = self.open(index, queue)?;
            self.pass_socket(queue, ends);
        }
        if let Some(bound) = &mut self.bound {
            bound.queues = now;
            // veth runs a program only on the queues that existed when the program was attached.
            bound.attached = None;
        }
        let (attached, _) = self.attach(index)?;
        if let Some(bound) = &mut self.bound {
            bound.attached = attached;
        }
        Ok(())
    }

    /// Opens the socket of a queue. It receives also where the queue only sends now, for that may change.
    fn open(&self, index: i32, queue: usize) -> io::Result<Ends> {
        let filter = self.filter.as_ref();
        let ends = socket::open(SocketConfig {
            interface: index,
            queue: queue as u32,
            frames: self.shared.frames,
            receives: filter.is_some(),
            sends: queue < self.shared.tx.len(),
            takes_parts: filter.is_none_or(|filter| filter.takes_parts),
        })?;
        if let Some(filter) = filter {
            filter.serve(queue as u32, &ends.socket.fd)?;
        }
        Ok(ends)
    }

    /// Passes the socket of a queue to the queues of the port.
    fn pass_socket(&self, queue: usize, ends: Ends) {
        let shared = &self.shared;
        if let Some(intake) = ends.rx {
            if let Err(e) = xdp::poll_by_worker(&ends.socket.fd) {
                self.add_remark(format!(
                    "overload may leave workers no time, since they may not do the kernel's receive work ({e}): run as \
                     root, or give the program CAP_NET_ADMIN"
                ));
            }
            shared.rx[queue % shared.rx.len()].add(intake);
        }
        if let Some(outlet) = ends.tx {
            shared.tx[queue].add(outlet);
        }
        shared.state.lock().sockets.push(ends.socket);
    }

    /// Sends frames that wait because a device had no room, if no later packets trigger the send.
    fn send_late(&self) {
        let sockets: Vec<Arc<Socket>> = self.shared.state.lock().sockets.clone();
        let (pause, times) = ROOM_WAIT;
        for socket in sockets.iter().take(self.shared.tx.len()) {
            for _ in 0..times {
                let sent = xdp::send(&socket.fd);
                let full = |e: &io::Error| e.raw_os_error() == Some(libc::EAGAIN);
                if !sent.as_ref().is_err_and(full) {
                    break;
                }
                std::thread::sleep(pause);
            }
        }
    }
}

/// Text of a failure for people.
pub(super) fn explain(name: &str, e: &io::Error) -> String {
    match e.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => format!(
            "no permission to open af_xdp:{name}: run as root or give the program CAP_NET_RAW, CAP_NET_ADMIN and \
                CAP_BPF"
        ),
        Some(libc::EBUSY) => format!(
            "another program has {name} by AF_XDP, or has attached an XDP program to it: end that one, or run `ip link \
             set dev {name} xdp off`"
        ),
        Some(libc::ENOBUFS) => format!(
            "af_xdp:{name} needs more memory than this user may lock: run `ulimit -l unlimited`, or give the program \
                CAP_IPC_LOCK"
        ),
        Some(libc::EAFNOSUPPORT) => {
            format!("this kernel has no AF_XDP: name {name} without af_xdp:")
        }
        _ => format!(
            "{name} cannot be opened by AF_XDP ({e}): its MTU may be too large for XDP programs, or its driver merges \
             packets (`ethtool -K {name} lro off`); without af_xdp: it is opened by AF_PACKET"
        ),
    }
}
