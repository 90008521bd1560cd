//! A port that several routers share. A router of its own, the port's, has the device. What it sends to
//! `shares:NAME` is told apart and waits in the queue of the router that it is for; what it receives from there is what
//! these routers send, in turns by their tickets (VR4, VR7).
//!
//! A frame that a router may not have, or has no room for, is dropped as soon as its header has told whose it is. All
//! of a worker's part is one thread's: its copy of the port's router fills the queues that its copies of the others
//! empty.

use super::lane::{Bell, Consumer, Lane, Open, Producer, Ringer, lock};
use super::select::{Goes, Table};
use super::spec::ShareOf;
use crate::counts::{Count, Counts};
use crate::directory::Parts;
use engine::clock::Clock;
use engine::packet::{Batch, Packet};
use engine::port::{Port, PortCounter, PortInfo, PortRequest, RxQueue, TxQueue};
use engine::ring::Head;
use engine::wake::Wakers;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*, fence};
use std::sync::{Arc, Mutex};
use wire::{ether, vlan};

/// Packets that wait to be sent, for each router and worker.
const SENT: usize = 256;
/// Bytes that a router of one ticket sends in a turn: a large frame.
const QUANTUM: i64 = 1514;
/// The most that a router of many tickets sends in a turn, in such turns.
const QUANTA_MAX: u64 = 64;
/// Packets that may come at once beyond a router's rate: those of so much time.
const BURST_TIME: u64 = 10_000_000;

/// What is lost on the way to a router, and places of the counts.
const DOWN: [&str; 3] = ["rx_full", "rx_rate", "rx_no_router"];
const FULL: usize = 0;
const RATE: usize = 1;
const NO_ROUTER: usize = 2;
/// What is lost on the way from it.
const UP: [&str; 2] = ["tx_no_router", "tx_no_room"];
const NO_PORT: usize = 0;
const NO_ROOM: usize = 1;

/// A router's share of a port.
pub(crate) struct Share {
    of: Mutex<ShareOf>,
    /// To the router, and from it, by worker.
    down: Vec<Arc<Lane>>,
    up: Vec<Arc<Lane>>,
    /// Whether the port's router knows of packets in `up`.
    listed: Vec<AtomicBool>,
    /// Counts of what was lost on the way to the router, and from it.
    down_counts: Vec<Counts<3>>,
    up_counts: Vec<Counts<2>>,
    /// When the router's next packet may come, in nanoseconds, if it had all that it may have.
    next: AtomicU64,
    quantum: AtomicU64,
    port: Arc<Shared>,
}

/// A shared port.
pub(crate) struct Shared {
    device_name: Mutex<String>,
    table: Mutex<Arc<Told>>,
    changes: AtomicU64,
    /// The device, once it is open.
    device: Mutex<Option<Arc<dyn Port>>>,
    /// Shares with packets to send, by worker, and whom to wake for them.
    to_send: Vec<Mutex<Vec<Arc<Share>>>>,
    any: Vec<AtomicBool>,
    bells: Vec<Bell>,
    /// Frames for nobody, by worker.
    unknown: Vec<Count>,
    /// Queues that take what routers send.
    gathering: AtomicUsize,
}

/// Who gets what, as one worker reads it.
pub(super) struct Told {
    table: Table,
    shares: Vec<(Arc<Share>, ShareOf)>,
    has_rates: bool,
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
            of: Mutex::new(of),
        })
    }

    /// It is described otherwise. The queue never holds more than it did at first.
    fn change(&self, of: &ShareOf, least: u32) {
        let quantum = u64::from(of.tickets / least).clamp(1, QUANTA_MAX);
        self.quantum.store(quantum, Relaxed);
        for lane in &self.down {
            let level = lane.level();
            level.set_limit(of.queue.min(level.capacity()));
        }
        *lock(&self.of) = of.clone();
    }

    pub(super) fn probe(&self, device: PortInfo) -> PortInfo {
        let queues = self.down.len();
        PortInfo {
            driver: format!("share of {}", device.driver),
            max_rx_queues: queues,
            max_tx_queues: queues,
            mac: lock(&self.of).mac().unwrap_or(device.mac),
            ..device
        }
    }

    pub(super) fn open(self: &Arc<Share>, request: &PortRequest, info: PortInfo) -> Parts {
        let open = Open::new(self.down.iter().cloned());
        let rx = (0..request.rx_queues).map(|queue| {
            let lanes = self.down.iter().skip(queue).step_by(request.rx_queues);
            Box::new(FromPort {
                lanes: lanes.map(Consumer::new).collect(),
                _open: Arc::clone(&open),
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
            }) as Box<dyn TxQueue>
        });
        Parts {
            rx: rx.collect(),
            tx: tx.collect(),
            port: Arc::new(Side(Arc::clone(self), info)),
        }
    }
}

/// What control sees of a share.
struct Side(Arc<Share>, PortInfo);

impl Port for Side {
    fn info(&self) -> PortInfo {
        let device = lock(&self.0.port.device).clone();
        match device {
            Some(device) => self.0.probe(device.info()),
            None => self.1.clone(),
        }
    }

    fn link_up(&self) -> bool {
        let device = lock(&self.0.port.device).clone();
        device.is_some_and(|device| device.link_up())
    }

    fn hash_key(&self) -> Option<[u8; 40]> {
        lock(&self.0.port.device).clone()?.hash_key()
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

/// What comes from the port for one router.
struct FromPort {
    lanes: Vec<Consumer>,
    _open: Arc<Open>,
}

impl RxQueue for FromPort {
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        let before = into.len();
        self.receive_bare(into, max);
        let came = into.iter_mut().skip(before);
        came.for_each(|packet| packet.arrived(crate::link_type));
        into.len() - before
    }

    fn receive_bare(&mut self, into: &mut Batch, max: usize) -> usize {
        let before = into.len();
        for lane in &mut self.lanes {
            let room = max + before - into.len();
            if let Some(head) = lane.head() {
                head.pop_each(room, |packet| into.push(packet));
            }
        }
        into.len() - before
    }

    fn wakes(&mut self, wakers: &Arc<Wakers>, worker: usize) -> bool {
        let lanes = self.lanes.iter();
        lanes.for_each(|c| c.lane.bell.set(wakers, worker));
        true
    }

    fn fill(&self) -> Option<f64> {
        super::fill(&self.lanes)
    }

    fn waiting(&self) -> Option<usize> {
        Some(super::waiting(&self.lanes))
    }
}

/// What one router sends, on one worker.
struct ToPort {
    to: Producer,
    ringer: Ringer,
    share: Arc<Share>,
    worker: usize,
    /// The tags that go on, and how often they had been told.
    changes: u64,
    tags: Vec<u16>,
}

impl TxQueue for ToPort {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        let (share, worker) = (&self.share, self.worker);
        let counts = &share.up_counts[worker];
        if share.port.gathering.load(Acquire) == 0 {
            let n = batch.len();
            counts.at(NO_PORT).add(n as u64);
            batch.clear();
            return n;
        }
        let changes = share.port.changes.load(Acquire);
        if changes != self.changes {
            self.changes = changes;
            self.tags.clone_from(&lock(&share.of).vlan);
        }
        let Some(tail) = self.to.tail() else {
            return 0;
        };
        let room = tail.capacity().saturating_sub(tail.len()).min(batch.len());
        if room == 0 {
            return 0;
        }
        let tags = &*self.tags;
        if tags.is_empty() {
            tail.push_from(room, &mut batch.drain_front(room));
        } else {
            let mut packets = batch.drain_front(room).filter_map(|mut packet| {
                let tagged = tag(&mut packet, tags);
                if !tagged {
                    counts.at(NO_ROOM).add(1);
                }
                tagged.then_some(packet)
            });
            tail.push_from(room, &mut packets);
        }
        if !share.listed[worker].swap(true, SeqCst) {
            lock(&share.port.to_send[worker]).push(Arc::clone(share));
            share.port.any[worker].store(true, SeqCst);
            fence(SeqCst);
            self.ringer.ring(&share.port.bells[worker]);
        }
        room
    }
}

/// Puts tags on, the outer one last. False if there is no room for them.
fn tag(packet: &mut Packet, tags: &[u16]) -> bool {
    for (n, &id) in tags.iter().enumerate().rev() {
        // Of two tags the outer one is a provider's (802.1ad).
        let ethertype = if n == 0 && tags.len() > 1 {
            ether::QINQ
        } else {
            ether::VLAN
        };
        if packet.push(vlan::LEN).is_none() || !vlan::push(packet.data_mut(), ethertype, id) {
            return false;
        }
    }
    true
}

/// Takes so many tags off.
fn untag(packet: &mut Packet, tags: usize) {
    for _ in 0..tags {
        // They are there, since the table has found them.
        let _ = vlan::pop(packet.data_mut()).map(|_| packet.pull(vlan::LEN));
    }
}

impl Shared {
    pub(super) fn new(device: String, workers: usize) -> Arc<Shared> {
        Arc::new(Shared {
            device_name: Mutex::new(device),
            table: Mutex::new(Arc::new(Told::of(&[]))),
            changes: AtomicU64::new(0),
            device: Mutex::default(),
            to_send: (0..workers).map(|_| Mutex::default()).collect(),
            any: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            bells: (0..workers).map(|_| Bell::default()).collect(),
            unknown: (0..workers).map(|_| Count::default()).collect(),
            gathering: AtomicUsize::new(0),
        })
    }

    /// Says who gets what from now on.
    pub(super) fn tell(&self, device: &str, shares: &[(Arc<Share>, ShareOf)]) {
        device.clone_into(&mut lock(&self.device_name));
        let least = shares.iter().map(|(_, of)| of.tickets).min();
        let least = least.unwrap_or(1).max(1);
        shares
            .iter()
            .for_each(|(share, of)| share.change(of, least));
        *lock(&self.table) = Arc::new(Told::of(shares));
        self.changes.fetch_add(1, Release);
    }

    pub(super) fn device_name(&self) -> String {
        lock(&self.device_name).clone()
    }

    /// The device is open, or closed.
    pub(super) fn set_device(&self, device: Option<Arc<dyn Port>>) {
        *lock(&self.device) = device;
    }

    pub(super) fn probe(&self) -> PortInfo {
        PortInfo {
            driver: "shares".into(),
            max_rx_queues: self.bells.len(),
            max_tx_queues: self.bells.len(),
            mac: [2, 0, 0, 0, 0, 1],
            mtu: engine::packet::pool::data_bytes() - ether::LEN,
            node: None,
            remarks: Vec::new(),
        }
    }

    pub(super) fn open(self: &Arc<Shared>, request: &PortRequest) -> Parts {
        let gather = request.rx_queues;
        self.gathering.fetch_add(gather, AcqRel);
        let rx = (0..request.rx_queues).map(|queue| {
            Box::new(Gather {
                port: Arc::clone(self),
                workers: (queue..self.bells.len())
                    .step_by(request.rx_queues)
                    .collect(),
                turns: VecDeque::new(),
            }) as Box<dyn RxQueue>
        });
        let tx = (0..request.tx_queues).map(|worker| {
            Box::new(Split {
                port: Arc::clone(self),
                worker,
                changes: u64::MAX,
                told: Arc::new(Told::of(&[])),
                routers: Vec::new(),
                touched: Vec::new(),
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

impl Told {
    fn of(shares: &[(Arc<Share>, ShareOf)]) -> Told {
        let mut table = Table::new();
        for (number, (_, of)) in shares.iter().enumerate() {
            table.add(number as u32, &of.vlan, &of.by, of.broadcast);
        }
        Told {
            table,
            has_rates: shares.iter().any(|(_, of)| of.rate.is_some()),
            shares: shares.to_vec(),
        }
    }
}

/// What control sees of all shares of a port.
struct Whole(Arc<Shared>);

impl Port for Whole {
    fn info(&self) -> PortInfo {
        self.0.probe()
    }

    fn link_up(&self) -> bool {
        true
    }

    fn counters(&self) -> Vec<PortCounter> {
        let told = Arc::clone(&lock(&self.0.table));
        let mut all: Vec<PortCounter> = Vec::new();
        for worker in 0..self.0.bells.len() {
            let sum = |at: usize| -> u64 {
                let each = told.shares.iter();
                each.map(|(share, _)| share.down_counts[worker].at(at).get())
                    .sum()
            };
            let unknown = self.0.unknown[worker].get();
            all.push(("unknown", Some(worker), unknown));
            let named = DOWN.iter().enumerate();
            all.extend(named.map(|(at, &name)| (name, Some(worker), sum(at))));
        }
        all
    }
}

/// Tells apart what has come from the device, on one worker.
struct Split {
    port: Arc<Shared>,
    worker: usize,
    /// How often it had been told who gets what.
    changes: u64,
    told: Arc<Told>,
    routers: Vec<Way>,
    /// Those that have got packets in this burst.
    touched: Vec<u32>,
    clock: Clock,
}

/// The way to one router.
struct Way {
    to: Producer,
    touched: bool,
    /// Nanoseconds between two packets, if they are bounded.
    interval: Option<u64>,
    tags: usize,
}

impl Split {
    #[cold]
    fn hear(&mut self, changes: u64) {
        self.changes = changes;
        self.told = Arc::clone(&lock(&self.port.table));
        // Whoever stays keeps its end of the ring; the others give it back.
        let mut had = std::mem::take(&mut self.routers);
        let worker = self.worker;
        let way = |(share, of): &(Arc<Share>, ShareOf)| {
            let lane = &share.down[worker];
            let is_it = |way: &Way| Arc::ptr_eq(&way.to.lane, lane);
            let to = match had.iter().position(is_it) {
                Some(at) => had.swap_remove(at).to,
                None => Producer::new(lane),
            };
            Way {
                to,
                touched: false,
                interval: of.rate.map(|rate| 1_000_000_000 / u64::from(rate.max(1))),
                tags: of.vlan.len(),
            }
        };
        self.routers = self.told.shares.iter().map(way).collect();
    }
}

impl Told {
    /// Gives a router a packet, which is made if it may have it. Returns whether it has it.
    #[inline]
    fn deliver(
        &self,
        packet: impl FnOnce() -> Option<Packet>,
        number: u32,
        way: &mut Way,
        worker: usize,
        now: u64,
    ) -> bool {
        let refused = self.refuses(number, way, now).or_else(|| {
            // Without memory for a copy it is as if there were no room.
            let Some(mut packet) = packet() else {
                return Some(FULL);
            };
            untag(&mut packet, way.tags);
            let pushed = way.to.tail().map(|tail| tail.push(packet));
            (!matches!(pushed, Some(Ok(())))).then_some(FULL)
        });
        if let Some(why) = refused {
            let (share, _) = &self.shares[number as usize];
            share.down_counts[worker].at(why).add(1);
        }
        refused.is_none()
    }

    /// Why a router gets no packet now.
    #[inline]
    fn refuses(&self, number: u32, way: &mut Way, now: u64) -> Option<usize> {
        if !way.to.lane.is_open() {
            return Some(NO_ROUTER);
        }
        if way.to.tail().is_none_or(|tail| !tail.has_room()) {
            return Some(FULL);
        }
        let interval = way.interval?;
        let (share, _) = &self.shares[number as usize];
        let paid = share.next.fetch_update(AcqRel, Acquire, |next| {
            let next = next.max(now.saturating_sub(BURST_TIME)) + interval;
            (next <= now + interval).then_some(next)
        });
        paid.is_err().then_some(RATE)
    }
}

impl TxQueue for Split {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        let changes = self.port.changes.load(Acquire);
        if changes != self.changes {
            self.hear(changes);
        }
        let (n, worker) = (batch.len(), self.worker);
        let now = if self.told.has_rates {
            self.clock.now().0
        } else {
            0
        };
        let (told, routers, touched) = (&*self.told, &mut self.routers, &mut self.touched);
        let mut give = |packet: &mut dyn FnMut() -> Option<Packet>, number: u32| {
            let way = &mut routers[number as usize];
            if told.deliver(packet, number, way, worker, now) && !way.touched {
                way.touched = true;
                touched.push(number);
            }
        };
        for packet in batch.drain() {
            match told.table.find(packet.data()) {
                Goes::To(number) => {
                    let mut packet = Some(packet);
                    give(&mut || packet.take(), number);
                }
                Goes::ToAll([]) | Goes::Nowhere => self.port.unknown[worker].add(1),
                Goes::ToAll(all) => all
                    .iter()
                    .for_each(|&number| give(&mut || packet.copy(), number)),
            }
        }
        fence(SeqCst);
        for number in self.touched.drain(..) {
            let way = &mut self.routers[number as usize];
            way.touched = false;
            way.to.ring();
        }
        n
    }
}

/// A router that has packets to send.
struct Turn {
    share: Arc<Share>,
    head: Head<Packet>,
    /// Bytes that it may send yet in its turn; what it has sent too much counts for the next one.
    credit: i64,
}

/// Takes what routers send, in turns.
struct Gather {
    port: Arc<Shared>,
    workers: Vec<usize>,
    turns: VecDeque<(usize, Turn)>,
}

impl Gather {
    /// Has those stand in line that have got something to send.
    #[inline]
    fn hear(&mut self) {
        for &worker in &self.workers {
            if !self.port.any[worker].load(Acquire) {
                continue;
            }
            self.port.any[worker].store(false, SeqCst);
            let new = std::mem::take(&mut *lock(&self.port.to_send[worker]));
            for share in new {
                match share.up[worker].take_head() {
                    Some(head) => {
                        let credit = QUANTUM * share.quantum.load(Relaxed) as i64;
                        self.turns.push_back((
                            worker,
                            Turn {
                                share,
                                head,
                                credit,
                            },
                        ));
                    }
                    // The one before this one has it still.
                    None => {
                        lock(&self.port.to_send[worker]).push(share);
                        self.port.any[worker].store(true, SeqCst);
                    }
                }
            }
        }
    }

    /// A router has nothing more to send, as it seems.
    #[inline]
    fn leave(&mut self, worker: usize, turn: Turn) {
        let listed = &turn.share.listed[worker];
        listed.store(false, SeqCst);
        fence(SeqCst);
        if !turn.head.is_empty() && !listed.swap(true, SeqCst) {
            self.turns.push_back((worker, turn));
        } else {
            turn.share.up[worker].give_head(turn.head);
        }
    }
}

impl RxQueue for Gather {
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        let before = into.len();
        self.receive_bare(into, max);
        let came = into.iter_mut().skip(before);
        came.for_each(|packet| packet.arrived(crate::link_type));
        into.len() - before
    }

    fn receive_bare(&mut self, into: &mut Batch, max: usize) -> usize {
        self.hear();
        let mut n = 0;
        while n < max
            && let Some((worker, mut turn)) = self.turns.pop_front()
        {
            while n < max
                && turn.credit > 0
                && let Some(packet) = turn.head.pop()
            {
                turn.credit -= packet.len() as i64;
                into.push(packet);
                n += 1;
            }
            if turn.head.is_empty() {
                self.leave(worker, turn);
            } else if turn.credit <= 0 {
                turn.credit += QUANTUM * turn.share.quantum.load(Relaxed) as i64;
                self.turns.push_back((worker, turn));
            } else {
                self.turns.push_front((worker, turn));
            }
        }
        n
    }

    fn wakes(&mut self, wakers: &Arc<Wakers>, worker: usize) -> bool {
        let each = self.workers.iter();
        each.for_each(|&of| self.port.bells[of].set(wakers, worker));
        true
    }
}

impl Drop for Gather {
    fn drop(&mut self) {
        // What waits is for a port that is gone; whoever opens it next begins anew.
        for (worker, mut turn) in std::mem::take(&mut self.turns) {
            turn.head.pop_each(usize::MAX, drop);
            self.leave(worker, turn);
        }
        self.port.gathering.fetch_sub(1, AcqRel);
    }
}
