//! Throughput of an ordering queue shared by one, two, four, ... threads that enqueue and dequeue bursts, up to the
//! machine's processors: `cargo run --release -p tables --example many`.
//!
//! `own` is the rate of threads with private queues, the ceiling. `mds` has as many structures as threads and chooses a
//! random one for each burst; `mds-in-turn` uses them in turn; `binsort` has a single structure; `fifo` is one queue
//! that is first in, first out. All are measured in turns of one or two milliseconds, and the greatest rate of each
//! counts. The output is lines `services NAME VALUE`: packets in millions a second by the number of threads, and ratios
//! to the ceiling of two.
#![allow(clippy::print_stdout)]

mod sample;

use sample::Random;
use std::collections::VecDeque;
use std::hint::black_box;
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Barrier;
use std::time::Instant;
use sync::Lock;
use tables::order::{BinSort, Choice, Chooser, Many};

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
fn rate<F: FnMut(&[u64])>(threads: usize, delays: &[u64], make: impl Fn(usize) -> F + Sync) -> f64 {
    let barrier = Barrier::new(threads);
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
        let started: Vec<_> = (0..threads)
            .map(|n| {
                let work = &work;
                scope.spawn(move || work(n))
            })
            .collect();
        let joined = started.into_iter().filter_map(|thread| thread.join().ok());
        joined.collect()
    });
    let begin = times.iter().map(|(begin, _)| *begin).min();
    let end = times.iter().map(|(_, end)| *end).max();
    let time = begin
        .zip(end)
        .map_or(f64::NAN, |(begin, end)| (end - begin).as_secs_f64());
    (threads * ROUNDS * BURST) as f64 / time
}

/// Rate of threads that each have a queue of their own.
fn ceiling(threads: usize, delays: &[u64]) -> f64 {
    rate(threads, delays, |_| {
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

/// Rate with one queue of all threads that is first in, first out.
fn fifo(threads: usize, delays: &[u64]) -> f64 {
    let queue = &Lock::new(VecDeque::<Item>::new());
    rate(threads, delays, |_| {
        let held = delays[..HELD].iter().map(|&rank| item(rank));
        queue.lock().extend(held);
        move |delays| {
            let mut now = 0;
            let mut queue_now = queue.lock();
            for taken in queue_now.drain(..BURST) {
                now = taken.get();
            }
            drop(queue_now);
            let burst = delays.iter().map(|&delay| item(now + delay));
            queue.lock().extend(burst);
            black_box(now);
        }
    })
}

/// Rate with `parts` structures shared by all threads.
fn shared(threads: usize, delays: &[u64], parts: usize, choice: Choice) -> f64 {
    let many = &Many::new(parts, BINS, WIDTH);
    rate(threads, delays, |thread| {
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
    let processors = std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
    for threads in [1, 2, 4, 8, 16, 32]
        .into_iter()
        .filter(|&n| n <= processors.max(2))
    {
        let mut best = [0f64; 5];
        for _ in 0..REPEATS {
            let rates = [
                ceiling(threads, &delays),
                shared(threads, &delays, threads, Choice::Random),
                shared(threads, &delays, threads, Choice::InTurn),
                shared(threads, &delays, 1, Choice::InTurn),
                fifo(threads, &delays),
            ];
            for (best, rate) in best.iter_mut().zip(rates) {
                *best = best.max(rate);
            }
        }
        let names = ["own", "mds", "mds-in-turn", "binsort", "fifo"];
        for (name, best) in names.iter().zip(best) {
            println!("services {name}-{threads}-mpps {:.2}", best / 1e6);
        }
        if threads == 2 {
            println!("services mds-binsort/ceiling {:.3}", best[1] / best[0]);
            println!(
                "services mds-binsort-in-turn/ceiling {:.3}",
                best[2] / best[0]
            );
            println!("services one-binsort/ceiling {:.3}", best[3] / best[0]);
        }
    }
}
