//! Passes packets up to a bandwidth, and sends the excess to another output.
//!
//! ```click
//! InfiniteSource(LIMIT 30) -> s :: BandwidthRatedSplitter(384kbps) -> Discard;
//! s[1] -> Discard;
//! ```
//!
//! Works like RatedSplitter for bytes instead of packets. A packet of any length passes as soon as there are tokens
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
use super::rated_splitter::RatedSplitter;
use super::rated_unqueue::Kind;
use crate::manual;

/// Rates in bytes.
pub(crate) struct ByBytes;

pub(crate) type BandwidthRatedSplitter = RatedSplitter<ByBytes>;

impl Kind for ByBytes {
    const CLASS: &'static str = "BandwidthRatedSplitter";
    const MANUAL: &'static str = manual!();
    type Unit = Octets;
}
