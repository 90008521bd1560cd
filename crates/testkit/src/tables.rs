//! Routing tables of the shape that BGP gives them, for where the real ones are missing.
//!
//! Prefix lengths follow the shares of a default-free table of January 2024; about half of the prefixes
//! lie inside others, since one network announces its block in pieces.

use std::collections::HashSet;
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};

use wire::{Prefix4, Prefix6};

use crate::Rng;

/// Prefixes per length 8 to 32, per 100,000.
const LENGTHS4: [u32; 25] = [
    2, 1, 4, 11, 33, 64, 133, 233, 1496, 913, 1530, 2758, 4725, 5627, 12044, 10701, 59618, 2, 1, 1,
    2, 2, 1, 1, 98,
];

/// IPv6: length, and prefixes per 100,000.
const LENGTHS6: [(u8, u32); 23] = [
    (20, 10),
    (24, 19),
    (28, 120),
    (29, 2729),
    (30, 406),
    (31, 177),
    (32, 14080),
    (33, 1827),
    (34, 1625),
    (35, 651),
    (36, 3744),
    (37, 549),
    (38, 1010),
    (39, 860),
    (40, 8379),
    (41, 564),
    (42, 1437),
    (43, 625),
    (44, 8971),
    (45, 970),
    (46, 1898),
    (47, 1969),
    (48, 47138),
];

/// `n` different IPv4 prefixes, each with a next hop from 1 to 255. `n` up to a million.
pub fn prefixes4(seed: u64, n: usize) -> Vec<(Prefix4, u8)> {
    let mut rng = Rng::seed(seed);
    distinct(n, |made: &[(Prefix4, u8)]| {
        let len = 8 + rng.weighted(&LENGTHS4) as u8;
        let block = block(&mut rng, made, |p| p.len() < len);
        let addr = match block {
            Some(block) => block.addr().to_bits() | (rng.u32() & !block.mask().to_bits()),
            None => loop {
                let addr = rng.u32();
                if matches!(addr >> 24, 1..=9 | 11..=126 | 128..=223) {
                    break addr;
                }
            },
        };
        (
            Prefix4::new(Ipv4Addr::from_bits(addr), len),
            next_hop(&mut rng),
        )
    })
}

/// `n` different IPv6 prefixes inside 2000::/3, each with a next hop from 1 to 255. `n` up to a million.
pub fn prefixes6(seed: u64, n: usize) -> Vec<(Prefix6, u8)> {
    let mut rng = Rng::seed(seed);
    let weights = LENGTHS6.map(|(_, weight)| weight);
    distinct(n, |made: &[(Prefix6, u8)]| {
        let len = LENGTHS6[rng.weighted(&weights)].0;
        let block = block(&mut rng, made, |p| p.len() < len);
        let high = match block {
            Some(block) => (block.addr().to_bits() >> 64) as u64 | (rng.u64() >> block.len()),
            // Registries hand out blocks from a few dozen /12 to /23.
            None => 0x2000 << 48 | (rng.below(64) as u64) << 52 | rng.u64() >> 12,
        };
        let prefix = Prefix6::new(Ipv6Addr::from_bits(u128::from(high) << 64), len);
        (prefix, next_hop(&mut rng))
    })
}

/// In two thirds of the calls a prefix that is there and `fits`, if one is found soon: about half succeed.
fn block<P: Copy>(rng: &mut Rng, made: &[(P, u8)], fits: impl Fn(P) -> bool) -> Option<P> {
    let tries = if made.is_empty() || rng.one_in(3) {
        0
    } else {
        8
    };
    (0..tries).map(|_| rng.pick(made).0).find(|&p| fits(p))
}

fn next_hop(rng: &mut Rng) -> u8 {
    rng.range(1..256) as u8
}

/// Calls `make` until there are `n` entries with different keys.
fn distinct<K: Copy + Eq + Hash>(
    n: usize,
    mut make: impl FnMut(&[(K, u8)]) -> (K, u8),
) -> Vec<(K, u8)> {
    let mut seen = HashSet::with_capacity(n);
    let mut out = Vec::with_capacity(n);
    while out.len() < n {
        let entry = make(&out);
        if seen.insert(entry.0) {
            out.push(entry);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_repeatable_and_of_the_asked_size() {
        assert_eq!(prefixes4(1, 5000), prefixes4(1, 5000));
        assert_ne!(prefixes4(1, 50), prefixes4(2, 50));
        assert_eq!(prefixes6(1, 5000).len(), 5000);
        assert_eq!(prefixes6(1, 500), prefixes6(1, 500));
        assert!(prefixes4(1, 0).is_empty());
    }

    #[test]
    fn prefixes_are_distinct_routable_and_of_bgp_lengths() {
        let made = prefixes4(7, 20_000);
        let keys: HashSet<_> = made.iter().map(|e| e.0).collect();
        assert_eq!(keys.len(), made.len());
        assert!(
            made.iter()
                .all(|(p, hop)| *hop > 0 && !wire::addr::is_martian_source4(p.addr()))
        );
        let slash24 = made.iter().filter(|(p, _)| p.len() == 24).count();
        assert!((11_000..13_000).contains(&slash24), "{slash24}");

        let made = prefixes6(7, 20_000);
        assert!(made.iter().all(|(p, _)| p.addr().segments()[0] >> 13 == 1));
        let slash48 = made.iter().filter(|(p, _)| p.len() == 48).count();
        assert!((8_400..10_400).contains(&slash48), "{slash48}");
    }

    #[test]
    fn about_half_of_the_prefixes_lie_inside_others() {
        let made = prefixes4(7, 20_000);
        let keys: HashSet<_> = made.iter().map(|e| e.0).collect();
        let inside = |p: &Prefix4| (8..p.len()).any(|l| keys.contains(&Prefix4::new(p.addr(), l)));
        let nested = keys.iter().filter(|p| inside(p)).count();
        assert!((8_000..12_500).contains(&nested), "{nested}");

        let made = prefixes6(7, 20_000);
        let keys: HashSet<_> = made.iter().map(|e| e.0).collect();
        let inside = |p: &Prefix6| (8..p.len()).any(|l| keys.contains(&Prefix6::new(p.addr(), l)));
        let nested = keys.iter().filter(|p| inside(p)).count();
        assert!((8_000..12_500).contains(&nested), "{nested}");
    }
}
