//! The ports of the port's own router: received packets are divided among routers, and packets that routers send are
//! gathered.

use super::*;
use rustc_hash::FxHashMap;

/// A shared port with all its shares, as control sees it.
pub(super) struct Whole(pub(super) Arc<Shared>);

impl Port for Whole {
    fn info(&self) -> PortInfo {
        self.0.probe()
    }

    fn link_up(&self) -> bool {
        true
    }

    fn counters(&self) -> Vec<PortCounter> {
        let told = Arc::clone(&self.0.table.lock());
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

/// Divides received packets of the device among routers, on one worker.
pub(super) struct Split {
    pub(super) port: Arc<Shared>,
    pub(super) worker: usize,
    pub(super) clock: Clock,
}

/// State of frame classification. The port owns it, so that removed routers are forgotten even while no frame arrives.
#[derive(Default)]
pub(super) struct Apart {
    /// True if a queue classifies frames.
    pub(super) open: bool,
    /// Version of the table of shares that was read last.
    changes: Option<u64>,
    told: Arc<Told>,
    routers: Vec<Way>,
    /// Routers that have got packets in this burst.
    touched: Vec<u32>,
    /// Buffer for the number of each packet's router.
    goes: Vec<u32>,
}

/// Special router numbers: no router, and several.
const NOBODY: u32 = u32::MAX;
const SEVERAL: u32 = u32::MAX - 1;

/// The port's side of the lane to one router.
pub(super) struct Way {
    share: Arc<Share>,
    to: Producer,
    touched: bool,
    /// Nanoseconds between two packets, if their rate is limited.
    interval: Option<u64>,
    tags: usize,
}

impl Apart {
    /// Updates the parts of routers, if they have changed.
    #[inline]
    pub(super) fn hear(&mut self, port: &Shared, worker: usize) {
        let changes = port.changes.load(Acquire);
        if self.changes != Some(changes) {
            self.changes = Some(changes);
            self.take_up(Arc::clone(&port.table.lock()), worker);
        }
    }

    #[cold]
    fn take_up(&mut self, told: Arc<Told>, worker: usize) {
        self.told = told;
        // A router that stays keeps its end of the ring; the others return it.
        let had = std::mem::take(&mut self.routers).into_iter();
        let mut had: FxHashMap<_, _> = had.map(|way| (Arc::as_ptr(&way.share), way.to)).collect();
        let way = |(share, of): &(Arc<Share>, ShareOf)| Way {
            to: had
                .remove(&Arc::as_ptr(share))
                .unwrap_or_else(|| Producer::new(&share.down[worker])),
            share: Arc::clone(share),
            touched: false,
            interval: of.rate.map(|rate| 1_000_000_000 / u64::from(rate.max(1))),
            tags: of.vlan.len(),
        };
        self.routers = self.told.shares.iter().map(way).collect();
    }
}

impl Shared {
    /// Forgets removed routers on all workers. A worker that classifies packets at this moment does so itself.
    pub(super) fn hear_all(&self) {
        for (worker, apart) in self.apart.iter().enumerate() {
            if let Some(mut apart) = apart.try_lock()
                && apart.open
            {
                apart.hear(self, worker);
            }
        }
    }
}

impl Way {
    /// Gives the router the next `n` packets, within its limits. Returns true if the router got any.
    #[inline]
    fn give(&mut self, n: usize, packets: &mut std::vec::Drain<Packet>, of: Now) -> bool {
        if self.interval.is_some() {
            let each = packets.by_ref().take(n);
            return each.fold(false, |any, packet| {
                self.give_one(|| Some(packet), of) | any
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
            self.count(why, n - given, of);
        }
        given > 0
    }

    /// Gives the router a packet, which is made only if it may have it. Returns true if it has it.
    fn give_one(&mut self, packet: impl FnOnce() -> Option<Packet>, of: Now) -> bool {
        let refused = self.refuses(of).or_else(|| {
            // Without memory for a copy the frame is dropped, as if the lane were full.
            let Some(mut packet) = packet() else {
                return Some(FULL);
            };
            untag(&mut packet, self.tags);
            let pushed = self.to.tail().map(|tail| tail.push(packet));
            (!matches!(pushed, Some(Ok(())))).then_some(FULL)
        });
        if let Some(why) = refused {
            self.count(why, 1, of);
        }
        refused.is_none()
    }

    /// Reason why the router gets no packet now.
    fn refuses(&mut self, of: Now) -> Option<usize> {
        if !self.to.lane.is_open() {
            return Some(NO_ROUTER);
        }
        if self.to.tail().is_none_or(|tail| !tail.has_room()) {
            return Some(FULL);
        }
        // Times are shifted by the burst, which may arrive as soon as the clock begins.
        let (interval, now) = (self.interval?, of.time + BURST_TIME);
        let paid = self.share.next.fetch_update(AcqRel, Acquire, |next| {
            let next = next.max(of.time) + interval;
            (next <= now + interval).then_some(next)
        });
        paid.is_err().then_some(RATE)
    }

    fn count(&self, why: usize, n: usize, of: Now) {
        self.share.down_counts[of.worker].at(why).add(n as u64);
    }
}

/// Place and time of the classification of a burst.
#[derive(Clone, Copy)]
struct Now {
    worker: usize,
    /// Nanoseconds; 0 if not needed.
    time: u64,
}

impl Apart {
    /// Gives a router something, and remembers to wake it if it has got it.
    #[inline]
    fn give(&mut self, number: u32, something: impl FnOnce(&mut Way) -> bool) {
        let way = &mut self.routers[number as usize];
        if something(way) && !way.touched {
            way.touched = true;
            self.touched.push(number);
        }
    }

    /// Classifies a burst by its headers. Consecutive packets to the same router go together.
    fn tell_apart(&mut self, batch: &mut Batch, now: Now, unknown: &Count) {
        let told = Arc::clone(&self.told);
        let mut goes = std::mem::take(&mut self.goes);
        goes.clear();
        goes.extend(
            batch
                .iter()
                .map(|packet| match told.table.find(packet.data()) {
                    Goes::To(number) => number,
                    Goes::ToAll([]) | Goes::Nowhere => NOBODY,
                    Goes::ToAll(_) => SEVERAL,
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
                        if let Goes::ToAll(all) = told.table.find(packet.data()) {
                            let copy = |way: &mut Way| way.give_one(|| packet.copy(), now);
                            all.iter().for_each(|&number| self.give(number, copy));
                        }
                    }
                }
                number => self.give(number, |way| way.give(n, &mut packets, now)),
            }
        }
        drop(packets);
        self.goes = goes;
    }
}

impl TxQueue for Split {
    fn transmit(&mut self, batch: &mut Batch, _: &mut Batch) -> usize {
        // Uncontended: only this worker waits for its lock; control uses `try_lock`.
        let apart = &mut *self.port.apart[self.worker].lock();
        apart.hear(&self.port, self.worker);
        let n = batch.len();
        let now = Now {
            worker: self.worker,
            time: if apart.told.has_rates {
                self.clock.now().0
            } else {
                0
            },
        };
        match apart.told.is_whole {
            true => apart.give(0, |way| way.give(n, &mut batch.drain(), now)),
            false => apart.tell_apart(batch, now, &self.port.unknown[self.worker]),
        }
        fence(SeqCst);
        for number in apart.touched.drain(..) {
            let way = &mut apart.routers[number as usize];
            way.touched = false;
            way.to.ring();
        }
        n
    }
}

impl Drop for Split {
    fn drop(&mut self) {
        *self.port.apart[self.worker].lock() = Apart::default();
    }
}

/// A router that has packets to send.
pub(super) struct Turn {
    share: Arc<Share>,
    head: Head<Packet>,
    /// Number of bytes that the router may still send in its turn; excess bytes count for the next turn.
    credit: i64,
}

/// Takes what routers send, in turns.
pub(super) struct Gather {
    pub(super) port: Arc<Shared>,
    /// Version of the table of shares that was read last.
    pub(super) changes: u64,
    pub(super) workers: Vec<usize>,
    pub(super) turns: VecDeque<(usize, Turn)>,
}

impl Gather {
    /// Queues the shares that have packets to send.
    #[inline]
    fn hear(&mut self) {
        let changes = self.port.changes.load(Acquire);
        if changes != self.changes {
            self.changes = changes;
            self.port.hear_all();
        }
        for &worker in &self.workers {
            if !self.port.any[worker].load(Acquire) {
                continue;
            }
            self.port.any[worker].store(false, SeqCst);
            let new = std::mem::take(&mut *self.port.to_send[worker].lock());
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
                    // The previous owner still has it.
                    None => {
                        self.port.to_send[worker].lock().push(share);
                        self.port.any[worker].store(true, SeqCst);
                    }
                }
            }
        }
    }

    /// Ends the turns of a router that seems to have nothing more to send.
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
        came.for_each(|packet| packet.arrived(PacketType::of_frame));
        into.len() - before
    }

    fn receive_bare(&mut self, into: &mut Batch, max: usize) -> usize {
        self.hear();
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
        self.port.gathering.fetch_sub(1, AcqRel);
        // All waiting packets are for a port that has closed, so they are dropped; the next opener begins with empty
        // queues.
        self.hear();
        while let Some((worker, mut turn)) = self.turns.pop_front() {
            turn.head.pop_each(usize::MAX, drop);
            self.leave(worker, turn);
        }
    }
}
