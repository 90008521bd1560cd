//! Test stand: the offer, its sources and its sinks.

use crate::arrivals::{Arrival, Seen};
use crate::histogram::{Counts, Histogram};
use crate::neighbour;
use crate::offered_load::{BenchClock, Plan, Schedule, Source, SourceCounters};
use crate::search::Trial;
use crate::traffic::{Templates, marked};
use engine::clock::Clock;
use engine::packet::Batch;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use sync::Lock;
use wire::EtherAddr;

/// State of a benchmark.
pub struct BenchState {
    pub(crate) schedule: Arc<Schedule>,
    pub(crate) clock: Arc<BenchClock>,
    templates: Arc<Templates>,
    given: Lock<Vec<Arc<SourceCounters>>>,
    taken: Lock<Vec<(bool, Arc<SinkCounters>)>>,
}

/// Counters of a sink.
#[derive(Default)]
struct SinkCounters {
    /// Number of packets of the current trial, each counted once.
    now: AtomicU64,
    /// `again` counts duplicates, and `late` packets that arrived after later packets of their flow.
    again: AtomicU64,
    late: AtomicU64,
    /// Arrived packets of the trial.
    seen: Lock<Arc<Seen>>,
    /// Number of packets of any trial.
    any: AtomicU64,
    latency: Histogram,
}

/// Counters at one time.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Number of packets that sources delivered.
    pub given: u64,
    /// Number of packets that were lost because a source's ring was full.
    pub missed: u64,
    /// Number of packets that arrived at the right port. Each counts once for each queue by which it arrived.
    pub received: u64,
    /// Number of packets that arrived at the right port again (duplicates).
    pub again: u64,
    /// Number of packets that arrived at the right port after later packets of their flow.
    pub late: u64,
    /// Number of packets that left by another port.
    pub elsewhere: u64,
    /// Number of packets of any trial, anywhere.
    pub any: u64,
}

/// The far end of a port: a link on which every address has a host.
pub struct End {
    mac: EtherAddr,
    answers: Lock<VecDeque<Vec<u8>>>,
    waiting: AtomicBool,
}

/// Maximum number of answers that wait for the router.
const ANSWERS_MAX: usize = 4096;

impl End {
    /// A link whose hosts all have one Ethernet address.
    pub fn new(mac: EtherAddr) -> Arc<End> {
        Arc::new(End {
            mac,
            answers: Lock::default(),
            waiting: AtomicBool::new(false),
        })
    }

    fn count(&self, frame: &[u8]) {
        if let Some(answer) = neighbour::answer(frame, self.mac) {
            let mut answers = self.answers.lock();
            if answers.len() < ANSWERS_MAX {
                answers.push_back(answer);
            }
            self.waiting.store(true, Release);
        }
    }

    /// Waiting answers of hosts, at most `max`. Costs one load while there are none.
    pub fn answers(&self, max: usize) -> Vec<Vec<u8>> {
        if !self.waiting.load(Acquire) {
            return Vec::new();
        }
        let mut answers = self.answers.lock();
        let n = answers.len().min(max);
        let some = answers.drain(..n).collect();
        self.waiting.store(!answers.is_empty(), Release);
        some
    }
}

/// Takes packets that leave the router.
pub struct Sink {
    offer: Arc<Schedule>,
    now: Arc<BenchClock>,
    end: Arc<End>,
    taken: Arc<SinkCounters>,
    /// Number of the trial whose packets are counted.
    trial: u32,
    plan: Plan,
    seen: Arc<Seen>,
}

impl Sink {
    /// Counts and frees packets; hosts answer address requests among them.
    pub fn consume(&mut self, batch: &mut Batch) {
        let (now, trial) = (self.now.get(), self.offer.number());
        if trial != self.trial {
            (self.trial, self.plan) = (trial, self.offer.plan());
            self.seen = Arc::clone(&self.taken.seen.lock());
        }
        let (mut of_it, mut again, mut late, mut any) = (0, 0, 0, 0);
        for packet in batch.iter() {
            match marked(packet.data()) {
                Some((number, n)) => {
                    any += 1;
                    if number != trial {
                        continue;
                    }
                    match self.seen.record(n) {
                        Arrival::InOrder => {}
                        Arrival::Reordered => late += 1,
                        Arrival::Duplicate => {
                            again += 1;
                            continue;
                        }
                        Arrival::Never => continue,
                    }
                    of_it += 1;
                    let due = self.plan.due_at(n);
                    self.taken.latency.count(now.saturating_sub(due));
                }
                None => self.end.count(packet.data()),
            }
        }
        batch.clear();
        self.taken.now.fetch_add(of_it, Relaxed);
        self.taken.again.fetch_add(again, Relaxed);
        self.taken.late.fetch_add(late, Relaxed);
        self.taken.any.fetch_add(any, Relaxed);
    }
}

impl BenchState {
    /// A stand by the machine's clock, or in simulated time.
    pub fn new(templates: Templates, simulated: bool) -> Arc<BenchState> {
        let now = match simulated {
            true => BenchClock::Set(AtomicU64::new(0)),
            false => BenchClock::Real(Clock::real()),
        };
        Arc::new(BenchState {
            schedule: Arc::default(),
            clock: Arc::new(now),
            templates: Arc::new(templates),
            given: Lock::default(),
            taken: Lock::default(),
        })
    }

    /// A source, given its index and the number of sources.
    pub fn source(&self, place: (usize, usize)) -> Source {
        let source = Source::new(&self.schedule, &self.templates, &self.clock, place);
        self.given.lock().push(Arc::clone(source.counts()));
        source
    }

    /// A sink at the end of a link; `right` is true for the port at which the trial's packets should arrive.
    pub fn sink(&self, end: &Arc<End>, right: bool) -> Sink {
        let taken = Arc::<SinkCounters>::default();
        self.taken.lock().push((right, Arc::clone(&taken)));
        Sink {
            offer: Arc::clone(&self.schedule),
            now: Arc::clone(&self.clock),
            end: Arc::clone(end),
            taken,
            trial: 0,
            plan: Plan::default(),
            seen: Arc::default(),
        }
    }

    /// Starts a trial at `start`; returns the number of its packets. The error is a sentence.
    pub fn begin_trial(&self, start: u64, trial: Trial) -> Result<u64, String> {
        let packets = (trial.load * trial.duration.as_secs_f64()).round().max(1.0) as u64;
        let none = || {
            format!(
                "there is no memory to tell {packets} packets apart: offer less, or shorter trials"
            )
        };
        for (_, taken) in self.taken.lock().iter() {
            let seen = Seen::new(packets, self.templates.flows()).ok_or_else(none)?;
            *taken.seen.lock() = Arc::new(seen);
        }
        // Sinks prepare for the trial when they see its number.
        self.schedule.begin(start, trial.load, packets);
        Ok(packets)
    }

    /// Number of packets of the trial that arrived at the right port; each counts once, even if it arrived by several
    /// queues.
    pub fn distinct(&self) -> u64 {
        let taken = self.taken.lock();
        let right = taken.iter().filter(|(right, _)| *right);
        let seen: Vec<_> = right.map(|(_, t)| Arc::clone(&t.seen.lock())).collect();
        Seen::union(seen.iter().map(|seen| &**seen))
    }

    /// The counts now.
    pub fn snapshot(&self) -> Snapshot {
        let mut all = Snapshot::default();
        for counts in self.given.lock().iter() {
            all.given += counts.delivered.load(Relaxed);
            all.missed += counts.lost.load(Relaxed);
        }
        for (right, taken) in self.taken.lock().iter() {
            let of_it = taken.now.load(Relaxed);
            match right {
                true => {
                    all.received += of_it;
                    all.again += taken.again.load(Relaxed);
                    all.late += taken.late.load(Relaxed);
                }
                false => all.elsewhere += of_it,
            }
            all.any += taken.any.load(Relaxed);
        }
        all
    }

    /// Latencies so far of the packets that arrived at the right port.
    pub fn latency(&self) -> Counts {
        let mut all = Counts::default();
        for (_, taken) in self.taken.lock().iter().filter(|(right, _)| *right) {
            all.add(&taken.latency.counts());
        }
        all
    }
}

impl Snapshot {
    /// Counts since an earlier time.
    pub fn since(&self, before: &Snapshot) -> Snapshot {
        Snapshot {
            given: self.given - before.given,
            missed: self.missed - before.missed,
            received: self.received - before.received,
            again: self.again - before.again,
            late: self.late - before.late,
            elsewhere: self.elsewhere - before.elsewhere,
            any: self.any - before.any,
        }
    }
}
