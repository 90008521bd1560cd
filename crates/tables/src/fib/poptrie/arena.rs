//! Allocator for the words of nodes.

use std::sync::atomic::AtomicU64;

/// Maximum number of words for nodes that a table can have: 128 MiB of address space.
pub(super) const WORDS_MAX: usize = if cfg!(miri) { 1 << 16 } else { 1 << 24 };
/// The words, with unused ones at the end: so reading a node's words needs no bounds check.
pub(super) type Words = [AtomicU64; WORDS_MAX + NODE_MAX];
/// Number of words of the longest node: a bitmap and 64 words of 32 bits, in pairs.
pub(super) const NODE_MAX: usize = 34;
/// Nodes take pairs of words, which lie in one cache line.
const STEP: usize = 2;

/// Allocates ranges of `0..WORDS_MAX`. A freed range serves the next node of its length, or two shorter nodes.
#[derive(Debug, Default)]
pub(super) struct Arena {
    /// Free pieces by length, in units of [`STEP`].
    free: [Vec<u32>; NODE_MAX / STEP + 1],
    /// Number of units used so far; later units have never been used.
    used: usize,
}

impl Arena {
    /// Allocates `words` words and returns the index of the first; `None` if fewer than `reserve` would be left.
    pub(super) fn take(&mut self, words: usize, reserve: usize) -> Option<usize> {
        let steps = words.div_ceil(STEP);
        if let Some(at) = self.free[steps].pop() {
            return Some(at as usize);
        }
        // Prefers ranges whose rest is long enough for another node; at last takes any.
        if let Some(at) = self.split(steps, 2 * steps) {
            return Some(at);
        }
        if self.used + steps * STEP + reserve > WORDS_MAX {
            return self.split(steps, steps + 1);
        }
        let at = self.used;
        self.used += steps * STEP;
        Some(at)
    }

    /// Splits the first part off a range of at least `from` steps.
    fn split(&mut self, steps: usize, from: usize) -> Option<usize> {
        let longer = (from..self.free.len()).find(|&longer| !self.free[longer].is_empty())?;
        let at = self.free[longer].pop()?;
        self.free[longer - steps].push(at + (steps * STEP) as u32);
        Some(at as usize)
    }

    pub(super) fn give_back(&mut self, at: usize, words: usize) {
        self.free[words.div_ceil(STEP)].push(at as u32);
    }

    /// Number of words that have ever been used for nodes.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Memory of the lists, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.free.iter().map(|list| list.capacity() * 4).sum()
    }
}
