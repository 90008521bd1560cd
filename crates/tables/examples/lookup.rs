//! Looks addresses up when told to: our half of `eval/lookup/run`.
//!
//!     lookup ROUTES ADDRESSES
//!
//! ROUTES holds lines `PREFIX/LENGTH ID`, ADDRESSES 32-bit words in host order. Says `ready` and the
//! structures there are. Then reads lines `STRUCTURE PASSES` and answers each with the least of the times that
//! a pass over all addresses took, in nanoseconds per lookup, a sum of the ids, and the structure's bytes.

use std::hint::black_box;
use std::io::Write;
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use tables::fib::{Poptrie, Prefix, Rib, Structure};

const BURST: usize = 64;

fn pass(fib: &impl Structure<4>, addresses: &[u32]) -> u64 {
    let mut ids = [0u16; BURST];
    let mut sum = 0;
    for burst in addresses.chunks_exact(BURST) {
        fib.lookup_bulk(burst, &mut ids);
        sum += ids.iter().map(|id| u64::from(*id)).sum::<u64>();
    }
    black_box(sum)
}

fn measure<S: Structure<4>>(rib: &Rib<4, S>, addresses: &[u32], passes: u32) -> String {
    let fib = &**rib.fib();
    let (mut least, mut sum) = (Duration::MAX, 0);
    for _ in 0..passes {
        let start = Instant::now();
        sum = pass(fib, addresses);
        least = least.min(start.elapsed());
    }
    let each = least.as_secs_f64() * 1e9 / addresses.len() as f64;
    format!("{each:.4} {sum} {}", fib.memory_bytes())
}

fn build<S: Structure<4>>(routes: &[(Prefix<4>, NonZeroU16)]) -> Rib<4, S> {
    let mut rib = Rib::new();
    for (prefix, id) in routes {
        rib.stage_insert(*prefix, *id);
    }
    rib.publish().expect("room for the table");
    rib
}

fn main() {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let [routes, addresses] = &files[..] else {
        eprintln!("usage: lookup ROUTES ADDRESSES");
        std::process::exit(2);
    };
    let text = std::fs::read_to_string(routes).expect("a readable file of routes");
    let route = |line: &str| {
        let (prefix, id) = line.split_once(' ')?;
        let prefix = prefix.parse::<wire::Prefix4>().ok()?;
        Some((prefix.into(), id.parse().ok()?))
    };
    let routes: Vec<_> = text.lines().filter_map(route).collect();
    let bytes = std::fs::read(addresses).expect("a readable file of addresses");
    let word = |four: &[u8]| four.try_into().map_or(0, u32::from_ne_bytes);
    let addresses: Vec<u32> = bytes.chunks_exact(4).map(word).collect();
    let addresses = &addresses[..addresses.len() / BURST * BURST];
    let poptrie = build::<Poptrie<4>>(&routes);
    println!("ready poptrie");
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let (name, passes) = line.split_once(' ').expect("STRUCTURE PASSES");
        let passes = passes.trim().parse().expect("a number of passes");
        match name {
            "poptrie" => println!("{}", measure(&poptrie, addresses, passes)),
            other => panic!("there is no structure {other}"),
        }
        std::io::stdout().flush().expect("somebody who reads");
    }
}
