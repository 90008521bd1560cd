//! Offered load of a trial: packets are due at equal intervals, and wait in a ring as in a device.
//!
//! A [`Source`] replaces a device. When it is polled, it returns the packets that are due. Packets that become due
//! while the ring is full are lost, as in a device that is not read in time. A packet carries its number, from which
//! its due time is computed, not the time when it was taken. So waiting counts as latency.

use crate::traffic::Templates;
use engine::clock::Clock;
use engine::packet::{Batch, Packet};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// Capacity of a source's ring, in packets.
pub const RING: u64 = 1024;

/// Clock of a benchmark: the machine's, or one that the benchmark sets.
pub enum BenchClock {
    /// The machine's clock.
    Real(Clock),
    /// Nanoseconds, set by the owner of the value.
    Set(AtomicU64),
}

impl BenchClock {
    /// Nanoseconds.
    #[inline]
    pub fn get(&self) -> u64 {
        match self {
            BenchClock::Real(clock) => clock.now().0,
            BenchClock::Set(now) => now.load(Relaxed),
        }
    }
}

/// Schedule of the trial's packets: the benchmark sets it, and sources follow it.
#[derive(Default)]
pub struct Schedule {
    trial: AtomicU32,
    start: AtomicU64,
    /// Nanoseconds between two packets, as bits of an `f64`.
    period: AtomicU64,
    packets: AtomicU64,
}

impl Schedule {
    /// Starts a schedule at `start`; returns the number of the trial. Only one thread may call it.
    pub fn begin(&self, start: u64, load: f64, packets: u64) -> u32 {
        self.start.store(start, Relaxed);
        self.period.store((1e9 / load).to_bits(), Relaxed);
        self.packets.store(packets, Relaxed);
        // Sources read the other fields after they have seen the new number.
        self.trial.fetch_add(1, AcqRel) + 1
    }

    /// Number of the current trial.
    #[inline]
    pub fn number(&self) -> u32 {
        self.trial.load(Acquire)
    }

    /// Due time of the next packet after `now`, if there is one.
    pub fn next_due(&self, now: u64) -> Option<u64> {
        let plan = self.plan();
        let next = plan.due_by(now);
        (next < plan.packets).then(|| plan.due_at(next))
    }

    pub(crate) fn plan(&self) -> Plan {
        Plan {
            start: self.start.load(Relaxed),
            period: f64::from_bits(self.period.load(Relaxed)),
            packets: self.packets.load(Relaxed),
        }
    }
}

/// Due times of a trial's packets.
#[derive(Clone, Copy, Default)]
pub(crate) struct Plan {
    start: u64,
    period: f64,
    packets: u64,
}

impl Plan {
    /// Due time of a packet.
    #[inline]
    pub(crate) fn due_at(&self, n: u64) -> u64 {
        self.start + (n as f64 * self.period).round() as u64
    }

    /// Number of packets that are due at `now`.
    fn due_by(&self, now: u64) -> u64 {
        match now.checked_sub(self.start) {
            Some(since) => {
                let passed = ((since as f64 + 0.5) / self.period) as u64;
                passed.saturating_add(1).min(self.packets)
            }
            None => 0,
        }
    }
}

/// Counters of a source.
#[derive(Default)]
pub struct SourceCounters {
    /// Number of packets that the source delivered.
    pub delivered: AtomicU64,
    /// Number of packets lost because the ring was full.
    pub lost: AtomicU64,
}

/// One of several sources of a trial's packets. Of n sources, each delivers every n-th packet.
pub struct Source {
    schedule: Arc<Schedule>,
    templates: Arc<Templates>,
    clock: Arc<BenchClock>,
    counts: Arc<SourceCounters>,
    /// Number of this source, and number of sources.
    place: (u64, u64),
    trial: u32,
    plan: Plan,
    /// Number of packets due at the last check, including lost ones.
    arrived: u64,
    ring: Ring,
}

/// Packets in a ring as ranges of numbers, oldest first.
#[derive(Default)]
struct Ring {
    runs: VecDeque<(u64, u64)>,
    held: u64,
}

impl Ring {
    /// Adds packets `from..to` as far as there is room; returns the number of those without room.
    fn arrive(&mut self, from: u64, to: u64) -> u64 {
        let taken = (to - from).min(RING - self.held);
        if taken > 0 {
            self.held += taken;
            match self.runs.back_mut().filter(|run| run.1 == from) {
                Some(run) => run.1 += taken,
                None => self.runs.push_back((from, from + taken)),
            }
        }
        to - from - taken
    }

    fn pop(&mut self) -> Option<u64> {
        let run = self.runs.front_mut()?;
        let first = run.0;
        run.0 += 1;
        if run.0 == run.1 {
            self.runs.pop_front();
        }
        self.held -= 1;
        Some(first)
    }
}

impl Source {
    /// Source `number` of `count`.
    pub fn new(
        offer: &Arc<Schedule>,
        templates: &Arc<Templates>,
        now: &Arc<BenchClock>,
        (number, count): (usize, usize),
    ) -> Source {
        let mut ring = Ring::default();
        // A range has at least one packet, so no memory is allocated later.
        ring.runs.reserve(RING as usize + 1);
        Source {
            schedule: Arc::clone(offer),
            templates: Arc::clone(templates),
            clock: Arc::clone(now),
            counts: Arc::default(),
            place: (number as u64, count as u64),
            trial: 0,
            plan: Plan::default(),
            arrived: 0,
            ring,
        }
    }

    /// Counters of the source.
    pub fn counts(&self) -> &Arc<SourceCounters> {
        &self.counts
    }

    /// Appends up to `max` due packets; returns their number.
    pub fn fill(&mut self, into: &mut Batch, max: usize) -> usize {
        self.enqueue_due();
        let mut given = 0;
        while given < max
            && let Some(n) = self.ring.pop()
        {
            // The packet's number among all packets of the trial.
            let n = n * self.place.1 + self.place.0;
            let flow = (n % self.templates.flows() as u64) as usize;
            let Some(mut packet) = Packet::from_bytes(self.templates.frame(flow)) else {
                self.counts.lost.fetch_add(1, Relaxed);
                continue;
            };
            self.templates.mark(flow, packet.data_mut(), self.trial, n);
            packet.set_mac_here();
            into.push(packet);
            given += 1;
        }
        self.counts.delivered.fetch_add(given as u64, Relaxed);
        given
    }

    /// Moves due packets into the ring.
    fn enqueue_due(&mut self) {
        let trial = self.schedule.number();
        if trial != self.trial {
            (self.trial, self.plan, self.arrived) = (trial, self.schedule.plan(), 0);
            self.ring.runs.clear();
            self.ring.held = 0;
        }
        let (number, count) = self.place;
        let due = self.plan.due_by(self.clock.get());
        let mine = due.saturating_sub(number).div_ceil(count);
        if mine > self.arrived {
            let lost = self.ring.arrive(self.arrived, mine);
            self.counts.lost.fetch_add(lost, Relaxed);
            self.arrived = mine;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::{Traffic, marked};
    use wire::EtherAddr;

    struct Rig {
        offer: Arc<Schedule>,
        now: Arc<BenchClock>,
        sources: Vec<Source>,
    }

    fn rig(count: usize) -> Rig {
        let traffic = Traffic {
            size: 64,
            flows: 10,
            source: "10.0.1.2".parse().unwrap(),
            destination: "10.0.2.2".parse().unwrap(),
            from: EtherAddr([2, 0, 0, 0, 0, 9]),
            to: EtherAddr([2, 0, 0, 0, 0, 1]),
        };
        let templates = Arc::new(traffic.templates().unwrap());
        let (offer, now) = (Arc::default(), Arc::new(BenchClock::Set(AtomicU64::new(0))));
        let sources = (0..count).map(|n| Source::new(&offer, &templates, &now, (n, count)));
        let sources = sources.collect();
        Rig {
            offer,
            now,
            sources,
        }
    }

    impl Rig {
        /// Due times of the packets that all sources deliver at a time.
        fn at(&mut self, moment: u64, max: usize) -> Vec<u64> {
            let BenchClock::Set(now) = &*self.now else {
                panic!("time is set here");
            };
            now.store(moment, Relaxed);
            let mut batch = Batch::new();
            for source in &mut self.sources {
                source.fill(&mut batch, max);
            }
            let plan = self.offer.plan();
            let due = batch
                .iter()
                .map(|p| plan.due_at(marked(p.data()).unwrap().1));
            due.collect()
        }

        fn counted(&self) -> (u64, u64) {
            let sum = |f: fn(&SourceCounters) -> &AtomicU64| {
                let each = self.sources.iter().map(|s| f(s.counts()).load(Relaxed));
                each.sum()
            };
            (sum(|c| &c.delivered), sum(|c| &c.lost))
        }
    }

    #[test]
    fn packets_come_when_they_are_due_and_no_more_than_offered() {
        let mut rig = rig(1);
        assert!(rig.at(999, 32).is_empty());
        // Three packets per microsecond: the interval is no whole number of nanoseconds.
        rig.offer.begin(1000, 3e6, 7);
        assert!(rig.at(999, 32).is_empty());
        assert_eq!(rig.at(1000, 32), [1000]);
        assert_eq!(rig.offer.next_due(1000), Some(1333));
        assert_eq!(rig.at(1332, 32), []);
        assert_eq!(rig.at(1333, 32), [1333]);
        assert_eq!(rig.at(2000, 1), [1667]);
        assert_eq!(rig.at(2001, 32), [2000]);
        assert_eq!(rig.at(9000, 32), [2333, 2667, 3000]);
        assert_eq!(
            (rig.offer.next_due(9000), rig.at(10_000, 32)),
            (None, vec![])
        );
        assert_eq!(rig.counted(), (7, 0));
    }

    #[test]
    fn several_sources_share_a_trial() {
        let mut rig = rig(3);
        rig.offer.begin(0, 1e6, 10);
        let mut all = rig.at(4500, 32);
        all.extend(rig.at(100_000, 32));
        all.sort_unstable();
        assert_eq!(all, (0..10).map(|n| n * 1000).collect::<Vec<u64>>());
    }

    #[test]
    fn full_ring_loses_new_packets_and_keeps_waiting_ones_in_order() {
        let mut rig = rig(1);
        rig.offer.begin(0, 1e9, 10_000);
        let first = rig.at(1999, 10);
        assert_eq!(first, (0..10).collect::<Vec<u64>>());
        assert_eq!(rig.counted(), (10, 2000 - 1024));
        // Ten places are free for the next packets.
        let mut rest = rig.at(2999, 2000);
        assert_eq!(rest.len(), 1024);
        assert_eq!(rest.split_off(1014), (2000..2010).collect::<Vec<u64>>());
        assert_eq!(rest, (10..1024).collect::<Vec<u64>>());
        let all = rig.at(1_000_000, 2000);
        assert_eq!(all, (3000..4024).collect::<Vec<u64>>());
        let (given, lost) = rig.counted();
        assert_eq!(given + lost, 10_000);
        // The next trial finds the ring empty.
        rig.at(1_000_000, 0);
        rig.offer.begin(2_000_000, 1e9, 2);
        assert_eq!(rig.at(3_000_000, 32), [2_000_000, 2_000_001]);
    }
}
