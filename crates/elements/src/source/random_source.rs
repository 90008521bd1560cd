//! Makes packets of random bytes as fast as it can.
//!
//! ```click
//! RandomSource(64, LIMIT 10) -> Discard;
//! ```
//!
//! As InfiniteSource. The bytes follow from the router's seed.
//!
//! Arguments:
//!
//! - `LENGTH`: bytes of each packet.
//! - `LIMIT`: number of packets; negative = no limit, the default.
//! - `BURST`: packets made at a time. Default 1.
//! - `ACTIVE`: if false, makes none. Default true.
//!
//! Keyword arguments:
//!
//! - `TIMESTAMP`: whether packets get the time at which they are made as their timestamp. Default true.
//! - `STOP`: whether to stop the router when `LIMIT` is reached. Default false.
//! - `END_CALL`: handler that is written when `LIMIT` is reached, in place of `STOP`.
//! - `CORES`: the workers on which it runs. Default 0.

use super::infinite_source::{InfiniteSource, Kind};
use engine::manual;

/// Random bytes.
pub(crate) struct Random;

pub(crate) type RandomSource = InfiniteSource<Random>;

impl Kind for Random {
    const CLASS: &'static str = "RandomSource";
    const MANUAL: &'static str = manual!();
    const RANDOM: bool = true;
}
