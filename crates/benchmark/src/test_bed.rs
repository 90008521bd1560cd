//! Execution of trials, on a running router or in simulated time.

use crate::cable::Cable;
use crate::histogram::Counts;
use crate::offered_load::BenchClock;
use crate::search::Trial;
use crate::test_stand::{BenchState, Snapshot};
use engine::clock::{Clock, Time};
use engine::graph::single;
use engine::graph::{Graph, Walker};
use engine::plan::Plan;
use engine::port::PortDirectory;
use engine::stats::{self, NodeStats};
use router::Router;
use router::worker::Idle;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Maximum time that a trial waits for late packets after its last packet (RFC 2544, 23).
const LATE_PACKETS_MAX: Duration = Duration::from_secs(2);
/// Time without an arriving packet after which no packet counts as under way.
const QUIET_TIME: Duration = Duration::from_millis(50);
/// Maximum wait for packets of the previous trial.
const REST_MAX: Duration = Duration::from_secs(5);
/// Step of simulated time in nanoseconds: packets that are due within one step arrive together.
const STEP_NS: u64 = 1000;
/// Step of simulated time in nanoseconds between trials; it is coarse because a configuration's own sources may have
/// timers of microseconds.
const IDLE_STEP_NS: u64 = 1_000_000;

/// Result of a trial.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The trial.
    pub trial: Trial,
    /// Number of packets offered.
    pub offered: u64,
    /// Number of packets that arrived at the right port, each counted once.
    pub received: u64,
    /// Number of packets that arrived at the right port again (duplicates).
    pub duplicates: u64,
    /// Number of received packets that arrived after later packets of their flow, at the same queue.
    pub reordered: u64,
    /// Number of lost packets that the receiving port's ring had no room for.
    pub missed: u64,
    /// Number of lost packets that left by another port.
    pub elsewhere: u64,
    /// Drops of elements during the trial, by element and reason, the most frequent first.
    pub drops: Vec<(String, u64)>,
    /// Latency: time from a packet's due time to its arrival.
    pub latency: Counts,
}

impl Measured {
    /// Share of lost packets.
    pub fn lost(&self) -> f64 {
        self.offered.saturating_sub(self.received) as f64 / self.offered.max(1) as f64
    }

    /// Forwarding rate in packets a second.
    pub fn forwarded(&self) -> f64 {
        self.received as f64 / self.trial.duration.as_secs_f64()
    }
}

/// A test bed, which runs trials with a router in real time or in simulated time.
pub trait TestBed {
    /// Runs a trial. The error is a sentence.
    fn run(&mut self, trial: Trial) -> Result<Measured, String>;
}

type Drops = BTreeMap<String, u64>;

fn drops<'a>(plan: &Plan, workers: impl Iterator<Item = &'a [NodeStats]>) -> Drops {
    let mut all = Drops::new();
    for stats in workers {
        for (element, reason, n) in stats::drops(plan, stats) {
            *all.entry(format!("{element} {reason}")).or_default() += n;
        }
    }
    all
}

/// Counters before a trial.
struct StartCounters {
    counts: Snapshot,
    latency: Counts,
    drops: Drops,
}

impl StartCounters {
    fn new(stand: &BenchState, drops: Drops) -> StartCounters {
        StartCounters {
            counts: stand.snapshot(),
            latency: stand.latency(),
            drops,
        }
    }

    fn measured(&self, trial: Trial, offered: u64, stand: &BenchState, drops: Drops) -> Measured {
        let counts = stand.snapshot().since(&self.counts);
        let received = stand.distinct();
        let since = |(name, n): (String, u64)| {
            let before = self.drops.get(&name).copied().unwrap_or(0);
            (n > before).then(|| (name, n - before))
        };
        let mut drops: Vec<_> = drops.into_iter().filter_map(since).collect();
        drops.sort_by_key(|drop| std::cmp::Reverse(drop.1));
        Measured {
            trial,
            offered,
            received,
            duplicates: (counts.received + counts.again).saturating_sub(received),
            reordered: counts.late,
            missed: counts.missed,
            elsewhere: counts.elsewhere,
            drops,
            latency: stand.latency().since(&self.latency),
        }
    }
}

/// A running router, on its workers' threads.
pub struct Live {
    stand: Arc<BenchState>,
    router: Router,
    cable: Option<Cable>,
}

impl Live {
    /// Starts a router; with `never_sleep` its workers always poll. The error is a sentence.
    pub fn start(
        stand: &Arc<BenchState>,
        plan: &Arc<Plan>,
        ports: Arc<dyn PortDirectory>,
        seed: u64,
        never_sleep: bool,
    ) -> Result<Live, String> {
        let router = Router::start(plan, ports, &ports::waiter::of_worker, seed)?;
        if never_sleep {
            let told = router.runs_on().set_idle(Idle::never());
            told.map_err(|e| e.to_string())?;
        }
        Ok(Live {
            stand: Arc::clone(stand),
            router,
            cable: None,
        })
    }

    /// Connects the stand to the router by a cable.
    pub fn with_cable(mut self, cable: Cable) -> Live {
        self.cable = Some(cable);
        self
    }

    fn drops(&self) -> Result<Drops, String> {
        let stats = self.router.stats().map_err(|e| e.to_string())?;
        Ok(drops(&self.router.plan(), stats.iter().map(Vec::as_slice)))
    }

    /// Waits until no packet has arrived for a while.
    fn wait_idle(&self) {
        let end = Instant::now() + REST_MAX;
        let mut last = self.stand.snapshot().any;
        loop {
            std::thread::sleep(QUIET_TIME / 2);
            let now = self.stand.snapshot().any;
            if now == last || Instant::now() > end {
                return;
            }
            last = now;
        }
    }

    /// Waits until all packets of the trial have arrived or must be lost.
    fn wait_arrivals(&self, before: &Snapshot, packets: u64, end: u64) -> Result<(), String> {
        let (mut last, mut since) = (0, 0);
        loop {
            std::thread::sleep(Duration::from_millis(1));
            let (counts, now) = (self.stand.snapshot().since(before), self.stand.clock.get());
            if counts.any != last {
                (last, since) = (counts.any, now);
            }
            let all_given = counts.given + counts.missed >= packets;
            let quiet = now.saturating_sub(since.max(end)) > QUIET_TIME.as_nanos() as u64;
            let all_came = counts.received >= counts.given;
            if (all_given && (all_came || quiet)) || now > end + LATE_PACKETS_MAX.as_nanos() as u64
            {
                return Ok(());
            }
            if self.router.ended() {
                return Err("the configuration ended while it was measured".to_owned());
            }
        }
    }
}

impl TestBed for Live {
    fn run(&mut self, trial: Trial) -> Result<Measured, String> {
        let stand = &self.stand;
        let before = StartCounters::new(stand, self.drops()?);
        let start = stand.clock.get() + 1_000_000;
        let end = start + trial.duration.as_nanos() as u64;
        let packets = stand.begin_trial(start, trial)?;
        std::thread::sleep(Duration::from_nanos(end.saturating_sub(stand.clock.get())));
        self.wait_arrivals(&before.counts, packets, end)?;
        let measured = before.measured(trial, packets, stand, self.drops()?);
        self.wait_idle();
        Ok(measured)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.cable = None;
        self.router.stop();
        self.router.join();
    }
}

/// A router in simulated time. Processing takes no time there, so only queues, shapers and schedulers limit the
/// result, which is the same on every machine.
pub struct Simulated {
    stand: Arc<BenchState>,
    graph: Graph,
}

impl Simulated {
    /// Builds a router. The error is a sentence.
    pub fn start(
        stand: &Arc<BenchState>,
        plan: &Arc<Plan>,
        ports: Arc<dyn PortDirectory>,
        seed: u64,
    ) -> Result<Simulated, String> {
        let clock = Clock::at(Time(STEP_NS));
        let graph = single(plan, ports, Walker::Sweep, clock, seed)?;
        Ok(Simulated {
            stand: Arc::clone(stand),
            graph,
        })
    }

    fn drops(&self) -> Drops {
        drops(self.graph.plan(), std::iter::once(self.graph.stats()))
    }

    /// Sets the time, and runs turns until nothing moves.
    fn run_until(&mut self, now: u64) {
        if let BenchClock::Set(time) = &*self.stand.clock {
            time.store(now, Relaxed);
        }
        self.graph.set_time(Time(now));
        self.graph.quiescent();
        let mut still = 0;
        // A graph that never becomes idle gets a bounded number of turns.
        for _ in 0..10_000 {
            still = if self.graph.turn() { 0 } else { still + 1 };
            if still == 2 || self.graph.stopped() {
                return;
            }
        }
    }

    fn next(&mut self, now: u64, step_ns: u64) -> Option<u64> {
        let due = self.stand.schedule.next_due(now);
        let timer = self.graph.next_timer().map(|at| at.0);
        let next = due.into_iter().chain(timer).min()?;
        Some(next.max(now + step_ns))
    }

    /// Advances time to `until`, or until no event is left.
    fn advance(
        &mut self,
        until: u64,
        step_ns: u64,
        mut done: impl FnMut(&Graph, &BenchState) -> bool,
    ) {
        let mut now = self.graph.now().0;
        while let Some(next) = self.next(now, step_ns).filter(|&next| next <= until) {
            now = next;
            self.run_until(now);
            if self.graph.stopped() || done(&self.graph, &self.stand) {
                break;
            }
        }
    }

    /// Restores the state before the first trial: empty queues, and the credit that shapers gain while idle. Time
    /// passes faster while no packet arrives; at the end it passes as in a trial.
    fn reset(&mut self) {
        let (start, quiet) = (self.graph.now().0, QUIET_TIME.as_nanos() as u64);
        let end = start + REST_MAX.as_nanos() as u64;
        let mut last = (self.stand.snapshot().any, start);
        self.advance(end, STEP_NS, |graph, stand| {
            let (any, now) = (stand.snapshot().any, graph.now().0);
            if any != last.0 {
                last = (any, now);
            }
            now >= last.1 + quiet
        });
        self.advance(end - quiet, IDLE_STEP_NS, |_, _| false);
        self.advance(end, STEP_NS, |_, _| false);
        self.run_until(end);
    }
}

impl TestBed for Simulated {
    fn run(&mut self, trial: Trial) -> Result<Measured, String> {
        let before = StartCounters::new(&self.stand, self.drops());
        let start = self.graph.now().0 + STEP_NS;
        let end = start + trial.duration.as_nanos() as u64;
        let packets = self.stand.begin_trial(start, trial)?;
        let counts = before.counts.clone();
        self.advance(
            end + LATE_PACKETS_MAX.as_nanos() as u64,
            STEP_NS,
            |graph, stand| {
                let now = stand.snapshot().since(&counts);
                let all_given = now.given + now.missed >= packets;
                all_given && (now.received >= now.given || graph.held() == 0)
            },
        );
        let measured = before.measured(trial, packets, &self.stand, self.drops());
        self.reset();
        match self.graph.stopped() {
            true => Err("the configuration ended while it was measured".to_owned()),
            false => Ok(measured),
        }
    }
}
