//! Packet buffers from the heap or from an external pool (DPDK's mempool). A process uses one kind, chosen before its
//! first packet.
//!
//! The heap pool keeps a cache of free buffers per thread and exchanges chunks with a common list, so a packet freed on
//! another core finds its way back. Memory is allocated as packets need it, up to a limit, and kept.
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
    /// Takes one buffer; `None` if the pool has run dry.
    pub alloc: fn() -> Option<Buffer>,
    /// Takes one large buffer, for 65,535 bytes; `None` if all are in use.
    pub alloc_large: fn() -> Option<Buffer>,
    /// Large buffers in use now.
    pub large_in_use: fn() -> usize,
    /// Returns one buffer to its pool, usual or large.
    pub free: fn(Buffer),
    /// Buffers in use now.
    pub in_use: fn() -> usize,
}

static EXTERNAL: OnceLock<External> = OnceLock::new();

/// Makes an outside pool the process's pool. Call it before the first packet is made; false if
/// there is one already.
pub fn use_external(pool: External) -> bool {
    EXTERNAL.set(pool).is_ok()
}

/// Number of bytes of data area, headroom included, in a heap buffer.
static BUFFER_BYTES: AtomicUsize = AtomicUsize::new(HEADROOM + 2048);
/// Heap buffers that may exist.
static LIMIT: AtomicUsize = AtomicUsize::new(256 * 1024);
/// Heap buffers that exist.
static MADE: AtomicUsize = AtomicUsize::new(0);
/// Free heap buffers, in the common list and in all caches.
static FREE: Lock<Vec<Buffer>> = Lock::new(Vec::new());

const CHUNK: usize = 64;

/// Number of bytes of data area in a large buffer.
pub const LARGE_BYTES: usize = u16::MAX as usize;
/// Maximum number of large buffers: 8 MiB.
pub const LARGE_MAX: usize = 127;
/// Large buffers in use from which on [`Packet::large_if_many`](crate::Packet::large_if_many) gives none.
pub const LARGE_MANY: usize = LARGE_MAX * 3 / 4;
/// Free large heap buffers, and how many exist.
static LARGE: Lock<(Vec<Buffer>, usize)> = Lock::new((Vec::new(), 0));

/// Sets size and number of heap buffers: `data` bytes of packet beside the headroom, at most
/// `count` of them. Buffers made before keep their size.
pub fn configure(data: usize, count: usize) {
    BUFFER_BYTES.store(data.saturating_add(HEADROOM).min(65_000), Relaxed);
    LIMIT.store(count, Relaxed);
}

/// Longest packet that a new buffer holds with full headroom.
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
    /// Buffers taken minus buffers given back by this thread.
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
    // A thread that is ending has lost its caches already: its buffers go to the common list.
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
    make(free, MADE.load(Relaxed) + CHUNK);
}

/// Makes heap buffers, into `free`, until there are `count` or as many as may be. The caller holds the lock.
fn make(free: &mut Vec<Buffer>, count: usize) {
    let made = MADE.load(Relaxed);
    let more = count.min(LIMIT.load(Relaxed)).saturating_sub(made);
    let lines = (HEADER + BUFFER_BYTES.load(Relaxed)).div_ceil(64);
    for _ in 0..more {
        // The memory is written with ones: for zeros, the system would map pages only by later faults of a worker.
        free.push(Buffer::format(Vec::leak(vec![Line([!0; 64]); lines])));
    }
    MADE.store(made + more, Relaxed);
}

/// Allocates heap buffers ahead, `count` or as many as the limit allows, so that workers need not wait for memory. Does
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

/// Buffers that this thread has taken and not given back: 0 when it holds no packet and has passed
/// none to another thread.
pub fn balance() -> isize {
    BALANCE.get()
}

/// Heap buffers made so far and the limit, or the buffers in use of an outside pool.
pub fn made() -> usize {
    EXTERNAL
        .get()
        .map_or_else(|| MADE.load(Relaxed), |pool| (pool.in_use)())
}

/// Bytes that a heap buffer takes, and how many may exist.
pub fn limits() -> (usize, usize) {
    (buffer_bytes(), LIMIT.load(Relaxed))
}

fn buffer_bytes() -> usize {
    (HEADER + BUFFER_BYTES.load(Relaxed)).next_multiple_of(64)
}

/// Number of bytes that the heap pool holds.
pub fn memory_bytes() -> usize {
    MADE.load(Relaxed) * buffer_bytes() + large().1 * (HEADER + LARGE_BYTES)
}
