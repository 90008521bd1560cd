//! Neighbour table for ARP (RFC 826) and Neighbour Discovery (RFC 4861): bounded, read and written by all workers
//! without locks.
//!
//! An entry begins as [`State::Incomplete`], becomes [`State::Reachable`] by an answer, and [`State::Stale`] with time.
//! When a packet uses a stale entry, the neighbour is probed ([`State::Probe`]). This is RFC 4861, 7.3.2 without the
//! Delay state, because a router gets no reachability hints from upper layers. The same states serve ARP, for which RFC
//! 1122, 2.3.2.1 demands a time-out and at most one request per second and destination.
//!
//! The table sends nothing: [`Neighbours::ask`] returns the probe to send, to one caller at a time.
//! [`Neighbours::generation`] changes whenever an address becomes known or changes; a holder of waiting packets then
//! looks them up again. [`Neighbours::changes`] counts changes of addresses that may be used without a probe; it
//! invalidates caches of such addresses.
//!
//! A key can be in either of two buckets of eight slots, so a look-up reads at most 16 slots. The table has twice as
//! many slots as its capacity, so a slot is almost always free. Otherwise the oldest unanswered entry is replaced,
//! then a stale one; reachable and permanent entries never are.

mod entry;
mod slots;
mod sys;
#[cfg(test)]
mod tests;

use crate::pages::Pages;
use std::alloc::{Layout, handle_alloc_error};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

pub use entry::{Ask, Event, Neighbour, State, Timing};
use entry::{Change, is_sure};
use slots::{Locked, Words};
use sys::{Bucket, WAYS};
pub use wire::EtherAddr;

/// Reason why the table refused a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Both buckets are full of entries that must not be replaced.
    Full,
    /// Other workers kept writing to the bucket; try again later.
    Contended,
}

/// Protocol addresses: `u32` (IPv4, host order) or `[u8; 16]` (IPv6).
pub trait Key: Copy + Eq {
    /// The key as two words.
    fn to_words(self) -> [u64; 2];
    /// Creates the key from two words.
    fn from_words(words: [u64; 2]) -> Self;
}

impl Key for u32 {
    #[inline]
    fn to_words(self) -> [u64; 2] {
        [u64::from(self), 0]
    }
    fn from_words(words: [u64; 2]) -> Self {
        words[0] as u32
    }
}

impl Key for [u8; 16] {
    #[inline]
    fn to_words(self) -> [u64; 2] {
        let all = u128::from_be_bytes(self);
        [all as u64, (all >> 64) as u64]
    }
    fn from_words(words: [u64; 2]) -> Self {
        (u128::from(words[0]) | u128::from(words[1]) << 64).to_be_bytes()
    }
}

/// The neighbour table. Any thread may call any method at any time.
pub struct Neighbours<K> {
    /// Buckets; unused ones take no memory, as most links have few neighbours.
    buckets: Pages<Bucket>,
    seed: u64,
    capacity: usize,
    timing: Timing,
    len: AtomicUsize,
    generation: AtomicU64,
    changes: AtomicU64,
    key: PhantomData<fn(K)>,
}

impl<K: Key> Neighbours<K> {
    /// A table for up to `capacity` entries (96 bytes each). The seed should be secret, so that no attacker can fill
    /// one bucket.
    pub fn new(capacity: usize, timing: Timing, seed: u64) -> Self {
        let buckets = Self::buckets_for(capacity);
        Neighbours {
            buckets: Pages::new(buckets)
                .unwrap_or_else(|| handle_alloc_error(Layout::new::<Bucket>())),
            seed,
            capacity,
            timing,
            len: AtomicUsize::new(0),
            generation: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            key: PhantomData,
        }
    }

    fn buckets_for(capacity: usize) -> usize {
        (2 * capacity).div_ceil(WAYS).max(2)
    }

    /// Number of bytes that a table for `capacity` entries takes.
    pub fn bytes_for(capacity: usize) -> usize {
        Self::buckets_for(capacity) * size_of::<Bucket>()
    }

    /// The two buckets in which a key can be; they always differ.
    #[inline]
    fn candidate_buckets(&self, key: Words) -> [&Bucket; 2] {
        let mix = |word: u64, by: u64| {
            let product = u128::from(word ^ self.seed) * u128::from(by);
            product as u64 ^ (product >> 64) as u64
        };
        let hash = mix(key[0], 0x9e37_79b9_7f4a_7c15);
        let hash = mix(key[1] ^ hash, 0xd6e8_feb8_6659_fd93);
        let n = self.buckets.len() as u64;
        let first = ((hash >> 32) * n) >> 32;
        let apart = 1 + (((hash & 0xffff_ffff) * (n - 1)) >> 32);
        [first, (first + apart) % n].map(|i| &self.buckets[i as usize])
    }

    /// The entry of `key`. Returns `None` also if a writer was interrupted there; [`Neighbours::ask`] then reports
    /// the bucket as busy.
    #[inline]
    pub fn get(&self, key: K) -> Option<Neighbour> {
        let key = key.to_words();
        let [first, second] = self.candidate_buckets(key);
        first.find(key).or_else(|| second.find(key))
    }

    /// The address and state of `key`; cheaper than [`Neighbours::get`]. The address is zeros while the state is
    /// [`State::Incomplete`].
    #[inline]
    pub fn address(&self, key: K) -> Option<(EtherAddr, State)> {
        let key = key.to_words();
        let [first, second] = self.candidate_buckets(key);
        first.find_link(key).or_else(|| second.find_link(key))
    }

    /// The address of `key`, if it may be used without a probe. A caller may cache it until the value of
    /// [`changes`](Self::changes), read before this call, is outdated.
    #[inline]
    pub fn usable_address(&self, key: K) -> Option<EtherAddr> {
        let (mac, state) = self.address(key)?;
        is_sure(state).then_some(mac)
    }

    /// Count of changes: it grows whenever an address that [`usable_address`](Self::usable_address) returns is added,
    /// changes or is removed.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Returns the probe to send for a packet to `key`, whose entry is not [`State::Reachable`] or
    /// [`State::Permanent`]. Only one of several concurrent callers gets a probe to send. Makes an entry if there is
    /// none.
    pub fn ask(&self, key: K, now: u64) -> Result<Ask, Refused> {
        let before = self.get(key);
        let (change, answer) = self.timing.next_probe(before, now);
        if matches!(change, Change::Keep) {
            return Ok(answer);
        }
        // Decides again on the entry's present state, now with the write lock.
        let mut answer = Ask::NoProbe;
        self.change(key.to_words(), |entry| {
            let (change, a) = self.timing.next_probe(entry, now);
            answer = a;
            change
        })?;
        Ok(answer)
    }

    /// Handles an answer to a probe: an existing entry becomes reachable. Returns true if the address is new.
    pub fn confirm(&self, key: K, mac: EtherAddr, now: u64) -> Result<bool, Refused> {
        self.resolve(key, |entry| match entry {
            None => Change::Keep, // RFC 4861, 7.2.5: unsolicited
            Some(e) if e.state == State::Permanent => Change::Keep,
            Some(_) => Change::Put(Neighbour::confirmed(mac, State::Reachable, now)),
        })
    }

    /// Learns from an unsolicited message of a neighbour (a request, an announcement): a new or changed address
    /// becomes stale (RFC 4861, 7.2.3). Returns true if the address is new.
    pub fn learn(&self, key: K, mac: EtherAddr, now: u64) -> Result<bool, Refused> {
        self.resolve(key, |entry| match entry {
            Some(e) if e.state == State::Permanent || e.known() == Some(mac) => Change::Keep,
            _ => Change::Put(Neighbour::confirmed(mac, State::Stale, now)),
        })
    }

    /// Handles a message with another address that must not replace the known one: a reachable entry becomes stale
    /// (RFC 4861, 7.2.5).
    pub fn report_conflict(&self, key: K) -> Result<(), Refused> {
        self.change(key.to_words(), |entry| match entry {
            Some(e) if e.state == State::Reachable => Change::Put(Neighbour {
                state: State::Stale,
                ..e
            }),
            _ => Change::Keep,
        })
    }

    /// Creates or confirms an entry, whether or not it was probed. Returns true if the address is new.
    pub fn set_reachable(&self, key: K, mac: EtherAddr, now: u64) -> Result<bool, Refused> {
        self.resolve(key, |_| {
            Change::Put(Neighbour::confirmed(mac, State::Reachable, now))
        })
    }

    /// Sets an address that never expires. Returns true if the address is new.
    pub fn set_permanent(&self, key: K, mac: EtherAddr, now: u64) -> Result<bool, Refused> {
        self.resolve(key, |_| {
            Change::Put(Neighbour::confirmed(mac, State::Permanent, now))
        })
    }

    /// Sets the address of a neighbour that was not confirmed recently. A probe under way for the same address is not
    /// repeated. Returns true if the address is new.
    pub fn set_stale(&self, key: K, mac: EtherAddr, now: u64) -> Result<bool, Refused> {
        self.resolve(key, |entry| match entry {
            Some(e) if e.known() == Some(mac) && matches!(e.state, State::Stale | State::Probe) => {
                Change::Keep
            }
            _ => Change::Put(Neighbour::confirmed(mac, State::Stale, now)),
        })
    }

    /// Marks a neighbour that does not answer as [unreachable](Ask::Unreachable) for a while. An unknown neighbour
    /// remains unknown.
    pub fn set_unreachable(&self, key: K, now: u64) -> Result<(), Refused> {
        let probe_at = now.saturating_add(self.timing.retry);
        self.change(key.to_words(), |entry| match entry {
            None => Change::Keep,
            Some(e) => Change::Put(Neighbour {
                mac: EtherAddr::ZERO,
                state: State::Incomplete,
                tries: 0,
                probe_at,
                ..e
            }),
        })
    }

    /// Removes an entry of any state; returns true if there was one.
    pub fn remove(&self, key: K) -> Result<bool, Refused> {
        let mut was = false;
        self.change(key.to_words(), |entry| {
            was = entry.is_some();
            Change::Remove
        })?;
        Ok(was)
    }

    fn resolve(
        &self,
        key: K,
        change: impl FnOnce(Option<Neighbour>) -> Change,
    ) -> Result<bool, Refused> {
        let mut news = false;
        self.change(key.to_words(), |entry| {
            let change = change(entry);
            if let Change::Put(new) = &change {
                news = entry.and_then(|e| e.known()) != Some(new.mac);
            }
            change
        })?;
        if news {
            self.generation.fetch_add(1, Ordering::Release);
        }
        Ok(news)
    }

    /// Changes the entry of a key as its only writer: every writer of a new key locks both its buckets.
    fn change(
        &self,
        key: Words,
        change: impl FnOnce(Option<Neighbour>) -> Change,
    ) -> Result<(), Refused> {
        let [first, second] = self.candidate_buckets(key);
        let mut locked = [
            first.lock().ok_or(Refused::Contended)?,
            second.lock().ok_or(Refused::Contended)?,
        ];
        let positions = [locked[0].position(key), locked[1].position(key)];
        let at = (0..2).find_map(|b| positions[b].map(|slot| (b, slot)));
        let entry = at.and_then(|(b, slot)| locked[b].get(slot)).map(|(_, n)| n);
        let change = change(entry);
        let news = change.makes_address_sure(entry.as_ref());
        match (change, at) {
            (Change::Keep, _) | (Change::Remove, None) => {}
            (Change::Remove, Some((b, slot))) => {
                locked[b].clear(slot);
                self.len.fetch_sub(1, Ordering::Relaxed);
            }
            (Change::Put(new), Some((b, slot))) => {
                locked[b].put(slot, key, &new);
            }
            (Change::Put(new), None) => {
                let (b, slot) = self.free_slot(&locked).ok_or(Refused::Full)?;
                if locked[b].put(slot, key, &new) {
                    self.len.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        drop(locked);
        self.count_change(news);
        Ok(())
    }

    /// Counts a change of addresses, after readers can see the new one.
    fn count_change(&self, news: bool) {
        if news {
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// Slot for a new entry. It is in the first bucket, which is searched first; in the emptier one if the first
    /// fills up; or that of an entry that may be replaced.
    fn free_slot(&self, locked: &[Locked<'_>; 2]) -> Option<(usize, usize)> {
        let used = locked.each_ref().map(Locked::used);
        let emptier = usize::from(used[0] > 5 && used[1] < used[0]);
        if let Some(slot) = locked[emptier].vacant()
            && self.len.load(Ordering::Relaxed) < self.capacity
        {
            return Some((emptier, slot));
        }
        let all = (0..2).flat_map(|b| (0..WAYS).map(move |slot| (b, slot)));
        let spare = all.filter_map(|(b, slot)| {
            let (_, neighbour) = locked[b].get(slot)?;
            let rank = match neighbour.state {
                State::Incomplete => 0,
                State::Stale => 1,
                State::Probe => 2,
                State::Reachable | State::Permanent => return None,
            };
            Some(((rank, neighbour.confirmed), (b, slot)))
        });
        spare.min().map(|(_, place)| place)
    }

    /// Ages the entries of the buckets `buckets` (`0..self.buckets()` is all), and calls `tell` with each event. Call
    /// it for a few buckets at a time; one pass over all buckets should take less than `retry`.
    pub fn expire(&self, now: u64, buckets: Range<usize>, mut tell: impl FnMut(K, Event)) {
        let end = buckets.end.min(self.buckets.len());
        for bucket in &self.buckets[buckets.start.min(end)..end] {
            for (slot, entry) in bucket.entries().into_iter().enumerate() {
                let Some((key, before)) = entry else { continue };
                let Some((event, change)) = self.timing.aged(&before, now) else {
                    continue;
                };
                if !matches!(change, Change::Keep) {
                    // A concurrent change is more recent; the next round sees it.
                    let Some(mut locked) = bucket.lock() else {
                        continue;
                    };
                    if locked.get(slot) != Some((key, before)) {
                        continue;
                    }
                    let news = change.makes_address_sure(Some(&before));
                    match change {
                        Change::Put(new) => drop(locked.put(slot, key, &new)),
                        _ => {
                            locked.clear(slot);
                            self.len.fetch_sub(1, Ordering::Relaxed);
                        }
                    }
                    drop(locked);
                    self.count_change(news);
                }
                tell(K::from_words(key), event);
            }
        }
    }

    /// Counter that changes whenever an address becomes known or changes.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Number of buckets, for [`Neighbours::expire`].
    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// Number of entries; approximate during changes.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// True if there are no neighbours.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Maximum number of entries.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// All entries, in arbitrary order; entries that change at the same time may be missed.
    pub fn iter(&self) -> impl Iterator<Item = (K, Neighbour)> {
        let entries = self
            .buckets
            .iter()
            .flat_map(|b| b.entries().into_iter().flatten());
        entries.map(|(key, neighbour)| (K::from_words(key), neighbour))
    }
}
