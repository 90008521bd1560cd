//! Pulls eight packets at every interval and pushes them on.
//!
//! ```click
//! InfiniteSource(LIMIT 30) -> Queue -> Burster(0.1) -> Discard;
//! ```
//!
//! Works like TimedUnqueue with another default.
//!
//! Arguments:
//!
//! - `INTERVAL`: time between bursts.
//! - `BURST`: packets at a time. Default 8.

use super::timed_unqueue::{Kind, TimedUnqueue};
use crate::manual;

/// Kind that emits eight packets at a time.
pub(crate) struct Eight;

pub(crate) type Burster = TimedUnqueue<Eight>;

impl Kind for Eight {
    const CLASS: &'static str = "Burster";
    const MANUAL: &'static str = manual!();
    const BURST: usize = 8;
}
