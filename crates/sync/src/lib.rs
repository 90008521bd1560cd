//! Lock-free communication between workers.
//!
//! [`ring`] carries values, [`publish`] lets many readers see a table that one writer replaces, [`steps`] orders the
//! steps of several workers, and [`wake`] wakes a sleeping worker.
//!
//! Miri runs the tests of `ring` and `publish`. Loom tries every order of memory accesses of these two and of `steps`.

#[path = "publish/sys.rs"]
pub mod publish;
#[path = "ring/sys.rs"]
pub mod ring;
pub mod steps;
pub mod wake;
