//! Type-erased extensions of classes, as the graph uses them; the traits are in modules of the same names.

use super::{Cx, Job};
use crate::contract::AnyConfig;
use crate::handler_info::Use;
use crate::packet::Batch;
use crate::packet::Verdict;
use crate::plan::PlacedLoop;
use std::any::Any;
use std::os::fd::RawFd;

/// Losses, at overflowing elements, of packets from one run of a source's task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverflowLosses {
    /// Number of packets that reached elements which overflow now or did within the last second.
    pub entered: u64,
    /// Number of packets that these elements lost.
    pub lost: u64,
}

/// A class whose task does input or output outside the router.
pub struct ExternalOfClass {
    pub(crate) wait_fds: fn(&dyn Any, &mut Vec<RawFd>),
    pub(crate) must_poll: fn(&dyn Any) -> bool,
    pub(crate) overflowed: fn(&mut dyn Any, OverflowLosses, &mut Cx),
}

/// A class that stores packets.
pub struct StorageOfClass {
    pub(crate) waiting: fn(&dyn Any) -> usize,
    /// See `Storage::mark`.
    pub mark: fn(&dyn Any) -> usize,
    /// See `Storage::is_past`.
    pub is_past: fn(&dyn Any, usize) -> bool,
}

/// A class whose configurations name handlers.
pub struct DynamicOfClass {
    pub(crate) offers: fn(&AnyConfig, &str, Use) -> bool,
    pub(crate) handler_job: fn(&dyn Any, &str, &str, Use) -> Job,
}

/// A class that handles signals, or requests to stop.
pub struct DriverOfClass {
    pub(crate) signals: fn(&dyn Any) -> Vec<i32>,
    pub(crate) signal: fn(&mut dyn Any, i32, &mut Cx),
    pub(crate) drives: fn(&AnyConfig) -> bool,
    pub(crate) stop_asked: fn(&mut dyn Any, &mut Cx),
}

/// A class that only counts packets and sends them on.
pub struct CountsOfClass {
    pub(crate) count: fn(&mut dyn Any, u64, u64, &mut Cx),
    pub(crate) counts_later: fn(&dyn Any) -> bool,
}

impl CountsOfClass {
    /// True if an element of the class may count packets after a fused loop has run.
    pub(crate) fn counts_later(&self, element: &dyn Any) -> bool {
        (self.counts_later)(element)
    }
}

/// A packet that leaves a fused loop early: its index in the batch, the index in the loop of the element that it
/// leaves, and its verdict.
pub(crate) struct Leaver {
    pub(crate) packet: usize,
    pub(crate) place: usize,
    pub(crate) verdict: Verdict,
}

/// The code of a fused loop.
pub struct LoopCode {
    pub(crate) run: fn(&PlacedLoop, &mut Batch, &mut Cx),
    /// Variant of the loop with counting elements in between.
    pub(crate) counting: fn(&PlacedLoop, &mut Batch, &mut Cx),
}
