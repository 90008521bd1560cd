//! Several [`BinSort`]s shared by several threads (MDS-BinSort: B. Hardekopf et al., "Impact of Network Protocols on
//! Programmable Router Architectures", 2003, section 5).
//!
//! Two packets of a flow may be in different structures and overtake each other, which a router must avoid. So
//! DeadlineQueue has one worker for all packets, and MDSDeadlineQueue a structure for each worker, which that worker
//! alone fills. This structure exists to measure the paper's, by `make bench-services` and `eval/run qs-fig5`.

use super::BinSort;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use sync::Lock;

/// A structure on cache lines of its own.
#[repr(align(128))]
struct Shard<T> {
    queue: Lock<BinSort<T>>,
    /// Number of items, readable without the lock.
    len: AtomicUsize,
}

/// Choice of the structure into which a thread puts its next items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A random structure; the next one if it is locked. Threads never wait for each other.
    Random,
    /// The structures in turn, waiting for each lock, as in the paper: fast threads catch up with slow ones, and then
    /// all run in lock-step (convoying).
    InTurn,
}

/// Counts of a thread's lock requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Locks {
    /// All requests.
    pub requests: u64,
    /// Requests that found the lock taken by another thread.
    pub contended: u64,
}

impl Locks {
    /// Locks `lock` if it is free.
    pub fn try_lock<'a, T>(&mut self, lock: &'a Lock<T>) -> Option<MutexGuard<'a, T>> {
        let found = lock.try_lock();
        self.requests += 1;
        self.contended += u64::from(found.is_none());
        found
    }

    /// Locks `lock`, waiting for it if it is taken.
    pub fn lock<'a, T>(&mut self, lock: &'a Lock<T>) -> MutexGuard<'a, T> {
        self.try_lock(lock).unwrap_or_else(|| lock.lock())
    }
}

/// State of a thread: its choices, and its lock requests.
#[derive(Clone, Debug)]
pub struct Chooser {
    choice: Choice,
    state: u64,
    locks: Locks,
}

impl Chooser {
    /// Threads should have different seeds.
    pub fn new(choice: Choice, seed: u64) -> Chooser {
        Chooser {
            choice,
            state: match choice {
                Choice::Random => seed | 1,
                Choice::InTurn => seed,
            },
            locks: Locks::default(),
        }
    }

    /// The thread's lock requests so far.
    pub fn locks(&self) -> Locks {
        self.locks
    }

    /// Index of the next structure, below `bound`.
    #[inline]
    fn next(&mut self, bound: usize) -> usize {
        match self.choice {
            Choice::InTurn => self.state = self.state.wrapping_add(1),
            Choice::Random => {
                // Xorshift (G. Marsaglia, 2003).
                self.state ^= self.state << 13;
                self.state ^= self.state >> 7;
                self.state ^= self.state << 17;
            }
        }
        (self.state % bound as u64) as usize
    }
}

/// Priority queue for several threads.
///
/// A burst goes into one structure, so threads contend once per burst. Each thread first empties its own structure,
/// then others. Within a structure the order is that of [`BinSort`]. Between structures there is no order: an item
/// may be overtaken by items in other structures.
pub struct MultiQueue<T> {
    shards: Box<[Shard<T>]>,
}

impl<T> MultiQueue<T> {
    /// `parts` empty structures, each with bins as in [`BinSort::new`].
    pub fn new(parts: usize, bins: usize, width: u64) -> MultiQueue<T> {
        let part = |_| Shard {
            queue: Lock::new(BinSort::new(bins, width)),
            len: AtomicUsize::new(0),
        };
        MultiQueue {
            shards: (0..parts.max(1)).map(part).collect(),
        }
    }

    /// Number of items; approximate while other threads change it.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|part| part.len.load(Relaxed)).sum()
    }

    /// True if there are no items; approximate while other threads change it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Enqueues a burst: ranks and items.
    #[inline]
    pub fn push(&self, chooser: &mut Chooser, burst: impl IntoIterator<Item = (u64, T)>) {
        let at = chooser.next(self.shards.len());
        let locks = &mut chooser.locks;
        let (at, mut queue) = match chooser.choice {
            Choice::InTurn => (at, locks.lock(&self.shards[at].queue)),
            Choice::Random => (at..self.shards.len())
                .chain(0..at)
                .find_map(|at| Some((at, locks.try_lock(&self.shards[at].queue)?)))
                .unwrap_or_else(|| (at, self.shards[at].queue.lock())),
        };
        for (rank, item) in burst {
            queue.push(rank, item);
        }
        self.shards[at].len.store(queue.len(), Relaxed);
    }

    /// Dequeues up to `limit` items from one structure: the thread's own or, if that is empty, the first one that is
    /// neither empty nor locked. Returns the number of items.
    #[inline]
    pub fn pop(
        &self,
        chooser: &mut Chooser,
        thread: usize,
        limit: usize,
        mut take: impl FnMut(T),
    ) -> usize {
        let own = thread % self.shards.len();
        for at in (own..self.shards.len()).chain(0..own) {
            let part = &self.shards[at];
            if part.len.load(Relaxed) == 0 {
                continue;
            }
            let queue = match at == own {
                true => Some(chooser.locks.lock(&part.queue)),
                false => chooser.locks.try_lock(&part.queue),
            };
            let Some(mut queue) = queue else { continue };
            let taken = queue.pop_each(limit, &mut take);
            part.len.store(queue.len(), Relaxed);
            if taken > 0 {
                return taken;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Random;
    use std::collections::BTreeSet;

    const BOTH: [Choice; 2] = [Choice::Random, Choice::InTurn];

    #[test]
    fn threads_lose_and_double_nothing() {
        for choice in BOTH {
            let (many, rounds, burst) = (MultiQueue::new(2, 64, 100), 2000u64, 8);
            let work = |thread: u64| {
                let many = &many;
                move || {
                    let (mut chooser, mut taken) = (Chooser::new(choice, 7 + thread), Vec::new());
                    for round in 0..rounds {
                        let first = (round * 2 + thread) * burst;
                        many.push(&mut chooser, (first..first + burst).map(|n| (n, n)));
                        many.pop(&mut chooser, thread as usize, burst as usize, |n| {
                            taken.push(n)
                        });
                    }
                    taken
                }
            };
            let mut all = std::thread::scope(|scope| {
                let threads = [0, 1].map(|n| scope.spawn(work(n)));
                threads.map(|thread| thread.join().unwrap()).concat()
            });
            let mut last = Chooser::new(choice, 1);
            while many.pop(&mut last, 0, 100, |n| all.push(n)) > 0 {}
            assert_eq!(last.locks().contended, 0);
            assert!(many.is_empty());
            assert_eq!(all.len() as u64, 2 * rounds * burst);
            let all: BTreeSet<u64> = all.into_iter().collect();
            assert_eq!(all.len() as u64, 2 * rounds * burst);
        }
    }

    #[test]
    fn each_structure_gives_back_by_rank_and_threads_help_when_theirs_is_empty() {
        let many = MultiQueue::new(2, 1024, 10);
        let mut random = Random::new(3);
        let mut chooser = Chooser::new(Choice::InTurn, 0);
        for _ in 0..64 {
            let ranks = [(); 4].map(|()| random.below(1024 * 10));
            many.push(&mut chooser, ranks.map(|rank| (rank, rank)));
        }
        assert_eq!(many.len(), 256);
        for _ in 0..2 {
            let mut ranks = Vec::new();
            assert_eq!(
                many.pop(&mut chooser, 1, 1000, |rank| ranks.push(rank)),
                128
            );
            assert!(ranks.is_sorted_by_key(|rank| rank / 10), "{ranks:?}");
        }
        assert_eq!(many.pop(&mut chooser, 1, 1000, |_| ()), 0);
    }

    #[test]
    fn bursts_go_everywhere_and_not_to_one_that_is_taken() {
        for choice in BOTH {
            let many = MultiQueue::new(4, 64, 10);
            let mut chooser = Chooser::new(choice, 9);
            for n in 0..400 {
                many.push(&mut chooser, [(n, n)]);
            }
            let least = many.shards.iter().map(|part| part.len.load(Relaxed)).min();
            assert!(least >= Some(60), "{choice:?} {least:?}");
        }
        let many = MultiQueue::new(2, 64, 10);
        let mut chooser = Chooser::new(Choice::Random, 9);
        let taken = many.shards[0].queue.lock();
        for n in 0..20 {
            many.push(&mut chooser, [(n, n)]);
        }
        assert_eq!(many.shards[1].len.load(Relaxed), 20);
        assert_eq!(many.pop(&mut chooser, 1, 5, |_| ()), 5);
        drop(taken);
        let locks = chooser.locks();
        assert!((1..=20).contains(&locks.contended), "{locks:?}");
        assert_eq!(locks.requests - locks.contended, 21);
    }
}
