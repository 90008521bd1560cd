//! A port that several routers share. A router of its own, the *port's router*, owns the device. Frames that it sends
//! to `shares:NAME` are classified by header and wait in the queue of the router that they are for. Frames that it
//! receives from `shares:NAME` were sent by these routers, which take turns by their tickets (VR4, VR7).
//!
//! A frame beyond its router's rate or queue limit is dropped as soon as it is classified. All queues of a worker are
//! filled and emptied by one thread: the worker's copy of the port's router fills them, and its copies of the other
//! routers empty them.

mod port_router;
mod single_share;

use super::lane::{Lane, Lanes, Open, Producer, WakeSender, WorkerWaker};
use super::select::{Destination, Selector, Table};
use super::spec::ShareOf;
use crate::counts::{Count, Counts};
use crate::scheme::Parts;
use engine::clock::Clock;
use engine::packet::anno::PacketType;
use engine::packet::{Batch, Packet};
use engine::port::{Port, PortCounter, PortInfo, PortRequest, RxQueue, TxQueue};
use engine::ring::Head;
use engine::wake::Wakers;
use port_router::{Classification, SharedControl, Split, TxScheduler};
use single_share::{HeldQueue, Queues};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*, fence};
use sync::Lock;
use wire::vlan::{self, Tag};

/// Maximum number of packets that wait to be sent, for each router and worker: those of one turn of a router.
const SEND_QUEUE_PACKETS: usize = 512;
/// Bytes that a router with one ticket may send per turn: one large frame.
const QUANTUM_BYTES: i64 = 1514;
/// Maximum quantum of a router with many tickets, as a multiple of `QUANTUM_BYTES`.
const QUANTA_MAX: u64 = 64;
/// Length of a burst beyond a router's rate, in nanoseconds of that rate.
const BURST_NS: u64 = 10_000_000;

/// Names of losses in the direction to a router; the constants are indices into the counts.
const RX_LOSSES: [&str; 3] = ["rx_full", "rx_rate", "rx_no_router"];
const FULL: usize = 0;
const RATE: usize = 1;
const NO_ROUTER: usize = 2;
/// Names of losses in the direction from a router.
const TX_LOSSES: [&str; 2] = ["tx_no_router", "tx_no_room"];
const NO_PORT: usize = 0;
const NO_ROOM: usize = 1;

/// A router's share of a port.
pub(crate) struct Share {
    description: Lock<ShareOf>,
    /// Lanes to the router (`to_router`) and from it (`from_router`), by worker.
    to_router: Vec<Arc<Lane>>,
    from_router: Vec<Arc<Lane>>,
    /// For each worker, true if the share is in the port's list of shares with packets to send.
    listed: Vec<AtomicBool>,
    /// Losses in the direction to the router (`down_counts`), and from it.
    down_counts: Vec<Counts<3>>,
    up_counts: Vec<Counts<2>>,
    /// Time at which the router's next packet conforms to its rate, in nanoseconds.
    next: AtomicU64,
    quantum: AtomicU64,
    port: Arc<Shared>,
}

/// A shared port.
pub(crate) struct Shared {
    device_name: Lock<String>,
    table: Lock<Arc<ShareTable>>,
    changes: AtomicU64,
    /// The device, once it is open, and its queues.
    device: Lock<Option<Arc<dyn Port>>>,
    queues: Lock<Arc<Queues>>,
    /// State of frame classification, by worker.
    classification: Vec<Lock<Classification>>,
    /// Shares with packets to send, by worker.
    to_send: Vec<Lock<Vec<Arc<Share>>>>,
    has_to_send: Vec<AtomicBool>,
    bells: Vec<WorkerWaker>,
    /// Frames for no router, by worker.
    unclaimed: Vec<Count>,
    /// Number of queues that collect packets sent by routers.
    open_schedulers: AtomicUsize,
}

/// Table of shares, for one worker.
pub(super) struct ShareTable {
    table: Table,
    shares: Vec<(Arc<Share>, ShareOf)>,
    has_rates: bool,
    /// True if the first share gets all frames unchanged.
    is_whole: bool,
}

impl Share {
    pub(super) fn new(port: &Arc<Shared>, description: ShareOf) -> Arc<Share> {
        let workers = port.bells.len();
        let lanes = |packets| (0..workers).map(move |_| Lane::new(packets)).collect();
        Arc::new(Share {
            to_router: lanes(description.queue),
            from_router: lanes(SEND_QUEUE_PACKETS),
            listed: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            down_counts: (0..workers).map(|_| Counts::new(RX_LOSSES)).collect(),
            up_counts: (0..workers).map(|_| Counts::new(TX_LOSSES)).collect(),
            next: AtomicU64::new(0),
            quantum: AtomicU64::new(1),
            port: Arc::clone(port),
            description: Lock::new(description),
        })
    }

    /// Adds the share to the list of shares with packets to send. Returns false if it is in the list.
    pub(super) fn ask_to_send(self: &Arc<Share>, worker: usize) -> bool {
        let is_new = !self.listed[worker].swap(true, SeqCst);
        if is_new {
            self.port.to_send[worker].lock().push(Arc::clone(self));
            self.port.has_to_send[worker].store(true, SeqCst);
        }
        is_new
    }

    /// Applies a new description. The queue limit cannot exceed the initial one.
    fn change(&self, description: &ShareOf, least: u32) {
        let quantum = u64::from(description.tickets / least).clamp(1, QUANTA_MAX);
        self.quantum.store(quantum, Relaxed);
        for lane in &self.to_router {
            let level = lane.level();
            level.set_limit(description.queue.min(level.capacity()));
        }
        *self.description.lock() = description.clone();
    }

    pub(super) fn probe(&self, device: PortInfo) -> PortInfo {
        let queues = self.to_router.len();
        PortInfo {
            driver: format!("share of {}", device.driver),
            max_rx_queues: queues,
            max_tx_queues: queues,
            mac: self.description.lock().mac().unwrap_or(device.mac),
            ..device
        }
    }

    pub(super) fn open(self: &Arc<Share>, request: &PortRequest, info: PortInfo) -> Parts {
        let open = Open::new(self.to_router.iter().cloned());
        let rx = (0..request.rx_queues).map(|queue| {
            let lanes = self.to_router.iter().skip(queue).step_by(request.rx_queues);
            Box::new(FromPort {
                lanes: Lanes::new(lanes, &open),
                share: Arc::clone(self),
                queue: (queue, request.rx_queues),
                changes: u64::MAX,
                device: Vec::new(),
            }) as Box<dyn RxQueue>
        });
        let tx = (0..request.tx_queues).map(|worker| {
            Box::new(ToPort {
                to: Producer::new(&self.from_router[worker]),
                wake_sender: WakeSender::default(),
                share: Arc::clone(self),
                worker,
                changes: u64::MAX,
                tags: Vec::new(),
                device: None,
            }) as Box<dyn TxQueue>
        });
        Parts {
            rx: rx.collect(),
            tx: tx.collect(),
            port: Arc::new(ShareControl(Arc::clone(self), info)),
        }
    }
}

/// A share, for control.
struct ShareControl(Arc<Share>, PortInfo);

impl Port for ShareControl {
    fn info(&self) -> PortInfo {
        let device = self.0.port.device.lock().clone();
        match device {
            Some(device) => self.0.probe(device.info()),
            None => self.1.clone(),
        }
    }

    fn link_up(&self) -> bool {
        let device = self.0.port.device.lock().clone();
        device.is_some_and(|device| device.link_up())
    }

    fn hash_key(&self) -> Option<[u8; 40]> {
        self.0.port.device.lock().clone()?.hash_key()
    }

    fn counters(&self) -> Vec<PortCounter> {
        let mut all = Vec::new();
        let share = &self.0;
        for (queue, counts) in share.down_counts.iter().enumerate() {
            counts.report(queue, &mut all);
        }
        for (queue, counts) in share.up_counts.iter().enumerate() {
            counts.report(queue, &mut all);
        }
        all
    }
}

/// Receive queue of one router: its packets from the port.
struct FromPort {
    lanes: Lanes,
    share: Arc<Share>,
    /// Number of the queue, and number of queues.
    queue: (usize, usize),
    /// Version of the table of shares that was read last.
    changes: u64,
    /// Queues of the device, if the router gets all their frames.
    device: Vec<Arc<HeldQueue<dyn RxQueue>>>,
}

impl FromPort {
    #[cold]
    fn update_queues(&mut self, changes: u64) {
        self.changes = changes;
        let queues = self.share.port.queues_of_single(&self.share);
        let rx = queues.as_ref().map_or(&[][..], |queues| &queues.rx);
        let (queue, count) = self.queue;
        self.device = rx.iter().skip(queue).step_by(count).cloned().collect();
    }

    /// Receives from the device once nothing from before is waiting.
    #[inline]
    fn poll(
        &mut self,
        mut receive: impl FnMut(&mut dyn RxQueue, usize) -> usize,
        max: usize,
    ) -> usize {
        let changes = self.share.port.changes.load(Acquire);
        if changes != self.changes {
            self.update_queues(changes);
        }
        let mut n = 0;
        for held in &self.device {
            if n < max {
                n += held.with(|rx| receive(rx, max - n)).unwrap_or(0);
            }
        }
        n
    }
}

impl RxQueue for FromPort {
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        let before = into.len();
        let n = self.lanes.receive(into, max);
        let received = into.iter_mut().skip(before);
        received.for_each(|packet| packet.arrived(PacketType::of_frame));
        n + self.poll(|rx, max| rx.receive(into, max), max - n)
    }

    fn receive_bare(&mut self, into: &mut Batch, max: usize) -> usize {
        let n = self.lanes.receive(into, max);
        n + self.poll(|rx, max| rx.receive_bare(into, max), max - n)
    }

    fn wakes(&mut self, wakers: &Arc<Wakers>, worker: usize) -> bool {
        self.lanes.wakes(wakers, worker)
    }

    fn fill(&self) -> Option<f64> {
        let each = self
            .device
            .iter()
            .filter_map(|held| held.with(|rx| rx.fill())?);
        Some(each.fold(self.lanes.fill(), f64::max))
    }

    fn waiting(&self) -> Option<usize> {
        let mut each = self
            .device
            .iter()
            .map(|held| held.with(|rx| rx.waiting()).flatten());
        each.try_fold(self.lanes.waiting(), |sum, n| Some(sum + n?))
    }
}

/// Transmit queue of one router on one worker.
struct ToPort {
    to: Producer,
    wake_sender: WakeSender,
    share: Arc<Share>,
    worker: usize,
    /// The tags to push, and the number of changes at which they were read.
    changes: u64,
    tags: Vec<Tag>,
    /// Queue of the device, if this router is its only sender.
    device: Option<Arc<HeldQueue<dyn TxQueue>>>,
}

impl ToPort {
    #[cold]
    fn update_queues(&mut self, changes: u64) {
        self.changes = changes;
        self.tags.clone_from(&self.share.description.lock().vlan);
        let queues = self.share.port.queues_of_single(&self.share);
        let tx = queues.as_ref().map_or(&[][..], |queues| &queues.tx);
        self.device = tx.get(self.worker % tx.len().max(1)).cloned();
    }
}

impl TxQueue for ToPort {
    fn transmit(&mut self, batch: &mut Batch, refused: &mut Batch) -> usize {
        let changes = self.share.port.changes.load(Acquire);
        if changes != self.changes {
            self.update_queues(changes);
        }
        // Packets that wait in the queue are sent first.
        if let Some(device) = &self.device
            && self.to.lane.level().is_empty()
            && let Some(sent) = device.with(|tx| tx.transmit(batch, refused))
        {
            return sent;
        }
        let (share, worker) = (&self.share, self.worker);
        let counts = &share.up_counts[worker];
        if share.port.open_schedulers.load(Acquire) == 0 {
            counts.at(NO_PORT).add(batch.len() as u64);
            refused.append(batch);
            return 0;
        }
        let Some(tail) = self.to.tail() else {
            return 0;
        };
        let room = tail.capacity().saturating_sub(tail.len()).min(batch.len());
        if room == 0 {
            return 0;
        }
        let (tags, mut sent) = (&*self.tags, room);
        if tags.is_empty() {
            tail.push_from(room, &mut batch.drain_front(room));
        } else {
            let mut packets = batch.drain_front(room).filter_map(|mut packet| {
                if tag(&mut packet, tags) {
                    return Some(packet);
                }
                counts.at(NO_ROOM).add(1);
                refused.push(packet);
                None
            });
            sent = tail.push_from(room, &mut packets);
        }
        if share.ask_to_send(worker) {
            fence(SeqCst);
            self.wake_sender.ring(&share.port.bells[worker]);
        }
        sent
    }
}

/// Pushes VLAN tags, the outer one last. Returns false if the packet has no headroom for them.
fn tag(packet: &mut Packet, tags: &[Tag]) -> bool {
    for tag in tags.iter().rev() {
        if packet.push(vlan::LEN).is_none() || !vlan::push(packet.data_mut(), tag.ethertype, tag.id)
        {
            return false;
        }
    }
    true
}

/// Removes `tags` VLAN tags.
fn untag(packet: &mut Packet, tags: usize) {
    for _ in 0..tags {
        // The frame has these tags, since the table has matched them.
        let _ = vlan::pop(packet.data_mut()).map(|_| packet.pull(vlan::LEN));
    }
}

impl Shared {
    pub(super) fn new(device: String, workers: usize) -> Arc<Shared> {
        Arc::new(Shared {
            device_name: Lock::new(device),
            table: Lock::default(),
            changes: AtomicU64::new(0),
            device: Lock::default(),
            queues: Lock::default(),
            classification: (0..workers).map(|_| Lock::default()).collect(),
            to_send: (0..workers).map(|_| Lock::default()).collect(),
            has_to_send: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            bells: (0..workers).map(|_| WorkerWaker::default()).collect(),
            unclaimed: (0..workers).map(|_| Count::default()).collect(),
            open_schedulers: AtomicUsize::new(0),
        })
    }

    /// Replaces the table of shares.
    pub(super) fn set_shares(&self, device: &str, shares: &[(Arc<Share>, ShareOf)]) {
        device.clone_into(&mut self.device_name.lock());
        let least = shares.iter().map(|(_, of)| of.tickets).min();
        let least = least.unwrap_or(1).max(1);
        shares
            .iter()
            .for_each(|(share, of)| share.change(of, least));
        *self.table.lock() = Arc::new(ShareTable::of(shares));
        self.changes.fetch_add(1, Release);
        if shares.is_empty() {
            // A share with packets to send holds a reference to the port. If the port kept it, neither would ever be
            // freed.
            self.to_send.iter().for_each(|list| list.lock().clear());
        }
    }

    pub(super) fn device_name(&self) -> String {
        self.device_name.lock().clone()
    }

    pub(super) fn probe(&self) -> PortInfo {
        PortInfo {
            driver: "shares".into(),
            max_rx_queues: self.bells.len(),
            max_tx_queues: self.bells.len(),
            mac: [2, 0, 0, 0, 0, 1],
            mtu: crate::buffer_mtu(),
            node: None,
            super_frames: false,
            remarks: Vec::new(),
        }
    }

    pub(super) fn open(self: &Arc<Shared>, request: &PortRequest) -> Parts {
        let gather = request.rx_queues;
        self.open_schedulers.fetch_add(gather, AcqRel);
        let rx = (0..request.rx_queues).map(|queue| {
            Box::new(TxScheduler {
                port: Arc::clone(self),
                changes: u64::MAX,
                workers: (queue..self.bells.len())
                    .step_by(request.rx_queues)
                    .collect(),
                turns: VecDeque::new(),
            }) as Box<dyn RxQueue>
        });
        let tx = (0..request.tx_queues).map(|worker| {
            self.classification[worker].lock().open = true;
            Box::new(Split {
                port: Arc::clone(self),
                worker,
                clock: Clock::real(),
            }) as Box<dyn TxQueue>
        });
        Parts {
            rx: rx.collect(),
            tx: tx.collect(),
            port: Arc::new(SharedControl(Arc::clone(self))),
        }
    }
}

impl Default for ShareTable {
    fn default() -> ShareTable {
        ShareTable::of(&[])
    }
}

impl ShareTable {
    fn of(shares: &[(Arc<Share>, ShareOf)]) -> ShareTable {
        let mut table = Table::new();
        for (number, (_, of)) in shares.iter().enumerate() {
            table.add(number as u32, &of.vlan, &of.by, of.broadcast);
        }
        let gets_all =
            |of: &ShareOf| of.vlan.is_empty() && of.broadcast && of.by == [Selector::Remaining];
        ShareTable {
            table,
            has_rates: shares.iter().any(|(_, of)| of.rate.is_some()),
            is_whole: matches!(shares, [(_, of)] if gets_all(of)),
            shares: shares.to_vec(),
        }
    }
}
