//! Calls of DPDK's mempools, wrapped so that code above needs no `unsafe`.
#![allow(unsafe_code)]

use super::super::sys::{last_reason, register_thread};
use dpdk_sys as c;
use engine::packet::{Buffer, HEADROOM, MBUF_OFFSETS, PRIV_SIZE, pool};
use std::ffi::{CStr, c_int, c_uint, c_void};
use std::mem::offset_of;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

macro_rules! offsets {
    ($($name:literal: $($field:ident).+),* $(,)?) => {
        const OFFSETS: &[(&str, usize)] = &[$(($name, offset_of!(c::rte_mbuf, $($field).+))),*];
    };
}
offsets!(
    "buf_addr": buf_addr,
    "data_off": data_off,
    "refcnt": refcnt,
    "nb_segs": nb_segs,
    "port": port,
    "ol_flags": ol_flags,
    "packet_type": __bindgen_anon_1,
    "pkt_len": pkt_len,
    "data_len": data_len,
    "vlan_tci": vlan_tci,
    "hash": __bindgen_anon_2,
    "vlan_tci_outer": vlan_tci_outer,
    "buf_len": buf_len,
    "pool": pool,
    "next": next,
    "tx_offload": __bindgen_anon_3,
    "shinfo": shinfo,
    "priv_size": priv_size,
    "dynfield1": dynfield1,
);
// A compile error if the engine's mbuf differs from DPDK's.
const _: () = {
    assert!(size_of::<c::rte_mbuf>() == size_of::<engine::packet::Mbuf>());
    assert!(OFFSETS.len() == MBUF_OFFSETS.len());
    let mut i = 0;
    while i < OFFSETS.len() {
        let (ours, theirs) = (MBUF_OFFSETS[i], OFFSETS[i]);
        assert!(ours.1 == theirs.1, "a field of the mbuf has moved");
        let (a, b) = (ours.0.as_bytes(), theirs.0.as_bytes());
        assert!(
            a.len() == b.len() && a[0] == b[0],
            "the fields are listed in another order"
        );
        i += 1;
    }
};

/// The process's mempool, and that of large buffers; null until [`make_pools`].
static POOL: AtomicPtr<c::rte_mempool> = AtomicPtr::new(ptr::null_mut());
static LARGE: AtomicPtr<c::rte_mempool> = AtomicPtr::new(ptr::null_mut());

/// Makes the process's mempools: `count` buffers for packets of `data` bytes, and the large ones.
pub(super) fn make_pools(count: usize, data: usize) -> Result<(), String> {
    const CACHE: u32 = 256;
    let usual = make_pool(c"ashlar", count, CACHE, HEADROOM + data)?;
    // SAFETY: nobody else has the pool yet.
    unsafe { c::rte_mempool_obj_iter(usual, Some(tell_length), ptr::null_mut()) };
    POOL.store(usual, Relaxed);
    let large = make_pool(c"ashlar-large", pool::LARGE_MAX, 0, pool::LARGE_BYTES)?;
    LARGE.store(large, Relaxed);
    Ok(())
}

fn make_pool(
    name: &CStr,
    count: usize,
    cache: u32,
    room: usize,
) -> Result<*mut c::rte_mempool, String> {
    const ANY_NODE: c_int = -1;
    let room = room.min(usize::from(u16::MAX)) as u16;
    // SAFETY: plain arguments; EAL runs.
    let pool = unsafe {
        let (name, count) = (name.as_ptr(), count as u32);
        c::rte_pktmbuf_pool_create(name, count, cache, PRIV_SIZE as u16, room, ANY_NODE)
    };
    if pool.is_null() {
        Err(last_reason())
    } else {
        Ok(pool)
    }
}

/// Sets the reported length of a 16 KB buffer to one byte less. net_vmxnet3 writes this length into a descriptor with
/// 14 bits for it, where it would be 0, and the card would mark every frame as bad. Drivers that ask the pool for the
/// length (net_e1000_em) get the power of two.
unsafe extern "C" fn tell_length(
    _: *mut c::rte_mempool,
    _: *mut c_void,
    mbuf: *mut c_void,
    _: c_uint,
) {
    const BITS: u32 = 14;
    // SAFETY: the pool's own mbuf, which has no user yet.
    let length = unsafe { &mut (*mbuf.cast::<c::rte_mbuf>()).buf_len };
    if usize::from(*length) - HEADROOM == 1 << BITS {
        *length -= 1;
    }
}

/// The mempool that cards receive into.
pub(in super::super) fn pool() -> *mut c::rte_mempool {
    POOL.load(Relaxed)
}

/// Takes a buffer from the mempool.
pub(super) fn alloc() -> Option<Buffer> {
    register_thread();
    take(&POOL)
}

/// Takes a large buffer.
pub(super) fn alloc_large() -> Option<Buffer> {
    take(&LARGE)
}

#[inline]
fn take(pool: &AtomicPtr<c::rte_mempool>) -> Option<Buffer> {
    // SAFETY: engine calls this after `make_pools`; the mbuf has one segment, a private area of
    // PRIV_SIZE bytes and no other owner. Its layout is asserted above.
    unsafe {
        let mbuf = c::rte_pktmbuf_alloc(pool.load(Relaxed));
        NonNull::new(mbuf.cast()).map(|mbuf| Buffer::from_raw(mbuf))
    }
}

/// Frees a buffer with all its segments.
pub(super) fn free(buffer: Buffer) {
    // SAFETY: a `Buffer` owns its mbuf.
    unsafe { c::rte_pktmbuf_free(buffer.into_raw().as_ptr().cast()) };
}

/// Number of buffers that are not in the pool: with packets, in devices.
pub(super) fn in_use() -> usize {
    [&POOL, &LARGE].map(in_use_of).iter().sum()
}

/// Large buffers that are not in the pool.
pub(super) fn large_in_use() -> usize {
    in_use_of(&LARGE)
}

fn in_use_of(pool: &AtomicPtr<c::rte_mempool>) -> usize {
    let pool = pool.load(Relaxed);
    if pool.is_null() {
        return 0;
    }
    // SAFETY: a pool that was made is never freed.
    unsafe { c::rte_mempool_in_use_count(pool) as usize }
}
