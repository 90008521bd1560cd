//! Exact match: maps keys of a few words to numbers. Many workers look up while one writer changes the table in place.
//!
//! Each slot is the head of a chain of entries, and readers never wait. An entry is complete before it is linked. A
//! removed entry keeps its link until no reader can be on it, so a change of one key never hides another key. Memory is
//! allocated once: for the capacity, and for removed entries that wait for readers.
//!
//! ```
//! use tables::exact::{ExactWriter, key_of};
//! let mut writer = ExactWriter::new(100, 2, 7);
//! let table = writer.table().clone(); // for the workers
//! let key = key_of(b"ten  bytes");
//! writer.insert(&key, 5).unwrap();
//! assert_eq!(table.find(&key), Some(5));
//! writer.remove(&key);
//! assert_eq!(table.find(&key), None);
//! // When no worker can hold a reference to removed entries:
//! let gone = writer.take_limbo();
//! writer.release(gone);
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Maximum number of words in a key.
pub const WORDS: usize = 6;
/// Maximum number of bytes in a key.
pub const KEY_BYTES: usize = 8 * WORDS;
/// A key; words that a table does not use are zero.
pub type Key = [u64; WORDS];

/// The key that consists of these bytes, at most [`KEY_BYTES`] of them.
pub fn key_of(bytes: &[u8]) -> Key {
    let mut key = [0; WORDS];
    for (word, chunk) in key.iter_mut().zip(bytes.chunks(8)) {
        let mut whole = [0; 8];
        whole[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_be_bytes(whole);
    }
    key
}

/// Number of words that are hashed if all further words are zero.
const SHORT: usize = 2;
/// Index that means no entry.
const NONE: u32 = u32::MAX;

/// An entry, one cache line.
#[repr(align(64))]
struct Entry {
    key: [AtomicU64; WORDS],
    value: AtomicU32,
    next: AtomicU32,
}

impl Entry {
    fn new() -> Entry {
        Entry {
            key: [const { AtomicU64::new(0) }; WORDS],
            value: AtomicU32::new(0),
            next: AtomicU32::new(NONE),
        }
    }

    #[inline]
    fn has(&self, key: &Key, words: usize) -> bool {
        let each = self.key.iter().zip(key).take(words);
        each.fold(0, |differ, (own, other)| differ | own.load(Relaxed) ^ other) == 0
    }
}

/// The part of the table that workers read.
pub struct Exact {
    heads: Box<[AtomicU32]>,
    entries: Box<[Entry]>,
    words: usize,
    seed: u64,
}

impl Exact {
    /// The slot of a key. Because of a secret seed, senders cannot choose keys that fall into one slot.
    #[inline]
    fn slot(&self, key: &Key) -> usize {
        let mix = |state: u64, word: &u64| {
            let x = (state ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            x ^ x >> 32
        };
        // Flows of IPv4 have only two words and are the majority; callers may know this at compile time.
        let none = |mut rest: std::slice::Iter<u64>| rest.all(|&word| word == 0);
        let is_short = none(key[SHORT..].iter()) || none(key[SHORT..self.words.max(SHORT)].iter());
        let hash = match is_short && self.words >= SHORT {
            true => key[..SHORT].iter().fold(self.seed, mix),
            false => key.iter().take(self.words).fold(self.seed, mix),
        };
        (hash.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32) as usize & (self.heads.len() - 1)
    }

    /// The number stored for a key.
    #[inline]
    pub fn find(&self, key: &Key) -> Option<u32> {
        let mut at = self.heads[self.slot(key)].load(Acquire);
        while at != NONE {
            let entry = &self.entries[at as usize];
            if entry.has(key, self.words) {
                return Some(entry.value.load(Relaxed));
            }
            at = entry.next.load(Acquire);
        }
        None
    }

    /// Memory of the table, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.heads) + size_of_val(&*self.entries)
    }

    /// Number of bytes of a table for `capacity` keys in `slots` slots.
    pub fn bytes_of(capacity: usize, slots: usize) -> usize {
        slots.next_power_of_two() * size_of::<AtomicU32>() + entries(capacity) * size_of::<Entry>()
    }
}

/// Number of entries: an eighth more than keys, and 64, for removed entries that wait for readers.
fn entries(capacity: usize) -> usize {
    capacity + capacity / 8 + 64
}

/// Error: the table is full, or its free entries still wait for readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The writer's half.
pub struct ExactWriter {
    table: Arc<Exact>,
    capacity: usize,
    len: usize,
    free: Vec<u32>,
    /// Removed entries that readers may still be using.
    retired: Vec<u32>,
}

impl ExactWriter {
    /// An empty table for `capacity` keys of `words` words (at most [`WORDS`]); `seed` determines their slots. It has
    /// an eighth more entries, and 64, for removed ones that wait for readers.
    pub fn new(capacity: usize, words: usize, seed: u64) -> ExactWriter {
        ExactWriter::with_slots(capacity, capacity, words, seed)
    }

    /// Like [`new`](Self::new), with `slots` slots, rounded up to a power of two: more slots make chains shorter.
    pub fn with_slots(capacity: usize, slots: usize, words: usize, seed: u64) -> ExactWriter {
        let entries = entries(capacity);
        let heads = slots.next_power_of_two();
        ExactWriter {
            table: Arc::new(Exact {
                heads: (0..heads).map(|_| AtomicU32::new(NONE)).collect(),
                entries: (0..entries).map(|_| Entry::new()).collect(),
                words: words.min(WORDS),
                seed,
            }),
            capacity,
            len: 0,
            free: (0..entries as u32).rev().collect(),
            retired: Vec::new(),
        }
    }

    /// The table for readers. It follows every change.
    pub fn table(&self) -> &Arc<Exact> {
        &self.table
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Maximum number of keys.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Number of free entries: keys that can be added now.
    pub fn free_entries(&self) -> usize {
        (self.capacity - self.len).min(self.free.len())
    }

    /// The link that leads to a key's entry, and the entry. If the key has no entry: the last link of its chain, and
    /// [`NONE`].
    fn link(&self, key: &Key) -> (&AtomicU32, u32) {
        let mut link = &self.table.heads[self.table.slot(key)];
        loop {
            let at = link.load(Relaxed);
            match self.table.entries.get(at as usize) {
                Some(entry) if entry.has(key, self.table.words) => return (link, at),
                Some(entry) => link = &entry.next,
                None => return (link, NONE),
            }
        }
    }

    /// Number of other keys in this key's chain: a look-up may pass each of them.
    pub fn colliding_keys(&self, key: &Key) -> usize {
        let table = &self.table;
        let first = table.heads[table.slot(key)].load(Relaxed);
        let next = |entry: &&Entry| table.entries.get(entry.next.load(Relaxed) as usize);
        let chain = std::iter::successors(table.entries.get(first as usize), next);
        chain.filter(|entry| !entry.has(key, table.words)).count()
    }

    /// True if the table contains a key.
    pub fn has(&self, key: &Key) -> bool {
        self.link(key).1 != NONE
    }

    /// Adds a key or changes its number; returns its previous number.
    pub fn insert(&mut self, key: &Key, value: u32) -> Result<Option<u32>, Full> {
        let (link, at) = self.link(key);
        if let Some(entry) = self.table.entries.get(at as usize) {
            return Ok(Some(entry.value.swap(value, Relaxed)));
        }
        if self.len == self.capacity {
            return Err(Full);
        }
        let Some(&at) = self.free.last() else {
            return Err(Full);
        };
        let entry = &self.table.entries[at as usize];
        for (own, word) in entry.key.iter().zip(key) {
            own.store(*word, Relaxed);
        }
        entry.value.store(value, Relaxed);
        entry.next.store(NONE, Relaxed);
        link.store(at, Release); // readers that find the entry find it complete
        self.free.pop();
        self.len += 1;
        Ok(None)
    }

    /// Removes a key; returns its number.
    pub fn remove(&mut self, key: &Key) -> Option<u32> {
        let (link, at) = self.link(key);
        let entry = self.table.entries.get(at as usize)?;
        // The entry keeps its own link, for readers that are at this entry.
        link.store(entry.next.load(Relaxed), Release);
        self.retired.push(at);
        self.len -= 1;
        Some(entry.value.load(Relaxed))
    }

    /// All keys with their numbers, in arbitrary order.
    pub fn iter(&self) -> impl Iterator<Item = (Key, u32)> {
        self.table.heads.iter().flat_map(move |head| {
            let mut at = head.load(Relaxed);
            std::iter::from_fn(move || {
                let entry = self.table.entries.get(at as usize)?;
                at = entry.next.load(Relaxed);
                let key = std::array::from_fn(|i| entry.key[i].load(Relaxed));
                Some((key, entry.value.load(Relaxed)))
            })
        })
    }

    /// Removed entries that must wait until readers have passed a quiescent point from now on.
    pub fn take_limbo(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.retired)
    }

    /// Frees entries that no reader can reach.
    pub fn release(&mut self, limbo: Vec<u32>) {
        self.free.extend(limbo);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::sync::atomic::AtomicBool;

    struct Rng(u64);

    impl Rng {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }
    }

    #[test]
    fn table_agrees_with_a_hash_map() {
        let mut rng = Rng(88);
        let mut writer = ExactWriter::new(50, WORDS, 3);
        let mut model = HashMap::new();
        for _ in 0..20_000 {
            let n = rng.next() % 80;
            let key = key_of(&[&n.to_be_bytes()[..], &[7; 40]].concat());
            match rng.next() % 3 {
                0 => assert_eq!(writer.remove(&key), model.remove(&n)),
                _ if model.len() == 50 && !model.contains_key(&n) => {
                    assert_eq!(writer.insert(&key, 1), Err(Full));
                }
                value => {
                    let value = value as u32;
                    assert_eq!(writer.insert(&key, value), Ok(model.insert(n, value)));
                }
            }
            let gone = writer.take_limbo();
            writer.release(gone);
            assert_eq!(writer.table().find(&key), model.get(&n).copied());
            assert_eq!(
                (writer.len(), writer.iter().count()),
                (model.len(), model.len())
            );
        }
        assert!(writer.iter().all(|(key, n)| model[&key[0]] == n));
    }

    #[test]
    fn as_many_keys_are_refused_for_full_chains_as_theory_says() {
        // A slot for j keys refuses j - k of them if j > k: the excess of a Poisson distribution.
        let excess = |load: f64, k: u32| -> f64 {
            let mut p = (-load).exp();
            let mut sum = 0.0;
            for j in 1..60u32 {
                p *= load / f64::from(j);
                sum += p * f64::from(j.saturating_sub(k));
            }
            sum
        };
        for (keys, slots, k) in [
            (1 << 14, 1 << 14, 2),
            (1 << 15, 1 << 14, 4),
            (1 << 14, 1 << 16, 2),
        ] {
            let mut rng = Rng(7);
            let mut writer = ExactWriter::with_slots(keys, slots, 2, 11);
            let mut refused = 0;
            for n in 0..keys as u32 {
                let key = [rng.next(), rng.next(), 0, 0, 0, 0];
                if writer.colliding_keys(&key) >= k {
                    refused += 1;
                } else {
                    assert_eq!(writer.insert(&key, n), Ok(None));
                    assert_eq!(writer.table().find(&key), Some(n));
                }
            }
            let theory = slots as f64 * excess(keys as f64 / slots as f64, k as u32);
            let deviation = (f64::from(refused) - theory).abs() / theory.sqrt();
            assert!(
                deviation < 5.0,
                "{keys} {slots} {k}: {refused} against {theory}"
            );
            assert!(
                writer
                    .iter()
                    .all(|(key, _)| writer.colliding_keys(&key) < k)
            );
        }
    }

    #[test]
    fn only_the_words_of_the_table_count() {
        let mut writer = ExactWriter::new(4, 1, 0);
        assert_eq!(writer.insert(&key_of(b"12345678abc"), 1), Ok(None));
        assert_eq!(writer.table().find(&key_of(b"12345678xyz")), Some(1));
        assert_eq!(key_of(b"a")[0], 0x61 << 56);
    }

    #[test]
    fn removed_entries_that_wait_for_readers_are_bounded() {
        let mut writer = ExactWriter::new(8, 1, 0);
        let mut added = 0;
        while writer.insert(&[added, 0, 0, 0, 0, 0], 1).is_ok() {
            assert_eq!(writer.remove(&[added, 0, 0, 0, 0, 0]), Some(1));
            added += 1;
        }
        assert_eq!(
            (added, writer.free_entries(), writer.len()),
            (8 + 1 + 64, 0, 0)
        );
        let gone = writer.take_limbo();
        writer.release(gone);
        assert_eq!(writer.free_entries(), 8);
    }

    #[test]
    fn keys_that_stay_are_found_while_others_come_and_go() {
        let mut writer = ExactWriter::new(256, 2, 1);
        let key = |n: u64| [n, n ^ 0xff, 0, 0, 0, 0];
        (0..64).for_each(|n| assert_eq!(writer.insert(&key(n), n as u32), Ok(None)));
        let (table, done) = (writer.table().clone(), AtomicBool::new(false));
        let turns = AtomicU64::new(0);
        let rounds = if cfg!(miri) { 20 } else { 400 };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Acquire) {
                    for n in 0..64 {
                        assert_eq!(table.find(&key(n)), Some(n as u32));
                        let other = table.find(&key(64 + n));
                        assert!(other.is_none_or(|found| found == 64 + n as u32));
                    }
                    turns.fetch_add(1, Release);
                }
            });
            for round in 0..rounds {
                (64..128).for_each(|n| assert_eq!(writer.insert(&key(n), n as u32), Ok(None)));
                for n in (64..128).rev() {
                    assert_eq!(writer.remove(&key(n)), Some(n as u32));
                }
                // A reader's turn that began after the removal has ended.
                let limbo = writer.take_limbo();
                let seen = turns.load(Acquire);
                while turns.load(Acquire) < seen + 2 {
                    std::thread::yield_now();
                }
                writer.release(limbo);
                assert_eq!(writer.len(), 64, "round {round}");
            }
            done.store(true, Release);
        });
    }
}
