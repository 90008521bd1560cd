//! Limits the bandwidth at which packets are pulled.
//!
//! ```click
//! InfiniteSource(LIMIT 30) -> Queue -> BandwidthShaper(384kbps) -> Discard;
//! ```
//!
//! Works like Shaper for bytes instead of packets.
//!
//! Arguments:
//!
//! - `RATE`: bandwidth.

use super::rate::Octets;
use super::rated_unqueue::Kind;
use super::shaper::Shaper;
use crate::manual;

/// Rates in bytes per second.
pub(crate) struct ByBytes;

pub(crate) type BandwidthShaper = Shaper<ByBytes>;

impl Kind for ByBytes {
    const CLASS: &'static str = "BandwidthShaper";
    const MANUAL: &'static str = manual!();
    type Unit = Octets;
}
