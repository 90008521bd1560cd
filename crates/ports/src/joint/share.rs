//! A port that several routers share. A router of its own, the *port's router*, owns the device. Frames that it sends
//! to `shares:NAME` are classified by header and wait in the queue of the router that they are for. Frames that it
//! receives from `shares:NAME` were sent by these routers, which take turns by their tickets (VR4, VR7).
//!
//! A frame that its router may not have, or has no room for, is dropped as soon as it is classified. All queues of a
//! worker are filled and emptied by one thread: the worker's copy of the port's router fills them, and its copies of
//! the other routers empty them.

mod sole;
mod whole;

use super::lane::{Bell, Lane, Lanes, Open, Producer, Ringer};
use super::select::{By, Goes, Table};
use super::spec::ShareOf;
use crate::counts::{Count, Counts};
use crate::scheme::Parts;
use engine::clock::Clock;
use engine::packet::anno::PacketType;
use engine::packet::{Batch, Packet};
use engine::port::{Port, PortCounter, PortInfo, PortRequest, RxQueue, TxQueue};
use engine::ring::Head;
use engine::wake::Wakers;
use sole::{Held, Queues};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*, fence};
use sync::Lock;
use whole::{Apart, Gather, Split, Whole};
use wire::ether;
use wire::vlan::{self, Tag};

/// Maximum number of packets that wait to be sent, for each router and worker: those of one turn of a router.
const SENT: usize = 512;
/// Number of bytes that a router of one ticket sends in a turn: a large frame.
const QUANTUM: i64 = 1514;
/// The most that a router of many tickets sends in a turn, in such turns.
const QUANTA_MAX: u64 = 64;
/// Length of a burst beyond a router's rate, in nanoseconds of that rate.
const BURST_TIME: u64 = 10_000_000;

/// Names of losses in the direction to a router; the constants are indices into the counts.
const DOWN: [&str; 3] = ["rx_full", "rx_rate", "rx_no_router"];
const FULL: usize = 0;
const RATE: usize = 1;
const NO_ROUTER: usize = 2;
/// Names of losses in the direction from a router.
const UP: [&str; 2] = ["tx_no_router", "tx_no_room"];
const NO_PORT: usize = 0;
const NO_ROOM: usize = 1;

/// A router's share of a port.
pub(crate) struct Share {
    of: Lock<ShareOf>,
    /// Lanes to the router (`down`) and from it (`up`), by worker.
    down: Vec<Arc<Lane>>,
    up: Vec<Arc<Lane>>,
    /// True if the port's router knows of packets in `up`.
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
    table: Lock<Arc<Told>>,
    changes: AtomicU64,
    /// The device, once it is open, and its queues.
    device: Lock<Option<Arc<dyn Port>>>,
    queues: Lock<Arc<Queues>>,
    /// State of frame classification, by worker.
    apart: Vec<Lock<Apart>>,
    /// Shares with packets to send, by worker.
    to_send: Vec<Lock<Vec<Arc<Share>>>>,
    any: Vec<AtomicBool>,
    bells: Vec<Bell>,
    /// Frames for no router, by worker.
    unknown: Vec<Count>,
    /// Number of queues that collect packets sent by routers.
    gathering: AtomicUsize,
}

/// Table of shares, for one worker.
pub(super) struct Told {
    table: Table,
    shares: Vec<(Arc<Share>, ShareOf)>,
    has_rates: bool,
    /// True if the first share gets all frames unchanged.
    is_whole: bool,
}

impl Share {
    pub(super) fn new(port: &Arc<Shared>, of: ShareOf) -> Arc<Share> {
        let workers = port.bells.len();
        let lanes = |packets| (0..workers).map(move |_| Lane::new(packets)).collect();
        Arc::new(Share {
            down: lanes(of.queue),
            up: lanes(SENT),
            listed: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            down_counts: (0..workers).map(|_| Counts::new(DOWN)).collect(),
            up_counts: (0..workers).map(|_| Counts::new(UP)).collect(),
            next: AtomicU64::new(0),
            quantum: AtomicU64::new(1),
            port: Arc::clone(port),
            of: Lock::new(of),
        })
    }

    /// Tells the port's router of packets in `up`; returns false if it knows already.
    pub(super) fn ask_to_send(self: &Arc<Share>, worker: usize) -> bool {
        let is_new = !self.listed[worker].swap(true, SeqCst);
        if is_new {
            self.port.to_send[worker].lock().push(Arc::clone(self));
            self.port.any[worker].store(true, SeqCst);
        }
        is_new
    }

    /// Applies a new description. The queue never holds more than it did at first.
    fn change(&self, of: &ShareOf, least: u32) {
        let quantum = u64::from(of.tickets / least).clamp(1, QUANTA_MAX);
        self.quantum.store(quantum, Relaxed);
        for lane in &self.down {
            let level = lane.level();
            level.set_limit(of.queue.min(level.capacity()));
        }
        *self.of.lock() = of.clone();
    }

    pub(super) fn probe(&self, device: PortInfo) -> PortInfo {
        let queues = self.down.len();
        PortInfo {
            driver: format!("share of {}", device.driver),
            max_rx_queues: queues,
            max_tx_queues: queues,
            mac: self.of.lock().mac().unwrap_or(device.mac),
            ..device
        }
    }

    pub(super) fn open(self: &Arc<Share>, request: &PortRequest, info: PortInfo) -> Parts {
        let open = Open::new(self.down.iter().cloned());
        let rx = (0..request.rx_queues).map(|queue| {
            let lanes = self.down.iter().skip(queue).step_by(request.rx_queues);
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
                to: Producer::new(&self.up[worker]),
                ringer: Ringer::default(),
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
            port: Arc::new(Side(Arc::clone(self), info)),
        }
    }
}

/// A share, for control.
struct Side(Arc<Share>, PortInfo);

impl Port for Side {
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
    device: Vec<Arc<Held<dyn RxQueue>>>,
}

impl FromPort {
    #[cold]
    fn hear(&mut self, changes: u64) {
        self.changes = changes;
        let queues = self.share.port.queues_of_sole(&self.share);
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
            self.hear(changes);
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
        let came = into.iter_mut().skip(before);
        came.for_each(|packet| packet.arrived(PacketType::of_frame));
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
    ringer: Ringer,
    share: Arc<Share>,
    worker: usize,
    /// The tags to push, and the number of changes at which they were read.
    changes: u64,
    tags: Vec<Tag>,
    /// Queue of the device, if this router is its only sender.
    device: Option<Arc<Held<dyn TxQueue>>>,
}

impl ToPort {
    #[cold]
    fn hear(&mut self, changes: u64) {
        self.changes = changes;
        self.tags.clone_from(&self.share.of.lock().vlan);
        let queues = self.share.port.queues_of_sole(&self.share);
        let tx = queues.as_ref().map_or(&[][..], |queues| &queues.tx);
        self.device = tx.get(self.worker % tx.len().max(1)).cloned();
    }
}

impl TxQueue for ToPort {
    fn transmit(&mut self, batch: &mut Batch, refused: &mut Batch) -> usize {
        let changes = self.share.port.changes.load(Acquire);
        if changes != self.changes {
            self.hear(changes);
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
        if share.port.gathering.load(Acquire) == 0 {
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
            self.ringer.ring(&share.port.bells[worker]);
        }
        sent
    }
}

/// Puts tags on, the outer one last. False if there is no room for them.
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
            apart: (0..workers).map(|_| Lock::default()).collect(),
            to_send: (0..workers).map(|_| Lock::default()).collect(),
            any: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            bells: (0..workers).map(|_| Bell::default()).collect(),
            unknown: (0..workers).map(|_| Count::default()).collect(),
            gathering: AtomicUsize::new(0),
        })
    }

    /// Sets the parts of all routers from now on.
    pub(super) fn tell(&self, device: &str, shares: &[(Arc<Share>, ShareOf)]) {
        device.clone_into(&mut self.device_name.lock());
        let least = shares.iter().map(|(_, of)| of.tickets).min();
        let least = least.unwrap_or(1).max(1);
        shares
            .iter()
            .for_each(|(share, of)| share.change(of, least));
        *self.table.lock() = Arc::new(Told::of(shares));
        self.changes.fetch_add(1, Release);
        if shares.is_empty() {
            // A share with packets to send holds a reference to the port; kept here, the two would keep each other
            // for ever.
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
            mtu: engine::packet::pool::data_bytes() - ether::LEN,
            node: None,
            super_frames: false,
            remarks: Vec::new(),
        }
    }

    pub(super) fn open(self: &Arc<Shared>, request: &PortRequest) -> Parts {
        let gather = request.rx_queues;
        self.gathering.fetch_add(gather, AcqRel);
        let rx = (0..request.rx_queues).map(|queue| {
            Box::new(Gather {
                port: Arc::clone(self),
                changes: u64::MAX,
                workers: (queue..self.bells.len())
                    .step_by(request.rx_queues)
                    .collect(),
                turns: VecDeque::new(),
            }) as Box<dyn RxQueue>
        });
        let tx = (0..request.tx_queues).map(|worker| {
            self.apart[worker].lock().open = true;
            Box::new(Split {
                port: Arc::clone(self),
                worker,
                clock: Clock::real(),
            }) as Box<dyn TxQueue>
        });
        Parts {
            rx: rx.collect(),
            tx: tx.collect(),
            port: Arc::new(Whole(Arc::clone(self))),
        }
    }
}

impl Default for Told {
    fn default() -> Told {
        Told::of(&[])
    }
}

impl Told {
    fn of(shares: &[(Arc<Share>, ShareOf)]) -> Told {
        let mut table = Table::new();
        for (number, (_, of)) in shares.iter().enumerate() {
            table.add(number as u32, &of.vlan, &of.by, of.broadcast);
        }
        let gets_all = |of: &ShareOf| of.vlan.is_empty() && of.broadcast && of.by == [By::Rest];
        Told {
            table,
            has_rates: shares.iter().any(|(_, of)| of.rate.is_some()),
            is_whole: matches!(shares, [(_, of)] if gets_all(of)),
            shares: shares.to_vec(),
        }
    }
}
