//! The fused loops with classes of this crate; see the list of `elements`, which has the others.

use crate::vlb::output::Output;
use crate::vlb::vlb_output::VlbOutput;
use crate::vlb::vlb_output6::VlbOutput6;
use elements::classify::classifier::Classifier;
use engine::fused::FusedLoop;
use engine::fused_loops;

type VLBOutput = Output<VlbOutput>;
type VLBOutput6 = Output<VlbOutput6>;

/// The fused loops.
#[rustfmt::skip]
pub const FUSED_LOOPS: &[FusedLoop] = fused_loops! {
    // Packets that have crossed a cluster: departure.
    Classifier VLBOutput;
    Classifier VLBOutput6;
};
