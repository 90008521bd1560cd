//! Numbers by the hash of their keys: a look-up reads one cache line, whose place the hash tells.
//!
//! Buckets are split one at a time as numbers are added (linear hashing: W. Litwin, VLDB 1980). No addition moves more
//! than one bucket, so a table that grows does not stop its worker. Entries include the hash, so a split reads no keys.

use super::chunked_list::Parts;
use super::equal::{WORDS, equal_words};
use crate::prefetch;

/// Number of entries of a bucket. The last word is the number of the next bucket of the chain.
const ENTRIES_PER_BUCKET: usize = WORDS - 1;
/// Entries of two buckets on average, above which a bucket is split. Of 100 entries some 3 are then in a second line.
const PAIR_MAX: usize = 7;

/// A cache line of entries. Entries are at the beginning.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Bucket {
    /// Hashes of the entries. The last word is not used: eight are compared at once.
    hashes: [u32; WORDS],
    /// Numbers of the entries plus 1; 0 for none. The last word is the number of the chain's next bucket in
    /// [`Index::further`], plus 1. In an unused bucket it is the next unused one.
    numbers: [u32; WORDS],
}

const EMPTY: Bucket = Bucket {
    hashes: [0; WORDS],
    numbers: [0; WORDS],
};

impl Bucket {
    /// A bit for each entry that may have this hash.
    #[inline(always)]
    fn equal(&self, hash: u32) -> u32 {
        equal_words(&self.hashes, hash) & ((1 << ENTRIES_PER_BUCKET) - 1)
    }

    #[inline(always)]
    fn next(&self) -> u32 {
        self.numbers[ENTRIES_PER_BUCKET]
    }

    fn further(&self) -> Option<ChainPosition> {
        let next = self.next().checked_sub(1)?;
        Some(ChainPosition::Further(next as usize))
    }

    fn set_next(&mut self, next: u32) {
        self.numbers[ENTRIES_PER_BUCKET] = next;
    }

    /// Place of an entry by its number plus 1; of the first free one by 0.
    #[inline(always)]
    fn position_of(&self, number: u32) -> Option<usize> {
        let equal = equal_words(&self.numbers, number) & ((1 << ENTRIES_PER_BUCKET) - 1);
        (equal != 0).then(|| equal.trailing_zeros() as usize % WORDS)
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.position_of(0).unwrap_or(ENTRIES_PER_BUCKET)
    }
}

/// A bucket of a chain: the first one, or one of those behind it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChainPosition {
    First(usize),
    Further(usize),
}

/// The index.
pub(super) struct Index {
    /// First bucket of each chain.
    first: Parts<Bucket>,
    /// Overflow buckets.
    further: Parts<Bucket>,
    /// First unused bucket of `further`, plus 1.
    unused: u32,
    len: usize,
    /// Number of chains rounded up to a power of two, minus 1.
    mask: usize,
    /// Entries of a bucket that is split.
    split_entries: Vec<(u32, u32)>,
}

impl Index {
    pub(super) const fn new() -> Index {
        Index {
            first: Parts::new(),
            further: Parts::new(),
            unused: 0,
            len: 0,
            mask: 0,
            split_entries: Vec::new(),
        }
    }

    /// Number of the chain for a hash.
    #[inline(always)]
    fn chain(&self, hash: u32) -> usize {
        let at = hash as usize & self.mask;
        if at < self.first.len() {
            at
        } else {
            at & (self.mask >> 1)
        }
    }

    /// The number with this hash for which `is` returns true.
    #[inline]
    pub(super) fn find(&self, hash: u32, is: impl Fn(u32) -> bool) -> Option<u32> {
        let mut bucket = self.first.get(self.chain(hash))?;
        loop {
            let mut equal = bucket.equal(hash);
            while equal != 0 {
                let number = bucket.numbers[equal.trailing_zeros() as usize % WORDS];
                if number != 0 && is(number - 1) {
                    return Some(number - 1);
                }
                equal &= equal - 1;
            }
            bucket = match bucket.next() {
                0 => return None,
                next => &self.further[next as usize - 1],
            };
        }
    }

    /// Prefetches the line in which [`find`](Self::find) begins.
    #[inline]
    pub(super) fn prefetch(&self, hash: u32) {
        if let Some(bucket) = self.first.get(self.chain(hash)) {
            prefetch::line(bucket);
        }
    }

    fn bucket(&self, at: ChainPosition) -> &Bucket {
        match at {
            ChainPosition::First(at) => &self.first[at],
            ChainPosition::Further(at) => &self.further[at],
        }
    }

    fn bucket_mut(&mut self, at: ChainPosition) -> &mut Bucket {
        match at {
            ChainPosition::First(at) => &mut self.first[at],
            ChainPosition::Further(at) => &mut self.further[at],
        }
    }

    /// Adds a number that is not yet in the index. Returns false if there is no memory.
    pub(super) fn add(&mut self, hash: u32, number: u32) -> bool {
        if self.first.len() == 0 && self.first.push(EMPTY).is_none() || !self.append(hash, number) {
            return false;
        }
        self.len += 1;
        if 2 * self.len > PAIR_MAX * self.first.len() {
            self.split();
        }
        true
    }

    /// Puts an entry at the end of its chain.
    fn append(&mut self, hash: u32, number: u32) -> bool {
        let mut last = ChainPosition::First(self.chain(hash));
        while let Some(next) = self.bucket(last).further() {
            last = next;
        }
        let mut len = self.bucket(last).len();
        if len == ENTRIES_PER_BUCKET {
            let Some(new) = self.take_unused() else {
                return false;
            };
            self.bucket_mut(last).set_next(new as u32 + 1);
            (last, len) = (ChainPosition::Further(new), 0);
        }
        let bucket = self.bucket_mut(last);
        (bucket.hashes[len], bucket.numbers[len]) = (hash, number + 1);
        true
    }

    fn take_unused(&mut self) -> Option<usize> {
        let Some(at) = self.unused.checked_sub(1) else {
            return self.further.push(EMPTY);
        };
        let at = at as usize;
        self.unused = self.further[at].next();
        self.further[at] = EMPTY;
        Some(at)
    }

    fn give_back(&mut self, at: usize) {
        self.further[at].set_next(self.unused);
        self.unused = at as u32 + 1;
    }

    /// Splits the next bucket into two. Without memory for another bucket, chains grow longer.
    fn split(&mut self) {
        let new = self.first.len();
        let old = new - (1 << new.ilog2());
        if self.first.push(EMPTY).is_none() {
            return;
        }
        self.mask = (new + 1).next_power_of_two() - 1;
        let mut moved = std::mem::take(&mut self.split_entries);
        let mut at = Some(ChainPosition::First(old));
        while let Some(bucket) = at {
            let entries = self.bucket(bucket);
            let numbers = entries.numbers[..entries.len()].iter().map(|n| n - 1);
            moved.extend(entries.hashes.iter().copied().zip(numbers));
            at = entries.further();
            if let ChainPosition::Further(place) = bucket {
                self.give_back(place);
            }
        }
        self.first[old] = EMPTY;
        for (hash, number) in moved.drain(..) {
            // Both chains together need no more buckets than the one before.
            let placed = self.append(hash, number);
            debug_assert!(placed);
        }
        self.split_entries = moved;
    }

    /// Removes a number. The last entry of the chain takes its place.
    pub(super) fn remove(&mut self, hash: u32, number: u32) {
        if self.first.len() == 0 {
            return;
        }
        let mut last = ChainPosition::First(self.chain(hash));
        let (mut before, mut found) = (last, None);
        loop {
            let bucket = self.bucket(last);
            if let Some(place) = bucket.position_of(number + 1) {
                found = Some((last, place));
            }
            let Some(next) = bucket.further() else {
                break;
            };
            (before, last) = (last, next);
        }
        let Some((at, place)) = found else {
            return;
        };
        let end = self.bucket(last).len() - 1;
        let bucket = *self.bucket(last);
        let hole = self.bucket_mut(at);
        (hole.hashes[place], hole.numbers[place]) = (bucket.hashes[end], bucket.numbers[end]);
        self.bucket_mut(last).numbers[end] = 0;
        if let (ChainPosition::Further(place), 0) = (last, end) {
            self.bucket_mut(before).set_next(0);
            self.give_back(place);
        }
        self.len -= 1;
    }

    /// Number of bytes that the buckets take.
    pub(super) fn memory(&self) -> usize {
        self.first.memory() + self.further.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A xorshift generator.
    fn random(mut state: u64) -> impl FnMut() -> u64 {
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        }
    }

    /// Random additions and removals give what a map of the standard library gives; hashes are often equal.
    #[test]
    fn numbers_are_found_as_in_a_map() {
        for (seed, hashes, live_max) in [(1, 1 << 32, 3000), (2, 60, 400), (3, 1 << 12, 5000)] {
            let mut random = random(seed);
            let mut next = || (random() >> 20) % hashes;
            let (mut index, mut model) = (Index::new(), BTreeMap::new());
            let rounds = if cfg!(miri) { 300 } else { 20_000 };
            for n in 0..rounds {
                let grows = n % 4000 < 3000 && model.len() < live_max;
                if grows || model.is_empty() {
                    let hash = next() as u32;
                    assert!(index.add(hash, n));
                    model.insert(n, hash);
                } else {
                    let (number, hash) = model.pop_first().expect("it is not empty");
                    index.remove(hash, number);
                    index.remove(hash, number);
                }
                assert_eq!(index.len, model.len());
                let number = (next() as u32) % rounds;
                let hash = model.get(&number).copied();
                let wanted = hash.map(|_| number);
                let found = index.find(hash.unwrap_or(7), |n| n == number);
                assert_eq!(found, wanted);
            }
            for (&number, &hash) in &model {
                assert_eq!(index.find(hash, |n| n == number), Some(number));
            }
            for (number, hash) in model {
                index.remove(hash, number);
            }
            let empty = |bucket: &Bucket| bucket.next() == 0 && bucket.len() == 0;
            assert!(
                index.first.iter().all(empty),
                "all buckets are empty at the end"
            );
        }
    }

    #[test]
    fn random_hashes_rarely_need_a_second_line() {
        let mut random = random(5);
        let mut index = Index::new();
        let count = if cfg!(miri) { 1000 } else { 100_000 };
        for n in 0..count {
            assert!(index.add((random() >> 20) as u32, n));
        }
        let behind: usize = index.further.iter().map(Bucket::len).sum();
        assert!(
            behind * 10 < count as usize,
            "{behind} are in a second line"
        );
        assert!(index.memory() < 64 * count as usize);
    }
}
