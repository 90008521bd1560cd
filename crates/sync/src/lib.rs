//! What crosses from one worker to another without a lock: [`ring`]s carry values, [`publish`] has many readers see a
//! table that one writer replaces, [`steps`] are taken by several workers in one order, [`wake`] ends a worker's sleep.
//!
//! Miri runs the tests of `ring` and `publish`. Loom tries every order of memory accesses of these two and of `steps`.

#[path = "publish/sys.rs"]
pub mod publish;
#[path = "ring/sys.rs"]
pub mod ring;
pub mod steps;
pub mod wake;
