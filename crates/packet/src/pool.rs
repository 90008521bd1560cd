//! Packet buffers from the heap or from an external pool (DPDK's mempool). A process uses one kind, chosen before its
//! first packet.
//!
//! The heap pool keeps a cache of free buffers per thread and exchanges chunks with a common list, so buffers freed
//! on another core return. Memory is allocated when packets need it, up to a limit, and kept.
//!
//! A few large buffers hold a datagram of any length, which reassembly of fragments may need. They are kept in a list
//! under a lock, outside the packet path.

use crate::{Buffer, HEADER, HEADROOM, Line};
use std::cell::{Cell, RefCell};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use sync::Lock;

/// A pool outside this crate.
pub struct External {
    /// Allocates a buffer; `None` if the pool has run dry.
    pub alloc: fn() -> Option<Buffer>,
    /// Allocates a large buffer, for 65,535 bytes; `None` if all are in use.
    pub alloc_large: fn() -> Option<Buffer>,
    /// Number of large buffers in use.
    pub large_in_use: fn() -> usize,
    /// Returns one buffer to its pool, usual or large.
    pub free: fn(Buffer),
    /// Number of buffers in use.
    pub in_use: fn() -> usize,
}

static EXTERNAL: OnceLock<External> = OnceLock::new();

/// Sets an external pool for the whole process. Call it before the first packet is made; returns false if a pool is
/// already in use.
pub fn use_external(pool: External) -> bool {
    EXTERNAL.set(pool).is_ok()
}

/// Size in bytes of a heap buffer's data area, including headroom.
static BUFFER_BYTES: AtomicUsize = AtomicUsize::new(HEADROOM + 2048);
/// Maximum number of heap buffers.
static LIMIT: AtomicUsize = AtomicUsize::new(256 * 1024);
/// Number of existing heap buffers.
static HEAP_BUFFERS: AtomicUsize = AtomicUsize::new(0);
/// Free heap buffers of the common list.
static FREE: Lock<Vec<Buffer>> = Lock::new(Vec::new());

const CHUNK: usize = 64;

/// Size in bytes of a large buffer's data area.
pub const LARGE_BYTES: usize = u16::MAX as usize;
/// Maximum number of large buffers; together they take 8 MiB.
pub const LARGE_MAX: usize = 127;
/// Number of used large buffers from which on [`Packet::large_if_many`](crate::Packet::large_if_many) returns none.
pub const LARGE_MANY: usize = LARGE_MAX * 3 / 4;
/// Free large heap buffers, and the number of existing ones.
static LARGE: Lock<(Vec<Buffer>, usize)> = Lock::new((Vec::new(), 0));

/// Sets the size and number of heap buffers: `data` bytes of packet besides the headroom, and at most `count`
/// buffers. Existing buffers keep their size.
pub fn configure(data: usize, count: usize) {
    BUFFER_BYTES.store(data.saturating_add(HEADROOM).min(65_000), Relaxed);
    LIMIT.store(count, Relaxed);
}

/// Length in bytes of the longest packet that a new buffer holds with full headroom.
pub fn data_bytes() -> usize {
    BUFFER_BYTES.load(Relaxed) - HEADROOM
}

struct Cache {
    free: Vec<Buffer>,
}

impl Drop for Cache {
    fn drop(&mut self) {
        lock().append(&mut self.free);
    }
}

thread_local! {
    static CACHE: RefCell<Cache> = const { RefCell::new(Cache { free: Vec::new() }) };
    /// Number of buffers that this thread has taken, minus those that it has returned.
    static BALANCE: Cell<isize> = const { Cell::new(0) };
}

fn lock() -> std::sync::MutexGuard<'static, Vec<Buffer>> {
    FREE.lock()
}

#[inline]
pub(crate) fn alloc() -> Option<Buffer> {
    let buffer = match EXTERNAL.get() {
        Some(pool) => (pool.alloc)(),
        None => CACHE.with_borrow_mut(|cache| {
            if cache.free.is_empty() {
                refill(&mut cache.free);
            }
            cache.free.pop()
        }),
    };
    if buffer.is_some() {
        BALANCE.set(BALANCE.get() + 1);
    }
    buffer
}

#[inline]
pub(crate) fn free(buffer: Buffer) {
    // The caches of an ending thread are already gone: its buffers go to the common list.
    let _ = BALANCE.try_with(|balance| balance.set(balance.get() - 1));
    if buffer.is_of_other_pool() {
        return free_elsewhere(buffer);
    }
    let mut buffer = Some(buffer);
    let _ = CACHE.try_with(|cache| {
        let free = &mut cache.borrow_mut().free;
        free.extend(buffer.take());
        if free.len() >= 4 * CHUNK {
            let spill = free.len() - CHUNK;
            lock().extend(free.drain(spill..));
        }
    });
    if let Some(buffer) = buffer {
        lock().push(buffer);
    }
}

#[inline]
fn free_elsewhere(buffer: Buffer) {
    match EXTERNAL.get() {
        Some(pool) => (pool.free)(buffer),
        None => large().0.push(buffer),
    }
}

fn large() -> std::sync::MutexGuard<'static, (Vec<Buffer>, usize)> {
    LARGE.lock()
}

/// Large buffers in use now.
pub(crate) fn large_in_use() -> usize {
    match EXTERNAL.get() {
        Some(pool) => (pool.large_in_use)(),
        None => {
            let (free, made) = &*large();
            made - free.len()
        }
    }
}

/// Takes a large buffer; `None` if all are in use.
pub(crate) fn alloc_large() -> Option<Buffer> {
    let buffer = match EXTERNAL.get() {
        Some(pool) => (pool.alloc_large)(),
        None => {
            let (free, made) = &mut *large();
            if free.is_empty() && *made < LARGE_MAX {
                let lines = (HEADER + LARGE_BYTES).div_ceil(64);
                let mut buffer = Buffer::format(Vec::leak(vec![Line([0; 64]); lines]));
                buffer.mark_large();
                free.push(buffer);
                *made += 1;
            }
            free.pop()
        }
    };
    if buffer.is_some() {
        BALANCE.set(BALANCE.get() + 1);
    }
    buffer
}

#[cold]
fn refill(free: &mut Vec<Buffer>) {
    let mut common = lock();
    let keep = common.len().saturating_sub(CHUNK);
    free.extend(common.drain(keep..));
    if !free.is_empty() {
        return;
    }
    make(free, HEAP_BUFFERS.load(Relaxed) + CHUNK);
}

/// Allocates heap buffers into `free` until it has `count`, or the limit is reached. The caller holds the lock.
fn make(free: &mut Vec<Buffer>, count: usize) {
    let made = HEAP_BUFFERS.load(Relaxed);
    let more = count.min(LIMIT.load(Relaxed)).saturating_sub(made);
    let lines = (HEADER + BUFFER_BYTES.load(Relaxed)).div_ceil(64);
    for _ in 0..more {
        // The memory is filled with ones: zeroed memory would be mapped only later, by page faults of a worker.
        free.push(Buffer::format(Vec::leak(vec![Line([!0; 64]); lines])));
    }
    HEAP_BUFFERS.store(made + more, Relaxed);
}

/// Allocates up to `count` heap buffers in advance, within the limit, so that workers need not wait for memory. Does
/// nothing with an external pool.
pub fn make_ahead(count: usize) {
    if !is_external() {
        make(&mut lock(), count);
    }
}

/// True if the process uses an external pool, which allocates and frees buffers itself.
pub fn is_external() -> bool {
    EXTERNAL.get().is_some()
}

/// Number of buffers that this thread has taken, minus those that it has returned: 0 when it holds no packet and has
/// passed none to another thread.
pub fn balance() -> isize {
    BALANCE.get()
}

/// Number of heap buffers made so far, and their limit; with an external pool, the number of its buffers in use.
pub fn heap_buffers() -> usize {
    EXTERNAL
        .get()
        .map_or_else(|| HEAP_BUFFERS.load(Relaxed), |pool| (pool.in_use)())
}

/// Size in bytes of a heap buffer, and their maximum number.
pub fn limits() -> (usize, usize) {
    (buffer_bytes(), LIMIT.load(Relaxed))
}

fn buffer_bytes() -> usize {
    (HEADER + BUFFER_BYTES.load(Relaxed)).next_multiple_of(64)
}

/// Number of bytes that the heap pool holds.
pub fn memory_bytes() -> usize {
    HEAP_BUFFERS.load(Relaxed) * buffer_bytes() + large().1 * (HEADER + LARGE_BYTES)
}
