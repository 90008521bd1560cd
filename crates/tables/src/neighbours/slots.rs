//! Memory of the neighbour table: buckets that are read without locks and written by one at a time.
//!
//! A bucket has a version: odd while somebody writes. Who wants to write makes it odd by
//! compare-exchange. A reader copies what it needs and makes sure that the version was even and has not
//! changed. All words are atomics, so a torn copy is possible and harmless: it is thrown away.
//! Order: the writer's version goes odd before its words change (release fence) and even after (release
//! store); the reader loads the version (acquire), the words, and the version again behind an acquire
//! fence. If it saw any of the new words, it sees the changed version too.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::{Neighbour, State};

/// Entries of a bucket.
pub(super) const WAYS: usize = 8;
/// How often a reader or writer tries again when another one is writing, which takes some 50 ns.
const TRIES: usize = 64;

pub(super) type Words = [u64; 2];

#[derive(Default)]
struct Slot {
    key: [AtomicU64; 2],
    /// MAC address (48 bits), state (8), probes sent (8). 0: the slot is empty.
    link: AtomicU64,
    confirmed: AtomicU64,
    probe_at: AtomicU64,
}

#[derive(Default)]
#[repr(align(64))]
pub(super) struct Bucket {
    version: AtomicU64,
    slots: [Slot; WAYS],
}

fn link(neighbour: &Neighbour) -> u64 {
    let [a, b, c, d, e, f] = neighbour.mac.0;
    u64::from_be_bytes([a, b, c, d, e, f, neighbour.state as u8, neighbour.tries])
}

impl Slot {
    fn read(&self) -> Option<(Words, Neighbour)> {
        let [a, b, c, d, e, f, state, tries] = self.link.load(Ordering::Relaxed).to_be_bytes();
        let neighbour = Neighbour {
            mac: wire::EtherAddr([a, b, c, d, e, f]),
            state: State::from_byte(state)?,
            tries,
            confirmed: self.confirmed.load(Ordering::Relaxed),
            probe_at: self.probe_at.load(Ordering::Relaxed),
        };
        Some((
            self.key.each_ref().map(|k| k.load(Ordering::Relaxed)),
            neighbour,
        ))
    }

    #[inline]
    fn holds(&self, key: Words) -> bool {
        self.key[0].load(Ordering::Relaxed) == key[0]
            && self.key[1].load(Ordering::Relaxed) == key[1]
            && self.link.load(Ordering::Relaxed) != 0
    }

    fn write(&self, key: Words, neighbour: &Neighbour) {
        self.key[0].store(key[0], Ordering::Relaxed);
        self.key[1].store(key[1], Ordering::Relaxed);
        self.confirmed.store(neighbour.confirmed, Ordering::Relaxed);
        self.probe_at.store(neighbour.probe_at, Ordering::Relaxed);
        self.link.store(link(neighbour), Ordering::Relaxed);
    }
}

impl Bucket {
    /// Reads with `look` until nobody wrote meanwhile; `None` if somebody always did.
    #[inline]
    fn consistent<R>(&self, look: impl Fn(&[Slot; WAYS]) -> R) -> Option<R> {
        for _ in 0..TRIES {
            let version = self.version.load(Ordering::Acquire);
            if version.is_multiple_of(2) {
                let result = look(&self.slots);
                fence(Ordering::Acquire);
                if self.version.load(Ordering::Relaxed) == version {
                    return Some(result);
                }
            }
            spin_loop();
        }
        None
    }

    /// The entry of this key.
    #[inline]
    pub(super) fn find(&self, key: Words) -> Option<Neighbour> {
        self.consistent(|slots| {
            let slot = slots.iter().find(|slot| slot.holds(key))?;
            slot.read().map(|(_, neighbour)| neighbour)
        })?
    }

    /// All entries, by slot.
    pub(super) fn entries(&self) -> [Option<(Words, Neighbour)>; WAYS] {
        self.consistent(|slots| slots.each_ref().map(Slot::read))
            .unwrap_or([None; WAYS])
    }

    /// The right to write, unless others keep writing.
    pub(super) fn lock(&self) -> Option<Locked<'_>> {
        for _ in 0..TRIES {
            let version = self.version.load(Ordering::Relaxed);
            if version.is_multiple_of(2)
                && self
                    .version
                    .compare_exchange(version, version + 1, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                fence(Ordering::Release);
                return Some(Locked {
                    bucket: self,
                    version: version + 2,
                });
            }
            spin_loop();
        }
        None
    }
}

/// A bucket that nobody else is writing.
pub(super) struct Locked<'a> {
    bucket: &'a Bucket,
    version: u64,
}

impl Locked<'_> {
    pub(super) fn get(&self, slot: usize) -> Option<(Words, Neighbour)> {
        self.bucket.slots[slot].read()
    }

    pub(super) fn position(&self, key: Words) -> Option<usize> {
        self.bucket.slots.iter().position(|slot| slot.holds(key))
    }

    pub(super) fn vacant(&self) -> Option<usize> {
        (0..WAYS).find(|slot| self.get(*slot).is_none())
    }

    pub(super) fn used(&self) -> usize {
        (0..WAYS).filter(|slot| self.get(*slot).is_some()).count()
    }

    /// Writes an entry; returns whether the slot was empty.
    pub(super) fn put(&mut self, slot: usize, key: Words, neighbour: &Neighbour) -> bool {
        let vacant = self.get(slot).is_none();
        self.bucket.slots[slot].write(key, neighbour);
        vacant
    }

    pub(super) fn clear(&mut self, slot: usize) {
        self.bucket.slots[slot].link.store(0, Ordering::Relaxed);
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.bucket.version.store(self.version, Ordering::Release);
    }
}
