//! The ports of the port's own router: received packets are divided among routers, and packets that routers send are
//! gathered.

use super::*;
use rustc_hash::FxHashMap;

/// A shared port with all its shares, as control sees it.
pub(super) struct SharedControl(pub(super) Arc<Shared>);

impl Port for SharedControl {
    fn info(&self) -> PortInfo {
        self.0.probe()
    }

    fn link_up(&self) -> bool {
        true
    }

    fn counters(&self) -> Vec<PortCounter> {
        let table = Arc::clone(&self.0.table.lock());
        let mut all: Vec<PortCounter> = Vec::new();
        for worker in 0..self.0.bells.len() {
            let sum = |at: usize| -> u64 {
                let each = table.shares.iter();
                each.map(|(share, _)| share.down_counts[worker].at(at).get())
                    .sum()
            };
            let unknown = self.0.unclaimed[worker].get();
            all.push(("unknown", Some(worker), unknown));
            let named = RX_LOSSES.iter().enumerate();
            all.extend(named.map(|(at, &name)| (name, Some(worker), sum(at))));
        }
        all
    }
}

/// Divides received packets of the device among routers, on one worker.
pub(super) struct Split {
    pub(super) port: Arc<Shared>,
    pub(super) worker: usize,
    pub(super) clock: Clock,
}

/// State of frame classification. The port owns it, so that removed routers are forgotten even while no frame arrives.
#[derive(Default)]
pub(super) struct Classification {
    /// True if a queue classifies frames.
    pub(super) open: bool,
    /// Version of the table of shares that was read last.
    changes: Option<u64>,
    table: Arc<ShareTable>,
    routers: Vec<RouterLane>,
    /// Routers that have got packets in this burst.
    touched: Vec<u32>,
    /// Buffer for the number of each packet's router.
    destinations: Vec<u32>,
}

/// Special router numbers: no router, and several.
const NOBODY: u32 = u32::MAX;
const SEVERAL: u32 = u32::MAX - 1;

/// The port's side of the lane to one router.
pub(super) struct RouterLane {
    share: Arc<Share>,
    to: Producer,
    touched: bool,
    /// Nanoseconds between two packets, if their rate is limited.
    interval: Option<u64>,
    tags: usize,
}

impl Classification {
    /// Updates the parts of routers, if they have changed.
    #[inline]
    pub(super) fn update_shares(&mut self, port: &Shared, worker: usize) {
        let changes = port.changes.load(Acquire);
        if self.changes != Some(changes) {
            self.changes = Some(changes);
            self.take_up(Arc::clone(&port.table.lock()), worker);
        }
    }

    #[cold]
    fn take_up(&mut self, table: Arc<ShareTable>, worker: usize) {
        self.table = table;
        // A router that stays keeps its end of the ring; the others return it.
        let had = std::mem::take(&mut self.routers).into_iter();
        let mut had: FxHashMap<_, _> = had
            .map(|lane| (Arc::as_ptr(&lane.share), lane.to))
            .collect();
        let lane = |(share, of): &(Arc<Share>, ShareOf)| RouterLane {
            to: had
                .remove(&Arc::as_ptr(share))
                .unwrap_or_else(|| Producer::new(&share.to_router[worker])),
            share: Arc::clone(share),
            touched: false,
            interval: of.rate.map(|rate| 1_000_000_000 / u64::from(rate.max(1))),
            tags: of.vlan.len(),
        };
        self.routers = self.table.shares.iter().map(lane).collect();
    }
}

impl Shared {
    /// Forgets removed routers on all workers. A worker that is classifying packets
    /// forgets them itself.
    pub(super) fn forget_removed_routers(&self) {
        for (worker, classification) in self.classification.iter().enumerate() {
            if let Some(mut classification) = classification.try_lock()
                && classification.open
            {
                classification.update_shares(self, worker);
            }
        }
    }
}

impl RouterLane {
    /// Delivers the next `n` packets to the router, within its limits. Returns true if it got any.
    #[inline]
    fn deliver(
        &mut self,
        n: usize,
        packets: &mut std::vec::Drain<Packet>,
        burst: BurstContext,
    ) -> bool {
        if self.interval.is_some() {
            let each = packets.by_ref().take(n);
            return each.fold(false, |any, packet| {
                self.give_one(|| Some(packet), burst) | any
            });
        }
        let (why, given) = match (self.to.lane.is_open(), self.to.tail(), self.tags) {
            (false, ..) => (NO_ROUTER, 0),
            (true, None, _) => (FULL, 0),
            (true, Some(tail), 0) => (FULL, tail.push_from(n, packets)),
            (true, Some(tail), tags) => {
                let mut untagged = packets.by_ref().map(|mut packet| {
                    untag(&mut packet, tags);
                    packet
                });
                (FULL, tail.push_from(n, &mut untagged))
            }
        };
        if given < n {
            packets.by_ref().take(n - given).for_each(drop);
            self.count(why, n - given, burst);
        }
        given > 0
    }

    /// Delivers a packet to the router. `packet` is called only if the router's limits admit the packet. Returns true
    /// if it was delivered.
    fn give_one(&mut self, packet: impl FnOnce() -> Option<Packet>, burst: BurstContext) -> bool {
        let refused = self.refusal(burst).or_else(|| {
            // Without memory for a copy the frame is dropped, as if the lane were full.
            let Some(mut packet) = packet() else {
                return Some(FULL);
            };
            untag(&mut packet, self.tags);
            let pushed = self.to.tail().map(|tail| tail.push(packet));
            (!matches!(pushed, Some(Ok(())))).then_some(FULL)
        });
        if let Some(why) = refused {
            self.count(why, 1, burst);
        }
        refused.is_none()
    }

    /// Index of the drop counter if the router's limits refuse a packet now.
    fn refusal(&mut self, burst: BurstContext) -> Option<usize> {
        if !self.to.lane.is_open() {
            return Some(NO_ROUTER);
        }
        if self.to.tail().is_none_or(|tail| !tail.has_room()) {
            return Some(FULL);
        }
        // All times are shifted by the burst, so that a whole burst conforms at time 0.
        let (interval, now) = (self.interval?, burst.time + BURST_NS);
        let paid = self.share.next.fetch_update(AcqRel, Acquire, |next| {
            let next = next.max(burst.time) + interval;
            (next <= now + interval).then_some(next)
        });
        paid.is_err().then_some(RATE)
    }

    fn count(&self, why: usize, n: usize, burst: BurstContext) {
        self.share.down_counts[burst.worker].at(why).add(n as u64);
    }
}

/// Place and time of the classification of a burst.
#[derive(Clone, Copy)]
struct BurstContext {
    worker: usize,
    /// Nanoseconds; 0 if not needed.
    time: u64,
}

impl Classification {
    /// Delivers packets to a router, and records that it must be woken if it got any.
    #[inline]
    fn with_lane(&mut self, number: u32, something: impl FnOnce(&mut RouterLane) -> bool) {
        let lane = &mut self.routers[number as usize];
        if something(lane) && !lane.touched {
            lane.touched = true;
            self.touched.push(number);
        }
    }

    /// Classifies a burst by its headers. Consecutive packets to the same router go together.
    fn tell_apart(&mut self, batch: &mut Batch, now: BurstContext, unknown: &Count) {
        let table = Arc::clone(&self.table);
        let mut goes = std::mem::take(&mut self.destinations);
        goes.clear();
        goes.extend(
            batch
                .iter()
                .map(|packet| match table.table.find(packet.data()) {
                    Destination::To(number) => number,
                    Destination::ToAll([]) | Destination::NoRouter => NOBODY,
                    Destination::ToAll(_) => SEVERAL,
                }),
        );
        let (mut packets, mut rest) = (batch.drain(), &goes[..]);
        while let Some(&number) = rest.first() {
            let n = rest.iter().take_while(|next| **next == number).count();
            rest = &rest[n..];
            match number {
                NOBODY => {
                    packets.by_ref().take(n).for_each(drop);
                    unknown.add(n as u64);
                }
                SEVERAL => {
                    for packet in packets.by_ref().take(n) {
                        if let Destination::ToAll(all) = table.table.find(packet.data()) {
                            let copy = |lane: &mut RouterLane| lane.give_one(|| packet.copy(), now);
                            all.iter().for_each(|&number| self.with_lane(number, copy));
                        }
                    }
                }
                number => self.with_lane(number, |lane| lane.deliver(n, &mut packets, now)),
            }
        }
        drop(packets);
        self.destinations = goes;
    }
}

impl TxQueue for Split {
    fn transmit(&mut self, batch: &mut Batch, _: &mut Batch) -> usize {
        // Uncontended: only this worker waits for its lock; control uses `try_lock`.
        let classification = &mut *self.port.classification[self.worker].lock();
        classification.update_shares(&self.port, self.worker);
        let n = batch.len();
        let now = BurstContext {
            worker: self.worker,
            time: if classification.table.has_rates {
                self.clock.now().0
            } else {
                0
            },
        };
        match classification.table.is_whole {
            true => classification.with_lane(0, |lane| lane.deliver(n, &mut batch.drain(), now)),
            false => classification.tell_apart(batch, now, &self.port.unclaimed[self.worker]),
        }
        fence(SeqCst);
        for number in classification.touched.drain(..) {
            let lane = &mut classification.routers[number as usize];
            lane.touched = false;
            lane.to.ring();
        }
        n
    }
}

impl Drop for Split {
    fn drop(&mut self) {
        *self.port.classification[self.worker].lock() = Classification::default();
    }
}

/// A router that has packets to send.
pub(super) struct TxTurn {
    share: Arc<Share>,
    head: Head<Packet>,
    /// Number of bytes that the router may still send in its turn; excess bytes count for the next turn.
    credit: i64,
}

/// Transmit scheduler: takes packets from routers by deficit round robin.
pub(super) struct TxScheduler {
    pub(super) port: Arc<Shared>,
    /// Version of the table of shares that was read last.
    pub(super) changes: u64,
    pub(super) workers: Vec<usize>,
    pub(super) turns: VecDeque<(usize, TxTurn)>,
}

impl TxScheduler {
    /// Queues the shares that have packets to send.
    #[inline]
    fn queue_shares(&mut self) {
        let changes = self.port.changes.load(Acquire);
        if changes != self.changes {
            self.changes = changes;
            self.port.forget_removed_routers();
        }
        for &worker in &self.workers {
            if !self.port.has_to_send[worker].load(Acquire) {
                continue;
            }
            self.port.has_to_send[worker].store(false, SeqCst);
            let new = std::mem::take(&mut *self.port.to_send[worker].lock());
            for share in new {
                match share.from_router[worker].take_head() {
                    Some(head) => {
                        let credit = QUANTUM_BYTES * share.quantum.load(Relaxed) as i64;
                        self.turns.push_back((
                            worker,
                            TxTurn {
                                share,
                                head,
                                credit,
                            },
                        ));
                    }
                    // An older reader still has the ring's read end.
                    None => {
                        self.port.to_send[worker].lock().push(share);
                        self.port.has_to_send[worker].store(true, SeqCst);
                    }
                }
            }
        }
    }

    /// Removes a router from the list if it has no more packets to send.
    #[inline]
    fn end_turns(&mut self, worker: usize, turn: TxTurn) {
        let listed = &turn.share.listed[worker];
        listed.store(false, SeqCst);
        fence(SeqCst);
        if !turn.head.is_empty() && !listed.swap(true, SeqCst) {
            self.turns.push_back((worker, turn));
        } else {
            turn.share.from_router[worker].give_head(turn.head);
        }
    }
}

impl RxQueue for TxScheduler {
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        let before = into.len();
        self.receive_bare(into, max);
        let received = into.iter_mut().skip(before);
        received.for_each(|packet| packet.arrived(PacketType::of_frame));
        into.len() - before
    }

    fn receive_bare(&mut self, into: &mut Batch, max: usize) -> usize {
        self.queue_shares();
        let mut n = 0;
        while n < max
            && let Some((worker, mut turn)) = self.turns.pop_front()
        {
            if self.turns.is_empty() {
                // Only this router has packets on this worker, so they are sent regardless of its credit.
                n += turn.head.pop_each(max - n, |packet| into.push(packet));
            }
            while n < max
                && turn.credit > 0
                && let Some(packet) = turn.head.pop()
            {
                turn.credit -= packet.len() as i64;
                into.push(packet);
                n += 1;
            }
            if turn.head.is_empty() {
                self.end_turns(worker, turn);
            } else if turn.credit <= 0 {
                turn.credit += QUANTUM_BYTES * turn.share.quantum.load(Relaxed) as i64;
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

impl Drop for TxScheduler {
    fn drop(&mut self) {
        self.port.open_schedulers.fetch_sub(1, AcqRel);
        // All waiting packets are for a port that has closed, so they are dropped; the next opener begins with empty
        // queues.
        self.queue_shares();
        while let Some((worker, mut turn)) = self.turns.pop_front() {
            turn.head.pop_each(usize::MAX, drop);
            self.end_turns(worker, turn);
        }
    }
}
