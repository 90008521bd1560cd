//! Lets packets be pulled at a steady bandwidth at most.
//!
//! ```click
//! InfiniteSource(LIMIT 30) -> Queue -> BandwidthShaper(384kbps) -> Discard;
//! ```
//!
//! As Shaper, but bytes count.
//!
//! Arguments:
//!
//! - `RATE`: bandwidth.

use super::rate::Octets;
use super::rated_unqueue::Kind;
use super::shaper::Shaper;
use engine::manual;

/// By bytes.
pub(crate) struct ByBytes;

pub(crate) type BandwidthShaper = Shaper<ByBytes>;

impl Kind for ByBytes {
    const CLASS: &'static str = "BandwidthShaper";
    const MANUAL: &'static str = manual!();
    type Unit = Octets;
}
