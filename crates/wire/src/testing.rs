//! Helpers of this crate's tests: seeded bytes, and a check that nothing panics on them.

use std::vec::Vec;

/// A splitmix64 generator; the field is its seed.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        (self.next() >> 56) as u8
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// Calls `f` with every prefix of `sample`, and with mutations of it and noise of every length up to `sample`'s + 8.
///
/// `f` should build views and call everything on those that are accepted.
pub(crate) fn hammer(sample: &[u8], mut f: impl FnMut(&[u8])) {
    for len in 0..=sample.len() {
        f(&sample[..len]);
    }
    let mut rng = Rng(sample.len() as u64);
    for _ in 0..4_000 {
        let mut bytes = sample.to_vec();
        for _ in 0..=rng.below(4) {
            if let Some(b) = match bytes.len() {
                0 => None,
                n => bytes.get_mut(rng.below(n)),
            } {
                *b = match rng.below(4) {
                    0 => 0,
                    1 => 0xff,
                    _ => rng.byte(),
                };
            }
        }
        bytes.truncate(sample.len() - rng.below(sample.len() / 2 + 1));
        f(&bytes);
        let noise: Vec<u8> = (0..rng.below(sample.len() + 9))
            .map(|_| rng.byte())
            .collect();
        f(&noise);
    }
}
