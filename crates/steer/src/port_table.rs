//! A port's own indirection table, as seen by elements that steer by buckets.

use super::Table;
use std::sync::Arc;

/// The table of a port that gives packets to queues by their buckets, by itself, so that they need not cross.
pub trait PortTable: Send + Sync {
    /// The table by which its packets are steered.
    fn table(&self) -> Option<&Arc<Table>>;

    /// Buckets whose packets arrive by a queue of another worker than their owner, although the owner polls a queue,
    /// too.
    fn astray(&self) -> Vec<Astray>;

    /// Makes the port give packets of these buckets to other queues.
    ///
    /// # Errors
    /// The port refuses the new queues; a sentence says why. Nothing has changed then.
    fn redirect(&self, buckets: &[Astray]) -> Result<(), String>;

    /// True if the port has made all changes.
    fn is_done(&self) -> bool;

    /// Repeats the last settings to the port: it may have room now for rules that it has refused.
    fn tell_again(&self) -> Result<(), String>;
}

/// A bucket whose packets arrive by a queue of another worker than its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Astray {
    /// Number of the bucket.
    pub bucket: u16,
    /// Buckets that have this number in common go to another queue together: the port's table is smaller than this one.
    pub entry: usize,
    /// Worker that owns the bucket.
    pub owner: usize,
    /// The queue by which the bucket's packets arrive, and the worker that polls it.
    pub from: (usize, usize),
    /// A queue that the owner polls.
    pub to: usize,
}
