//! Time to enqueue and dequeue a packet in an ordering queue that holds one to a million packets: `cargo run
//! --release -p tables --example order`.
//!
//! A packet's rank is that of the last packet that left plus a random part of the bins' span, as a deadline is the
//! time plus a delay. The program prints nanoseconds, and cycles where there is a time-stamp counter. With the
//! argument `bench-services` it prints the lines of `make bench-services`.
#![allow(clippy::print_stdout)]

mod sample;

use sample::Random;
use std::collections::VecDeque;
use std::hint::black_box;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};
use tables::order::{BinSort, Sorted};

const BINS: usize = 1024;
const WIDTH: u64 = 1_000_000;
const ROUNDS: usize = 1 << 20;
const REPEATS: usize = 5;

/// An item as large as a pointer to a packet, and like it never 0.
type Item = NonZeroU64;

trait Queue {
    fn push(&mut self, rank: u64, item: Item);
    fn pop(&mut self) -> Option<Item>;
}

impl Queue for BinSort<Item> {
    fn push(&mut self, rank: u64, item: Item) {
        BinSort::push(self, rank, item);
    }

    fn pop(&mut self) -> Option<Item> {
        BinSort::pop(self)
    }
}

impl Queue for Sorted<Item> {
    fn push(&mut self, rank: u64, item: Item) {
        Sorted::push(self, rank, item);
    }

    fn pop(&mut self) -> Option<Item> {
        Sorted::pop(self)
    }
}

impl Queue for VecDeque<Item> {
    fn push(&mut self, _: u64, item: Item) {
        self.push_back(item);
    }

    fn pop(&mut self) -> Option<Item> {
        self.pop_front()
    }
}

fn item(rank: u64) -> Item {
    Item::MIN.saturating_add(rank)
}

/// Least time, over some repeats, to enqueue and dequeue a packet.
fn measure(mut queue: impl Queue, held: usize, delays: &[u64]) -> f64 {
    for n in 0..held {
        let rank = delays[n % delays.len()];
        queue.push(rank, item(rank));
    }
    let mut least = Duration::MAX;
    for _ in 0..REPEATS {
        let begin = Instant::now();
        for delay in delays {
            // An item in the queue is its own rank, as a packet carries its deadline.
            let now = queue.pop().map_or(0, NonZeroU64::get);
            queue.push(now + delay, item(now + delay));
        }
        least = least.min(begin.elapsed());
    }
    black_box(queue.pop());
    least.as_secs_f64() * 1e9 / delays.len() as f64
}

/// Cycles of the time-stamp counter per nanosecond, as the machine reports them; 0 if unknown.
fn gigahertz() -> f64 {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|line| line.starts_with("cpu MHz"));
    let mhz = line.and_then(|line| line.split(':').nth(1)?.trim().parse::<f64>().ok());
    mhz.unwrap_or(0.0) / 1000.0
}

fn main() {
    let mut random = Random::new(1);
    // Delays stay within two thirds of the span, so that every rank is within the bins.
    let delays: Vec<u64> = (0..ROUNDS)
        .map(|_| random.below(BINS as u64 * WIDTH * 2 / 3))
        .collect();
    let clock = gigahertz();
    let lines = std::env::args().any(|word| word == "bench-services");
    if !lines {
        println!("packets  fifo ns  binsort ns (cycles)  exact ns");
    }
    let mut worst: f64 = 0.0;
    for held in [1, 10, 100, 1000, 10_000, 100_000, 1_000_000] {
        let fifo = measure(VecDeque::new(), held, &delays);
        let binned = measure(BinSort::new(BINS, WIDTH), held, &delays);
        let exact = measure(Sorted::new(), held, &delays);
        worst = worst.max(binned);
        if lines {
            println!("services binsort-cycles-{held} {:.0}", binned * clock);
            println!("services exact-cycles-{held} {:.0}", exact * clock);
        } else {
            let cycles = binned * clock;
            println!("{held:<8} {fifo:>7.1} {binned:>10.1} ({cycles:>3.0}) {exact:>12.1}");
        }
    }
    if lines {
        println!("services binsort-cycles {:.0}", worst * clock);
    }
}
