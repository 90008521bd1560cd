//! A port's own indirection table, as seen by elements that steer by buckets.

use super::Table;
use std::sync::Arc;

/// The table of a port that sorts packets into queues by buckets itself, so that they need not change worker.
pub trait PortTable: Send + Sync {
    /// The table by which its packets are steered.
    fn table(&self) -> Option<&Arc<Table>>;

    /// Misdelivered buckets: their packets arrive on another worker than their owner, although the owner polls a
    /// queue, too.
    fn misdelivered(&self) -> Vec<Misdelivered>;

    /// Makes the port put packets of these buckets into other queues.
    ///
    /// # Errors
    /// The port refuses the new queues; a sentence with the reason. Nothing has changed then.
    fn redirect(&self, buckets: &[Misdelivered]) -> Result<(), String>;

    /// True if the port has completed all changes.
    fn is_done(&self) -> bool;

    /// Sends the last settings to the port again: it may have room now for rules that it refused before.
    fn tell_again(&self) -> Result<(), String>;
}

/// A misdelivered bucket: its packets arrive on another worker than its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misdelivered {
    /// Number of the bucket.
    pub bucket: u16,
    /// Index of the port's table entry. Buckets with the same entry move together, because the port's table is
    /// smaller than the bucket table.
    pub entry: usize,
    /// Worker that owns the bucket.
    pub owner: usize,
    /// The queue in which the bucket's packets arrive, and the worker that polls it.
    pub from: (usize, usize),
    /// A queue that the owner polls.
    pub to: usize,
}
