//! A hasher for prefixes: a multiplication per word, seeded so that peers cannot choose collisions.

use engine::random::secret;
use std::hash::{BuildHasher, Hasher};

/// Builder of [`Fold`] hashers with one seed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seeded(u64);

impl Default for Seeded {
    fn default() -> Self {
        Seeded(secret())
    }
}

impl BuildHasher for Seeded {
    type Hasher = Fold;

    #[inline]
    fn build_hasher(&self) -> Fold {
        Fold(self.0)
    }
}

/// Hasher by folded multiplication: XOR of both halves of a 128-bit product.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fold(u64);

/// Odd multiplier with as many ones as zeroes: digits of pi.
const FACTOR: u64 = 0x243f_6a88_85a3_08d3;

impl Fold {
    #[inline]
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(FACTOR ^ self.0.rotate_left(32) | 1);
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }
}

impl Hasher for Fold {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        // IPv4 addresses have four bytes.
        if let Ok(four) = bytes.try_into() {
            return self.mix(u32::from_le_bytes(four).into());
        }
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u8(&mut self, n: u8) {
        self.mix(n.into());
    }

    #[inline]
    fn write_u32(&mut self, n: u32) {
        self.mix(n.into());
    }

    #[inline]
    fn write_u64(&mut self, n: u64) {
        self.mix(n);
    }

    /// Hashes an enum's discriminant.
    #[inline]
    fn write_isize(&mut self, n: isize) {
        self.mix(n as u64);
    }

    /// Ignores array lengths: keys of a table have equal lengths, and lists differ in their content.
    #[inline]
    fn write_usize(&mut self, _: usize) {}

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}
