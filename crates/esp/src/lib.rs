//! IPsec's Encapsulating Security Payload (RFC 4303): security associations, their packets, and who may use them.
//!
//! Pure: bytes in, bytes out; no IO, no clock (time is an argument, in nanoseconds). What workers share is made of
//! atomics or replaced as a whole, so that no packet waits for a lock.
//!
//! - [`Suite`]: what protects packets, named as strongSwan names it.
//! - [`Sa`]: keys, sequence numbers, the anti-replay [`window`], lifetimes; it seals and opens packets in place.
//! - [`outer`]: IP and UDP headers around a sealed packet, and what becomes of the inner one's DSCP, ECN and DF.
//! - [`policy`]: which packets need which protection.
//! - [`Database`]: SAs by SPI and by number, and policies.
//!
//! - [`Ciphers`]: what each worker seals and opens with, a batch at a time.
//!
//! Which library does the ciphers was measured, in cycles for a packet of 64, 256 and 1420 bytes on one core (AMD,
//! AVX-512), AES-128-GCM: intel-ipsec-mb 1.3 122, 144, 384; ring 208, 260, 638; aws-lc-rs 251, 317, 686; RustCrypto
//! 517, 634, 2085; OpenSSL 3.0 572, 677, 1338. So intel-ipsec-mb does them where it is, else RustCrypto, which has all
//! suites and runs everywhere. CBC and HMAC gain from many packets at once: intel-ipsec-mb took 1,033 cycles for one
//! packet of 64 bytes alone (SHA-1), 320 for each of 8, 158 for each of 64. So a batch's packets of a suite go to it
//! together, whosever they are, and fewer than four to RustCrypto.

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
#[cfg_attr(ipsec_mb, path = "burst/sys.rs")]
#[cfg_attr(not(ipsec_mb), path = "burst/absent.rs")]
mod burst;
#[cfg_attr(ipsec_mb, path = "mb/sys.rs")]
#[cfg_attr(not(ipsec_mb), path = "mb/absent.rs")]
mod mb;
#[cfg_attr(ipsec_mb, path = "single/sys.rs")]
#[cfg_attr(not(ipsec_mb), path = "single/absent.rs")]
mod single;
#[cfg_attr(ipsec_mb, path = "together/sys.rs")]
#[cfg_attr(not(ipsec_mb), path = "together/absent.rs")]
mod together;

pub use ciphers::Ciphers;
pub use database::{Database, Tables};
pub use locked::unlocked;
pub use protection::{Fault, Job, Opened};
pub use sa::{CLOCK_MIN, Sa};
pub use spec::{Direction, Lifetime, Limits, Spec};
pub use suite::{Keys, Suite};

/// The library that is used where it has a suite, by name.
pub fn library() -> &'static str {
    if mb::is_there() {
        "intel-ipsec-mb"
    } else {
        "RustCrypto"
    }
}

/// Length of the header: SPI and sequence number.
pub const HEADER: usize = 8;
