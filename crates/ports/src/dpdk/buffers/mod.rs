//! Packet buffers of the process after DPDK has started: those of its mempools.

pub(super) mod sys;

use engine::packet::pool;

/// Makes `count` buffers; the process then uses no others.
///
/// # Errors
/// A sentence: there is no memory for them, or the process has others.
pub(super) fn make(count: usize) -> Result<(), String> {
    sys::make_pools(count, pool::data_bytes()).map_err(|e| format!("no buffers: {e}"))?;
    let external = pool::External {
        alloc: sys::alloc,
        alloc_large: sys::alloc_large,
        large_in_use: sys::large_in_use,
        free: sys::free,
        in_use: sys::in_use,
    };
    match pool::use_external(external) {
        true => Ok(()),
        false => Err("the process has another packet pool".into()),
    }
}
