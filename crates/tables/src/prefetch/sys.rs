//! Prefetch: loads memory into the cache in advance while the processor works on.
#![allow(unsafe_code)]

/// Prefetches the cache line in which `place` begins; changes nothing else.
#[inline(always)]
pub(crate) fn line<T>(place: &T) {
    ask((&raw const *place).cast());
}

/// Prefetches all cache lines of a value; changes nothing else.
#[inline(always)]
pub fn whole<T>(value: &T) {
    const LINE: usize = 64;
    let start: *const u8 = (&raw const *value).cast();
    // A value may begin in the middle of a line, and then ends one line later.
    (0..size_of::<T>())
        .step_by(LINE)
        .chain(size_of::<T>().checked_sub(1))
        .for_each(|at| ask(start.wrapping_add(at)));
}

#[inline(always)]
fn ask(place: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no effect that the program can observe, whatever the address; every x86-64 processor
        // has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetching_changes_nothing() {
        let words = [1u64; 100];
        line(&words[1]);
        whole(&words);
        whole(&());
        assert_eq!(words, [1; 100]);
    }
}
