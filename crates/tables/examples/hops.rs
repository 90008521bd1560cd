//! Measures the steps after the route look-up: `cargo run --release -p tables --example hops`.
//!
//! Prints nanoseconds per choice of a group's member, per neighbour found, and per unit taken from a token bucket.
#![allow(clippy::print_stdout)]

mod sample;

use std::hint::black_box;
use std::net::IpAddr;
use std::time::Instant;

use sample::Random;
use tables::bucket::{Rate, SharedBucket, TokenBucket};
use tables::groups::{GroupTable, Member};
use tables::neighbours::{EtherAddr, Neighbours, State, Timing};

const ROUNDS: u32 = 8 << 20;

fn measure(name: &str, mut step: impl FnMut(u32) -> u64) {
    let start = Instant::now();
    let mut sum = 0u64;
    for i in 0..ROUNDS {
        sum = sum.wrapping_add(step(i));
    }
    black_box(sum);
    println!(
        "{name}: {:.1} ns",
        start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS)
    );
}

fn main() {
    let mut random = Random::new(1);
    let order: Vec<u32> = (0..1 << 16).map(|_| random.bits() as u32).collect();
    let any = |i: u32| order[i as usize % order.len()];

    let mut table = GroupTable::new();
    let hop = |n: u8| Member {
        gateway: Some(IpAddr::from([10, 0, 0, n])),
        port: u16::from(n),
        labels: wire::mpls::Labels::NONE,
        weight: 1,
    };
    for width in [1, 8] {
        for first in 0..250 - width {
            let members: Vec<_> = (first..first + width).map(hop).collect();
            table.intern(&members).expect("a good group");
        }
    }
    let groups = table.groups();
    for (name, first, count) in [("one", 1, 249), ("eight", 250, 242)] {
        measure(&format!("next hop of {count} groups of {name}"), |i| {
            let id = first + any(i) % count;
            groups
                .next_hop(id as u16, any(i + 1))
                .map_or(0, |m| u64::from(m.port))
        });
    }

    for count in [16u32, 10_000] {
        let v4 = Neighbours::<u32>::new(count as usize, Timing::default(), 7);
        let v6 = Neighbours::<[u8; 16]>::new(count as usize, Timing::default(), 7);
        let key6 = |n: u32| (0xfe80u128 << 112 | u128::from(n)).to_be_bytes();
        for n in 0..count {
            v4.learn(n, EtherAddr([2; 6]), 0).expect("room");
            v6.learn(key6(n), EtherAddr([2; 6]), 0).expect("room");
        }
        let mac = |mac: Option<(EtherAddr, State)>| mac.map_or(0, |(m, _)| u64::from(m.0[5]));
        measure(&format!("one of {count} IPv4 neighbours"), |i| {
            mac(v4.address(any(i) % count))
        });
        measure(&format!("one of {count} IPv6 neighbours"), |i| {
            mac(v6.address(key6(any(i) % count)))
        });
    }

    let mut bucket = TokenBucket::new(Rate::new(1_000_000_000, 32));
    measure("token bucket", |i| u64::from(bucket.take(u64::from(i), 1)));
    let bucket = SharedBucket::new(Rate::new(1_000_000_000, 32));
    measure("shared bucket, alone", |i| {
        u64::from(bucket.take(u64::from(i), 1))
    });
}
