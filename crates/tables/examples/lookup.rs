//! Looks up addresses on command: Ashlar's part of `eval/lookup/run`.
//!
//!     lookup ROUTES ADDRESSES
//!
//! ROUTES has lines `PREFIX/LENGTH ID`, all IPv4 or all IPv6. ADDRESSES has 32-bit words in host order, or 16 bytes
//! each in network order. The program prints `ready` and the structures that have room for the routes. It then reads
//! lines `STRUCTURE PASSES`. It answers each with the least time of a pass over all addresses in nanoseconds per
//! look-up, a sum of the ids, and the structure's bytes.
#![allow(clippy::print_stderr, clippy::print_stdout)]

mod radix;
mod sample;

use std::hint::black_box;
use std::io::Write;
use std::str::FromStr;
use std::time::{Duration, Instant};

use radix::Radix;
use sample::parse_routes;
use tables::fib::{Address, Dir24, Poptrie, Prefix, Rib, Route, Stride4, Structure};

const BURST: usize = 64;

fn pass<const N: usize>(fib: &impl Structure<N>, addresses: &[impl Address<N>]) -> u64 {
    let mut ids = [0u16; BURST];
    let mut sum = 0;
    for burst in addresses.chunks_exact(BURST) {
        fib.lookup_bulk(burst, &mut ids);
        sum += ids.iter().map(|id| u64::from(*id)).sum::<u64>();
    }
    black_box(sum)
}

fn measure<const N: usize, S: Structure<N>>(
    rib: &Rib<N, S>,
    addresses: &[impl Address<N>],
    passes: u32,
) -> String {
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

/// A structure with all routes, as a function that runs a pass; `None` if the routes do not fit.
fn server<'a, const N: usize, S: Structure<N> + 'a>(
    routes: &[Route<N>],
    addresses: &'a [impl Address<N>],
) -> Option<Server<'a>> {
    let mut rib = Rib::<N, S>::new();
    for (prefix, id) in routes {
        rib.stage_insert(*prefix, *id);
    }
    rib.publish().ok()?;
    Some(Box::new(move |passes| measure(&rib, addresses, passes)))
}

type Server<'a> = Box<dyn Fn(u32) -> String + 'a>;

/// Serves commands as the head of this file says.
fn serve<P: FromStr + Into<Prefix<N>>, const N: usize>(text: &str, addresses: &[impl Address<N>]) {
    let routes = parse_routes::<P, N>(text);
    let addresses = &addresses[..addresses.len() / BURST * BURST];
    let all = [
        ("poptrie", server::<N, Poptrie<N>>(&routes, addresses)),
        ("dir-24-8", server::<N, Dir24<N>>(&routes, addresses)),
        ("stride-4", server::<N, Stride4<N>>(&routes, addresses)),
        ("radix", server::<N, Radix<N>>(&routes, addresses)),
    ];
    let some = all.into_iter();
    let all: Vec<_> = some
        .filter_map(|(name, server)| Some((name, server?)))
        .collect();
    let names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
    println!("ready {}", names.join(" "));
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let (name, passes) = line.split_once(' ').expect("STRUCTURE PASSES");
        let passes = passes.trim().parse().expect("a number of passes");
        let found = all.iter().find(|(known, _)| *known == name);
        let (_, measure) = found.expect("one of the structures there are");
        println!("{}", measure(passes));
        std::io::stdout().flush().expect("somebody who reads");
    }
}

fn main() {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let [routes, addresses] = &files[..] else {
        eprintln!("usage: lookup ROUTES ADDRESSES");
        std::process::exit(2);
    };
    let text = std::fs::read_to_string(routes).expect("a readable file of routes");
    let bytes = std::fs::read(addresses).expect("a readable file of addresses");
    if text.contains(':') {
        let (addresses, _) = bytes.as_chunks::<16>();
        serve::<wire::Prefix6, 16>(&text, addresses);
    } else {
        let (words, _) = bytes.as_chunks::<4>();
        let addresses: Vec<u32> = words.iter().map(|word| u32::from_ne_bytes(*word)).collect();
        serve::<wire::Prefix4, 4>(&text, &addresses);
    }
}
