//! What the processor can do and the language cannot say: fetching ahead, and counting bits in one
//! instruction where the processor turns out to have it.
#![allow(unsafe_code)]

/// Asks for the cache line in which `place` begins; changes nothing else.
#[inline(always)]
pub(super) fn prefetch<T>(place: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the address is of something that is borrowed here; a prefetch reads nothing that
        // the program could see, and every x86-64 processor has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>((&raw const *place).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}

/// Asks the kernel for huge pages where there is nothing yet: entries far from each other then need fewer translations. A
/// kernel that has none leaves all as it is.
pub(super) fn on_huge_pages<T>(place: Box<[T]>) -> Box<[T]> {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        use rustix::mm::{Advice, madvise};
        const PAGE: usize = 4096;
        let (start, bytes) = (place.as_ptr().cast::<u8>(), size_of_val(&*place));
        let before = start.align_offset(PAGE);
        if let Some(rest) = bytes.checked_sub(before) {
            // SAFETY: the whole pages in the middle are the box's; the advice changes none of their bytes.
            let _ = unsafe {
                madvise(
                    start.add(before).cast_mut().cast(),
                    rest / PAGE * PAGE,
                    Advice::LinuxHugepage,
                )
            };
        }
    }
    place
}

/// Does `work`, compiled for processors with instructions that count and extract bits if this one has them.
#[inline(always)]
pub(super) fn with_popcnt<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        #[target_feature(enable = "popcnt,bmi1,bmi2")]
        fn compiled<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        if is_x86_feature_detected!("popcnt")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
        {
            // SAFETY: the three features that the function is compiled for have just been found.
            return unsafe { compiled(work) };
        }
    }
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_gives_the_same_with_and_without_the_instructions() {
        let words = [0u64, 1, u64::MAX, 0x8000_0000_0000_0001, 0xf0f0];
        let count = || words.map(u64::count_ones);
        assert_eq!(with_popcnt(count), count());
    }

    #[test]
    fn advice_changes_nothing() {
        for len in [0, 1, 3000, 1 << 20] {
            let words = vec![7u32; len].into_boxed_slice();
            assert!(on_huge_pages(words).iter().all(|word| *word == 7));
        }
    }

    #[test]
    fn fetching_changes_nothing() {
        let words = [1u64, 2];
        prefetch(&words[1]);
        prefetch(&());
        assert_eq!(words, [1, 2]);
    }
}
