//! Comparison of eight words with one.
#![allow(unsafe_code)]

/// Words that are compared at once.
pub(super) const WORDS: usize = 8;

/// A bit for each word that is equal to `word`.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(super) fn equal_words(words: &[u32; WORDS], word: u32) -> u32 {
    use std::arch::x86_64::{
        __m128i, _mm_castsi128_ps, _mm_cmpeq_epi32, _mm_loadu_si128, _mm_movemask_ps,
        _mm_set1_epi32,
    };
    let four: *const __m128i = words.as_ptr().cast();
    // SAFETY: every x86-64 processor has these instructions, and the eight words are two times four.
    let bits = unsafe {
        let wanted = _mm_set1_epi32(word.cast_signed());
        let equal = |at| _mm_cmpeq_epi32(_mm_loadu_si128(four.add(at)), wanted);
        let [low, high] = [0, 1].map(|at| _mm_movemask_ps(_mm_castsi128_ps(equal(at))));
        low | high << 4
    };
    bits.cast_unsigned()
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(super) fn equal_words(words: &[u32; WORDS], word: u32) -> u32 {
    let each = words.iter().enumerate();
    each.fold(0, |bits, (i, &own)| bits | u32::from(own == word) << i)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_equal_word_has_its_bit() {
        for equal in 0..1u32 << WORDS {
            let words: [u32; WORDS] = std::array::from_fn(|i| match equal >> i & 1 {
                1 => 0x8000_0001,
                _ => i as u32,
            });
            assert_eq!(equal_words(&words, 0x8000_0001), equal);
        }
    }
}
