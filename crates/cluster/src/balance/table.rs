//! The table from which workers read bucket owners: the present owner and the planned one.

use super::rendezvous::{BUCKETS, NOBODY};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Value for a bucket that is not watched yet. Ticks of watched buckets are odd.
const UNSEEN: u32 = 0;
/// Binary logarithm of a tick's length in nanoseconds: a tick is 66 microseconds.
const TICK_BITS: u32 = 16;

/// Owners of all buckets. Workers read it without a lock.
pub struct Table {
    /// For each bucket, its owner (high half) and the owner that it should have (low half). A bucket whose halves
    /// differ waits to move.
    entries: Box<[AtomicU32; BUCKETS]>,
    /// For each moving bucket, the tick of its last packet.
    last_packet_ticks: Box<[AtomicU32]>,
    /// For each bucket, a bit: set if another balancer forbids the bucket to move although it is idle here.
    held: Box<[AtomicU64]>,
}

#[inline]
fn entry(owner: u16, target: u16) -> u32 {
    u32::from(owner) << 16 | u32::from(target)
}

#[inline]
fn halves(entry: u32) -> (u16, u16) {
    ((entry >> 16) as u16, entry as u16)
}

/// A time in nanoseconds as a tick. Ticks wrap after three days, so only their differences count.
fn tick(now: u64) -> u32 {
    (now >> TICK_BITS) as u32 | 1
}

/// True if the silence between two ticks is at least `idle` nanoseconds. Clocks of workers may differ a little.
fn is_idle(last: u32, now: u32, idle: u64) -> bool {
    let silence = i64::from(now.wrapping_sub(last) as i32);
    silence > 0 && silence as u64 >= idle >> TICK_BITS
}

impl Table {
    /// A table in which nothing moves.
    pub fn new(owners: &[u16]) -> Table {
        let owner = |at: usize| owners.get(at).copied().unwrap_or(NOBODY);
        let entry = |at| AtomicU32::new(entry(owner(at), owner(at)));
        Table {
            entries: Box::new(std::array::from_fn(entry)),
            last_packet_ticks: (0..BUCKETS).map(|_| AtomicU32::new(UNSEEN)).collect(),
            held: (0..BUCKETS / 64).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The owner of a packet's bucket. If the bucket has been silent for `idle` nanoseconds it moves, and this packet
    /// is the first at the new owner.
    #[inline]
    pub fn owner(&self, bucket: u16, now: u64, idle: u64) -> u16 {
        let seen = self.entries[usize::from(bucket)].load(Relaxed);
        let (owner, target) = halves(seen);
        if owner == target {
            return owner;
        }
        self.moving(usize::from(bucket), seen, now, idle)
    }

    /// The owner of a bucket that does not move.
    #[inline(always)]
    pub fn settled(&self, bucket: u16) -> Option<u16> {
        let (owner, target) = halves(self.entries[usize::from(bucket)].load(Relaxed));
        (owner == target).then_some(owner)
    }

    #[cold]
    fn moving(&self, bucket: usize, known: u32, now: u64, idle: u64) -> u16 {
        let (owner, target) = halves(known);
        let now = tick(now);
        let last = self.last_packet_ticks[bucket].swap(now, Relaxed);
        if last == UNSEEN || !is_idle(last, now, idle) || self.is_held(bucket) {
            return owner;
        }
        let moved = entry(target, target);
        // Another worker may have moved the bucket meanwhile.
        match self.entries[bucket].compare_exchange(known, moved, Relaxed, Relaxed) {
            Ok(_) => target,
            Err(other) => halves(other).0,
        }
    }

    /// Present owner and target owner of a bucket.
    pub fn get(&self, bucket: usize) -> (u16, u16) {
        halves(self.entries[bucket].load(Relaxed))
    }

    /// Sets the planned owner of each bucket. Buckets without an owner move to it at once.
    pub fn set_targets(&self, targets: &[u16]) {
        for ((slot, seen), &target) in self
            .entries
            .iter()
            .zip(&self.last_packet_ticks)
            .zip(targets)
        {
            let change = |known| {
                let (owner, _) = halves(known);
                let owner = if owner == NOBODY { target } else { owner };
                let changed = entry(owner, target);
                (changed != known).then_some(changed)
            };
            if let Ok(old) = slot.fetch_update(Relaxed, Relaxed, change) {
                let (owner, was) = halves(old);
                if owner == was {
                    seen.store(UNSEEN, Relaxed);
                }
            }
        }
    }

    /// Moves at once the buckets whose present owner satisfies `fits`. Returns their number.
    pub fn force(&self, fits: impl Fn(u16) -> bool) -> usize {
        let mut moved = 0;
        for slot in self.entries.iter() {
            let change = |known| {
                let (owner, target) = halves(known);
                (owner != target && fits(owner)).then(|| entry(target, target))
            };
            moved += usize::from(slot.fetch_update(Relaxed, Relaxed, change).is_ok());
        }
        moved
    }

    /// Moves the buckets that have been idle. Returns the number of buckets that still have to move.
    pub fn sweep(&self, now: u64, idle: u64) -> usize {
        let mut moving = 0;
        let now = tick(now);
        for (bucket, (slot, seen)) in self.entries.iter().zip(&self.last_packet_ticks).enumerate() {
            let known = slot.load(Relaxed);
            let (owner, target) = halves(known);
            if owner == target {
                continue;
            }
            match seen.load(Relaxed) {
                // If a packet arrives at the same time, its time is kept.
                UNSEEN => _ = seen.compare_exchange(UNSEEN, now, Relaxed, Relaxed),
                last if is_idle(last, now, idle) && !self.is_held(bucket) => {
                    let moved = entry(target, target);
                    if slot
                        .compare_exchange(known, moved, Relaxed, Relaxed)
                        .is_ok()
                    {
                        continue;
                    }
                }
                _ => {}
            }
            moving += 1;
        }
        moving
    }

    fn is_held(&self, bucket: usize) -> bool {
        self.held[bucket / 64].load(Relaxed) >> (bucket % 64) & 1 != 0
    }

    /// For a word of 64 buckets, sets the buckets that must not move even if idle (`held`), and moves the buckets in
    /// `moved` at once.
    pub fn hold(&self, word: usize, held: u64, moved: u64) {
        self.held[word].store(held, Relaxed);
        if moved == 0 {
            return;
        }
        for (bit, slot) in self.entries[word * 64..][..64].iter().enumerate() {
            let (owner, target) = halves(slot.load(Relaxed));
            if moved >> bit & 1 != 0 && owner != target {
                // If the target changes at the same time, the next message corrects the owner.
                let _ = slot.compare_exchange(
                    entry(owner, target),
                    entry(target, target),
                    Relaxed,
                    Relaxed,
                );
            }
        }
    }

    /// State of a bucket's move: true if the bucket still has to move; true if it has to and is busy.
    pub fn waits(&self, bucket: usize, now: u64, idle: u64) -> (bool, bool) {
        let (owner, target) = self.get(bucket);
        let last = self.last_packet_ticks[bucket].load(Relaxed);
        let is_idle = last != UNSEEN && is_idle(last, tick(now), idle);
        (owner != target, owner != target && !is_idle)
    }

    /// For each owner below `owners`, the number of its buckets, and the number of these that have to move away.
    pub fn count(&self, owners: usize) -> Vec<(usize, usize)> {
        let mut counts = vec![(0, 0); owners];
        for bucket in 0..BUCKETS {
            let (owner, target) = self.get(bucket);
            if let Some((all, leaving)) = counts.get_mut(usize::from(owner)) {
                *all += 1;
                *leaving += usize::from(owner != target);
            }
        }
        counts
    }
}
