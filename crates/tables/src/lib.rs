//! Tables of a router: routes, next hops, neighbours, rate limits, timers.
//!
//! These are pure data structures: no IO, no clock (time is an argument, in nanoseconds), no locks, and `unsafe` only
//! in files named `sys.rs`. Structures that several workers read consist of atomics ([`exact`], [`fib`],
//! [`neighbours`], [`bucket`]), or are immutable and replaced as a whole ([`groups`]).

pub mod bucket;
pub mod classify;
pub mod codel;
pub mod exact;
pub mod fib;
pub mod flows;
pub mod groups;
pub mod guarantee;
pub mod neighbours;
pub mod number_set;
pub mod order;
#[path = "pages/sys.rs"]
mod pages;
#[path = "prefetch/sys.rs"]
pub mod prefetch;
pub mod shares;
pub mod tokens;

// Modules that tests share with the benchmark programs.
#[cfg(test)]
extern crate self as tables;
#[cfg(test)]
#[path = "../examples/classbench/mod.rs"]
mod classbench;
#[cfg(test)]
#[path = "../examples/radix/mod.rs"]
mod radix;
#[cfg(test)]
#[path = "../examples/sample/mod.rs"]
mod sample;
