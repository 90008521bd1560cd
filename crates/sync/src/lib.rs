//! What crosses from one worker to another without a lock: [`ring`]s carry values, [`publish`] has many readers see a
//! table that one writer replaces, [`wake`] ends a worker's sleep.
//!
//! `ring` and `publish` have `unsafe`. Miri runs their tests, and loom tries every order of their accesses to memory.

pub mod publish;
pub mod ring;
pub mod wake;
