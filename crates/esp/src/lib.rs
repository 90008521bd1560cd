//! IPsec's Encapsulating Security Payload (RFC 4303): security associations, packet formats and policies.
//!
//! This crate is pure: bytes in, bytes out; no IO, no clock (time is an argument, in nanoseconds). Structures that
//! workers share consist of atomics or are replaced as a whole, so that no packet waits for a lock.
//!
//! - [`Suite`]: cipher and authentication of packets, by strongSwan's names.
//! - [`Sa`]: a security association with keys, sequence numbers, anti-replay [`window`] and lifetimes; it encrypts
//!   and decrypts packets in place.
//! - [`outer`]: IP and UDP headers around an encrypted packet, and the treatment of the inner packet's DSCP, ECN and
//!   DF.
//! - [`policy`]: which packets need which protection.
//! - [`Database`]: SAs by SPI and by reqid, and policies.
//!
//! - [`Ciphers`]: each worker's state for encrypting and decrypting batches.
//!
//! The cipher library was chosen by measurement, in cycles for a packet of 64, 256 and 1420 bytes on one core (AMD,
//! AVX-512), AES-128-GCM: intel-ipsec-mb 1.3 122, 144, 384; ring 208, 260, 638; aws-lc-rs 251, 317, 686; RustCrypto
//! 517, 634, 2085; OpenSSL 3.0 572, 677, 1338. So intel-ipsec-mb is used where it is installed, otherwise RustCrypto,
//! which has all suites and runs everywhere. CBC and HMAC are faster on many packets at once: intel-ipsec-mb took
//! 1,033 cycles for a single packet of 64 bytes (SHA-1), 320 for each of 8, 158 for each of 64. So a batch's packets
//! of a suite are passed to it together, across associations; fewer than four go to RustCrypto.

mod aead;
mod cipher;
mod ciphers;
mod constant_time;
mod database;
mod hmac;
#[path = "locked/sys.rs"]
mod locked;
pub mod outer;
mod path_mtu;
pub mod policy;
mod protection;
mod sa;
mod spec;
mod suite;
pub mod window;

// intel-ipsec-mb.
#[cfg_attr(ipsec_mb, path = "batch_keys/sys.rs")]
#[cfg_attr(not(ipsec_mb), path = "batch_keys/absent.rs")]
mod batch_keys;
#[cfg_attr(ipsec_mb, path = "burst/sys.rs")]
#[cfg_attr(not(ipsec_mb), path = "burst/absent.rs")]
mod burst;
#[cfg_attr(ipsec_mb, path = "mb/sys.rs")]
#[cfg_attr(not(ipsec_mb), path = "mb/absent.rs")]
mod mb;
#[cfg_attr(ipsec_mb, path = "single/sys.rs")]
#[cfg_attr(not(ipsec_mb), path = "single/absent.rs")]
mod single;

pub use ciphers::Ciphers;
pub use database::{Database, Tables};
pub use locked::unlocked;
pub use protection::{Fault, Job, Opened};
pub use sa::{CLOCK_MIN, Sa};
pub use spec::{Direction, Lifetime, Limits, Spec};
pub use suite::{Keys, Suite};

/// Name of the library that is used for suites which it supports.
pub fn library() -> &'static str {
    if mb::is_there() {
        "intel-ipsec-mb"
    } else {
        "RustCrypto"
    }
}

/// Length of the header: SPI and sequence number.
pub const HEADER: usize = 8;
