//! Linux interfaces by packet sockets, for any device that the kernel knows.
//!
//! - **Queues** are sockets in one fan-out group by flow hash. The group does not reassemble
//!   fragments: a router forwards them as they are.
//! - **Offloads.** The kernel gives each frame a virtio-net header. The port completes checksums that the sender left
//!   to its device, and segments super-frames (see `offload`), so elements get frames as a wire would carry them. The
//!   port also puts back VLAN tags that the kernel took out.
//! - **Reception** is `recvmmsg` into packet buffers; the part of a super-frame that does not fit into one buffer goes
//!   to an overflow area. A memory-mapped TPACKET_V3 ring is not used. It hands frames over in blocks, which are
//!   released when full or after a timer of milliseconds, but an idle router must forward its first packet within 200
//!   us. A ring would save no copy, because frames must be copied into packet buffers either way.
//! - **Sending** is `sendmmsg`, by default through the interface's queueing discipline. Consecutive segments of a TCP
//!   flow leave as one super-frame.
//! - **Changes** of the interface are the watcher's task; queues keep working across them.

mod rx;

mod socket_binding;
mod sys;
mod tx;

use crate::counts::{Count, Counts};
use crate::events::Events;
use crate::interface_properties::Facts;
use crate::scheme::Parts;
use crate::sys as system;
use crate::watch::{Watched, Watcher};
use engine::port::{Port, PortCounter, PortInfo, PortRequest, RxQueue, TxQueue};
use socket_binding::SocketBinding;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use sync::Lock;

/// Maximum number of sockets in a fan-out group (old kernels allow 256).
const QUEUES_MAX: usize = 64;
/// Minimum number of frames that a receive socket's buffer holds.
const RX_FRAMES_MIN: usize = 8192;
/// Half of the memory, in bytes, that the kernel charges for a frame of 1500 bytes and its structures. Half, because
/// the kernel doubles the requested buffer size.
const FRAME_BYTES_CHARGED: usize = 4096 / 2;

/// A packet socket. Its descriptor keeps its number when the watcher replaces the socket.
struct Socket {
    fd: OwnedFd,
    /// An epoll set that contains `fd`. Sleeping workers wait for the set, which outlives the socket.
    ready: OwnedFd,
    /// Number of frames that the kernel dropped because the socket's buffer was full.
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

    /// Adds the drops that the kernel has counted since the last call.
    fn count_drops(&self) {
        self.drops.add_shared(sys::take_drops(&self.fd));
    }
}

/// State shared by the queues, the watcher and control.
struct Shared {
    interface: Arc<Watched>,
    buffer_bytes: usize,
    small_buffer: AtomicBool,
    /// Reason why the kernel's scheduling of receive work could not be changed; `None` if it was changed.
    remark: Lock<Option<String>>,
    rx: Vec<Arc<Socket>>,
    tx: Vec<Arc<Socket>>,
}

/// The control side of an open interface.
struct AfPacket {
    shared: Arc<Shared>,
    info: PortInfo,
    rx_counts: Vec<Arc<Counts<6>>>,
    tx_counts: Vec<Arc<Counts<3>>>,
    _watcher: Watcher,
}

impl Port for AfPacket {
    fn info(&self) -> PortInfo {
        let mut info = self.shared.interface.info(&self.info);
        if self.shared.small_buffer.load(Relaxed) {
            info.remarks.push(format!(
                "the receive buffer may hold less than {RX_FRAMES_MIN} frames: run with CAP_NET_ADMIN \
                 or raise net.core.rmem_max to {}",
                self.shared.buffer_bytes
            ));
        }
        info.remarks.extend(self.shared.remark.lock().clone());
        info
    }

    fn link_up(&self) -> bool {
        self.shared.interface.link_up()
    }

    fn set_promiscuous(&self, promiscuous: bool) {
        self.shared.interface.set_promiscuous(promiscuous);
    }

    fn counters(&self) -> Vec<PortCounter> {
        let mut all = vec![("link_changes", None, self.shared.interface.changes.get())];
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

/// Description of an interface as an AF_PACKET port.
pub(crate) fn info(name: &str, facts: &Facts) -> PortInfo {
    let mut info = facts.info(name, "af_packet", QUEUES_MAX);
    info.super_frames = true;
    info.remarks.extend(kernel_remarks(name, facts));
    info
}

/// Remarks about kernel settings that make the kernel process the port's packets, too.
fn kernel_remarks(name: &str, facts: &Facts) -> Vec<String> {
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
    if facts.is_addressed() {
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

/// Opens an interface, which `info` describes.
///
/// # Errors
/// A sentence: no permission, or no descriptors or threads are left.
pub(crate) fn open(
    name: &str,
    info: PortInfo,
    request: &PortRequest,
    events: &Events,
) -> Result<Parts, String> {
    let failed = |e: io::Error| explain(name, &e);
    let frames = if request.descriptors == 0 {
        RX_FRAMES_MIN
    } else {
        request.descriptors
    };
    let buffer_bytes = frames.max(RX_FRAMES_MIN) * FRAME_BYTES_CHARGED;
    let mut rx = Vec::new();
    for _ in 0..request.rx_queues {
        rx.push(Socket::new(sys::rx_socket(buffer_bytes).map_err(failed)?.0).map_err(failed)?);
    }
    let mut tx = Vec::new();
    for _ in 0..request.tx_queues {
        tx.push(Socket::new(sys::tx_socket(false).map_err(failed)?).map_err(failed)?);
    }
    let shared = Arc::new(Shared {
        interface: Watched::new(name, request.promiscuous, events)?,
        buffer_bytes,
        small_buffer: AtomicBool::new(false),
        remark: Lock::default(),
        rx,
        tx,
    });
    let mut tie = SocketBinding::new(&shared);
    let watcher = Watcher::start(&shared.interface, move |now| tie.follow(now))?;
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
