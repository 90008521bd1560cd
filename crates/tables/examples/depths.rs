//! Depth of look-ups in the trie of stride 4 (QS3): `depths [ROUTES.txt]` prints one JSON object.
//!
//! ROUTES has lines `PREFIX/LENGTH ID`; tables of 100,000 and 256K random routes are always measured. Addresses are
//! random within random prefixes of the table, or random among all unicast addresses.
#![allow(clippy::print_stdout)]

mod sample;

use sample::{Random, parse_routes, routes4};
use tables::fib::{Rib, Route, Stride4, Structure};

const LOOKUPS: usize = 1 << 20;
const DEPTH_MAX: usize = 8;

/// Number of look-ups that load 1, 2, ... entries.
fn depths(rib: &Rib<4, Stride4<4>>, mut address: impl FnMut() -> [u8; 4]) -> [usize; DEPTH_MAX] {
    let mut counts = [0; DEPTH_MAX];
    for _ in 0..LOOKUPS {
        counts[rib.fib().depth(address()) as usize - 1] += 1;
    }
    counts
}

fn report(name: &str, routes: &[Route<4>]) -> String {
    let mut rib = Rib::<4, Stride4<4>>::new();
    for (prefix, id) in routes {
        rib.stage_insert(*prefix, *id);
    }
    rib.publish().expect("room for the table");
    let mut random = Random::new(7);
    let inside = depths(&rib, || {
        let n = random.below(routes.len() as u64) as usize;
        random.address_in(&routes[n].0)
    });
    let any = depths(&rib, || {
        (random.below(223 << 24) as u32 + (1 << 24)).to_be_bytes()
    });
    format!(
        "\"{name}\": {{\"routes\": {}, \"bytes\": {}, \"inside\": {inside:?}, \"any\": {any:?}}}",
        routes.len(),
        rib.fib().memory_bytes(),
    )
}

fn main() {
    let mut tables = vec![
        report("100K", &routes4(1, 100_000, 1000)),
        report("256K", &routes4(1, 1 << 18, 1000)),
    ];
    if let Some(path) = std::env::args().nth(1) {
        let text = std::fs::read_to_string(path).expect("a readable file of routes");
        let routes = parse_routes::<wire::Prefix4, 4>(&text);
        tables.push(report("full", &routes));
    }
    println!("{{{}}}", tables.join(", "));
}
