//! Throughput of an ordering queue shared by two threads that enqueue and dequeue bursts, relative to two threads
//! with a queue each: `cargo run --release -p tables --example many`.
//!
//! `ceiling` is the rate of threads with private queues. `mds-binsort` has as many structures as threads and chooses
//! a random one for each burst; `mds-binsort-in-turn` uses them in turn; `one-binsort` has a single structure. All
//! are measured in turns of one or two milliseconds, and the greatest rate of each counts. The output is lines
//! `services NAME VALUE`.
#![allow(clippy::print_stdout)]

mod sample;

use sample::Random;
use std::hint::black_box;
use std::num::NonZeroU64;
use std::sync::Barrier;
use std::time::Instant;
use tables::order::{BinSort, Choice, Chooser, Many};

const THREADS: usize = 2;
const BINS: usize = 1024;
const WIDTH: u64 = 1_000_000;
const BURST: usize = 32;
/// Number of waiting packets per thread.
const HELD: usize = 1024;
const ROUNDS: usize = 1 << 11;
const REPEATS: usize = 300;

/// An item as large as a pointer to a packet, and like it never 0.
type Item = NonZeroU64;

fn item(rank: u64) -> Item {
    Item::MIN.saturating_add(rank)
}

/// Rate in packets a second of threads that each repeat the function that `make` returns.
fn rate<F: FnMut(&[u64])>(delays: &[u64], make: impl Fn(usize) -> F + Sync) -> f64 {
    let barrier = Barrier::new(THREADS);
    let work = |thread: usize| {
        let mut step = make(thread);
        barrier.wait();
        let begin = Instant::now();
        for round in 0..ROUNDS {
            let from = round * BURST % delays.len();
            step(&delays[from..from + BURST]);
        }
        (begin, Instant::now())
    };
    let times: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|n| {
                let work = &work;
                scope.spawn(move || work(n))
            })
            .collect();
        let joined = threads.into_iter().filter_map(|thread| thread.join().ok());
        joined.collect()
    });
    let begin = times.iter().map(|(begin, _)| *begin).min();
    let end = times.iter().map(|(_, end)| *end).max();
    let time = begin
        .zip(end)
        .map_or(f64::NAN, |(begin, end)| (end - begin).as_secs_f64());
    (THREADS * ROUNDS * BURST) as f64 / time
}

/// Rate of threads that each have a queue of their own.
fn ceiling(delays: &[u64]) -> f64 {
    rate(delays, |_| {
        let mut queue = BinSort::new(BINS, WIDTH);
        (0..HELD).for_each(|n| queue.push(delays[n], item(delays[n])));
        let mut now = 0;
        move |delays| {
            for _ in delays {
                now = queue.pop().map_or(now, Item::get);
            }
            for delay in delays {
                queue.push(now + delay, item(now + delay));
            }
            black_box(now);
        }
    })
}

/// Rate with `parts` structures shared by all threads.
fn shared(delays: &[u64], parts: usize, choice: Choice) -> f64 {
    let many = &Many::new(parts, BINS, WIDTH);
    rate(delays, |thread| {
        let mut chooser = Chooser::new(choice, 1 + thread as u64 * 0x9e37_79b9);
        for burst in delays[..HELD].chunks(BURST) {
            many.push(&mut chooser, burst.iter().map(|&rank| (rank, item(rank))));
        }
        let mut now = 0;
        move |delays| {
            let mut left = BURST;
            while left > 0 {
                match many.pop(thread, left, |rank: Item| now = rank.get()) {
                    0 => break,
                    taken => left -= taken,
                }
            }
            many.push(
                &mut chooser,
                delays.iter().map(|&delay| (now + delay, item(now + delay))),
            );
            black_box(now);
        }
    })
}

fn main() {
    let mut random = Random::new(1);
    // Delays stay within two thirds of the span, so that every rank is within the bins.
    let delays: Vec<u64> = (0..1 << 16)
        .map(|_| random.below(BINS as u64 * WIDTH * 2 / 3))
        .collect();
    let mut best = [0f64; 4];
    for _ in 0..REPEATS {
        let rates = [
            ceiling(&delays),
            shared(&delays, THREADS, Choice::Random),
            shared(&delays, THREADS, Choice::InTurn),
            shared(&delays, 1, Choice::InTurn),
        ];
        for (best, rate) in best.iter_mut().zip(rates) {
            *best = best.max(rate);
        }
    }
    println!("services two-binsorts-mpps {:.1}", best[0] / 1e6);
    println!("services mds-binsort/ceiling {:.3}", best[1] / best[0]);
    println!(
        "services mds-binsort-in-turn/ceiling {:.3}",
        best[2] / best[0]
    );
    println!("services one-binsort/ceiling {:.3}", best[3] / best[0]);
}
