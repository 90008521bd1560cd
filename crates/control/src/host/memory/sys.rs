//! Functions of the allocator without a counterpart in the standard library.
#![allow(unsafe_code)]

/// Returns free memory to the system, if the allocator can.
pub(super) fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    {
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> i32;
        }
        // SAFETY: glibc's function takes a number, may be called by any thread, and touches free memory only.
        unsafe { malloc_trim(0) };
    }
}
