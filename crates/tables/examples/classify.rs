//! Measures the rule trees: `cargo run --release -p tables --example classify RULES [N [SEED]]`.
//!
//! RULES is a ClassBench filter set; beside it, with the same stem, lie `.trace` and `.expected`. With N,
//! a set of N rules is grown from it, and the trace is one packet per rule. Every answer is checked before
//! anything is counted; then it waits for a line. Under `valgrind --tool=callgrind
//! --toggle-collect='*lookups*'` the instructions of the lookups alone are counted: divide by the packets
//! printed.
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
        tree.parts(),
        tree.memory_bytes() / 1000,
        build.as_secs_f64() * 1e3,
    );
    // The process that counts sends a byte to start.
    let _ = std::io::stdin().read(&mut [0]);
    let start = Instant::now();
    black_box(lookups(&tree, keys));
    let took = start.elapsed().as_secs_f64() * 1e9 / keys.len() as f64;
    println!("{took:.0} ns each, one pass");
}
