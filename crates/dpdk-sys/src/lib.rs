//! Bindings to the system's DPDK (22.11): the part that `ports` uses, made at build time.
//!
//! Inline functions of DPDK's headers are real functions here, so a call of one costs a call. The
//! libraries are linked dynamically and few; drivers are loaded by EAL from the distribution's
//! plugin folder when it starts.
#![allow(
    unsafe_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unused_imports,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
