//! Stations outside, and the front port of each: a bounded table that workers share without locks.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use wire::EtherAddr;

/// Associativity of the table. An address selects the set of a host.
const WAYS: usize = 4;
/// Number of low bits of an entry below the address. They hold the front port, counted from 1, and [`USED`].
const LOW: u32 = 16;
/// Flag: packets have been sent to the host.
const USED: u64 = 1 << 15;
const FRONT: u64 = USED - 1;
/// Right shift that converts nanoseconds to ticks of 1.07 seconds.
const TICK_BITS: u32 = 30;
const NANOSECONDS: u64 = 1 << TICK_BITS;

#[derive(Default)]
struct Set {
    entries: [AtomicU64; WAYS],
    /// Tick at which each host was last heard.
    heard: [AtomicU32; WAYS],
}

/// Result of recording a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Learnt {
    Known,
    New,
    /// The host was at another front port before.
    Moved,
    /// All entries of the host's set are in use.
    Full,
}

pub(super) struct Stations {
    sets: Box<[Set]>,
    /// Version, which changes whenever the front port of a host may have changed.
    version: AtomicU32,
    /// Number of ticks after which a silent host is removed.
    timeout: u32,
}

/// Tick of a time in nanoseconds.
#[inline]
pub(super) fn tick(now: u64) -> u32 {
    (now >> TICK_BITS) as u32
}

impl Stations {
    /// A table for about `capacity` hosts, which are removed after `timeout` nanoseconds of silence.
    pub(super) fn new(capacity: usize, timeout: u64) -> Stations {
        let sets = capacity.div_ceil(WAYS).next_power_of_two();
        Stations {
            sets: (0..sets).map(|_| Set::default()).collect(),
            version: AtomicU32::new(0),
            timeout: u32::try_from(timeout.div_ceil(NANOSECONDS)).unwrap_or(u32::MAX),
        }
    }

    #[inline]
    fn set(&self, station: u64) -> &Set {
        let hash = station.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.sets[hash as usize & (self.sets.len() - 1)]
    }

    #[inline]
    fn find(set: &Set, address: u64) -> Option<(usize, u64)> {
        (0..WAYS).find_map(|way| {
            let entry = set.entries[way].load(Relaxed);
            (entry >> LOW == address && entry & FRONT != 0).then_some((way, entry))
        })
    }

    /// Front port of a recently heard host, which is marked as used.
    #[inline]
    pub(super) fn front(&self, station: u64, now: u32) -> Option<u8> {
        let set = self.set(station);
        let (way, entry) = Stations::find(set, station)?;
        if now.wrapping_sub(set.heard[way].load(Relaxed)) > self.timeout {
            return None;
        }
        if entry & USED == 0 {
            // If another host has taken the entry concurrently, that host is marked as used too early.
            set.entries[way].fetch_or(USED, Relaxed);
        }
        Some((entry & FRONT) as u8 - 1)
    }

    /// Number of ticks since a host was heard.
    pub(super) fn age(&self, station: EtherAddr, now: u32) -> Option<u32> {
        let station = station.to_u64();
        let set = self.set(station);
        let (way, _) = Stations::find(set, station)?;
        Some(now.wrapping_sub(set.heard[way].load(Relaxed)))
    }

    /// Records a host at a front port. In a full set, a host whose timeout has passed is replaced. Without one, the
    /// longest silent host without USED is replaced.
    pub(super) fn learn(&self, station: EtherAddr, front: u8, now: u32) -> Learnt {
        let station = station.to_u64();
        let set = self.set(station);
        let new = (station << LOW) | (u64::from(front) + 1);
        if let Some((way, entry)) = Stations::find(set, station) {
            set.heard[way].store(now, Relaxed);
            if entry & FRONT == new & FRONT {
                return Learnt::Known;
            }
            self.change(set, way, new);
            return Learnt::Moved;
        }
        let age = |way: usize| now.wrapping_sub(set.heard[way].load(Relaxed));
        let entry = |way: usize| set.entries[way].load(Relaxed);
        let free = (0..WAYS).find(|&way| entry(way) == 0);
        let place = free
            .or_else(|| (0..WAYS).find(|&way| age(way) > self.timeout))
            .or_else(|| {
                let unused = (0..WAYS).filter(|&way| entry(way) & USED == 0);
                // A host heard in the current tick is not replaced.
                unused
                    .filter(|&way| age(way) > 0)
                    .max_by_key(|&way| age(way))
            });
        let Some(way) = place else {
            return Learnt::Full;
        };
        set.heard[way].store(now, Relaxed);
        self.change(set, way, new);
        Learnt::New
    }

    fn change(&self, set: &Set, way: usize, entry: u64) {
        set.entries[way].store(entry, Relaxed);
        self.version.fetch_add(1, Release);
    }

    /// Version, which changes whenever the front port of a host has changed.
    #[inline]
    pub(super) fn version(&self) -> u32 {
        self.version.load(Acquire)
    }

    /// Takes over the hosts of another table.
    pub(super) fn follow(&self, old: &Stations, fronts: usize) {
        for (set, way) in old
            .sets
            .iter()
            .flat_map(|set| (0..WAYS).map(move |way| (set, way)))
        {
            let entry = set.entries[way].load(Relaxed);
            let front = (entry & FRONT) as usize;
            if (1..=fronts).contains(&front) {
                let station = EtherAddr::from_u64(entry >> LOW);
                self.learn(station, front as u8 - 1, set.heard[way].load(Relaxed));
            }
        }
    }

    /// Tick at which the most recent host was heard.
    pub(super) fn newest(&self) -> u32 {
        let each = self.sets.iter().flat_map(|set| &set.heard);
        each.map(|heard| heard.load(Relaxed)).max().unwrap_or(0)
    }

    /// Recently heard hosts, each with its front port and age in seconds.
    pub(super) fn all(&self, now: u32) -> Vec<(EtherAddr, u8, f64)> {
        let each = self
            .sets
            .iter()
            .flat_map(|set| (0..WAYS).map(move |way| (set, way)));
        let mut all: Vec<_> = each
            .filter_map(|(set, way)| {
                let entry = set.entries[way].load(Relaxed);
                let age = now.wrapping_sub(set.heard[way].load(Relaxed));
                let front = (entry & FRONT).checked_sub(1)? as u8;
                let seconds = f64::from(age) * NANOSECONDS as f64 / 1e9;
                (age <= self.timeout).then(|| (EtherAddr::from_u64(entry >> LOW), front, seconds))
            })
            .collect();
        all.sort_by_key(|(station, ..)| station.0);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn station(n: u64) -> EtherAddr {
        EtherAddr::from_u64(0x0200_0000_0000 | n)
    }

    const TICKS: u64 = NANOSECONDS;

    #[test]
    fn stations_are_found_until_they_have_been_silent_for_too_long() {
        let table = Stations::new(64, 10 * TICKS);
        assert_eq!(table.learn(station(1), 3, 5), Learnt::New);
        assert_eq!(table.front(station(1).to_u64(), 15), Some(3));
        assert_eq!(table.front(station(1).to_u64(), 16), None);
        assert_eq!(table.front(station(2).to_u64(), 5), None);
        assert_eq!(table.learn(station(1), 3, 16), Learnt::Known);
        assert_eq!(table.learn(station(1), 0, 16), Learnt::Moved);
        assert_eq!(table.front(station(1).to_u64(), 20), Some(0));
        assert_eq!(table.age(station(1), 20), Some(4));
        assert_eq!(table.front(0, 0), None);
    }

    /// A flood of addresses takes no place of a station that is in use.
    #[test]
    fn a_flood_of_addresses_displaces_no_station_in_use() {
        let table = Stations::new(256, 300 * TICKS);
        for n in 0..32 {
            table.learn(station(n), 1, 0);
            table.front(station(n).to_u64(), 0);
        }
        for n in 1000..200_000 {
            table.learn(station(n), 2, 1 + (n / 1000) as u32);
        }
        let kept = (0..32).filter(|n| table.front(station(*n).to_u64(), 200) == Some(1));
        assert_eq!(kept.count(), 32);
        assert!(table.all(200).len() <= 256);
    }

    #[test]
    fn a_table_with_room_knows_what_a_map_knows() {
        let table = Stations::new(4096, 100 * TICKS);
        let mut known: HashMap<u64, (u8, u32)> = HashMap::new();
        let mut x = 1u64;
        for now in 0..5000u32 {
            x = x
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let (n, front) = ((x >> 40) % 150, (x >> 60) as u8);
            if table.learn(station(n), front, now / 10) != Learnt::Full {
                known.insert(n, (front, now / 10));
            }
            let asked = (x >> 20) % 150;
            let expected = known
                .get(&asked)
                .filter(|(_, heard)| now / 10 - heard <= 100);
            assert_eq!(
                table.front(station(asked).to_u64(), now / 10),
                expected.map(|(front, _)| *front)
            );
        }
        let other = Stations::new(4096, 100 * TICKS);
        other.follow(&table, 16);
        assert_eq!(other.all(500), table.all(500));
    }
}
