//! Looks addresses up when told to: our half of `eval/lookup/run`.
//!
//!     lookup ROUTES ADDRESSES
//!
//! ROUTES holds lines `PREFIX/LENGTH ID`, ADDRESSES 32-bit words in host order. Says `ready` and the
//! structures there are. Then reads lines `STRUCTURE PASSES` and answers each with the least of the times that
//! a pass over all addresses took, in nanoseconds per lookup, a sum of the ids, and the structure's bytes.

use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};

use tables::fib::{Dir24, Poptrie, Radix, Rib, Route, Stride4, Structure};
use tables::sample::parse_routes;

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

/// A structure with all routes in it, when there is something to look up.
fn server<'a, S: Structure<4> + 'a>(routes: &[Route<4>], addresses: &'a [u32]) -> Server<'a> {
    let mut rib = Rib::<4, S>::new();
    for (prefix, id) in routes {
        rib.stage_insert(*prefix, *id);
    }
    rib.publish().expect("room for the table");
    Box::new(move |passes| measure(&rib, addresses, passes))
}

type Server<'a> = Box<dyn Fn(u32) -> String + 'a>;

fn main() {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let [routes, addresses] = &files[..] else {
        eprintln!("usage: lookup ROUTES ADDRESSES");
        std::process::exit(2);
    };
    let text = std::fs::read_to_string(routes).expect("a readable file of routes");
    let routes = parse_routes::<wire::Prefix4, 4>(&text);
    let bytes = std::fs::read(addresses).expect("a readable file of addresses");
    let word = |four: &[u8]| four.try_into().map_or(0, u32::from_ne_bytes);
    let addresses: Vec<u32> = bytes.chunks_exact(4).map(word).collect();
    let addresses = &addresses[..addresses.len() / BURST * BURST];
    let all = [
        ("poptrie", server::<Poptrie<4>>(&routes, addresses)),
        ("dir-24-8", server::<Dir24<4>>(&routes, addresses)),
        ("stride-4", server::<Stride4<4>>(&routes, addresses)),
        ("radix", server::<Radix<4>>(&routes, addresses)),
    ];
    println!("ready {}", all.each_ref().map(|(name, _)| *name).join(" "));
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let (name, passes) = line.split_once(' ').expect("STRUCTURE PASSES");
        let passes = passes.trim().parse().expect("a number of passes");
        let found = all.iter().find(|(known, _)| *known == name);
        let (_, measure) = found.expect("one of the structures there are");
        println!("{}", measure(passes));
        std::io::stdout().flush().expect("somebody who reads");
    }
}
