//! Measures the routing tables: `cargo run --release -p tables --example fib [V4.txt [V6.txt]]`.
//!
//! The files hold lines `prefix id`; without them, seeded tables of the Internet's shape are used.
//! Prints nanoseconds per lookup (random addresses in the table's prefixes, out of cache), changes per
//! second, and memory.

use std::hint::black_box;
use std::num::NonZeroU16;
use std::str::FromStr;
use std::time::Instant;

use tables::fib::{Fib4, Fib6, Prefix, Rib};
use tables::sample::{Random, routes4, routes6};

const LOOKUPS: usize = 4 << 20;

fn read<T: FromStr + Into<Prefix<N>>, const N: usize>(
    file: Option<String>,
) -> Option<Vec<(Prefix<N>, NonZeroU16)>> {
    let text = std::fs::read_to_string(file?).expect("a readable file");
    let parse = |line: &str| {
        let (prefix, id) = line.split_once(' ')?;
        Some((prefix.parse::<T>().ok()?.into(), id.parse().ok()?))
    };
    Some(text.lines().filter_map(parse).collect())
}

fn measure<const N: usize, A: Copy>(
    name: &str,
    routes: &[(Prefix<N>, NonZeroU16)],
    address: impl Fn([u8; N]) -> A,
    one: impl Fn(&tables::fib::Fib<N>, &A) -> u16,
    bulk: impl Fn(&tables::fib::Fib<N>, &[A], &mut [u16]),
) {
    let start = Instant::now();
    let mut rib = Rib::<N>::new();
    for (prefix, id) in routes {
        rib.insert(*prefix, *id).expect("room for the table");
    }
    let build = start.elapsed();
    let mut random = Random::new(3);
    let mut pick = || &routes[random.below(routes.len() as u64) as usize].0;
    let picked: Vec<_> = (0..LOOKUPS).map(|_| *pick()).collect();
    let mut random = Random::new(4);
    let addresses: Vec<A> = picked
        .iter()
        .map(|p| address(random.address_in(p)))
        .collect();
    let fib = rib.fib().clone();

    let start = Instant::now();
    let mut sum = 0u64;
    for a in &addresses {
        sum += u64::from(one(&fib, a));
    }
    let single = start.elapsed();
    let mut ids = [0u16; 32];
    let start = Instant::now();
    for chunk in addresses.chunks(32) {
        bulk(&fib, chunk, &mut ids);
        sum += u64::from(black_box(ids[0]));
    }
    let bulked = start.elapsed();
    // Each lookup needs the last one's answer: the latency.
    let start = Instant::now();
    let mut at = 0;
    for i in 0..LOOKUPS {
        at = (i + usize::from(one(&fib, &addresses[at]))) % LOOKUPS;
    }
    let chained = start.elapsed();
    black_box((sum, at));

    let start = Instant::now();
    let churn = routes.len().min(100_000);
    for p in &picked[..churn] {
        if let Some(id) = rib.remove(*p) {
            rib.insert(*p, id).expect("room for what was there");
        }
        let limbo = rib.take_limbo();
        rib.release(limbo);
    }
    let churned = start.elapsed();
    let ns = |t: std::time::Duration, n: usize| t.as_secs_f64() * 1e9 / n as f64;
    println!(
        "{name}: {} routes; lookup {:.1} ns alone, {:.1} ns in bulk of 32, {:.1} ns chained; \
         build {:.2} M routes/s; remove and insert {:.2} us; {:.0} MB of address space",
        rib.len(),
        ns(single, LOOKUPS),
        ns(bulked, LOOKUPS),
        ns(chained, LOOKUPS),
        1e3 / ns(build, routes.len()),
        ns(churned, churn) / 1e3,
        rib.memory_bytes() as f64 / 1e6,
    );
}

fn main() {
    let mut files = std::env::args().skip(1);
    let v4 = read::<wire::Prefix4, 4>(files.next()).unwrap_or_else(|| routes4(1, 900_000, 255));
    let v6 = read::<wire::Prefix6, 16>(files.next()).unwrap_or_else(|| routes6(1, 160_000, 255));
    measure(
        "IPv4",
        &v4,
        u32::from_be_bytes,
        |f: &Fib4, a| f.lookup(*a),
        Fib4::lookup_bulk,
    );
    measure("IPv6", &v6, |a| a, Fib6::lookup, Fib6::lookup_bulk);
}
