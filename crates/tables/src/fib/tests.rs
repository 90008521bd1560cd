//! The tables compared with a model, with recorded tables, and with concurrent readers.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::io::Read;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::model::Model;
use super::*;
use crate::radix::Radix;
use crate::sample::{Random, routes4, routes6};

fn id(n: u16) -> NonZeroU16 {
    NonZeroU16::new(n).unwrap()
}

/// Looks up all addresses in bulk, then one by one; both must agree.
fn lookups<const N: usize>(fib: &impl Structure<N>, addresses: &[[u8; N]]) -> Vec<u16> {
    let mut ids = vec![u16::MAX; addresses.len()];
    fib.lookup_bulk(addresses, &mut ids);
    let alone = addresses.iter().map(|a| fib.lookup(*a));
    assert!(alone.eq(ids.iter().copied()));
    ids
}

/// First and last address of a prefix, and the addresses just outside.
fn edges<const N: usize>(prefix: &Prefix<N>) -> [[u8; N]; 4] {
    let first = prefix.address();
    let mut last = first;
    for bit in usize::from(prefix.length())..8 * N {
        last[bit / 8] |= 0x80 >> (bit % 8);
    }
    let (mut before, mut after) = (first, last);
    for byte in before.iter_mut().rev() {
        *byte = byte.wrapping_sub(1);
        if *byte != 0xff {
            break;
        }
    }
    for byte in after.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            break;
        }
    }
    [before, first, last, after]
}

/// A random prefix in a corner of the address space, so that most prefixes overlap.
fn prefix_near<const N: usize>(random: &mut Random, base: [u8; N]) -> Prefix<N> {
    let bits = u64::from(Prefix::<N>::BITS);
    let mut address = base;
    for _ in 0..random.below(6) {
        let bit = match random.below(4) {
            0 => 16 + random.below(9),
            1 => bits - 1 - random.below(9),
            2 => bits / 2 - 6 + random.below(12),
            _ => 14 + random.below(bits - 14),
        };
        address[bit as usize / 8] ^= 0x80 >> (bit % 8);
    }
    let length = match random.below(20) {
        0 => 0,
        1 => 14 + random.below(3),
        2..8 => 20 + random.below(8),
        8..12 => bits - random.below(10),
        12..15 => bits / 2 - 6 + random.below(12),
        _ => 16 + random.below(bits - 15),
    };
    Prefix::new(address, length as u8)
}

/// Makes random changes and compares with the model after each.
fn follows_the_model<const N: usize, S: Structure<N>>(seed: u64, base: [u8; N], steps: usize) {
    let mut random = Random::new(seed);
    let (mut rib, mut model) = (Rib::<N, S>::new(), Model::<N>::default());
    for step in 0..steps {
        let mut prefix = prefix_near(&mut random, base);
        if random.below(100) < 45 {
            if !model.0.is_empty() && random.below(8) > 0 {
                prefix = model.0[random.below(model.0.len() as u64) as usize].0;
            }
            assert_eq!(rib.remove(prefix), Ok(model.remove(prefix)));
        } else {
            let id = id(1 + random.below(5) as u16);
            assert_eq!(rib.insert(prefix, id), Ok(model.insert(prefix, id)));
        }
        if random.below(10) == 0 {
            let limbo = rib.take_limbo();
            rib.release(limbo);
        }
        let mut probes = edges(&prefix).to_vec();
        probes.push(random.address_in(&prefix));
        for (p, _) in &model.0 {
            if random.below(4) == 0 {
                probes.extend(edges(p));
            }
        }
        let expected: Vec<_> = probes.iter().map(|a| model.lookup(*a)).collect();
        assert_eq!(
            lookups(&**rib.fib(), &probes),
            expected,
            "{} seed {seed} step {step} {prefix:?}: {probes:?}",
            S::NAME
        );
        let longest = model
            .0
            .iter()
            .filter(|(p, _)| p.covers(&prefix) && *p != prefix);
        assert_eq!(
            rib.covering(&prefix),
            longest.max_by_key(|(p, _)| p.length()).copied()
        );
    }
    model.0.sort();
    assert!(
        rib.iter().eq(model.0.iter().copied()),
        "in order of address, then length"
    );
    for (prefix, _) in model.0 {
        assert!(matches!(rib.remove(prefix), Ok(Some(_))));
        let limbo = rib.take_limbo();
        rib.release(limbo);
    }
    assert!(
        rib.is_empty() && rib.fib().is_bare(),
        "an emptied table is empty"
    );
}

/// Base addresses of the corners in which everything overlaps.
const BASE4: [u8; 4] = [10, 1, 255, 128];
const BASE6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 1];

#[test]
fn poptries_follow_the_model() {
    for seed in 0..6 {
        follows_the_model::<4, Poptrie<4>>(seed, BASE4, 1500);
        follows_the_model::<16, Poptrie<16>>(10 + seed, BASE6, 1500);
    }
}

#[test]
fn dir_24_8_follows_the_model() {
    for seed in 20..24 {
        follows_the_model::<4, Dir24<4>>(seed, BASE4, 1500);
        follows_the_model::<16, Dir24<16>>(10 + seed, BASE6, 1500);
    }
}

#[test]
fn tries_of_stride_4_follow_the_model() {
    for seed in 40..44 {
        follows_the_model::<4, Stride4<4>>(seed, BASE4, 1500);
        follows_the_model::<16, Stride4<16>>(10 + seed, BASE6, 1500);
    }
}

#[test]
fn radix_trees_follow_the_model() {
    for seed in 60..64 {
        follows_the_model::<4, Radix<4>>(seed, BASE4, 1500);
        follows_the_model::<16, Radix<16>>(10 + seed, BASE6, 1500);
    }
}

#[test]
fn a_reader_that_keeps_a_whole_structure_sees_no_change() {
    let mut rib = Rib::<4, Radix<4>>::new();
    rib.insert(Prefix::new([10, 0, 0, 0], 8), id(1)).unwrap();
    let before = rib.fib().clone();
    rib.insert(Prefix::new([10, 1, 0, 0], 16), id(2)).unwrap();
    let address = [10, 1, 2, 3];
    assert_eq!((before.lookup(address), rib.fib().lookup(address)), (1, 2));
}

#[test]
fn every_address_near_nested_prefixes_is_right() {
    let mut rib = Rib4::new();
    let mut model = Model::<4>::default();
    for length in 14..=32 {
        for flip in [None, Some(length - 1)] {
            let mut address = 0x0a01_8000u32 | 0x5a;
            if let Some(bit) = flip {
                address ^= 0x8000_0000 >> bit;
            }
            let prefix = Prefix::new(address.to_be_bytes(), length);
            let id = id(u16::from(length) * 2 + u16::from(flip.is_some()));
            rib.insert(prefix, id).unwrap();
            model.insert(prefix, id);
        }
    }
    let check = |rib: &Rib4, model: &Model<4>| {
        for address in (0x0a01_7f00u32..=0x0a01_8200).chain((0x09ff_0000..0x0a05_0000).step_by(37))
        {
            assert_eq!(
                rib.fib().lookup(address),
                model.lookup(address.to_be_bytes()),
                "{address:x}"
            );
        }
    };
    check(&rib, &model);
    while let Some((prefix, _)) = model.0.get(model.0.len() / 2).copied() {
        rib.remove(prefix).unwrap();
        model.remove(prefix);
        if model.0.len() % 6 == 0 {
            check(&rib, &model);
        }
    }
    check(&rib, &model);
}

#[test]
fn a_default_route_does_not_fill_the_table() {
    let mut rib = Rib4::new();
    rib.insert(Prefix::ALL, id(9)).unwrap();
    assert!(rib.fib().is_bare());
    assert_eq!((rib.fib().lookup(0), rib.fib().lookup(u32::MAX)), (9, 9));
    assert_eq!(rib.remove(Prefix::ALL), Ok(Some(id(9))));
    assert_eq!(rib.fib().lookup(77), 0);
}

#[test]
fn a_prefix_of_ipv6_with_nothing_near_takes_16_bytes_of_any_length_up_to_64() {
    let mut rib = Rib6::new();
    for prefix in ["fd00::/48", "2010::/32"] {
        rib.insert(prefix.parse::<wire::Prefix6>().unwrap(), id(1))
            .unwrap();
    }
    let mut before = rib.fib().memory_bytes();
    for length in 21..=64 {
        // Each route is below a different word of the first level.
        let address = (0x2_0100 + u128::from(length)) << 108;
        rib.insert(Prefix::new(address.to_be_bytes(), length), id(2))
            .unwrap();
        let now = rib.fib().memory_bytes();
        assert_eq!(now - before, 16, "/{length}");
        before = now;
    }
}

#[test]
fn a_small_table_takes_little_memory() {
    let mut rib = Rib4::new();
    assert!(rib.memory_bytes() < 1024);
    for n in 0..100 {
        rib.insert(Prefix::new([10, 0, n, 0], 24), id(1)).unwrap();
    }
    assert!(rib.memory_bytes() < 16 << 10, "{}", rib.memory_bytes());
}

#[test]
fn memory_of_long_prefixes_comes_back_after_limbo() {
    let mut rib = Rib6::new();
    let prefix = "2001:db8::1/128".parse::<wire::Prefix6>().unwrap();
    for _ in 0..1000 {
        rib.insert(prefix, id(1)).unwrap();
        rib.remove(prefix).unwrap();
        let limbo = rib.take_limbo();
        assert!(!limbo.is_empty());
        rib.release(limbo);
    }
    let once = rib.memory_bytes();
    for _ in 0..5000 {
        rib.insert(prefix, id(1)).unwrap();
        rib.remove(prefix).unwrap();
    }
    assert!(
        rib.memory_bytes() > once + (1 << 20),
        "what is not released is not used again"
    );
}

#[test]
fn a_table_without_room_refuses_and_stays_as_it_is() {
    let mut rib = Rib6::new();
    let prefix = |n: u64| Prefix::new((0x2001 << 112 | u128::from(n) << 64).to_be_bytes(), 128);
    let mut n = 0;
    let wrong = loop {
        // Limbo is not released, so that memory runs out.
        match rib.insert(prefix(n % 4096), id(1 + (n / 4096 % 9) as u16)) {
            Ok(_) => n += 1,
            Err(wrong) => break wrong,
        }
    };
    assert_eq!(wrong, Full);
    let (before, len) = (id(1 + (n / 4096 - 1) as u16 % 9), rib.len());
    assert_eq!(rib.get(&prefix(n % 4096)), Some(before));
    assert_eq!(rib.fib().lookup(prefix(n % 4096).address()), before.get());
    assert_eq!(
        rib.remove(prefix(7)).map(|old| old.is_some()),
        Ok(true),
        "there is a reserve"
    );
    let limbo = rib.take_limbo();
    rib.release(limbo);
    assert!(rib.insert(prefix(7), id(3)).is_ok());
    assert_eq!((rib.fib().lookup(prefix(7).address()), rib.len()), (3, len));
}

#[test]
fn staged_changes_are_seen_when_published() {
    let routes = routes4(3, 5000, 255);
    let mut rib = Rib4::new();
    for (prefix, id) in &routes {
        rib.stage_insert(*prefix, *id);
    }
    assert!(rib.fib().is_bare());
    rib.publish().unwrap();
    let mut one_by_one = Rib4::new();
    for (prefix, id) in &routes {
        one_by_one.insert(*prefix, *id).unwrap();
    }
    let probes: Vec<_> = routes.iter().flat_map(|(p, _)| edges(p)).collect();
    let expected = lookups(&**one_by_one.fib(), &probes);
    assert_eq!(lookups(&**rib.fib(), &probes), expected);
    for (prefix, _) in &routes[..50] {
        rib.stage_remove(*prefix);
        one_by_one.remove(*prefix).unwrap();
    }
    assert_eq!(lookups(&**rib.fib(), &probes), expected);
    rib.publish().unwrap();
    assert_eq!(
        lookups(&**rib.fib(), &probes),
        lookups(&**one_by_one.fib(), &probes)
    );
}

#[test]
fn a_reader_sees_the_old_route_or_the_new_one() {
    let mut rib = Rib4::new();
    let p = |t: &str| t.parse::<wire::Prefix4>().unwrap();
    rib.insert(p("10.0.0.0/8"), id(1)).unwrap();
    rib.insert(Prefix::ALL, id(8)).unwrap();
    let address = u32::from_be_bytes([10, 1, 2, 3]);
    let outside = u32::from_be_bytes([11, 1, 2, 3]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for bulk in [false, true] {
            let (fib, done) = (rib.fib().clone(), &done);
            scope.spawn(move || {
                let mut seen = BTreeSet::new();
                let mut ids = [0; 20];
                while !done.load(Ordering::Relaxed) {
                    if bulk {
                        fib.lookup_bulk(&[address; 20], &mut ids);
                        seen.extend(ids);
                    } else {
                        seen.insert(fib.lookup(address));
                    }
                    // The address has either a route of its own or, before and after that, the default route of that
                    // time: 8.
                    let other = fib.lookup(outside);
                    assert!(other == 8 || other == 5, "{other}");
                }
                assert!(seen.iter().all(|id| (1..=3).contains(id)), "{seen:?}");
            });
        }
        for _ in 0..5_000 {
            rib.insert(p("10.1.2.0/26"), id(2)).unwrap();
            rib.insert(p("10.1.2.3/32"), id(3)).unwrap();
            rib.remove(p("10.1.2.0/26")).unwrap();
            rib.insert(p("10.1.0.0/16"), id(2)).unwrap();
            rib.remove(p("10.1.2.3/32")).unwrap(); // limbo is not released: readers never stop
            rib.remove(p("10.1.0.0/16")).unwrap();
            rib.insert(p("11.0.0.0/20"), id(4)).unwrap();
            // The default changes only while the address has a route of its own.
            rib.insert(p("11.1.0.0/20"), id(5)).unwrap();
            rib.insert(Prefix::ALL, id(7)).unwrap();
            rib.insert(Prefix::ALL, id(8)).unwrap();
            rib.remove(p("11.1.0.0/20")).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// The lines of a recorded table.
fn real(name: &str) -> String {
    let shared = std::env::var_os("ASHLAR_SHARED").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let path = shared.join("data/rib").join(name);
    let file = std::fs::File::open(&path).unwrap_or_else(|e| {
        panic!(
            "{}: {e}; leave out what needs it: cargo test -- --skip shared_data",
            path.display()
        )
    });
    let mut text = String::new();
    let mut decoder = ruzstd::decoding::StreamingDecoder::new(file).unwrap();
    decoder.read_to_string(&mut text).unwrap();
    text
}

fn parse<T: FromStr<Err: Debug> + Into<Prefix<N>>, const N: usize>(
    text: &str,
) -> Vec<(Prefix<N>, u16)> {
    let pair = |line: &str| {
        let (what, id) = line.split_once(' ').unwrap();
        (what.parse::<T>().unwrap().into(), id.parse().unwrap_or(0))
    };
    text.lines().map(pair).collect()
}

/// A table, addresses, and the expected answers.
type Real<const N: usize> = (Vec<(Prefix<N>, u16)>, Vec<[u8; N]>, Vec<u16>);

fn real_lookups<T: FromStr<Err: Debug> + Into<Prefix<N>>, const N: usize>(name: &str) -> Real<N> {
    let routes = parse::<T, N>(&real(&format!("{name}.txt.zst")));
    let answers = parse::<T, N>(&real(&format!("{name}.lookups.txt.zst")));
    let answers = answers.into_iter().map(|(p, id)| (p.address(), id));
    let (addresses, expected) = answers.unzip();
    (routes, addresses, expected)
}

fn real_table<const N: usize, S: Structure<N>>((routes, addresses, expected): &Real<N>) {
    let mut rib = Rib::<N, S>::new();
    for (prefix, n) in routes {
        rib.insert(*prefix, id(*n)).unwrap();
    }
    assert_eq!(rib.len(), routes.len());
    assert_eq!(&lookups(&**rib.fib(), addresses), expected, "{}", S::NAME);
    // Removes a third of the routes and puts them back: the answers stay the same.
    for (prefix, _) in routes.iter().step_by(3) {
        rib.remove(*prefix).unwrap();
    }
    assert_ne!(&lookups(&**rib.fib(), addresses), expected);
    let limbo = rib.take_limbo();
    rib.release(limbo);
    for (prefix, n) in routes.iter().step_by(3) {
        rib.insert(*prefix, id(*n)).unwrap();
    }
    assert_eq!(&lookups(&**rib.fib(), addresses), expected, "{}", S::NAME);
}

#[test]
fn the_ipv4_table_of_shared_data_gives_the_expected_answers() {
    let real = real_lookups::<wire::Prefix4, 4>("ipv4-20240128-bart");
    real_table::<4, Poptrie<4>>(&real);
    real_table::<4, Dir24<4>>(&real);
    real_table::<4, Stride4<4>>(&real);
    real_table::<4, Radix<4>>(&real);
}

#[test]
fn the_ipv6_table_of_shared_data_gives_the_expected_answers() {
    let real = real_lookups::<wire::Prefix6, 16>("ipv6-20240128-bart");
    real_table::<16, Poptrie<16>>(&real);
    real_table::<16, Dir24<16>>(&real);
    real_table::<16, Stride4<16>>(&real);
    real_table::<16, Radix<16>>(&real);
}

/// Makes changes with concurrent readers. Afterwards the table equals one built from the same routes at once.
fn churn<const N: usize>(routes: &[(Prefix<N>, NonZeroU16)], changes: &[(Prefix<N>, u16)]) {
    let mut rib = Rib::<N>::new();
    for (prefix, id) in routes {
        rib.insert(*prefix, *id).unwrap();
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (fib, done) = (rib.fib().clone(), &done);
        scope.spawn(move || {
            let addresses: Vec<_> = changes.iter().map(|(p, _)| p.address()).collect();
            let mut ids = vec![0; addresses.len()];
            while !done.load(Ordering::Relaxed) {
                // Every assigned id is below 256.
                fib.lookup_bulk(&addresses, &mut ids);
                assert!(ids.iter().all(|id| *id < 256));
            }
        });
        for (prefix, new) in changes {
            match NonZeroU16::new(*new) {
                Some(id) => drop(rib.insert(*prefix, id).unwrap()),
                None => drop(rib.remove(*prefix).unwrap()),
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    let mut fresh = Rib::<N>::new();
    for (prefix, id) in rib.iter() {
        fresh.insert(prefix, id).unwrap();
    }
    let probes: Vec<_> = changes.iter().flat_map(|(p, _)| edges(p)).collect();
    assert_eq!(
        lookups(&**rib.fib(), &probes),
        lookups(&**fresh.fib(), &probes)
    );
}

#[test]
fn updates_of_shared_data_leave_the_table_as_if_built_at_once() {
    let table = real("ipv4-20080501-pyasn.txt.zst");
    let updates = real("updates-20160811-rrc21.txt.zst");
    let table: Vec<_> = parse::<wire::Prefix4, 4>(&table);
    let table: Vec<_> = table
        .into_iter()
        .map(|(p, n)| (p, id(1 + n % 255)))
        .collect();
    let change = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let announced = words.next() == Some("A");
        let prefix = words.next()?.parse::<wire::Prefix4>().ok()?;
        let peer = words
            .last()?
            .bytes()
            .fold(7u8, |h, b| h.wrapping_mul(31) ^ b);
        Some((
            prefix.into(),
            if announced {
                1 + u16::from(peer) % 255
            } else {
                0
            },
        ))
    };
    let changes: Vec<_> = updates.lines().filter_map(change).collect();
    assert_eq!(changes.len(), 34_326);
    churn(&table, &changes);
}

#[test]
fn made_updates_leave_the_table_as_if_built_at_once() {
    fn changes<const N: usize>(routes: &[(Prefix<N>, NonZeroU16)]) -> Vec<(Prefix<N>, u16)> {
        let mut random = Random::new(6);
        let mut pick = || {
            let prefix = routes[random.below(routes.len() as u64) as usize].0;
            (prefix, (random.below(400) as u16).saturating_sub(145))
        };
        (0..20_000).map(|_| pick()).collect()
    }
    let (v4, v6) = (routes4(4, 20_000, 255), routes6(5, 5_000, 255));
    churn(&v4[..15_000], &changes(&v4));
    churn(&v6[..3_000], &changes(&v6));
}

/// Checks a generated table; the expected matches are found by trying all prefix lengths.
fn made_table<const N: usize>(routes: Vec<(Prefix<N>, NonZeroU16)>) {
    let mut rib = Rib::<N>::new();
    for (prefix, id) in &routes {
        rib.insert(*prefix, *id).unwrap();
    }
    let mut random = Random::new(99);
    let mut addresses: Vec<_> = routes.iter().flat_map(|(p, _)| edges(p)).collect();
    addresses.extend(routes.iter().map(|(p, _)| random.address_in(p)));
    for (address, found) in addresses.iter().zip(lookups(&**rib.fib(), &addresses)) {
        let lengths = (0..=Prefix::<N>::BITS).rev();
        let expected = lengths
            .filter_map(|l| rib.get(&Prefix::new(*address, l)))
            .next();
        assert_eq!(found, expected.map_or(0, NonZeroU16::get), "{address:?}");
    }
}

#[test]
fn a_made_ipv4_table_gives_the_longest_matches() {
    made_table(routes4(1, 30_000, 255));
}

#[test]
fn a_made_ipv6_table_gives_the_longest_matches() {
    made_table(routes6(2, 10_000, 255));
}
