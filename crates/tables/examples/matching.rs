//! Exact match of flows in slots of at most k entries (QS1, QS2). Measures refusals and memory beside theory, the
//! time of a look-up whose chain is full, and the cost of a flow record that threads share: by atomic additions as in
//! FlowTable, by a lock as in the paper, or with one owner. `cargo run --release -p tables --example matching` prints
//! one JSON object.
#![allow(clippy::print_stdout)]

mod sample;

use sample::Random;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tables::exact::{Exact, ExactWriter, Key};

const CHAINS: [usize; 4] = [1, 2, 4, 8];
/// Number of flows in the experiment on refusals; a power of two, as numbers of slots are.
const FLOWS: usize = 1 << 16;
/// Number of repetitions; the shortest time counts.
const REPEATS: usize = 7;
const LOOKUPS: usize = 1 << 18;
/// Number of bytes of a flow's record in a flow table.
const RECORD: usize = 128;

/// A flow's record, of real size; a packet touches its first cache line.
#[repr(align(128))]
#[derive(Default)]
struct Record {
    packets: AtomicU64,
    bytes: AtomicU64,
    deadline: AtomicU64,
}

/// The same record protected by a lock of its own.
#[repr(align(128))]
#[derive(Default)]
struct Locked(Mutex<[u64; 3]>);

fn key(random: &mut Random, words: usize) -> Key {
    let mut key = [0; tables::exact::WORDS];
    key[..words].fill_with(|| random.below(u64::MAX));
    key
}

/// Measured share of new flows that find `k` others in their slot and are therefore refused.
fn refused(slots: usize, k: usize, seed: u64) -> f64 {
    let mut random = Random::new(seed);
    let mut writer = ExactWriter::with_slots(FLOWS, slots, 2, seed);
    let mut refused = 0;
    for n in 0..FLOWS {
        let key = key(&mut random, 2);
        match writer.colliding_keys(&key) < k {
            true => writer.insert(&key, n as u32).map(|_| ()).expect("room"),
            false => refused += 1,
        }
    }
    f64::from(refused) / FLOWS as f64
}

/// Theoretical share of refused flows: slots get Poisson-distributed numbers of flows and keep at most `k`.
fn refused_in_theory(slots: usize, k: usize) -> f64 {
    let mean = FLOWS as f64 / slots as f64;
    let mut share = (-mean).exp();
    let mut kept = 0.0;
    let mut rest = 1.0 - share;
    for n in 1..=k {
        share *= mean / n as f64;
        // The last term also covers all fuller slots.
        kept += if n < k {
            n as f64 * share
        } else {
            k as f64 * rest
        };
        rest -= share;
    }
    1.0 - kept / mean
}

fn refusals() -> Vec<String> {
    let mut rows = Vec::new();
    for k in CHAINS {
        for power in -2..=10i32 {
            // Number of slots per flow.
            let slots = (FLOWS as f64 * 2f64.powi(power)) as usize;
            let seeds = 5;
            let mean = (1..=seeds).map(|seed| refused(slots, k, seed)).sum::<f64>() / seeds as f64;
            let theory = refused_in_theory(slots, k);
            let bytes = Exact::bytes_of(FLOWS, slots) as f64 / FLOWS as f64 + RECORD as f64;
            rows.push(format!(
                "{{\"k\": {k}, \"slots\": {}, \"refused\": {mean:e}, \"theory\": {theory:e}, \"bytes\": {bytes:.1}}}",
                2f64.powi(power)
            ));
            if mean == 0.0 && theory < 1e-6 {
                break;
            }
        }
    }
    rows
}

/// A table in which all slots are full, and the last key of each slot's chain.
fn full(flows: usize, k: usize, words: usize) -> (ExactWriter, Vec<Key>) {
    let slots = (flows / k).next_power_of_two();
    let mut random = Random::new(k as u64);
    let mut writer = ExactWriter::with_slots(slots * k, slots, words, 5);
    let mut last = Vec::new();
    while writer.len() < slots * k {
        let key = key(&mut random, words);
        let others = writer.colliding_keys(&key);
        if others < k {
            let number = writer.len() as u32;
            writer.insert(&key, number).expect("room");
            if others == k - 1 {
                last.push(key);
            }
        }
    }
    (writer, last)
}

/// Least time of `each` over some repeats, in nanoseconds divided by `count`.
fn least(count: usize, mut each: impl FnMut(usize)) -> f64 {
    let mut least = Duration::MAX;
    for _ in 0..REPEATS {
        let begin = Instant::now();
        (0..count).for_each(&mut each);
        least = least.min(begin.elapsed());
    }
    least.as_secs_f64() * 1e9 / count as f64
}

fn records<R: Default>(count: usize) -> Vec<R> {
    (0..count).map(|_| R::default()).collect()
}

/// Counts a packet in a record that other threads write, too, as FlowTable does.
fn count(record: &Record) {
    record.packets.fetch_add(1, Relaxed);
    record.bytes.fetch_add(60, Relaxed);
    let _ = record
        .deadline
        .fetch_update(Relaxed, Relaxed, |at| Some(at + 1000));
}

/// Counts a packet in a record of this thread alone: a load and a store suffice.
fn count_owned(record: &Record) {
    let add = |place: &AtomicU64, n| place.store(place.load(Relaxed) + n, Relaxed);
    add(&record.packets, 1);
    add(&record.bytes, 60);
    add(&record.deadline, 1000);
}

fn times() -> Vec<String> {
    let mut rows = Vec::new();
    for flows in [1 << 10, 1 << 17] {
        let mut random = Random::new(3);
        let all: Vec<Record> = records(2 * flows);
        let tags: Vec<usize> = (0..LOOKUPS)
            .map(|_| random.below(flows as u64) as usize)
            .collect();
        let tag = least(LOOKUPS, |n| count(&all[tags[n]]));
        rows.push(format!(
            "{{\"flows\": {flows}, \"how\": \"tag\", \"ns\": {tag:.2}}}"
        ));
        for (words, version) in [(2, 4), (5, 6)] {
            for k in CHAINS {
                let (writer, last) = full(flows, k, words);
                let table = writer.table();
                let keys: Vec<Key> = (0..LOOKUPS)
                    .map(|_| last[random.below(last.len() as u64) as usize])
                    .collect();
                let ns = least(LOOKUPS, |n| {
                    if let Some(flow) = table.find(&keys[n]) {
                        count(&all[flow as usize]);
                    }
                });
                rows.push(format!(
                    "{{\"flows\": {flows}, \"how\": \"match\", \"ip\": {version}, \"k\": {k}, \"ns\": {ns:.2}}}"
                ));
            }
        }
    }
    rows
}

/// Packets per second, in millions, that some threads count; each runs `work` with its number.
fn rate(threads: usize, work: impl Fn(usize, usize) + Sync) -> f64 {
    let mut best: f64 = 0.0;
    for _ in 0..REPEATS {
        let begin = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let work = &work;
                scope.spawn(move || (0..LOOKUPS).for_each(|n| work(thread, n)));
            }
        });
        best = best.max((threads * LOOKUPS) as f64 / begin.elapsed().as_secs_f64() / 1e6);
    }
    best
}

fn locks() -> Vec<String> {
    let flows = 1 << 12;
    let (writer, last) = full(flows, 4, 2);
    let table = writer.table();
    let (owned, locked): (Vec<Record>, Vec<Locked>) =
        (records(writer.len()), records(writer.len()));
    let mut random = Random::new(4);
    let any: Vec<Key> = (0..LOOKUPS)
        .map(|_| last[random.below(last.len() as u64) as usize])
        .collect();
    let mut rows = Vec::new();
    for threads in [1, 2] {
        // Each thread has its own flows, as workers do.
        let part = last.len() / threads;
        let own: Vec<Vec<Key>> = (0..threads)
            .map(|t| {
                (0..LOOKUPS)
                    .map(|_| last[t * part + random.below(part as u64) as usize])
                    .collect()
            })
            .collect();
        let owner = rate(threads, |thread, n| {
            if let Some(flow) = table.find(&own[thread][n]) {
                count_owned(&owned[flow as usize]);
            }
        });
        let at = |n: usize, thread: usize| (n + thread * LOOKUPS / 2) % LOOKUPS;
        let added = |keys: &[Key], n: usize| {
            if let Some(flow) = table.find(&keys[n]) {
                count(&owned[flow as usize]);
            }
        };
        let shared = rate(threads, |thread, n| added(&any, at(n, thread)));
        let under = |keys: &[Key], n: usize| {
            if let Some(flow) = table.find(&keys[n]) {
                let mut record = locked[flow as usize].0.lock().expect("no panic");
                record[0] += 1;
                record[1] += 60;
                record[2] += 1000;
            }
        };
        let lock = rate(threads, |thread, n| under(&any, at(n, thread)));
        let one = [any[0]];
        let same = rate(threads, |_, _| added(&one, 0));
        let same_locked = rate(threads, |_, _| under(&one, 0));
        rows.push(format!(
            "{{\"threads\": {threads}, \"owner\": {owner:.2}, \"added\": {shared:.2}, \"lock\": {lock:.2}, \
             \"one flow added\": {same:.2}, \"one flow\": {same_locked:.2}}}"
        ));
    }
    black_box(&owned);
    rows
}

fn main() {
    println!(
        "{{\"refusals\": [{}], \"times\": [{}], \"locks\": [{}]}}",
        refusals().join(", "),
        times().join(", "),
        locks().join(", ")
    );
}
