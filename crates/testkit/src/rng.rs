//! Seeded random numbers: the same seed gives the same test on every machine.

/// A splitmix64 generator (Steele, Lea, Flood 2014). Good enough to vary tests, nothing more.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator whose numbers depend on `seed` alone.
    pub fn seed(seed: u64) -> Rng {
        Rng(seed)
    }

    /// 64 random bits.
    pub fn u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 32 random bits.
    pub fn u32(&mut self) -> u32 {
        (self.u64() >> 32) as u32
    }

    /// 16 random bits.
    pub fn u16(&mut self) -> u16 {
        (self.u64() >> 48) as u16
    }

    /// A random byte.
    pub fn u8(&mut self) -> u8 {
        (self.u64() >> 56) as u8
    }

    /// A number below `n`; `n` must not be 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.u64()) * n as u128) >> 64) as usize
    }

    /// A number in `range`, which must not be empty.
    pub fn range(&mut self, range: std::ops::Range<usize>) -> usize {
        range.start + self.below(range.len())
    }

    /// True once in `n` on average.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// A random one of `items`, which must not be empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// The index of a weight, each chosen in proportion; the weights must not all be 0.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let mut left = self.below(weights.iter().map(|&w| w as usize).sum());
        for (i, &w) in weights.iter().enumerate() {
            match left.checked_sub(w as usize) {
                None => return i,
                Some(rest) => left = rest,
            }
        }
        unreachable!("the number drawn is below the sum of the weights")
    }

    /// `n` random bytes.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.u8()).collect()
    }

    /// Brings `items` into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_and_another_seed_others() {
        let draw = |seed| Rng::seed(seed).bytes(16);
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn numbers_stay_in_their_range_and_reach_all_of_it() {
        let mut rng = Rng::seed(3);
        let mut seen = [0; 7];
        (0..7000).for_each(|_| seen[rng.range(2..9) - 2] += 1);
        assert!(seen.iter().all(|&n| (800..1200).contains(&n)), "{seen:?}");
        let mut by_weight = [0; 3];
        (0..4000).for_each(|_| by_weight[rng.weighted(&[1, 0, 3])] += 1);
        assert!((800..1200).contains(&by_weight[0]) && by_weight[1] == 0);
    }

    #[test]
    fn shuffling_keeps_the_items() {
        let mut items: Vec<u32> = (0..100).collect();
        Rng::seed(1).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
