//! Seeded routing tables of the Internet's shape, and addresses to look up in them, for tests and benchmarks. The
//! same seed gives the same table everywhere.
#![allow(dead_code)] // each program and each crate's tests use a part of it

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::str::FromStr;

use tables::fib::{Prefix, Route};

/// A small pseudo-random generator (SplitMix64): repeatable, not for secrets.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The generator of this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number from 0 up to, but not including, `end` (which is not 0).
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// Random bytes.
    pub(crate) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.bits() as u8)
    }

    /// A random address in `prefix`.
    pub(crate) fn address_in<const N: usize>(&mut self, prefix: &Prefix<N>) -> [u8; N] {
        let (fixed, noise) = (prefix.address(), self.bytes::<N>());
        std::array::from_fn(|i| {
            let bits = usize::from(prefix.length()).saturating_sub(8 * i).min(8) as u32;
            fixed[i] | (u32::from(noise[i]) & 0xff >> bits) as u8
        })
    }
}

/// Prefix lengths and their shares, per 10,000, in a default-free table of January 2024.
const LENGTHS4: &[(u8, u32)] = &[
    (8, 1),
    (12, 4),
    (13, 6),
    (14, 12),
    (15, 21),
    (16, 150),
    (17, 90),
    (18, 150),
    (19, 270),
    (20, 480),
    (21, 560),
    (22, 1200),
    (23, 1060),
    (24, 5990),
    (28, 4),
    (32, 2),
];
/// Distribution of prefix lengths for IPv6.
const LENGTHS6: &[(u8, u32)] = &[
    (20, 1),
    (24, 10),
    (28, 40),
    (29, 430),
    (30, 60),
    (32, 1500),
    (33, 180),
    (34, 150),
    (36, 410),
    (38, 120),
    (40, 1000),
    (42, 120),
    (44, 1000),
    (46, 240),
    (48, 4700),
    (56, 25),
    (64, 12),
    (128, 2),
];

/// Routes from lines `PREFIX ID`, with prefixes in the format of `T`; other lines are ignored.
pub(crate) fn parse_routes<T: FromStr + Into<Prefix<N>>, const N: usize>(
    text: &str,
) -> Vec<Route<N>> {
    let route = |line: &str| {
        let (prefix, id) = line.split_once(' ')?;
        Some((prefix.parse::<T>().ok()?.into(), id.parse().ok()?))
    };
    text.lines().filter_map(route).collect()
}

/// At most `count` routes of distinct IPv4 prefixes with ids from 1 to `ids`. As in the Internet, most prefixes lie
/// near another one.
pub(crate) fn routes4(seed: u64, count: usize, ids: u16) -> Vec<(Prefix<4>, NonZeroU16)> {
    routes(seed, count, ids, LENGTHS4, |random| {
        let [_, b, c, d] = random.bytes();
        [1 + random.below(222) as u8, b, c, d]
    })
}

/// At most `count` routes of distinct IPv6 prefixes with ids from 1 to `ids`.
pub(crate) fn routes6(seed: u64, count: usize, ids: u16) -> Vec<(Prefix<16>, NonZeroU16)> {
    routes(seed, count, ids, LENGTHS6, |random| {
        let mut address = random.bytes::<16>();
        // The first bytes of the five registries' allocations.
        let first = [
            [0x20, 0x01],
            [0x24, 0x00],
            [0x26, 0x00],
            [0x28, 0x04],
            [0x2a, 0x00],
        ];
        let registry = first[random.below(5) as usize];
        address[0] = registry[0];
        address[1] = registry[1] | address[1] & 0x0f;
        address
    })
}

fn routes<const N: usize>(
    seed: u64,
    count: usize,
    ids: u16,
    lengths: &[(u8, u32)],
    fresh: impl Fn(&mut Random) -> [u8; N],
) -> Vec<(Prefix<N>, NonZeroU16)> {
    let mut random = Random::new(seed);
    let total: u64 = lengths.iter().map(|l| u64::from(l.1)).sum();
    let mut seen = BTreeSet::new();
    let mut routes: Vec<(Prefix<N>, NonZeroU16)> = Vec::with_capacity(count);
    for _ in 0..8 * count {
        if routes.len() == count {
            break;
        }
        let mut share = random.below(total) as u32;
        let mut length = 0;
        for &(l, part) in lengths {
            length = l;
            if share < part {
                break;
            }
            share -= part;
        }
        let address = match routes.get(random.below(2 * count as u64) as usize) {
            // A neighbour of an existing prefix: same first bits, other bits random.
            Some((near, _)) => {
                let shared = near
                    .length()
                    .min(length)
                    .saturating_sub(random.below(8) as u8);
                random.address_in(&Prefix::new(near.address(), shared))
            }
            None => fresh(&mut random),
        };
        let id = NonZeroU16::new(1 + random.below(u64::from(ids.max(1))) as u16);
        let prefix = Prefix::new(address, length);
        if let Some(id) = id
            && seen.insert(prefix)
        {
            routes.push((prefix, id));
        }
    }
    routes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_table_of_the_wanted_size() {
        let table = routes4(7, 20_000, 255);
        assert_eq!(table.len(), 20_000);
        assert_eq!(table, routes4(7, 20_000, 255));
        assert_ne!(table, routes4(8, 20_000, 255));
        let of24 = table.iter().filter(|(p, _)| p.length() == 24).count();
        assert!((9_000..15_000).contains(&of24), "{of24}");
        assert_eq!(routes6(7, 5_000, 9).len(), 5_000);
    }

    #[test]
    fn addresses_of_a_prefix_are_in_it_and_differ() {
        let mut random = Random::new(1);
        for (prefix, _) in routes6(3, 500, 9) {
            let (a, b) = (random.address_in(&prefix), random.address_in(&prefix));
            assert!(prefix.contains(a) && (a != b || prefix.length() > 120));
        }
    }
}
