//! Run-time detection of the processor's bit-count instruction, which safe Rust cannot use.
#![allow(unsafe_code)]

/// Runs `work`, compiled for processors with instructions that count and extract bits if this one has them.
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
            // SAFETY: the three required features were detected just before.
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
}
