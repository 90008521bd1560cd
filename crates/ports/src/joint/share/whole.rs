//! The ports of the port's own router: what has come is told apart, and what routers send is gathered.

use super::*;

/// What control sees of all shares of a port.
pub(super) struct Whole(pub(super) Arc<Shared>);

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
pub(super) struct Split {
    pub(super) port: Arc<Shared>,
    pub(super) worker: usize,
    /// How often it had been told who gets what.
    pub(super) changes: u64,
    pub(super) told: Arc<Told>,
    pub(super) routers: Vec<Way>,
    /// Those that have got packets in this burst.
    pub(super) touched: Vec<u32>,
    pub(super) clock: Clock,
}

/// The way to one router.
pub(super) struct Way {
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
pub(super) struct Turn {
    share: Arc<Share>,
    head: Head<Packet>,
    /// Bytes that it may send yet in its turn; what it has sent too much counts for the next one.
    credit: i64,
}

/// Takes what routers send, in turns.
pub(super) struct Gather {
    pub(super) port: Arc<Shared>,
    pub(super) workers: Vec<usize>,
    pub(super) turns: VecDeque<(usize, Turn)>,
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
