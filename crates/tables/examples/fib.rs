//! Measures the routing tables: `cargo run --release -p tables --example fib [V4.txt [V6.txt]]`.
//!
//! The files have lines `prefix id`; without them, tables of the Internet's shape are generated. The program prints a
//! line for each structure: nanoseconds per look-up, build time, changes per second, and memory. Look-ups are
//! measured one by one, in bulk of 256 with random addresses and with addresses in the table's prefixes, and each
//! depending on the last.
#![allow(clippy::print_stdout)]

mod radix;
mod sample;

use std::hint::black_box;
use std::str::FromStr;
use std::time::{Duration, Instant};

use radix::Radix;
use sample::{Random, parse_routes, routes4, routes6};
use tables::fib::{Dir24, Poptrie, Prefix, Rib, Route, Stride4, Structure};

const LOOKUPS: usize = 1 << 20;
const BURST: usize = 256;

fn read<T: FromStr + Into<Prefix<N>>, const N: usize>(
    file: Option<String>,
) -> Option<Vec<Route<N>>> {
    let text = std::fs::read_to_string(file?).expect("a readable file");
    Some(parse_routes::<T, N>(&text))
}

/// Processor time of this thread: other threads' time does not count.
fn busy() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split(' ').next().and_then(|word| word.parse().ok());
    Duration::from_nanos(first.expect("Linux says how long a thread ran"))
}

/// Minimum of three runs, in nanoseconds per look-up.
fn nanoseconds(mut pass: impl FnMut() -> u64) -> f64 {
    let mut time = || {
        let start = Instant::now();
        black_box(pass());
        start.elapsed()
    };
    let least: Duration = (0..3).map(|_| time()).min().unwrap_or_default();
    least.as_secs_f64() * 1e9 / LOOKUPS as f64
}

fn bulk<const N: usize>(fib: &impl Structure<N>, addresses: &[[u8; N]]) -> f64 {
    let mut ids = [0u16; BURST];
    nanoseconds(|| {
        let each = addresses.chunks(BURST).map(|chunk| {
            fib.lookup_bulk(chunk, &mut ids);
            u64::from(black_box(ids[0]))
        });
        each.sum()
    })
}

/// Removes and inserts routes; returns changes per second.
fn churn<const N: usize, S: Structure<N>>(rib: &mut Rib<N, S>, routes: &[Route<N>]) -> f64 {
    let mut random = Random::new(7);
    let count = routes.len().min(100_000);
    let start = busy();
    for _ in 0..count {
        let (prefix, id) = routes[random.below(routes.len() as u64) as usize];
        rib.remove(prefix).expect("room");
        rib.insert(prefix, id).expect("room");
        let limbo = rib.take_limbo();
        rib.release(limbo);
    }
    2.0 * count as f64 / (busy() - start).as_secs_f64()
}

fn measure<const N: usize, S: Structure<N>>(routes: &[Route<N>]) {
    let start = busy();
    let mut rib = Rib::<N, S>::new();
    for (prefix, id) in routes {
        rib.stage_insert(*prefix, *id);
    }
    let sorted = busy() - start;
    rib.publish().expect("room for the table");
    let build = busy() - start;
    let mut random = Random::new(3);
    let anywhere: Vec<[u8; N]> = (0..LOOKUPS).map(|_| random.bytes()).collect();
    let mut inside = || random.below(routes.len() as u64) as usize;
    let picked: Vec<_> = (0..LOOKUPS).map(|_| inside()).collect();
    let inside: Vec<[u8; N]> = picked
        .iter()
        .map(|&i| random.address_in(&routes[i].0))
        .collect();
    let fib = rib.fib().clone();
    let single = nanoseconds(|| inside.iter().map(|a| u64::from(fib.lookup(*a))).sum());
    let chained = nanoseconds(|| {
        let mut at = 0;
        for i in 0..LOOKUPS {
            at = (i + usize::from(fib.lookup(inside[at]))) % LOOKUPS;
        }
        at as u64
    });
    let (anywhere, inside) = (bulk(&*fib, &anywhere), bulk(&*fib, &inside));
    let fresh = fib.memory_bytes() as f64 / 1e6;
    drop(fib);
    let changes = churn(&mut rib, routes);
    println!(
        "{}, {} bits, {} routes: alone {single:.2} ns, chained {chained:.2}, bulk {inside:.2}, bulk anywhere \
         {anywhere:.2}; built in {:.0} ms ({:.0} of them sorting); {:.2} M changes/s; {fresh:.2} MB, \
         after changes {:.2}, with routes {:.1}",
        S::NAME,
        8 * N,
        rib.len(),
        build.as_secs_f64() * 1e3,
        sorted.as_secs_f64() * 1e3,
        changes / 1e6,
        rib.fib().memory_bytes() as f64 / 1e6,
        rib.memory_bytes() as f64 / 1e6,
    );
}

fn main() {
    let mut files = std::env::args().skip(1);
    let v4 = read::<wire::Prefix4, 4>(files.next()).unwrap_or_else(|| routes4(1, 900_000, 255));
    let v6 = read::<wire::Prefix6, 16>(files.next()).unwrap_or_else(|| routes6(1, 160_000, 255));
    measure::<4, Poptrie<4>>(&v4);
    measure::<4, Dir24<4>>(&v4);
    measure::<4, Stride4<4>>(&v4);
    measure::<4, Radix<4>>(&v4);
    measure::<16, Poptrie<16>>(&v6);
    measure::<16, Dir24<16>>(&v6);
    measure::<16, Stride4<16>>(&v6);
    measure::<16, Radix<16>>(&v6);
}
