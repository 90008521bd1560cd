//! Counters that a queue writes and control reads.

use engine::port::PortCounter;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter with one writer: the owner of the queue.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds `n`. Only the owner calls it, so no atomic read-modify-write is needed.
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Adds `n` to a counter with several writers.
    pub(crate) fn add_shared(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// Present value.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Named counters of one queue, on a cache line of their own.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Counts<const N: usize> {
    names: [&'static str; N],
    values: [Count; N],
}

impl<const N: usize> Counts<N> {
    pub(crate) fn new(names: [&'static str; N]) -> Counts<N> {
        Counts {
            names,
            values: std::array::from_fn(|_| Count::default()),
        }
    }

    /// Counter with the index `place`, for which callers have named constants.
    #[inline]
    pub(crate) fn at(&self, place: usize) -> &Count {
        &self.values[place]
    }

    /// Appends all counters as those of `queue`.
    pub(crate) fn report(&self, queue: usize, into: &mut Vec<PortCounter>) {
        let named = self.names.iter().zip(&self.values);
        into.extend(named.map(|(name, value)| (*name, Some(queue), value.get())));
    }
}
