//! A set of integers below a bound, as a hierarchical bitmap: it finds the next member in a few steps, even in a
//! sparse set.
//!
//! The lowest level has a bit for each number; each higher level has a bit for each nonzero word below, up to a
//! single word. A search for the next member goes up as far as necessary and down again. That is four levels for 16
//! million numbers.

const BITS: usize = u64::BITS as usize;

/// A set of numbers.
#[derive(Clone, Debug)]
pub struct Numbers {
    /// The levels: first the numbers themselves; the last level is one word.
    levels: Vec<Vec<u64>>,
    bound: u32,
    len: usize,
}

impl Numbers {
    /// The set of all numbers below `bound`, which is at least 1.
    pub fn all_below(bound: u32) -> Numbers {
        let mut levels: Vec<Vec<u64>> = Vec::new();
        let bound = bound.max(1);
        let mut bits = bound as usize;
        loop {
            let mut words = vec![u64::MAX; bits.div_ceil(BITS)];
            let rest = bits % BITS;
            if let Some(last) = words.last_mut().filter(|_| rest > 0) {
                *last = (1 << rest) - 1;
            }
            bits = words.len();
            levels.push(words);
            if bits == 1 {
                return Numbers {
                    levels,
                    bound,
                    len: bound as usize,
                };
            }
        }
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True if a number is a member.
    pub fn contains(&self, number: u32) -> bool {
        let at = number as usize;
        let word = self.levels.first().and_then(|words| words.get(at / BITS));
        word.is_some_and(|word| word >> (at % BITS) & 1 == 1)
    }

    /// Removes a number, if it is a member.
    pub fn remove(&mut self, number: u32) {
        if !self.contains(number) {
            return;
        }
        self.len -= 1;
        let mut at = number as usize;
        for words in &mut self.levels {
            words[at / BITS] &= !(1 << (at % BITS));
            at /= BITS;
            if words[at] != 0 {
                return;
            }
        }
    }

    /// Inserts a number below the bound.
    pub fn insert(&mut self, number: u32) {
        if number >= self.bound || self.contains(number) {
            return;
        }
        let mut at = number as usize;
        self.len += 1;
        for words in &mut self.levels {
            let word = &mut words[at / BITS];
            let was = std::mem::replace(word, *word | 1 << (at % BITS));
            if was != 0 {
                return;
            }
            at /= BITS;
        }
    }

    /// The first member that is at least `number`.
    pub fn next_from(&self, number: u32) -> Option<u32> {
        let mut at = number as usize;
        // Goes up to the first level with another member after this position.
        let level = (0..self.levels.len()).find(|&level| {
            let word = self.levels[level].get(at / BITS).copied().unwrap_or(0);
            match word & (u64::MAX << (at % BITS)) {
                0 => {
                    at = at / BITS + 1;
                    false
                }
                rest => {
                    at = at / BITS * BITS + rest.trailing_zeros() as usize;
                    true
                }
            }
        })?;
        // Goes down along the first members.
        for words in self.levels[..level].iter().rev() {
            at = at * BITS + words[at].trailing_zeros() as usize;
        }
        u32::try_from(at).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn set_finds_its_next_member() {
        let mut seed = 1u64;
        let mut below = move |n: u32| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (((seed >> 32) * u64::from(n)) >> 32) as u32
        };
        for bound in [1u32, 2, 63, 64, 65, 4095, 4096, 4097, 300_000] {
            let mut numbers = Numbers::all_below(bound);
            let mut naive: BTreeSet<u32> = (0..bound).collect();
            assert_eq!(numbers.len(), bound as usize);
            let keep = below(5);
            for number in (0..bound).filter(|n| n % 997 != keep) {
                numbers.remove(number);
                naive.remove(&number);
            }
            for _ in 0..2000 {
                let number = below(bound);
                match below(3) {
                    0 => {
                        numbers.insert(number);
                        naive.insert(number);
                    }
                    1 => {
                        numbers.remove(number);
                        naive.remove(&number);
                    }
                    _ => {
                        let next = naive.range(number..).next().copied();
                        assert_eq!(numbers.next_from(number), next, "{bound} {number}");
                        assert_eq!(numbers.contains(number), naive.contains(&number));
                    }
                }
                assert_eq!(
                    (numbers.len(), numbers.is_empty()),
                    (naive.len(), naive.is_empty())
                );
            }
            assert_eq!(numbers.next_from(bound), None);
        }
    }
}
