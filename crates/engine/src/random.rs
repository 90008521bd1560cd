//! Random numbers of one worker's graph.
//!
//! They choose NAT's ports and the identifiers of fragments, which an observer must not be able to predict. So all come
//! from one cipher (ChaCha) with a key from the kernel, unless a repeatable sequence is asked for.

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rustix::rand::{GetRandomFlags, getrandom};
use std::hash::{BuildHasher, RandomState};

/// Seed of a sequence of random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seed {
    /// A key from the kernel: the numbers are unpredictable.
    Kernel,
    /// A number as seed: equal numbers give equal sequences.
    Number(u64),
}

impl From<u64> for Seed {
    fn from(number: u64) -> Seed {
        Seed::Number(number)
    }
}

impl From<Option<u64>> for Seed {
    fn from(number: Option<u64>) -> Seed {
        number.map_or(Seed::Kernel, Seed::Number)
    }
}

/// A sequence of random numbers.
pub(crate) enum Random {
    /// A cipher's key stream.
    Cipher(Box<ChaCha12Rng>),
    /// The sequence of the C library's `random`, which Click's seeds stand for.
    Library(Box<Additive>),
}

/// An additive feedback generator over x^31 + x^3 + 1 (Knuth, The Art of Computer Programming, 3.2.2), as
/// the GNU C library starts it.
pub(crate) struct Additive {
    last: [u32; 31],
    at: usize,
}

/// Secret random number, such as the seed of a hash. A router's seed has no effect on it.
pub fn secret() -> u64 {
    RandomState::new().hash_one(0)
}

/// A secret random key.
fn key() -> [u8; 32] {
    let mut key = [0; 32];
    let filled = getrandom(&mut key, GetRandomFlags::empty());
    if filled != Ok(key.len()) {
        // A kernel without the call: the standard library has another source for its hash keys, which serve as seed.
        for word in key.as_chunks_mut().0 {
            *word = secret().to_ne_bytes();
        }
    }
    key
}

impl Random {
    /// The sequence that a worker's graph gets.
    pub(crate) fn new(seed: Seed, worker: usize) -> Random {
        let mut cipher = match seed {
            Seed::Kernel => ChaCha12Rng::from_seed(key()),
            Seed::Number(number) => ChaCha12Rng::seed_from_u64(number),
        };
        cipher.set_stream(worker as u64);
        Random::Cipher(Box::new(cipher))
    }

    /// The C library's sequence after `srandom(seed)`.
    pub(crate) fn library(seed: u32) -> Random {
        let mut last = [0; 31];
        let mut word = i64::from(seed.max(1) as i32);
        for slot in &mut last {
            *slot = word as u32;
            // A Lehmer generator, with the sign of C's remainder taken away.
            word = (word * 16807 % 0x7fff_ffff + 0x7fff_ffff) % 0x7fff_ffff;
        }
        let mut additive = Additive { last, at: 3 };
        for _ in 0..310 {
            additive.next();
        }
        Random::Library(Box::new(additive))
    }

    /// 32 bits; the upper 31 of the C library's sequence are what `random` returns.
    #[inline]
    pub(crate) fn next(&mut self) -> u32 {
        match self {
            Random::Cipher(cipher) => cipher.next_u32(),
            Random::Library(additive) => additive.next(),
        }
    }
}

impl Additive {
    /// The next word: the sum of the one 31 words before and the one 3 words before.
    fn next(&mut self) -> u32 {
        let at = self.at;
        self.last[at] = self.last[at].wrapping_add(self.last[(at + 28) % 31]);
        self.at = (at + 1) % 31;
        self.last[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_librarys_sequence_is_that_of_the_c_library() {
        let mut random = Random::library(1);
        // Every Linux program prints this that calls random() without a seed.
        let first = [0; 4].map(|_| random.next() >> 1);
        assert_eq!(
            first,
            [1_804_289_383, 846_930_886, 1_681_692_777, 1_714_636_915]
        );
        assert_ne!(Random::library(2).next(), Random::library(3).next());
    }

    #[test]
    fn a_number_gives_each_worker_its_sequence_and_the_kernel_gives_another_one_each_time() {
        let draw = |seed, worker| {
            let mut random = Random::new(seed, worker);
            [0; 4].map(|_| random.next())
        };
        let number = Seed::from(1);
        assert_eq!(draw(number, 0), draw(number, 0));
        assert_ne!(draw(number, 0), draw(number, 1));
        assert_ne!(draw(number, 0), draw(Seed::from(2), 0));
        assert_ne!(draw(Seed::Kernel, 0), draw(Seed::Kernel, 0));
    }
}
