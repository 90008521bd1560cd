//! Bounds of this machine's parts: `bounds THREADS` prints one JSON object. Built by measure.py.
//!
//! Methods are those of RouteBricks' benchmark: a constant written to random places of a large array; then reading in
//! order, copying, and loads each of which waits for the one before.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering::{Acquire, Release}};
use std::time::Instant;

/// 512 MiB for each thread: far more than any cache.
const WORDS: usize = 1 << 26;
/// Words of a cache line.
const LINE: usize = 8;
const WRITES: usize = 1 << 25;
const LOADS: usize = 1 << 22;
const BOUNCES: u32 = 1 << 20;

/// A random place, always at the start of a line.
fn place(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*state >> 38) as usize & (WORDS - LINE)
}

fn random_writes(array: &mut [u64], seed: u64) -> usize {
    let mut state = seed;
    for _ in 0..WRITES {
        array[place(&mut state)] = 0x5555;
    }
    WRITES * LINE * 8
}

fn read(array: &[u64]) -> usize {
    black_box(array.iter().fold(0, |a: u64, b| a.wrapping_add(*b)));
    array.len() * 8
}

fn copy(array: &mut [u64]) -> usize {
    let (from, to) = array.split_at_mut(WORDS / 2);
    to.copy_from_slice(from);
    array.len() * 8
}

/// Names, in every line, the line to look at next, so that all come in turn: one cycle (Hull and Dobell) of all lines.
fn link(array: &mut [u64], seed: u64) {
    let lines = (WORDS / LINE) as u64;
    for at in 0..lines {
        let next = at.wrapping_mul(6364136223846793005).wrapping_add(2 * seed + 1) % lines;
        array[at as usize * LINE] = next;
    }
}

/// Loads each of which waits for the one before.
fn chase(array: &[u64]) -> usize {
    let mut at = 0;
    for _ in 0..LOADS {
        at = array[at * LINE] as usize;
    }
    black_box(at);
    LOADS
}

/// Runs `work` on all threads at once, each with an array of its own; units and seconds in all.
fn all(threads: u64, work: fn(&mut [u64], u64) -> (usize, f64)) -> f64 {
    let running: Vec<_> = (0..threads)
        .map(|n| {
            std::thread::spawn(move || {
                let mut array = vec![1u64; WORDS];
                let (units, seconds) = work(&mut array, n + 1);
                units as f64 / seconds
            })
        })
        .collect();
    running.into_iter().map(|t| t.join().expect("the thread only computes")).sum()
}

fn timed(work: impl FnOnce() -> usize) -> (usize, f64) {
    let start = Instant::now();
    let units = work();
    (units, start.elapsed().as_secs_f64())
}

/// Nanoseconds for a line to go to another core and back.
fn bounce() -> f64 {
    static BALL: AtomicU32 = AtomicU32::new(0);
    let start = Instant::now();
    let other = std::thread::spawn(|| {
        for n in 0..BOUNCES {
            while BALL.load(Acquire) != 2 * n + 1 {
                std::hint::spin_loop();
            }
            BALL.store(2 * n + 2, Release);
        }
    });
    for n in 0..BOUNCES {
        BALL.store(2 * n + 1, Release);
        while BALL.load(Acquire) != 2 * n + 2 {
            std::hint::spin_loop();
        }
    }
    other.join().expect("the thread only counts");
    start.elapsed().as_secs_f64() * 1e9 / f64::from(BOUNCES)
}

fn main() {
    let threads: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1);
    let writes = all(threads, |a, s| timed(|| random_writes(a, s)));
    let reads = all(threads, |a, _| timed(|| read(a)));
    let copies = all(threads, |a, _| timed(|| copy(a)));
    let loads = all(threads, |a, s| {
        link(a, s);
        timed(|| chase(a))
    });
    let load_ns = threads as f64 * 1e9 / loads;
    let bounce_ns = if threads > 1 { bounce() } else { 0.0 };
    println!(
        "{{\"random write bytes\": {writes:.0}, \"read bytes\": {reads:.0}, \"copy bytes\": {copies:.0}, \
         \"load ns\": {load_ns:.2}, \"bounce ns\": {bounce_ns:.1}}}"
    );
}
