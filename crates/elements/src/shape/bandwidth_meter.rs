//! Sends packets to outputs by the current bandwidth.
//!
//! ```click
//! InfiniteSource(LIMIT 30) -> m :: BandwidthMeter(20kBps) -> Discard;
//! m[1] -> Discard;
//! ```
//!
//! Works like Meter for bytes instead of packets.
//!
//! Arguments:
//!
//! - `RATES`: bandwidths, one or more, in increasing order.

use super::meter::Meter;
use super::rate::Octets;
use super::rated_unqueue::Kind;
use crate::manual;

/// Rates in bytes.
pub(crate) struct ByBytes;

pub(crate) type BandwidthMeter = Meter<ByBytes>;

impl Kind for ByBytes {
    const CLASS: &'static str = "BandwidthMeter";
    const MANUAL: &'static str = manual!();
    type Unit = Octets;
}
