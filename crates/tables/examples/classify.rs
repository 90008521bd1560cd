//! Measures the rule trees: `cargo run --release -p tables --example classify RULES [N [SEED]]`.
//!
//! RULES is a ClassBench filter set; `.trace` and `.expected` files with the same stem lie beside it. With N, a set
//! of N rules is generated from it, with one packet per rule. The program first checks every answer, then waits for a
//! line on standard input. Under `valgrind --tool=callgrind --toggle-collect='*lookups*'` only the instructions of
//! look-ups are counted: divide them by the printed number of packets.
#![allow(clippy::print_stdout)]

mod classbench;
mod sample;

use std::hint::black_box;
use std::io::Read;
use std::time::Instant;

use classbench::Sample;
use tables::classify::{Key, Tree};

#[inline(never)]
fn lookups(tree: &Tree, keys: &[Key]) -> u64 {
    let found = keys.iter().map(|key| tree.first(black_box(key)));
    found.map(|n| n.map_or(0, u64::from)).sum()
}

fn main() {
    let sample = Sample::from_args(std::env::args().skip(1)).unwrap_or_else(|e| panic!("{e}"));
    let (rules, keys) = (sample.tests(), &sample.keys);
    let start = Instant::now();
    let tree = Tree::new(&rules);
    let build = start.elapsed();
    for (key, expected) in keys.iter().zip(sample.expected()) {
        assert_eq!(tree.first(key), expected, "{key:x?}");
    }
    println!(
        "{} rules, {} packets, all right; {} trees, {} KB, built in {:.0} ms",
        rules.len(),
        keys.len(),
        tree.tree_count(),
        tree.memory_bytes() / 1000,
        build.as_secs_f64() * 1e3,
    );
    // The counting process sends a byte to start.
    let _ = std::io::stdin().read(&mut [0]);
    let start = Instant::now();
    black_box(lookups(&tree, keys));
    let took = start.elapsed().as_secs_f64() * 1e9 / keys.len() as f64;
    println!("{took:.0} ns each, one pass");
}
