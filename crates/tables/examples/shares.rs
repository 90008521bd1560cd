//! Time to enqueue and dequeue a packet in a hierarchy of shares: 20,000 subscribers with four classes each. Every
//! packet belongs to a random subscriber, and few or many packets wait: `cargo run --release -p tables --example
//! shares`.
//!
//! A FIFO queue is measured for comparison. Cycles are those of the time-stamp counter, if there is one. With the
//! argument `bench-services` it prints the line of `make bench-services`.
#![allow(clippy::print_stdout)]

mod sample;

use sample::Random;
use std::collections::VecDeque;
use std::hint::black_box;
use std::num::NonZeroU64;
use std::time::Instant;
use tables::codel::CodelParameters;
use tables::shares::{Settings, Share, Shares};

const SUBSCRIBERS: usize = 20_000;
const CLASSES: usize = 4;
const GROUPS: usize = 4;
const ROUNDS: usize = 1 << 21;
/// Number of packets per timed measurement.
const SLICE: usize = 1 << 12;
/// Number of packets that arrive, and leave, together.
const BURST: usize = 32;

/// An item as large as a pointer to a packet, and like it never 0.
type Item = NonZeroU64;

fn shares() -> Shares<Item> {
    let share = |rate, ceiling| Share {
        rate,
        ceiling: Some(ceiling),
    };
    let settings = Settings {
        link: Some(u64::MAX / 64),
        capacity: 1 << 21,
        codel: Some(CodelParameters {
            target: 5_000_000,
            interval: 100_000_000,
        }),
        ..Settings::default()
    };
    let classes = [1, 2, 3, 4].map(|rate| share(rate, 1 << 40));
    let groups = [share(1, 1 << 40); GROUPS];
    let subscribers: Vec<(usize, Share)> = (0..SUBSCRIBERS)
        .map(|n| (n % GROUPS, share(100, 1 << 40)))
        .collect();
    let made = Shares::new(settings, &classes, &groups, &subscribers);
    made.unwrap_or_else(|uneven| panic!("{uneven:?}"))
}

/// Time to enqueue and dequeue a packet while `held` packets wait: the median of many short measurements, few of
/// which are interrupted.
fn measure(held: usize, places: &[usize], mut queue: impl FnMut(bool, &[usize])) -> f64 {
    for places in places.chunks(BURST).cycle().take(held.div_ceil(BURST)) {
        queue(true, places);
    }
    let slices = places.chunks(SLICE).map(|slice| {
        let begin = Instant::now();
        for places in slice.chunks(BURST) {
            queue(true, places);
            queue(false, places);
        }
        begin.elapsed().as_secs_f64() * 1e9 / slice.len() as f64
    });
    let mut times: Vec<f64> = slices.collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
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
    let places: Vec<usize> = (0..ROUNDS)
        .map(|_| random.below((SUBSCRIBERS * CLASSES) as u64) as usize)
        .collect();
    let clock = gigahertz();
    let lines = std::env::args().any(|word| word == "bench-services");
    if !lines {
        println!("packets  fifo ns  tree ns (cycles more than fifo)");
    }
    let mut worst: f64 = 0.0;
    for held in [0, 1000, 100_000, 1_000_000] {
        let mut fifo = VecDeque::new();
        let plain = measure(held, &places, |fill, places| {
            for &place in places {
                if fill {
                    fifo.push_back(Item::MIN.saturating_add(place as u64));
                } else {
                    black_box(fifo.pop_front());
                }
            }
        });
        let (mut tree, mut now) = (shares(), 1);
        let time = measure(held, &places, |fill, places| {
            now += 1000;
            if fill {
                black_box(
                    places
                        .iter()
                        .map(|&place| tree.queued(place))
                        .sum::<usize>(),
                );
                for &place in places {
                    let item = Item::MIN.saturating_add(place as u64);
                    black_box(tree.push(place, now, 700, item).is_ok());
                }
            } else {
                for _ in places {
                    black_box(tree.pop(now, drop));
                }
            }
        });
        let more = (time - plain) * clock;
        worst = worst.max(more);
        if lines {
            println!("services tree-cycles-{held} {more:.0}");
        } else {
            println!("{held:<8} {plain:>7.1} {time:>8.1} ({more:.0})");
        }
    }
    if lines {
        println!("services tree-cycles {worst:.0}");
    }
}
