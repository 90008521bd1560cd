//! Measures the rule trees: `cargo run --release -p tables --example classify RULES [N [SEED]]`.
//!
//! RULES is a ClassBench filter set; beside it, with the same stem, lie `.trace` and `.expected`. With N,
//! a set of N rules is grown from it, and the trace is one packet per rule. Every answer is checked before
//! anything is counted; then it waits for a line. Under `valgrind --tool=callgrind
//! --toggle-collect='*lookups*'` the instructions of the lookups alone are counted: divide by the packets
//! printed.

use std::hint::black_box;
use std::io::Read;
use std::time::Instant;

use tables::classify::sample::{grow, hit, parse_rules, parse_trace};
use tables::classify::{Key, Rule, Tree};
use tables::sample::Random;

#[inline(never)]
fn lookups(tree: &Tree, keys: &[Key]) -> u64 {
    let found = keys.iter().map(|key| tree.first(black_box(key)));
    found.map(|n| n.map_or(0, u64::from)).sum()
}

fn naive(rules: &[Rule], key: &Key) -> Option<u32> {
    let first = rules.iter().position(|r| r.iter().all(|t| t.holds(key)));
    first.map(|n| n as u32)
}

fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().expect("the path of a filter set");
    let n: Option<usize> = args.next().map(|n| n.parse().expect("a number of rules"));
    let seed = args.next().map_or(1, |n| n.parse().expect("a seed"));
    let read = |kind: &str| {
        let path = path.replace(".rules", kind);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
    };
    let mut rules = parse_rules(&read(".rules")).expect("lines of ClassBench");
    let mut random = Random::new(seed);
    if let Some(n) = n {
        rules = grow(&rules, n, &mut random);
    }
    let compiled: Vec<Rule> = rules.iter().map(|r| r.rule()).collect();
    let start = Instant::now();
    let tree = Tree::new(&compiled);
    let build = start.elapsed();
    let keys: Vec<Key> = match n {
        None => parse_trace(&read(".trace")).expect("lines of ClassBench"),
        Some(_) => rules.iter().map(|r| hit(r, &mut random)).collect(),
    };
    let expected: Vec<Option<u32>> = match n {
        None => read(".expected").lines().map(|l| l.parse().ok()).collect(),
        Some(_) => keys.iter().map(|k| naive(&compiled, k)).collect(),
    };
    for (key, expected) in keys.iter().zip(&expected) {
        assert_eq!(tree.first(key), *expected, "{key:x?}");
    }
    println!(
        "{} rules, {} packets, all right; {} trees, {} KB, built in {:.0} ms",
        rules.len(),
        keys.len(),
        tree.parts(),
        tree.memory_bytes() / 1000,
        build.as_secs_f64() * 1e3,
    );
    // Whoever counts says when.
    let _ = std::io::stdin().read(&mut [0]);
    let start = Instant::now();
    black_box(lookups(&tree, &keys));
    let took = start.elapsed().as_secs_f64() * 1e9 / keys.len() as f64;
    println!("{took:.0} ns each, one pass");
}
