//! `munmap` as the libraries of this program find it, before that of the C library.
#![allow(unsafe_code)]

use super::super::sys::reason;
use dpdk_sys as c;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;

thread_local! {
    /// Whether this is DPDK's thread for interrupts.
    static IS_FOR_INTERRUPTS: Cell<bool> = const { Cell::new(false) };
}

/// Has DPDK's thread for interrupts wait for the workers before it unmaps memory. Call it once EAL has started.
///
/// # Errors
/// DPDK's reason.
pub(in crate::dpdk) fn guard() -> Result<(), String> {
    // SAFETY: a function that lives as long as the process; alarms are called on the thread for interrupts.
    let code = unsafe { c::rte_eal_alarm_set(1, Some(mark), ptr::null_mut()) };
    match code {
        0 => Ok(()),
        _ => Err(reason(code)),
    }
}

unsafe extern "C" fn mark(_: *mut c_void) {
    IS_FOR_INTERRUPTS.set(true);
}

/// The linker exports it, because libraries that this program is linked to want a function of this name. So drivers
/// call it as well, which are loaded later.
///
/// # Safety
/// As `munmap` of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(address: *mut c_void, length: usize) -> c_int {
    if IS_FOR_INTERRUPTS.get() {
        super::wait_for_workers();
    }
    // SAFETY: the caller answers for address and length; the call sets errno as the C library's `munmap` does.
    unsafe { libc::syscall(libc::SYS_munmap, address, length) as c_int }
}
