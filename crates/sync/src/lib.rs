//! What crosses from one worker to another without a lock: [`ring`]s carry values, [`publish`] has many readers see a
//! table that one writer replaces, [`wake`] ends a worker's sleep.
//!
//! Miri runs the tests of `ring` and `publish`, and loom tries every order of their accesses to memory.

#[path = "publish/sys.rs"]
pub mod publish;
#[path = "ring/sys.rs"]
pub mod ring;
pub mod wake;
