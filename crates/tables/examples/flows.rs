//! Time and memory of a table of flows, for sizes from a thousand to a million: `cargo run --release -p
//! tables --example flows`.
//!
//! A packet is a look-up of a random flow's key and a touch. In bursts of 32, the keys of a burst are prefetched first.
//! A new flow in a full table replaces another. `longest` is the time of the slowest of the first insertions, in which
//! the table grows. One of 256 groups is removed and inserted again flow by flow, as when a bucket moves to another
//! worker.
#![allow(clippy::print_stdout)]

use std::array::from_fn;
use std::hint::black_box;
use std::time::{Duration, Instant};
use tables::flows::Flows;

const PACKETS: u64 = 4_000_000;
const BURST: usize = 32;

type Key = (u64, u64);

fn key(n: u64, side: u64) -> Key {
    (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ side, side)
}

fn main() {
    println!("flows      packet ns  in burst ns  new flow ns  longest us  moved ns  bytes/flow");
    for flows in [1_000u64, 10_000, 100_000, 1_000_000] {
        let mut table: Flows<Key, [u64; 4]> = Flows::new(flows as usize);
        let class = table.add_class(0, 300);
        let mut longest = Duration::ZERO;
        for n in 0..flows {
            let begin = Instant::now();
            table.insert(
                [key(n, 0), key(n, 1)],
                [n; 4],
                (class, (n % 256) as u16),
                n,
                |_, _| (),
            );
            longest = longest.max(begin.elapsed());
        }
        let longest = longest.as_secs_f64() * 1e6;
        let bytes = table.memory() as u64 / flows;
        let mut state = 1u64;
        let mut next = |n: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            key((state >> 33) % flows, n % 2)
        };
        let [packet, in_burst] = [false, true].map(|prefetched| {
            let begin = Instant::now();
            for first in (0..PACKETS).step_by(BURST) {
                let keys: [Key; BURST] = from_fn(|n| next(n as u64));
                if prefetched {
                    table.prefetch(keys.into_iter());
                }
                for key in keys {
                    if let Some(end) = table.find(&key) {
                        table.touch(end.flow, class, flows + first);
                        black_box(table.value(end.flow));
                    }
                }
            }
            begin.elapsed().as_nanos() as f64 / PACKETS as f64
        });
        let begin = Instant::now();
        for n in 0..flows {
            let new = flows + n;
            table.insert(
                [key(new, 0), key(new, 1)],
                [n; 4],
                (class, (new % 256) as u16),
                PACKETS + 2 * new,
                |_, _| (),
            );
        }
        let new = begin.elapsed().as_nanos() as f64 / flows as f64;
        let (begin, mut count) = (Instant::now(), 0);
        for group in 0..16 {
            let all: Vec<_> = table.of_group(group).collect();
            for flow in all {
                let (keys, (_, touched)) = (*table.keys(flow), table.use_of(flow));
                let value = table.remove(flow);
                table.insert(keys, value, (class, group), touched, |_, _| ());
                count += 1;
            }
        }
        let moved = begin.elapsed().as_nanos() as f64 / f64::from(count);
        println!(
            "{flows:<9} {packet:>10.1} {in_burst:>12.1} {new:>12.1} {longest:>11.0} {moved:>9.1} {bytes:>11}"
        );
    }
}
