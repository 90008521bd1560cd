//! The mapping, and how it is read and written.
#![allow(unsafe_code)]

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs, ftruncate,
    memfd_create,
};
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

/// Type of the file system of shared memory (statfs(2)), without huge pages.
const TMPFS: u64 = 0x0102_1994;

/// Memory that is shared. It is never referred to by `&[u8]`: bytes are copied in and out, numbers are atomic.
pub(crate) struct Region {
    start: NonNull<u8>,
    bytes: usize,
    /// File for the other program to map, if this one has made the memory.
    file: Option<OwnedFd>,
}

// SAFETY: the value owns the mapping, which exists until it is dropped; all access goes through `&self` by atomics,
// or by copies of bytes that are checked before use.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Allocates memory of a fixed size; `name` shows in lists of the process's open files.
    ///
    /// # Errors
    /// No memory or no descriptor is left.
    pub(crate) fn new(name: &str, bytes: usize) -> io::Result<Region> {
        let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, bytes as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let mut region = Region::map(&file, 0, bytes)?;
        region.file = Some(file);
        Ok(region)
    }

    /// The memory of another program.
    ///
    /// # Errors
    /// A sentence: it could be taken away, and to look at it would end this program.
    pub(crate) fn of_peer(file: OwnedFd, bytes: u64) -> Result<Region, String> {
        let failed = |e: rustix::io::Errno| format!("its memory cannot be inspected: {e}");
        // Only a memfd has seals.
        let seals = fcntl_get_seals(&file).map_err(|_| "its memory is no memfd")?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err("its memory may shrink (no F_SEAL_SHRINK)".into());
        }
        // Memory of huge pages is refused: a hole in the file may find no free huge page, and an access would then fail
        // with SIGBUS.
        if fstatfs(&file).map_err(failed)?.f_type as u64 != TMPFS {
            return Err("its memory is of huge pages: start it without zero-copy".into());
        }
        let has = fstat(&file).map_err(failed)?.st_size as u64;
        if bytes == 0 || bytes > has {
            return Err(format!(
                "its memory has {has} bytes, not the announced {bytes}"
            ));
        }
        Region::map(&file, 0, bytes as usize)
            .map_err(|e| format!("its memory cannot be mapped: {e}"))
    }

    /// Maps a part of a kernel object, such as a ring of a socket. The object must not shrink.
    ///
    /// # Errors
    /// The kernel cannot map the file.
    pub(crate) fn map(file: &OwnedFd, from: u64, bytes: usize) -> io::Result<Region> {
        Region::mmap(file.as_raw_fd(), libc::MAP_SHARED, from, bytes)
    }

    /// Allocates memory into which the kernel writes.
    ///
    /// # Errors
    /// No memory is left.
    pub(crate) fn for_kernel(bytes: usize) -> io::Result<Region> {
        Region::mmap(-1, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, 0, bytes)
    }

    fn mmap(file: RawFd, flags: c_int, from: u64, bytes: usize) -> io::Result<Region> {
        // SAFETY: a new mapping at a place of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                file,
                from as libc::off_t,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Region {
            start,
            bytes,
            file: None,
        })
    }

    /// File for the other end, if this one has made it.
    pub(crate) fn file(&self) -> Option<&OwnedFd> {
        self.file.as_ref()
    }

    /// Address of the region in this process.
    pub(crate) fn address(&self) -> u64 {
        self.start.as_ptr().addr() as u64
    }

    /// Length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if `bytes` bytes lie at `at`.
    #[inline]
    pub(crate) fn has(&self, at: usize, bytes: usize) -> bool {
        at <= self.bytes && bytes <= self.bytes - at
    }

    /// A place of a number.
    ///
    /// # Panics
    /// The place is not in the memory, or is not aligned: the caller has checked its ring.
    #[inline]
    fn place<T>(&self, at: usize) -> NonNull<T> {
        assert!(self.has(at, size_of::<T>()) && at.is_multiple_of(align_of::<T>()));
        // SAFETY: within the mapping, as just checked.
        unsafe { self.start.add(at) }.cast()
    }

    /// Reference to the 16-bit number at an offset.
    #[inline]
    pub(crate) fn short(&self, at: usize) -> &AtomicU16 {
        // SAFETY: mapped as long as `self` exists, aligned, and all bit patterns are valid.
        unsafe { self.place::<AtomicU16>(at).as_ref() }
    }

    /// Reference to the 32-bit number at an offset.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: as for `short`.
        unsafe { self.place::<AtomicU32>(at).as_ref() }
    }

    /// Reference to the 64-bit number at an offset.
    #[inline]
    pub(crate) fn long(&self, at: usize) -> &AtomicU64 {
        // SAFETY: as for `short`.
        unsafe { self.place::<AtomicU64>(at).as_ref() }
    }

    /// Copies bytes out; false if they are not in the memory.
    #[inline]
    pub(crate) fn read(&self, at: usize, into: &mut [u8]) -> bool {
        if !self.has(at, into.len()) {
            return false;
        }
        // SAFETY: source and target have that many bytes and do not overlap. The other end may write meanwhile: then
        // the bytes are a mixture, which is as good as any other. The copy is C's, so that the compiler assumes
        // nothing about the bytes.
        unsafe {
            let from = self.start.add(at).as_ptr();
            libc::memcpy(into.as_mut_ptr().cast(), from.cast(), into.len());
        }
        true
    }

    /// Copies bytes in; false if there is no room at this place.
    #[inline]
    pub(crate) fn write(&self, at: usize, from: &[u8]) -> bool {
        if !self.has(at, from.len()) {
            return false;
        }
        // SAFETY: as for `read`.
        unsafe {
            let to = self.start.add(at).as_ptr();
            libc::memcpy(to.cast(), from.as_ptr().cast(), from.len());
        }
        true
    }

    /// Prefetches the cache line at an offset.
    #[inline]
    pub(crate) fn prefetch(&self, at: usize) {
        #[cfg(target_arch = "x86_64")]
        if self.has(at, 1) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: within the mapping; to prefetch has no effect but on caches.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.start.add(at).as_ptr().cast::<i8>()) };
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: this mapping, of this length; nothing refers to it any more, since all borrows are of `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
