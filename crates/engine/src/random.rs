//! Random numbers of one worker's graph.

/// A sequence of random numbers.
#[derive(Clone, Debug)]
pub(crate) enum Random {
    /// Fast: xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators").
    Fast(u64),
    /// The sequence of the C library's `random`, which Click's seeds stand for.
    Library(Box<Additive>),
}

/// An additive feedback generator over x^31 + x^3 + 1 (Knuth, The Art of Computer Programming, 3.2.2), as
/// the GNU C library starts it.
#[derive(Clone, Debug)]
pub(crate) struct Additive {
    last: [u32; 31],
    at: usize,
}

impl Random {
    /// A sequence that follows from a seed.
    pub(crate) fn fast(seed: u64) -> Random {
        Random::Fast(seed | 1)
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
            Random::Fast(x) => {
                *x ^= *x >> 12;
                *x ^= *x << 25;
                *x ^= *x >> 27;
                (x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
            }
            Random::Library(additive) => additive.next(),
        }
    }

    /// A seed for a graph that is built in place of this one.
    pub(crate) fn seed(&self) -> u64 {
        match self {
            Random::Fast(x) => *x,
            Random::Library(additive) => u64::from(additive.last[additive.at]),
        }
    }
}

impl Additive {
    /// Each word is the sum of the one 31 words before and the one 3 words before.
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
        // What every Linux program prints that calls random() without a seed.
        let first = [0; 4].map(|_| random.next() >> 1);
        assert_eq!(
            first,
            [1_804_289_383, 846_930_886, 1_681_692_777, 1_714_636_915]
        );
        assert_ne!(Random::library(2).next(), Random::library(3).next());
    }
}
