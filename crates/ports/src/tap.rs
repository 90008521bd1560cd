//! `tap:NAME`: a TAP interface that the port makes, or an existing one.
//!
//! The interface ends with the port, except that control can keep it as the TAP interface of a device. Operators and
//! routing daemons know it as the router's interface, with its addresses and routes. After a restart, the port attaches
//! to such a TAP by its name.
//!
//! Queues are the kernel's (IFF_MULTI_QUEUE). No offload is offered to the kernel, so it completes checksums and cuts
//! super-frames before a frame gets here. One frame is one system call: a TAP has nothing like `recvmmsg`.

use crate::counts::Count;
use crate::scheme::{Parts, PortContext, Resource, Scheme};
use crate::sys;
use engine::clock::{Clock, Time};
use engine::packet::anno::PacketType;
use engine::packet::{Batch, Packet};
use engine::port::{
    Port, PortCounter, PortInfo, PortRequest, RxQueue, TxOutcome, TxQueue, offer_each,
};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use sync::Lock;

pub(crate) const QUEUES_MAX: usize = 64;
/// Pause after a queue was found empty. A busy worker would otherwise poll every few microseconds, with a system call
/// each; packets of daemons may wait this long.
const EMPTY_PAUSE: Duration = Duration::from_micros(50);

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) too_long: Count,
    pub(crate) tx_link_down: Count,
    pub(crate) tx_errors: Count,
}

/// A queue of an interface, or a socket that carries frames. Its descriptor keeps its number when the interface has to
/// be made again.
pub(crate) struct Queue {
    pub(crate) fd: OwnedFd,
    /// An epoll set that contains `fd`. Sleeping workers wait for the set, which outlives the interface.
    ready: OwnedFd,
}

impl Queue {
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Arc<Queue>> {
        let ready = sys::epoll()?;
        sys::epoll_add(&ready, fd.as_raw_fd())?;
        Ok(Arc::new(Queue { fd, ready }))
    }
}

/// The control side of an open TAP interface.
pub struct Tap {
    name: String,
    /// A socket of the interface's namespace.
    control: OwnedFd,
    queues: Vec<Arc<Queue>>,
    /// True if this process has made the interface and [`take_new`](Tap::take_new) has not been called since.
    is_new: AtomicBool,
    counts: Arc<Counters>,
}

impl Tap {
    /// The interface's name by the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface's name by the kernel: an operator may have changed it.
    pub fn known_as(&self) -> String {
        sys::tap_name(&self.queues[0].fd).unwrap_or_else(|_| self.name.clone())
    }

    /// Descriptors of the queues. The interface has a carrier as long as one of them is open.
    pub fn queues(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.queues.iter().map(|queue| queue.fd.as_fd())
    }

    /// Keeps the interface when the port is closed, with the kernel's state of it.
    ///
    /// # Errors
    /// The kernel refuses the request (`TUNSETPERSIST`).
    pub fn set_persistent(&self) -> io::Result<()> {
        sys::tap_set(&self.queues[0].fd, libc::TUNSETPERSIST, 1)
    }

    /// True if this process has made the interface; only the first call returns true.
    pub fn take_new(&self) -> bool {
        self.is_new.swap(false, Ordering::Relaxed)
    }

    /// True if the interface was made by this process, until [`take_new`](Self::take_new).
    pub fn is_new(&self) -> bool {
        self.is_new.load(Ordering::Relaxed)
    }

    /// Brings the interface up, or takes it down.
    ///
    /// # Errors
    /// The kernel refuses the change.
    pub fn set_up(&self, up: bool) -> io::Result<()> {
        sys::set_up(&self.control, &self.known_as(), up)
    }

    /// Takes a frame that the kernel has sent out of the interface; 0 if there is none.
    pub fn take(&self, into: &mut [u8]) -> usize {
        sys::read(self.queues[0].fd.as_raw_fd(), into)
    }

    /// Gives the kernel a frame, as if the interface had received it. Returns false if the interface is down or gone,
    /// or if the kernel has no memory.
    pub fn give(&self, frame: &[u8]) -> bool {
        sys::write(&self.queues[0].fd, frame).is_ok()
    }

    /// True if the interface has been deleted.
    pub fn is_gone(&self) -> bool {
        sys::tap_name(&self.queues[0].fd).is_err()
    }

    /// Makes the interface again, in the namespace of the calling thread; it is down. Other holders of queues of the
    /// deleted interface should close them, as they wake sleepers in vain.
    pub(crate) fn restore(&self) -> io::Result<()> {
        for queue in &self.queues {
            sys::replace(&queue.fd, sys::tap(&self.name)?)?;
            sys::epoll_add(&queue.ready, queue.fd.as_raw_fd())?;
        }
        self.is_new.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Sets the carrier that the kernel and its users see; `false` shows as NO-CARRIER. Opening a queue brings the
    /// carrier back.
    ///
    /// # Errors
    ///
    /// The kernel refuses the call, as before Linux 5.0, which lacks it.
    pub fn set_carrier(&self, up: bool) -> io::Result<()> {
        sys::tap_set_carrier(&self.queues[0].fd, up)
    }

    /// Sets the Ethernet address.
    ///
    /// # Errors
    /// The kernel refuses the address.
    pub fn set_mac(&self, mac: [u8; 6]) -> io::Result<()> {
        sys::set_mac(&self.control, &self.known_as(), mac)
    }

    /// Sets the MTU.
    ///
    /// # Errors
    /// The kernel refuses the MTU.
    pub fn set_mtu(&self, mtu: usize) -> io::Result<()> {
        sys::set_mtu(&self.control, &self.known_as(), mtu)
    }
}

/// Layer at which packets begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// An IP header: a TUN interface.
    Ip,
    /// An Ethernet header.
    Ether,
}

impl Port for Tap {
    fn info(&self) -> PortInfo {
        let mut info = info();
        if let Ok(now) = sys::interface(&self.control, &self.known_as()) {
            (info.mac, info.mtu) = (now.mac, now.mtu);
        }
        info
    }

    fn link_up(&self) -> bool {
        sys::interface(&self.control, &self.known_as()).is_ok_and(|now| now.up)
    }

    fn counters(&self) -> Vec<PortCounter> {
        vec![
            ("too_long", None, self.counts.too_long.get()),
            ("tx_link_down", None, self.counts.tx_link_down.get()),
            ("tx_errors", None, self.counts.tx_errors.get()),
        ]
    }
}

pub(crate) struct Rx {
    queue: Arc<Queue>,
    counts: Arc<Counters>,
    layer: Layer,
    clock: Clock,
    /// Earliest time of the next read of the queue.
    next_read_at: Time,
}

impl Rx {
    pub(crate) fn new(queue: &Arc<Queue>, counts: &Arc<Counters>, layer: Layer) -> Rx {
        Rx {
            queue: Arc::clone(queue),
            counts: Arc::clone(counts),
            layer,
            clock: Clock::real(),
            next_read_at: Time(0),
        }
    }
}

impl RxQueue for Rx {
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        let now = self.clock.now();
        if now < self.next_read_at {
            return 0;
        }
        let before = into.len();
        while into.len() - before < max {
            let Some(mut packet) = Packet::new() else {
                break;
            };
            let room = packet.tailroom();
            let Some(place) = packet.put(room) else {
                break;
            };
            let len = sys::read(self.queue.fd.as_raw_fd(), place);
            if len == 0 {
                self.next_read_at = now + EMPTY_PAUSE;
                break;
            }
            // The kernel truncates a longer frame and does not report this.
            if len == room {
                self.counts.too_long.add_shared(1);
                continue;
            }
            packet.truncate(len);
            match self.layer {
                Layer::Ip => packet.set_network_offset(0),
                Layer::Ether => {
                    packet.set_mac_here();
                    packet.anno_mut().packet_type = PacketType::of_frame(packet.data());
                }
            }
            into.push(packet);
        }
        into.len() - before
    }

    fn wait_fd(&self) -> Option<RawFd> {
        Some(self.queue.ready.as_raw_fd())
    }
}

struct Tx {
    queue: Arc<Queue>,
    counts: Arc<Counters>,
}

impl TxQueue for Tx {
    fn transmit(&mut self, batch: &mut Batch, refused: &mut Batch) -> usize {
        offer_each(batch, refused, |packet| {
            let Err(e) = sys::write(&self.queue.fd, packet.data()) else {
                return TxOutcome::Sent;
            };
            let counter = match e.raw_os_error() {
                Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => return TxOutcome::NoRoom,
                Some(libc::EIO) => &self.counts.tx_link_down,
                _ => &self.counts.tx_errors,
            };
            counter.add_shared(1);
            TxOutcome::Refused
        })
    }
}

/// Open TAP queues that the previous process passed on, by [key](Taps::key).
type Inherited = BTreeMap<String, Vec<OwnedFd>>;

/// The TAP interfaces of a router.
#[derive(Default)]
pub(crate) struct Taps {
    /// The router's name, where there are several.
    router: Option<String>,
    open: Lock<BTreeMap<String, Weak<Tap>>>,
    /// Shared by all routers of the process.
    inherited: Arc<Lock<Inherited>>,
}

impl Taps {
    /// The TAP interfaces of another router of the process, none of them open.
    pub(crate) fn of_router(&self, router: &str) -> Taps {
        Taps {
            router: Some(router.to_owned()),
            open: Lock::default(),
            inherited: Arc::clone(&self.inherited),
        }
    }

    /// Takes over queues that the previous process passed on.
    pub(crate) fn inherit(&self, queues: Inherited) {
        *self.inherited.lock() = queues;
    }

    /// Closes the inherited queues that no port has taken up; their keys.
    pub(crate) fn close_inherited(&self) -> Vec<String> {
        let queues = std::mem::take(&mut *self.inherited.lock());
        queues.into_keys().collect()
    }

    /// Key under which an interface's queues are kept while the process is replaced: its name, after the router's if
    /// there are several.
    pub(crate) fn key(&self, tap: &str) -> String {
        match &self.router {
            None => tap.to_owned(),
            Some(router) => format!("{router}/{tap}"),
        }
    }

    /// The interface of an open port.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Tap>> {
        self.open.lock().get(name)?.upgrade()
    }
}

impl Scheme for Taps {
    fn name_syntax(&self) -> &'static str {
        "tap:NAME"
    }

    fn resource(&self, name: &str) -> Resource {
        Resource::Tap(name.to_owned())
    }

    fn probe(&self, _: &str, _: &PortContext<'_>) -> Result<PortInfo, String> {
        Ok(info())
    }

    fn open(
        &self,
        name: &str,
        request: &PortRequest,
        site: &PortContext<'_>,
    ) -> Result<Parts, String> {
        let inherited = self.inherited.lock().remove(&self.key(name));
        let inherited = inherited.unwrap_or_default();
        let (tap, parts) = match site.namespace() {
            None => open(name, request, inherited)?,
            Some(namespace) => {
                let (name, request) = (name.to_owned(), request.clone());
                namespace.run(move || open(&name, &request, inherited))?
            }
        };
        let mut taps = self.open.lock();
        taps.insert(name.to_owned(), Arc::downgrade(&tap));
        Ok(parts)
    }
}

/// Description of the port.
pub(crate) fn info() -> PortInfo {
    PortInfo {
        mac: [0; 6],
        ..PortInfo::of_process("tap", QUEUES_MAX)
    }
}

/// Makes the interface and brings it up. An existing interface of this name is attached to without a change; queues in
/// `open` that belong to it are used again.
///
/// # Errors
/// A sentence: no permission, no TUN driver, a name that is taken or too long.
fn open(
    name: &str,
    request: &PortRequest,
    open: Vec<OwnedFd>,
) -> Result<(Arc<Tap>, Parts), String> {
    let wrong = |e: io::Error| failed("tap", name, &e);
    let control = sys::control_socket().map_err(wrong)?;
    // The descriptors name the interface by its present name; one in another namespace is a different interface.
    let name_here = |fd: &OwnedFd| sys::tap_name(fd).ok().filter(|_| sys::tap_is_here(fd));
    let found = open.iter().find_map(name_here);
    let its = |fd: &OwnedFd| found.is_some() && name_here(fd) == found;
    let known_as = found.as_deref().unwrap_or(name);
    let is_new = sys::interface(&control, known_as).is_err();
    // Exactly as many queues as are read, because the kernel spreads frames over all open queues.
    let queues = request.rx_queues.max(1);
    let mut fds: Vec<OwnedFd> = open.into_iter().filter(its).take(queues).collect();
    while fds.len() < queues {
        fds.push(sys::tap(known_as).map_err(wrong)?);
    }
    if is_new {
        sys::set_up(&control, name, true).map_err(wrong)?;
    }
    let both = (request.rx_queues, request.tx_queues);
    let (tap, parts) = parts(Layer::Ether, name, control, fds, both).map_err(wrong)?;
    tap.is_new.store(is_new, Ordering::Relaxed);
    Ok((tap, parts))
}

/// Error text for a failed step of making an interface.
pub(crate) fn failed(kind: &str, name: &str, e: &io::Error) -> String {
    match e.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            format!("no permission to make {kind}:{name}: run as root or give CAP_NET_ADMIN")
        }
        Some(libc::ENOENT | libc::ENODEV) => {
            format!("cannot make {kind}:{name}: there is no /dev/net/tun; run `modprobe tun`")
        }
        Some(libc::EBUSY) => format!("cannot make {kind}:{name}: an interface {name} is in use"),
        Some(libc::EINVAL) => format!(
            "cannot make {kind}:{name}: there is an interface {name} of another kind; name another, or remove it \
             (`ip link delete {name}`)"
        ),
        _ => format!("cannot make {kind}:{name}: {e}"),
    }
}

/// A port with these queues of an interface (at least one), and a number of queues for each direction.
///
/// # Errors
/// The process has no file descriptors left.
pub(crate) fn parts(
    layer: Layer,
    name: &str,
    control: OwnedFd,
    fds: Vec<OwnedFd>,
    (receive, send): (usize, usize),
) -> io::Result<(Arc<Tap>, Parts)> {
    let queues = fds.into_iter().map(Queue::new);
    let queues = queues.collect::<io::Result<Vec<_>>>()?;
    let counts = Arc::new(Counters::default());
    let rx = queues.iter().take(receive);
    let rx = rx.map(|queue| Box::new(Rx::new(queue, &counts, layer)) as Box<dyn RxQueue>);
    let rx = rx.collect();
    let tx = (0..send).map(|queue| {
        let queue = Arc::clone(&queues[queue % queues.len()]);
        Box::new(Tx {
            queue,
            counts: Arc::clone(&counts),
        }) as Box<dyn TxQueue>
    });
    let tx = tx.collect();
    let tap = Arc::new(Tap {
        name: name.to_string(),
        control,
        queues,
        is_new: AtomicBool::new(false),
        counts,
    });
    let port = Arc::clone(&tap) as Arc<dyn Port>;
    Ok((tap, Parts { port, rx, tx }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn a_queue_that_was_empty_is_left_alone_for_a_while() {
        let (kernel, queue) = UnixDatagram::pair().expect("a pair of sockets");
        queue.set_nonblocking(true).expect("it is a socket");
        let mut rx = Rx {
            queue: Queue::new(queue.into()).expect("a set of descriptors"),
            counts: Arc::default(),
            layer: Layer::Ether,
            clock: Clock::at(Time(0)),
            next_read_at: Time(0),
        };
        let mut batch = Batch::new();
        let mut receive = |at: Duration| {
            rx.clock = Clock::at(Time(0) + at);
            rx.receive(&mut batch, 64)
        };
        let send = |frames: usize| (0..frames).for_each(|_| drop(kernel.send(&[0; 60])));
        let moment = Duration::from_nanos(1);
        send(2);
        // The poll that takes the last frame also finds the queue empty.
        assert_eq!(receive(Duration::ZERO), 2);
        send(1);
        assert_eq!(receive(EMPTY_PAUSE - moment), 0);
        assert_eq!(receive(EMPTY_PAUSE), 1);
        send(64);
        assert_eq!(receive(EMPTY_PAUSE * 2), 64);
        // After a full batch, more frames may wait.
        send(1);
        assert_eq!(receive(EMPTY_PAUSE * 2 + moment), 1);
    }
}
