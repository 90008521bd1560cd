//! Keeps a port's sockets bound to its interface while the interface goes down, disappears and comes back.

use super::{Shared, sys as packet};
use crate::napi::{By, Napi};
use crate::sys::{self, Interface};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Binding of the sockets to an interface; the watcher renews it.
pub(super) struct SocketBinding {
    shared: Arc<Shared>,
    /// Index of the interface to which the sockets are bound, and true if they are promiscuous.
    bound: Option<(i32, bool)>,
    napi: Option<Napi>,
    /// Index of the interface whose receive work (NAPI) was arranged, once it was up.
    napi_interface: Option<i32>,
}

impl SocketBinding {
    pub(super) fn new(shared: &Arc<Shared>) -> SocketBinding {
        SocketBinding {
            shared: Arc::clone(shared),
            bound: None,
            napi: None,
            napi_interface: None,
        }
    }

    /// Binds the sockets to the interface, if they are not bound.
    pub(super) fn follow(&mut self, now: Option<&Interface>) -> io::Result<()> {
        let Some(now) = now else {
            self.bound = None;
            return Ok(());
        };
        // A veth has NAPI only while it is up.
        if now.up && self.napi_interface != Some(now.index) {
            self.napi_interface = Some(now.index);
            self.arrange();
        }
        let promiscuous = self.shared.interface.is_promiscuous();
        if let Some((index, before)) = self.bound
            && index == now.index
        {
            if let Some(first) = self.shared.rx.first()
                && promiscuous != before
            {
                sys::subscribe(&first.fd, index, promiscuous, true)?;
                sys::subscribe(&first.fd, index, before, false)?;
                self.bound = Some((index, promiscuous));
            }
            return Ok(());
        }
        match self.rebind(now.index, promiscuous) {
            Ok(()) => self.bound = Some((now.index, promiscuous)),
            // Kernels before 6.13 let sockets join a fan-out group only while the interface is up:
            // its coming up is an event, and then this is tried again.
            Err(_) if !now.up => (),
            Err(e) => return Err(e),
        }
        Ok(())
    }

    /// Makes a kernel thread receive for the interface. This is lost when an interface disappears and comes back.
    fn arrange(&mut self) {
        self.napi = None;
        let arranged = Napi::arrange(&self.shared.interface.name, By::Thread);
        let remark = arranged.map(|napi| self.napi = Some(napi)).err();
        *self.shared.remark.lock() = remark;
    }

    /// Replaces the receive sockets by new ones: a socket that has lost its interface stays in its fan-out group, which
    /// cannot be bound to another interface.
    fn rebind(&self, index: i32, promiscuous: bool) -> io::Result<()> {
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
            sys::subscribe(first, index, promiscuous, true)?;
        }
        for (old, new) in shared.rx.iter().zip(fresh) {
            old.count_drops();
            sys::replace(&old.fd, new)?;
            // The kernel removed the old socket from the set when the socket was closed.
            sys::epoll_add(&old.ready, old.fd.as_raw_fd())?;
        }
        for socket in &shared.tx {
            packet::bind(&socket.fd, index, false)?;
        }
        Ok(())
    }
}
