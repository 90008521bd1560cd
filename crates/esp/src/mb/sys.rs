//! intel-ipsec-mb: declarations, and its functions for this processor.
#![allow(unsafe_code)]

use library::IMB_MGR;
use std::sync::OnceLock;

/// The library's declarations.
#[expect(
    non_camel_case_types,
    non_snake_case,
    unreachable_pub,
    dead_code,
    reason = "bindgen writes it"
)]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
pub(crate) mod library {
    include!(concat!(env!("OUT_DIR"), "/mb.rs"));
}

/// The library's functions for this processor.
struct Functions(IMB_MGR);

// SAFETY: it is written once, before other threads see it, and then only read.
unsafe impl Sync for Functions {}
// SAFETY: as above; it is not bound to a thread.
unsafe impl Send for Functions {}

/// The library's table of functions, filled once and then only read; `None` if it supports no function for this
/// processor.
pub(crate) fn functions() -> Option<&'static IMB_MGR> {
    static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
    let functions = FUNCTIONS.get_or_init(|| {
        // SAFETY: the library allocates and fills the manager, and it is copied as a whole; its functions do not use
        // it.
        unsafe {
            let manager = library::alloc_mb_mgr(0);
            if manager.is_null() {
                return None;
            }
            library::init_mb_mgr_auto(manager, std::ptr::null_mut());
            Some(Functions(manager.read()))
        }
    });
    functions.as_ref().map(|f| &f.0)
}

/// True if the library can be used.
pub(crate) fn is_there() -> bool {
    functions().is_some()
}
