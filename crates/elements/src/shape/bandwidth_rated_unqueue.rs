//! Pulls packets at a steady bandwidth and pushes them on.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Queue -> BandwidthRatedUnqueue(384kbps) -> Discard;
//! ```
//!
//! Works like RatedUnqueue for bytes instead of packets. A packet of any length passes as soon as there are tokens
//! for all earlier bytes.
//!
//! Arguments:
//!
//! - `RATE`: bandwidth.
//!
//! Keyword arguments:
//!
//! - `BURST_DURATION`: depth of the bucket, as the time in which it fills. Default 20ms.
//! - `BURST_BYTES`: depth of the bucket in bytes.

use super::rate::Octets;
use super::rated_unqueue::{Kind, RatedUnqueue};
use crate::manual;

/// Rates in bytes.
pub(crate) struct ByBytes;

pub(crate) type BandwidthRatedUnqueue = RatedUnqueue<ByBytes>;

impl Kind for ByBytes {
    const CLASS: &'static str = "BandwidthRatedUnqueue";
    const MANUAL: &'static str = manual!();
    type Unit = Octets;
}
