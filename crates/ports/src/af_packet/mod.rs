//! Linux interfaces by packet sockets, for any device that the kernel knows.
//!
//! - **Queues** are sockets in one fan-out group by flow hash. The group does not reassemble
//!   fragments: a router forwards them as they are.
//! - **Offloads.** Each frame comes with a virtio-net header; checksums that the sender left to its
//!   device are completed and super-frames are cut (see `offload`), so that what elements see could
//!   have come from a wire. VLAN tags that the kernel took out are put back.
//! - **Reception** is `recvmmsg` into packet buffers, the part of a super-frame that does not fit
//!   into one going to an overflow area. Not a memory-mapped TPACKET_V3 ring: that hands frames
//!   over in blocks, which are released when they are full or after a timer of milliseconds, while
//!   an idle router must forward its first packet within 200 us; it would save a copy, but frames
//!   must be copied into packet buffers either way.
//! - **Sending** is `sendmmsg`, by default through the interface's queueing discipline. Segments of a TCP flow that follow one
//!   another leave as one super-frame.
//! - **Changes** of the interface are the watcher's task; queues keep working across them.

mod rx;

mod sys;
mod tx;
mod watch;

use crate::counts::{Count, Counts};
use crate::directory::{Events, Parts};
use crate::sys::{self as system, Interface};
use engine::port::{Port, PortCounter, PortInfo, PortRequest, RxQueue, TxQueue};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sockets in a fan-out group, at most (the kernel's limit is 256 in old versions).
const MAX_QUEUES: usize = 64;
/// Frames that a receive socket's buffer holds, at least.
const MIN_FRAMES: usize = 8192;
/// What the kernel charges for a frame of 1500 bytes (its structures included), halved: it doubles
/// the size that it is asked for.
const FRAME_CHARGE: usize = 4096 / 2;

/// A packet socket. Its descriptor keeps its number when the watcher puts a fresh socket there.
struct Socket {
    fd: OwnedFd,
    /// An epoll set around `fd`: what sleepers wait for, since it outlives the socket.
    ready: OwnedFd,
    /// Frames that the kernel dropped for want of room.
    drops: Count,
}

impl Socket {
    fn new(fd: OwnedFd) -> io::Result<Arc<Socket>> {
        let ready = system::epoll()?;
        Ok(Arc::new(Socket {
            fd,
            ready,
            drops: Count::default(),
        }))
    }

    /// Adds what the kernel has counted since last time.
    fn count_drops(&self) {
        self.drops.add_shared(sys::take_drops(&self.fd));
    }
}

/// What queues, watcher and control share.
struct Shared {
    name: String,
    events: Events,
    promiscuous: bool,
    buffer_bytes: usize,
    small_buffer: AtomicBool,
    /// Why the kernel receives as it did before, if it does.
    remark: Mutex<Option<String>>,
    state: Mutex<Option<Interface>>,
    /// As it was seen last, should it be gone now.
    last: Mutex<Option<Interface>>,
    running: AtomicBool,
    /// Times that the interface went up, down, away or came back.
    changes: Count,
    rx: Vec<Arc<Socket>>,
    tx: Vec<Arc<Socket>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn link_up(&self) -> bool {
        self.running.load(Relaxed)
    }

    fn say(&self, text: String) {
        self.events.say(format!("{}: {text}", self.name));
    }

    fn last_state(&self) -> Option<Interface> {
        lock(&self.last).clone()
    }

    fn swap_state(&self, now: Option<Interface>) -> Option<Interface> {
        self.running
            .store(now.as_ref().is_some_and(|n| n.running), Relaxed);
        if now.is_some() {
            lock(&self.last).clone_from(&now);
        }
        std::mem::replace(&mut lock(&self.state), now)
    }
}

/// The control side of an open interface.
struct AfPacket {
    shared: Arc<Shared>,
    info: PortInfo,
    rx_counts: Vec<Arc<Counts<5>>>,
    tx_counts: Vec<Arc<Counts<3>>>,
    _watcher: watch::Watcher,
}

impl Port for AfPacket {
    fn info(&self) -> PortInfo {
        let mut info = self.info.clone();
        if let Some(now) = self.shared.last_state() {
            (info.mac, info.mtu) = (now.mac, now.mtu);
        }
        if self.shared.small_buffer.load(Relaxed) {
            info.remarks.push(format!(
                "the receive buffer may hold less than {MIN_FRAMES} frames: run with CAP_NET_ADMIN \
                 or raise net.core.rmem_max to {}",
                self.shared.buffer_bytes
            ));
        }
        info.remarks.extend(lock(&self.shared.remark).clone());
        info
    }

    fn link_up(&self) -> bool {
        self.shared.link_up()
    }

    fn counters(&self) -> Vec<PortCounter> {
        let mut all = vec![("link_changes", None, self.shared.changes.get())];
        for (queue, socket) in self.shared.rx.iter().enumerate() {
            socket.count_drops();
            all.push(("kernel_drops", Some(queue), socket.drops.get()));
            self.rx_counts[queue].report(queue, &mut all);
        }
        for (queue, counts) in self.tx_counts.iter().enumerate() {
            counts.report(queue, &mut all);
        }
        all
    }
}

/// What an interface offers.
///
/// # Errors
/// There is no such interface, or it carries no Ethernet frames.
pub(crate) fn probe(name: &str) -> Result<PortInfo, String> {
    let control = system::control_socket().map_err(|e| format!("cannot look at {name}: {e}"))?;
    let found = system::interface(&control, name).map_err(|e| match e.raw_os_error() {
        Some(libc::ENODEV) => no_such(name),
        _ => format!("cannot look at {name}: {e}"),
    })?;
    if !found.ethernet {
        return Err(format!(
            "{name} carries no Ethernet frames; name an Ethernet interface"
        ));
    }
    let driver = system::kernel_driver(&control, name);
    let mut remarks = kernel_remarks(name);
    if driver.as_deref() == Some("veth") {
        remarks.push(format!(
            "{name} is a veth: it is opened by AF_PACKET, since its peer may hand over frames with \
             unfinished checksums that AF_XDP cannot tell from finished ones"
        ));
    } else {
        remarks.push(format!(
            "{name} is opened by AF_PACKET; where its driver supports it, af_xdp:{name} is faster"
        ));
    }
    if !found.up {
        remarks.push(format!(
            "{name} is down: bring it up with `ip link set {name} up`"
        ));
    }
    Ok(PortInfo {
        mac: found.mac,
        mtu: found.mtu,
        node: node(name),
        remarks,
        ..PortInfo::of_process("af_packet", MAX_QUEUES)
    })
}

/// What to know about an interface that AF_XDP is to open, and its receive queues.
///
/// # Errors
/// There is no such interface.
pub(crate) fn for_af_xdp(name: &str) -> Result<(usize, Vec<String>), String> {
    probe(name)?;
    let mut remarks = kernel_remarks(name);
    let Ok(control) = system::control_socket() else {
        return Ok((1, remarks));
    };
    if system::kernel_driver(&control, name).as_deref() == Some("veth") {
        remarks.push(format!(
            "{name} is a veth: frames may carry unfinished checksums, which AF_XDP passes on; switch \
             them off at its peer with `ethtool -K PEER tx off`, or name {name} without af_xdp:"
        ));
    }
    let (all, usable) = system::rx_channels(&control, name);
    if all > usable {
        remarks.push(format!(
            "{name} has {all} receive queues, of which DPDK's AF_XDP driver reaches {usable}: frames \
             of the others stay with the kernel; name {name} without af_xdp:"
        ));
    } else if all > 1 {
        remarks.push(format!(
            "{name} has {all} receive queues: open all of them (CORES, QUEUES), or frames of the \
             others stay with the kernel; `ethtool -L {name} combined N` changes their number"
        ));
    }
    Ok((usable, remarks))
}

/// The sentence for a name that the kernel does not know.
pub(crate) fn no_such(name: &str) -> String {
    let known: Vec<String> = system::interfaces()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let known = if known.is_empty() {
        "none".to_string()
    } else {
        known.join(", ")
    };
    format!("there is no interface {name}; this network namespace has: {known}")
}

fn node(name: &str) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{name}/device/numa_node")).ok()?;
    text.trim().parse().ok()
}

/// Ways in which the kernel works on the same packets.
fn kernel_remarks(name: &str) -> Vec<String> {
    let mut remarks = Vec::new();
    for family in ["ipv4", "ipv6"] {
        let path = format!("/proc/sys/net/{family}/conf/{name}/forwarding");
        if std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "1") {
            remarks.push(format!(
                "the kernel forwards {family} packets from {name} too, so they may leave twice: \
                 run `sysctl -w net.{family}.conf.{name}.forwarding=0`"
            ));
        }
    }
    if system::interfaces()
        .iter()
        .any(|(n, addressed)| n == name && *addressed)
    {
        remarks.push(format!(
            "{name} has IP addresses, so the kernel answers packets to them too: \
             run `ip address flush dev {name}` if the router is to own them"
        ));
    }
    remarks
}

fn explain(name: &str, e: &io::Error) -> String {
    match e.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            format!("no permission to open {name}: run as root or give the program CAP_NET_RAW")
        }
        _ => format!("cannot open {name}: {e}"),
    }
}

/// Opens an interface.
///
/// # Errors
/// A sentence: no such interface, no permission, too many queues asked.
pub(crate) fn open(name: &str, request: &PortRequest, events: &Events) -> Result<Parts, String> {
    let info = probe(name)?;
    let failed = |e: io::Error| explain(name, &e);
    let frames = if request.descriptors == 0 {
        MIN_FRAMES
    } else {
        request.descriptors
    };
    let buffer_bytes = frames.max(MIN_FRAMES) * FRAME_CHARGE;
    let mut rx = Vec::new();
    for _ in 0..request.rx_queues {
        rx.push(Socket::new(sys::rx_socket(buffer_bytes).map_err(failed)?.0).map_err(failed)?);
    }
    let mut tx = Vec::new();
    for _ in 0..request.tx_queues {
        tx.push(Socket::new(sys::tx_socket(false).map_err(failed)?).map_err(failed)?);
    }
    let control = system::control_socket().map_err(failed)?;
    let state = system::interface(&control, name).ok();
    let shared = Arc::new(Shared {
        name: name.to_string(),
        events: events.clone(),
        promiscuous: request.promiscuous,
        buffer_bytes,
        small_buffer: AtomicBool::new(false),
        remark: Mutex::default(),
        running: AtomicBool::new(state.as_ref().is_some_and(|s| s.running)),
        last: Mutex::new(state.clone()),
        state: Mutex::new(state),
        changes: Count::default(),
        rx,
        tx,
    });
    let watcher = watch::Watcher::start(Arc::clone(&shared))?;
    let rx_counts: Vec<_> = shared
        .rx
        .iter()
        .map(|_| Arc::new(Counts::new(rx::NAMES)))
        .collect();
    let tx_counts: Vec<_> = shared
        .tx
        .iter()
        .map(|_| Arc::new(Counts::new(tx::NAMES)))
        .collect();
    let rx_queues = shared.rx.iter().zip(&rx_counts).map(|(socket, counts)| {
        Box::new(rx::Rx::new(Arc::clone(socket), Arc::clone(counts))) as Box<dyn RxQueue>
    });
    let tx_queues = shared.tx.iter().zip(&tx_counts).map(|(socket, counts)| {
        let (socket, counts) = (Arc::clone(socket), Arc::clone(counts));
        Box::new(tx::Tx::new(socket, Arc::clone(&shared), counts)) as Box<dyn TxQueue>
    });
    let (rx, tx) = (rx_queues.collect(), tx_queues.collect());
    let port = AfPacket {
        shared,
        info,
        rx_counts,
        tx_counts,
        _watcher: watcher,
    };
    Ok(Parts {
        port: Arc::new(port),
        rx,
        tx,
    })
}
