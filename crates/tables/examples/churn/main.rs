//! Measures changes of the default IPv4 table under a reader, by the wall clock:
//!
//!     cargo run --release -p tables --example churn [ROUTES [UPDATES [ROUNDS]]]
//!     chrt -f 1 target/release/examples/churn     # where others use the machine too
//!
//! ROUTES has lines `PREFIX ID`, UPDATES lines `TIME A|W PREFIX NEXTHOP PEER`; both may be packed by zstd. Without
//! them the files of ../shared/data/rib (or $ASHLAR_SHARED) are used. If there are none, routes are generated from a
//! seed.
//!
//! The writer runs on one core and makes changes as fast as it can, each published alone. The reader runs on another
//! core, looks up addresses in bulk, and passes a quiescent point after each bulk, as a worker does. First random
//! routes are removed and put back; then the recorded updates are made repeatedly. The reader knows all valid answers
//! of each address, with the number of changes before and after its look-up. Any other answer counts as wrong. At
//! intervals one change is timed, from the writer's call until the reader gets it as an answer. Finally a next hop of
//! half a million routes is lost (`loss.rs`).
//!
//! A round lasts 0.4 s and is followed by a pause, because Linux throttles real-time threads. As many rounds first
//! run two threads that only read the clock. Pauses of these threads, caused by interrupts and the hypervisor, affect
//! writer and reader too, and Linux does not count them as waiting.
#![allow(clippy::print_stdout)]

mod loss;
#[path = "../sample/mod.rs"]
mod sample;
mod trace;

use std::collections::VecDeque;
use std::num::NonZeroU16;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use engine::publish::domain;
use sample::Random;
use tables::fib::{Fib4, Prefix, Rib4, Structure};

use trace::{Change, Trace, Watch};

const BURST: usize = 64;
/// Number of changes between two timed ones.
const BETWEEN: usize = 200;
const ROUND: Duration = Duration::from_millis(400);
const REST: Duration = Duration::from_millis(250);

/// Time that this thread ran on a processor, and time that it waited for one.
fn busy() -> [Duration; 2] {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let mut words = text.split(' ').map_while(|word| word.parse().ok());
    let mut next = || words.next().map(Duration::from_nanos);
    [(); 2].map(|()| next().expect("Linux says how long a thread ran and waited"))
}

/// Runs `work` on one core and `beside` on another at the same time.
fn on_two_cores<A, B: Send>(beside: impl FnOnce() -> B + Send, work: impl FnOnce() -> A) -> (A, B) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let all = sched_getaffinity(None).expect("Linux says which cores there are");
    let keep = |number: usize| {
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core));
        let mut one = CpuSet::new();
        one.set(cores.nth(number).expect("two cores"));
        sched_setaffinity(None, &one).expect("a core of this process");
    };
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            keep(1);
            barrier.wait();
            beside()
        });
        barrier.wait();
        keep(0);
        let done = work();
        let other = other.join().expect("a reader that ended well");
        sched_setaffinity(None, &all).expect("the cores that it had");
        (done, other)
    })
}

/// State shared by the writer and the reader.
#[derive(Default)]
struct Shared {
    done: AtomicBool,
    /// Changes of the trace that have been made.
    made: AtomicU64,
    /// For each timed change, the time at which the reader first got it as an answer, in nanoseconds since the start;
    /// 0: not yet.
    seen: [AtomicU64; 32],
}

/// Result of a reader.
#[derive(Default)]
struct Read {
    lookups: u64,
    wrong: u64,
    /// Time that the reader waited for a processor.
    waited: Duration,
}

/// The timed route. Its ids count up from 1000; no other route has such ids.
fn beacon() -> Prefix<4> {
    Prefix::new([203, 0, 113, 0], 25)
}

fn read(fib: &Fib4, shared: &Shared, watches: &[Watch], cycle: u64, start: Instant) -> Read {
    let mut reader = domain().register().expect("room for a reader");
    let (mut ids, mut last) = ([0u16; BURST], 0);
    let mut read = Read::default();
    let [_, waited] = busy();
    for burst in watches.chunks_exact(BURST - 1).cycle() {
        reader.quiescent();
        if shared.done.load(Ordering::Acquire) {
            break;
        }
        let mut keys = [u32::from_be_bytes(beacon().address()); BURST];
        for (key, watch) in keys.iter_mut().zip(burst) {
            *key = watch.address;
        }
        let before = shared.made.load(Ordering::Acquire);
        fib.lookup_bulk(&keys, &mut ids);
        // One more change may be in the table but not yet in the count.
        let after = shared.made.load(Ordering::Acquire) + 1;
        let now = ids[BURST - 1];
        if now != last {
            last = now;
            let time = start.elapsed().as_nanos() as u64;
            shared.seen[usize::from(now) % 32].store(time, Ordering::Release);
        }
        let wrong = burst.iter().zip(&ids);
        let wrong = wrong.filter(|(watch, id)| !watch.has(**id, before, after, cycle));
        read.wrong += wrong.count() as u64;
        read.lookups += BURST as u64;
    }
    read.waited = busy()[1] - waited;
    read
}

/// The writer's state between rounds.
struct Write<'a> {
    rib: Rib4,
    trace: &'a [Change],
    made: u64,
    beacon: u16,
    /// Nanoseconds from each timed call until the reader got the answer.
    waits: Vec<u64>,
    /// Changes per second by the wall clock, and per second of the writer's own time.
    rates: Vec<(f64, f64)>,
    most: usize,
    /// Time that the writer waited for a processor.
    waited: Duration,
}

impl Write<'_> {
    fn round(&mut self, shared: &Shared, start: Instant) {
        let mut retired = VecDeque::new();
        let mut pending: Option<(u16, u64)> = None;
        let (began, wall, [cpu, waited]) = (self.made, Instant::now(), busy());
        let mut timed = 0;
        while wall.elapsed() < ROUND {
            for _ in 0..BETWEEN {
                let (prefix, id) = self.trace[self.made as usize % self.trace.len()];
                match id {
                    Some(id) => self.rib.insert(prefix, id).expect("room"),
                    None => self.rib.remove(prefix).expect("room"),
                };
                self.made += 1;
                shared.made.store(self.made, Ordering::Release);
                retired.push_back((domain().advance(), self.rib.take_limbo()));
                while let Some((epoch, _)) = retired.front()
                    && domain().has_passed(*epoch)
                    && let Some((_, limbo)) = retired.pop_front()
                {
                    self.rib.release(limbo);
                }
            }
            self.most = self.most.max(self.rib.fib().memory_bytes());
            if let Some((id, called)) = pending {
                match shared.seen[usize::from(id) % 32].load(Ordering::Acquire) {
                    0 => continue,
                    seen => self.waits.push(seen.saturating_sub(called)),
                }
            }
            self.beacon = 1000 + (self.beacon - 999) % 32000;
            shared.seen[usize::from(self.beacon) % 32].store(0, Ordering::Release);
            let called = start.elapsed().as_nanos() as u64;
            let id = NonZeroU16::new(self.beacon).unwrap_or(NonZeroU16::MIN);
            self.rib.insert(beacon(), id).expect("room");
            pending = Some((self.beacon, called));
            timed += 1;
        }
        let changes = (self.made - began + timed) as f64;
        let (wall, now) = (wall.elapsed(), busy());
        let cpu = now[0] - cpu;
        self.waited += now[1] - waited;
        let rates = (changes / wall.as_secs_f64(), changes / cpu.as_secs_f64());
        self.rates.push(rates);
        shared.done.store(true, Ordering::Release);
        // The reader has stopped or is about to: nothing needs to wait for the next round.
        for (epoch, limbo) in retired {
            while !domain().has_passed(epoch) {
                std::hint::spin_loop();
            }
            self.rib.release(limbo);
        }
    }

    fn report(&mut self, read: &Read) {
        let column = |of: fn(&(f64, f64)) -> f64| {
            let mut rates: Vec<f64> = self.rates.iter().map(of).collect();
            rates.sort_by(f64::total_cmp);
            let at = |i: usize| rates.get(i).map_or(0.0, |rate| rate / 1e6);
            let (least, median, most) = (at(0), at(rates.len() / 2), at(rates.len() - 1));
            format!("{median:.3} M ({least:.3}-{most:.3})")
        };
        let (wall, own) = (column(|rates| rates.0), column(|rates| rates.1));
        println!("  changes per second: {wall}; per second of the writer's own time: {own}");
        self.waits.sort_unstable();
        let last = self.waits.len().saturating_sub(1) as f64;
        let at = |share: f64| self.waits.get((last * share) as usize);
        let at = |share: f64| at(share).map_or(f64::NAN, |wait| *wait as f64 / 1e3);
        println!(
            "  seen on the other core after (us, {} changes): median {:.1}, 99 % {:.1}, most {:.1}",
            self.waits.len(),
            at(0.5),
            at(0.99),
            at(1.0)
        );
        println!(
            "  {:.1} M look-ups meanwhile, {} with an answer of neither table; table at most {:.2} MB",
            read.lookups as f64 / 1e6,
            read.wrong,
            self.most as f64 / 1e6
        );
        println!(
            "  held up because others used the processors: writer {:.1} ms, reader {:.1} ms",
            self.waited.as_secs_f64() * 1e3,
            read.waited.as_secs_f64() * 1e3
        );
    }
}

fn changes(trace: Trace, rounds: u64) {
    let mut write = Write {
        rib: trace.rib,
        trace: &trace.changes,
        made: 0,
        beacon: 999,
        waits: Vec::new(),
        rates: Vec::new(),
        most: 0,
        waited: Duration::ZERO,
    };
    let mut all = Read::default();
    for _ in 0..rounds {
        std::thread::sleep(REST);
        let (shared, start) = (Shared::default(), Instant::now());
        shared.made.store(write.made, Ordering::Release);
        let (fib, cycle) = (write.rib.fib().clone(), trace.changes.len() as u64);
        let reader = || read(&fib, &shared, &trace.watches, cycle, start);
        let ((), read) = on_two_cores(reader, || write.round(&shared, start));
        all.lookups += read.lookups;
        all.wrong += read.wrong;
        all.waited += read.waited;
    }
    write.report(&all);
}

/// Shortest pause that counts as being held up.
const LONG: Duration = Duration::from_micros(100);

/// Pauses of a thread that only reads the clock, in one round.
fn held_up() -> Vec<Duration> {
    let (start, mut last) = (Instant::now(), Duration::ZERO);
    let mut gaps = Vec::new();
    while last < ROUND {
        let now = start.elapsed();
        gaps.extend(Some(now - last).filter(|gap| *gap >= LONG));
        last = now;
    }
    gaps
}

/// Measures the pauses of threads that do nothing, on the two cores.
fn alone(rounds: u64) {
    let mut gaps = Vec::new();
    for _ in 0..rounds {
        std::thread::sleep(REST);
        let (one, other) = on_two_cores(held_up, held_up);
        gaps.extend(one.into_iter().chain(other));
    }
    let most = gaps.iter().max().map_or(0.0, Duration::as_secs_f64);
    println!(
        "two threads that only look at the clock, for as long: held up {} times for {:.1} ms or more, at most {:.1} ms",
        gaps.len(),
        LONG.as_secs_f64() * 1e3,
        most * 1e3
    );
}

fn main() {
    let mut args = std::env::args().skip(1);
    let routes = trace::routes(args.next());
    let updates = trace::updates(args.next());
    let rounds = args.next().and_then(|word| word.parse().ok()).unwrap_or(9);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("{} routes; load {}", routes.len(), load.trim());
    alone(rounds);
    let random = trace::random(&routes, &mut Random::new(5));
    println!("random routes removed and put back:");
    changes(random, rounds);
    if let Some(updates) = updates {
        let real = trace::replayed(&routes, &updates);
        println!("{} real updates, over and over:", real.changes.len());
        changes(real, rounds);
    }
    trace::widest(&routes);
    for groups in [1, 255, 4095, 65535] {
        loss::measure(&routes, groups);
    }
}
