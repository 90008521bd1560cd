//! Lock-free communication between workers, and a lock for state that no worker uses on the packet path.
//!
//! [`ring`] transfers values, [`publish`] lets many readers see a table that one writer replaces, [`steps`] orders
//! the steps of several workers, and [`wake`] wakes a sleeping worker. [`Lock`] is a mutex without poisoning.
//!
//! Miri runs the tests of `ring` and `publish`. Loom explores all orders of memory accesses of these two and of
//! `steps`.

mod lock;
#[path = "publish/sys.rs"]
pub mod publish;
#[path = "ring/sys.rs"]
pub mod ring;
pub mod steps;
pub mod wake;

pub use lock::Lock;
