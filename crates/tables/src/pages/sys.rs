//! Memory by mmap, whose pages take no memory until they are written.
#![allow(unsafe_code)]

use bytemuck::Zeroable;
use std::ops::Deref;
use std::ptr::NonNull;

/// Zeroed memory in pages of its own. A page that was never written takes no memory, and all pages are returned to the
/// system on drop. The allocator promises neither: it zeroes reused memory by writing it, and keeps freed memory.
pub(crate) struct Pages<T> {
    start: NonNull<T>,
    len: usize,
}

// SAFETY: it owns the memory that it points to, as a box does.
unsafe impl<T: Send> Send for Pages<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Pages<T> {}

impl<T: Zeroable> Pages<T> {
    /// `len` zeroed values; `None` if the system refuses the address space.
    pub(crate) fn new(len: usize) -> Option<Pages<T>> {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= 4096 && !std::mem::needs_drop::<T>()) };
        let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| *bytes > 0)?;
        let start = system::map(bytes)?.cast();
        let pages = Pages { start, len };
        // Transparent huge pages would give a small table a whole huge page.
        pages.advise(false);
        Some(pages)
    }
}

impl<T> Pages<T> {
    /// The first `T`.
    #[inline(always)]
    pub(crate) fn first(&self) -> &T {
        // SAFETY: there is at least one value: zeros, which are a valid `T`, or a value written since through shared
        // references. No mutable reference exists.
        unsafe { self.start.as_ref() }
    }

    /// Asks the kernel to use huge pages for memory that is not yet written, or not to use them. With huge pages,
    /// access to distant entries needs fewer address translations. A kernel without huge pages ignores the request.
    pub(crate) fn advise(&self, huge: bool) {
        system::advise(self.start.cast(), self.len * size_of::<T>(), huge);
    }
}

impl<T> Deref for Pages<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `len` values were made; see `first`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> Drop for Pages<T> {
    fn drop(&mut self) {
        // SAFETY: `map` mapped the bytes with this length, and no reference to them is left.
        unsafe { system::unmap(self.start.cast(), self.len * size_of::<T>()) };
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod system {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
    use std::ptr::{NonNull, null_mut};

    pub(super) fn map(bytes: usize) -> Option<NonNull<u8>> {
        let (may, flags) = (
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        );
        // SAFETY: a new mapping at an address that the kernel chooses touches no existing memory.
        let start = unsafe { mmap_anonymous(null_mut(), bytes, may, flags) };
        NonNull::new(start.ok()?.cast())
    }

    pub(super) fn advise(start: NonNull<u8>, bytes: usize, huge: bool) {
        let advice = match huge {
            true => Advice::LinuxHugepage,
            false => Advice::LinuxNoHugepage,
        };
        // SAFETY: the mapping is the caller's; the advice changes none of its bytes.
        let _ = unsafe { madvise(start.as_ptr().cast(), bytes, advice) };
    }

    pub(super) unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller guarantees that the mapping is its own and unused.
        let _ = unsafe { munmap(start.as_ptr().cast(), bytes) };
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod system {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    fn layout(bytes: usize) -> Option<Layout> {
        Layout::from_size_align(bytes, 4096).ok()
    }

    pub(super) fn map(bytes: usize) -> Option<NonNull<u8>> {
        // SAFETY: the size is not 0.
        NonNull::new(unsafe { alloc_zeroed(layout(bytes)?) })
    }

    pub(super) fn advise(_: NonNull<u8>, _: usize, _: bool) {}

    pub(super) unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
        if let Some(layout) = layout(bytes) {
            // SAFETY: `map` allocated it with the same layout.
            unsafe { dealloc(start.as_ptr(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    #[test]
    fn pages_are_zeros_until_they_are_written_and_advice_changes_nothing() {
        let most = if cfg!(miri) { 1 << 12 } else { 1 << 20 };
        for len in [1, 3000, most] {
            let pages = Pages::<AtomicU32>::new(len).expect("memory");
            assert!(pages.iter().all(|word| word.load(Relaxed) == 0));
            pages.iter().for_each(|word| word.store(7, Relaxed));
            pages.advise(true);
            pages.advise(false);
            assert!(pages.len() == len && pages.iter().all(|word| word.load(Relaxed) == 7));
            assert_eq!(pages.first().load(Relaxed), 7);
        }
        assert!(Pages::<AtomicU32>::new(0).is_none());
        assert!(Pages::<AtomicU32>::new(usize::MAX).is_none());
        assert!(
            Pages::<u8>::new(isize::MAX as usize).is_none(),
            "more than there are addresses"
        );
    }

    /// Number of pages that are in memory.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn present(pages: &Pages<AtomicU32>) -> usize {
        use std::os::unix::fs::FileExt;
        let map = std::fs::File::open("/proc/self/pagemap").expect("it can be read");
        let mut entries = vec![0; pages.len() / 1024 * 8];
        let first = pages.first() as *const AtomicU32 as u64 / 4096;
        map.read_exact_at(&mut entries, first * 8)
            .expect("they are mapped");
        let each = entries.chunks_exact(8);
        each.filter(|entry| entry[7] & 0x80 != 0).count()
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn only_pages_that_were_written_are_in_memory() {
        for _ in 0..8 {
            let pages = Pages::<AtomicU32>::new(1 << 18).expect("memory");
            assert_eq!(present(&pages), 0, "also if some were given back before");
            for at in [0, 1, 1024, 200_000] {
                pages[at].store(1, Relaxed);
            }
            assert_eq!(present(&pages), 3);
            pages.iter().for_each(|word| word.store(1, Relaxed));
        }
    }
}
