//! Linux interfaces by AF_XDP: frames go from the driver to the router's memory before the kernel processes them.
//!
//! - **The kernel keeps its own packets**: IP packets to its own addresses on the interface, and neighbour discovery
//!   for these ([`program`]). So a machine stays reachable by an interface that a router uses. The watcher follows the
//!   addresses.
//! - **Queues** of the interface have a socket each. If the interface has more queues than the port, a receive queue of
//!   the port has several sockets, so that none is left out.
//! - **The worker does the kernel's receive work** in its polls (SO_PREFER_BUSY_POLL) where the kernel can do that, so
//!   that overload costs no time.
//! - **Frames are copied** between the socket's memory and packet buffers. Packets belong to the pool, whatever happens
//!   to the interface.
//! - **Changes** of the interface are the watcher's task: it makes sockets for one that came back.
//!
//! DPDK's driver of the same name is not used: it takes all frames away from the kernel, wants hugepages, polls without
//! sleep, and does not come back.

mod program;
mod ring;
mod rx_offloads;
mod socket;
mod socket_binding;
mod sys;

use crate::counts::Counts;
use crate::events::Events;
use crate::interface_properties::Facts;
use crate::ring_handover::{Current, End};
use crate::scheme::Parts;
use crate::sys as system;
use crate::watch::{Watched, Watcher};
use engine::packet::Batch;
use engine::packet::anno::PacketType;
use engine::port::{Port, PortCounter, PortInfo, PortRequest, RxQueue, TxQueue};
use socket::{RxSide, Socket, TxSide};
use socket_binding::SocketBinding;
use std::cell::Cell;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use sync::Lock;

/// Maximum number of queues of an interface.
const QUEUES_MAX: usize = 64;
/// Default number of frames in a ring.
const RING_FRAMES: u32 = 1024;
/// Time for which polls continue after the last frame; the worker may sleep between them. The kernel keeps interrupts
/// off for 200 us after each poll, and three times if nothing comes, so a sleeping worker would be woken later than it
/// polls.
const BUSY_POLL_TIME: Duration = Duration::from_millis(2);
/// A frame's header and a VLAN tag, which the MTU does not count.
const HEADER_BYTES: usize = 18;

/// State shared by the queues, the watcher and control.
struct Shared {
    interface: Arc<Watched>,
    frames: u32,
    rx: Vec<Arc<End<RxSide>>>,
    tx: Vec<Arc<End<TxSide>>>,
    state: Lock<ControlState>,
}

/// State that control reads.
#[derive(Default)]
struct ControlState {
    sockets: Vec<Arc<Socket>>,
    /// Counts of closed sockets: frames dropped for lack of room, and frames that could not be sent.
    closed_counts: (u64, u64),
    remarks: Vec<String>,
}

impl ControlState {
    fn counted(&self) -> (u64, u64) {
        let each = self.sockets.iter().filter_map(|socket| socket.statistics());
        each.fold(self.closed_counts, |(drops, errors), now| {
            let full = now.rx_ring_full.unwrap_or(0);
            (drops + now.rx_dropped + full, errors + now.tx_invalid_descs)
        })
    }
}

struct Rx {
    current: Current<RxSide>,
    interface: Arc<Watched>,
    counts: Arc<Counts<2>>,
    /// Answer to the worker's last question, since the last poll, if a descriptor can wake it; `None` before the
    /// question.
    can_be_woken: Cell<Option<bool>>,
    /// True if frames have arrived since the worker was about to sleep, and the time of the last arrival.
    frames_arrived: Cell<bool>,
    quiet_since: Cell<Instant>,
    /// Index of the socket that was polled last.
    last_socket: usize,
}

impl Rx {
    #[inline]
    fn burst(&mut self, into: &mut Batch, max: usize) -> usize {
        if self.can_be_woken.take() == Some(true) {
            system::clear(&self.current.end.change_event);
        }
        if self.current.follow()
            && let Err(e) = self.current.listen()
        {
            let text = format!("packets are looked for every now and then: {e}");
            self.interface.log(&text);
        }
        let sockets = self.current.all.len();
        let mut received = 0;
        for _ in 0..sockets {
            // The queue after the last one that filled a burst is first in the next poll.
            self.last_socket = (self.last_socket + 1) % sockets;
            let left = max - received;
            received += self.current.all[self.last_socket].receive(into, left, &self.counts);
            if received == max {
                break;
            }
        }
        if received > 0 {
            self.frames_arrived.set(true);
        }
        received
    }

    /// True if an interrupt would wake the worker in time.
    fn may_sleep(&self) -> bool {
        if self.frames_arrived.take() {
            self.quiet_since.set(Instant::now());
        }
        if self.current.is_behind() {
            system::signal(&self.current.end.change_event);
        }
        let mut sockets = self.current.all.iter();
        !sockets.any(RxSide::receives_in_polls)
            || self.quiet_since.get().elapsed() >= BUSY_POLL_TIME
    }
}

impl RxQueue for Rx {
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        let before = into.len();
        let received = self.burst(into, max);
        let late = into.iter_mut().skip(before);
        late.for_each(|packet| packet.arrived(PacketType::of_frame));
        received
    }

    fn receive_bare(&mut self, into: &mut Batch, max: usize) -> usize {
        self.burst(into, max)
    }

    fn wait_fd(&self) -> Option<RawFd> {
        // The caller queries twice, and the answers must be equal.
        let sleeps = self.can_be_woken.get().unwrap_or_else(|| self.may_sleep());
        self.can_be_woken.set(Some(sleeps));
        sleeps.then(|| self.current.end.set.as_raw_fd())
    }

    fn fill(&self) -> Option<f64> {
        let fills = self.current.all.iter().map(RxSide::fill);
        fills.reduce(f64::max)
    }
}

struct Tx {
    current: Current<TxSide>,
    interface: Arc<Watched>,
    counts: Arc<Counts<3>>,
}

impl TxQueue for Tx {
    fn transmit(&mut self, batch: &mut Batch, refused: &mut Batch) -> usize {
        self.current.follow();
        let longest = self.interface.mtu() + HEADER_BYTES;
        match self.current.all.first_mut() {
            Some(outlet) if self.interface.link_up() => {
                let sent = outlet.send(batch, refused, longest, &self.counts);
                // If no further packets come, nothing else sends the last ones.
                if batch.is_empty() && outlet.is_late() {
                    self.interface.look_again();
                }
                sent
            }
            _ => {
                // Old frames do not wait for the link.
                self.counts.at(socket::TX_LINK_DOWN).add(batch.len() as u64);
                refused.append(batch);
                0
            }
        }
    }
}

/// The control side of an open interface.
struct AfXdp {
    shared: Arc<Shared>,
    info: PortInfo,
    rx_counts: Vec<Arc<Counts<2>>>,
    tx_counts: Vec<Arc<Counts<3>>>,
    _watcher: Watcher,
}

impl Port for AfXdp {
    fn info(&self) -> PortInfo {
        let mut info = self.shared.interface.info(&self.info);
        info.remarks
            .extend(self.shared.state.lock().remarks.iter().cloned());
        info
    }

    fn link_up(&self) -> bool {
        self.shared.interface.link_up()
    }

    fn set_promiscuous(&self, promiscuous: bool) {
        self.shared.interface.set_promiscuous(promiscuous);
    }

    fn counters(&self) -> Vec<PortCounter> {
        let (drops, errors) = self.shared.state.lock().counted();
        let mut all = vec![
            ("link_changes", None, self.shared.interface.changes.get()),
            ("kernel_drops", None, drops),
            ("kernel_tx_errors", None, errors),
        ];
        let rx = self.rx_counts.iter().enumerate();
        rx.for_each(|(queue, counts)| counts.report(queue, &mut all));
        let tx = self.tx_counts.iter().enumerate();
        tx.for_each(|(queue, counts)| counts.report(queue, &mut all));
        all
    }
}

/// Description of an interface as an AF_XDP port.
pub(crate) fn info(name: &str, facts: &Facts) -> PortInfo {
    let (rx, tx) = facts.channels;
    let mut info = PortInfo {
        max_rx_queues: rx.min(QUEUES_MAX),
        max_tx_queues: tx.min(QUEUES_MAX),
        ..facts.info(name, "af_xdp", QUEUES_MAX)
    };
    if facts.leaves_checksums() {
        info.remarks.push(format!(
            "frames of {name} may carry unfinished checksums, and VLAN tags beside, which AF_XDP does not see; switch \
             this off at its peer with `ethtool -K PEER tx off txvlan off`, or name {name} without af_xdp:"
        ));
    }
    if facts.is_addressed() {
        let addresses: Vec<String> = facts.addresses.iter().map(ToString::to_string).collect();
        info.remarks.push(format!(
            "{name} leaves packets for {} to the kernel: give the router other addresses, or run `ip address flush dev \
             {name}` if the router is to own them",
            addresses.join(", ")
        ));
    }
    info
}

/// Opens an interface, which `info` describes.
///
/// # Errors
/// A sentence: no permission, another program has the interface, or too many queues asked for.
pub(crate) fn open(
    name: &str,
    info: PortInfo,
    request: &PortRequest,
    events: &Events,
) -> Result<Parts, String> {
    let failed = |e: std::io::Error| format!("cannot open af_xdp:{name}: {e}");
    let frames = match request.descriptors {
        0 => RING_FRAMES,
        asked => asked.next_power_of_two().clamp(64, 1 << 14) as u32,
    };
    let rx: std::io::Result<Vec<_>> = (0..request.rx_queues).map(|_| End::new()).collect();
    let tx: std::io::Result<Vec<_>> = (0..request.tx_queues).map(|_| End::new()).collect();
    let shared = Arc::new(Shared {
        interface: Watched::new(name, request.promiscuous, events)?,
        frames,
        rx: rx.map_err(failed)?,
        tx: tx.map_err(failed)?,
        state: Lock::default(),
    });
    let mut tie = SocketBinding::new(&shared).map_err(|e| socket_binding::explain(name, &e))?;
    let watcher = Watcher::start(&shared.interface, move |now| tie.follow(now))?;
    let interface = &shared.interface;
    let counts = shared.rx.iter().map(|_| Counts::new(socket::RX_NAMES));
    let rx_counts: Vec<_> = counts.map(Arc::new).collect();
    let counts = shared.tx.iter().map(|_| Counts::new(socket::TX_NAMES));
    let tx_counts: Vec<_> = counts.map(Arc::new).collect();
    let rx = shared.rx.iter().zip(&rx_counts).map(|(end, counts)| {
        Box::new(Rx {
            current: Current::new(end),
            interface: Arc::clone(interface),
            counts: Arc::clone(counts),
            can_be_woken: Cell::new(None),
            frames_arrived: Cell::new(false),
            quiet_since: Cell::new(Instant::now()),
            last_socket: 0,
        }) as Box<dyn RxQueue>
    });
    let tx = shared.tx.iter().zip(&tx_counts).map(|(end, counts)| {
        Box::new(Tx {
            current: Current::new(end),
            interface: Arc::clone(interface),
            counts: Arc::clone(counts),
        }) as Box<dyn TxQueue>
    });
    let (rx, tx) = (rx.collect(), tx.collect());
    let port = AfXdp {
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
