//! A token bucket for each host, in a table that all workers share without locks.
//!
//! An entry belongs to a host until its bucket is full again: then another host can take it without loss. Two workers
//! that do so at the same moment may give a host two entries, of which one is soon free again.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tables::bucket::{Rate, SharedBucket};

/// Number of table entries among which a host may be stored.
const WAYS: usize = 8;
/// Number of buckets shared by hosts without an entry.
const SHARED: usize = 16;

struct Place {
    host: AtomicU64,
    bucket: SharedBucket,
    over: AtomicU64,
}

pub(super) struct Hosts {
    places: Box<[[Place; WAYS]]>,
    shared: Box<[SharedBucket]>,
    hasher: RandomState,
}

impl Hosts {
    /// A table for at least `capacity` hosts.
    pub(super) fn new(capacity: usize) -> Hosts {
        let none = Rate::new(1, 1);
        let place = || Place {
            host: AtomicU64::new(u64::MAX),
            bucket: SharedBucket::new(none),
            over: AtomicU64::new(0),
        };
        let sets = capacity.div_ceil(WAYS).next_power_of_two();
        Hosts {
            places: (0..sets)
                .map(|_| std::array::from_fn(|_| place()))
                .collect(),
            shared: (0..SHARED).map(|_| SharedBucket::new(none)).collect(),
            hasher: RandomState::new(),
        }
    }

    /// True if a host may send `bytes` bytes now, which are then taken from its bucket.
    #[inline]
    pub(super) fn take(&self, host: u64, rate: &Rate, now: u64, bytes: u64) -> bool {
        let hash = self.hasher.hash_one(host) as usize;
        let set = &self.places[hash & (self.places.len() - 1)];
        let own = set.iter().find(|place| place.host.load(Relaxed) == host);
        let Some(place) = own.or_else(|| claim(set, host, now)) else {
            return self.shared[(hash >> 32) % SHARED].take_at(rate, now, bytes);
        };
        let conforms = place.bucket.take_at(rate, now, bytes);
        if !conforms {
            place.over.fetch_add(1, Relaxed);
        }
        conforms
    }

    /// Hosts whose buckets are not full, each with its number of packets over the rate.
    pub(super) fn busy(&self, now: u64) -> Vec<(u64, u64)> {
        let all = self.places.iter().flatten();
        let busy = all.filter(|place| !place.bucket.is_full(now));
        let mut busy: Vec<_> = busy
            .map(|p| (p.host.load(Relaxed), p.over.load(Relaxed)))
            .collect();
        busy.sort_unstable();
        busy.dedup_by(|b, a| {
            let same = a.0 == b.0;
            a.1 += if same { b.1 } else { 0 };
            same
        });
        busy
    }
}

/// Entry that another host may take, because its own host's bucket is full.
#[cold]
#[inline(never)]
fn claim(set: &[Place; WAYS], host: u64, now: u64) -> Option<&Place> {
    set.iter().find(|place| {
        let before = place.host.load(Relaxed);
        let free = place.bucket.is_full(now)
            && place
                .host
                .compare_exchange(before, host, Relaxed, Relaxed)
                .is_ok();
        if free {
            place.over.store(0, Relaxed);
        }
        free
    })
}
