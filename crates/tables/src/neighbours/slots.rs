//! Memory of the neighbour table: buckets that are read without locks and written by one thread at a time.
//!
//! Seqlock: a bucket has a version, which is odd during a write. A writer makes it odd by compare-exchange. A reader
//! copies what it needs and checks that the version was even and has not changed. All words are atomics, so a torn
//! copy is harmless and is discarded. Memory order: the writer makes the version odd before it changes words (release
//! fence) and even afterwards (release store). The reader loads the version (acquire), the words, and the version
//! again after an acquire fence. If it saw any new word, it also sees the changed version.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::sys::{Bucket, WAYS};
use super::{EtherAddr, Neighbour, State};

/// Number of attempts while another thread writes; a write takes some 50 ns.
const READ_ATTEMPTS: usize = 64;

pub(super) type Words = [u64; 2];

fn link(neighbour: &Neighbour) -> u64 {
    let [a, b, c, d, e, f] = neighbour.mac.0;
    u64::from_be_bytes([a, b, c, d, e, f, neighbour.state as u8, neighbour.tries])
}

fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

impl Bucket {
    /// Runs `look` until no write overlaps it; `None` after [`READ_ATTEMPTS`] attempts.
    #[inline]
    fn consistent<R>(&self, look: impl Fn(&Bucket) -> R) -> Option<R> {
        for _ in 0..READ_ATTEMPTS {
            let version = self.version.load(Ordering::Acquire);
            if version.is_multiple_of(2) {
                let result = look(self);
                fence(Ordering::Acquire);
                if self.version.load(Ordering::Relaxed) == version {
                    return Some(result);
                }
            }
            spin_loop();
        }
        None
    }

    #[inline]
    fn position(&self, key: Words) -> Option<usize> {
        let mut same = 0u32; // a bit for each, without branches
        for (i, word) in self.key[0].iter().enumerate() {
            same |= u32::from(load(word) == key[0]) << i;
        }
        while same != 0 {
            let i = same.trailing_zeros() as usize % WAYS;
            if load(&self.key[1][i]) == key[1] && load(&self.link[i]) != 0 {
                return Some(i);
            }
            same &= same - 1;
        }
        None
    }

    fn read(&self, slot: usize) -> Option<(Words, Neighbour)> {
        let (mac, state, tries) = parts(load(&self.link[slot]))?;
        let neighbour = Neighbour {
            mac,
            state,
            tries,
            confirmed: load(&self.confirmed[slot]),
            probe_at: load(&self.probe_at[slot]),
        };
        Some((
            self.key.each_ref().map(|words| load(&words[slot])),
            neighbour,
        ))
    }

    /// The entry of this key.
    pub(super) fn find(&self, key: Words) -> Option<Neighbour> {
        self.consistent(|b| b.position(key).and_then(|i| b.read(i)).map(|(_, n)| n))?
    }

    /// The address and state of this key.
    #[inline]
    pub(super) fn find_link(&self, key: Words) -> Option<(EtherAddr, State)> {
        let link = self.consistent(|b| b.position(key).map(|i| load(&b.link[i])))??;
        parts(link).map(|(mac, state, _)| (mac, state))
    }

    /// All entries, by slot.
    pub(super) fn entries(&self) -> [Option<(Words, Neighbour)>; WAYS] {
        self.consistent(|b| std::array::from_fn(|slot| b.read(slot)))
            .unwrap_or([None; WAYS])
    }

    /// Locks a bucket for writing; `None` if other workers keep writing.
    pub(super) fn lock(&self) -> Option<Locked<'_>> {
        for _ in 0..READ_ATTEMPTS {
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

#[inline]
fn parts(link: u64) -> Option<(EtherAddr, State, u8)> {
    let [a, b, c, d, e, f, state, tries] = link.to_be_bytes();
    Some((
        EtherAddr([a, b, c, d, e, f]),
        State::from_byte(state)?,
        tries,
    ))
}

/// A bucket with its write lock held.
pub(super) struct Locked<'a> {
    bucket: &'a Bucket,
    version: u64,
}

impl Locked<'_> {
    pub(super) fn get(&self, slot: usize) -> Option<(Words, Neighbour)> {
        self.bucket.read(slot)
    }

    pub(super) fn position(&self, key: Words) -> Option<usize> {
        self.bucket.position(key)
    }

    pub(super) fn vacant(&self) -> Option<usize> {
        (0..WAYS).find(|slot| self.get(*slot).is_none())
    }

    pub(super) fn used(&self) -> usize {
        (0..WAYS).filter(|slot| self.get(*slot).is_some()).count()
    }

    /// Writes an entry; returns true if the slot was empty.
    pub(super) fn put(&mut self, slot: usize, key: Words, neighbour: &Neighbour) -> bool {
        let vacant = self.get(slot).is_none();
        let store = |word: &AtomicU64, value| word.store(value, Ordering::Relaxed);
        store(&self.bucket.key[0][slot], key[0]);
        store(&self.bucket.key[1][slot], key[1]);
        store(&self.bucket.confirmed[slot], neighbour.confirmed);
        store(&self.bucket.probe_at[slot], neighbour.probe_at);
        store(&self.bucket.link[slot], link(neighbour));
        vacant
    }

    pub(super) fn clear(&mut self, slot: usize) {
        self.bucket.link[slot].store(0, Ordering::Relaxed);
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.bucket.version.store(self.version, Ordering::Release);
    }
}
