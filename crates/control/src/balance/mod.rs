//! Load balancing of flow buckets over workers: the owner of each bucket, and the number of active workers.
//!
//! Packets are classified into buckets and handed to the bucket owners ([`steer`]). A [`Balance`] measures the load of
//! each bucket and of each worker at intervals, without disturbing the workers. Pure functions ([`moves`],
//! [`worker_count`]) decide which buckets move.

mod doorbell;
mod driver;
pub mod moves;
mod port_updates;
mod settings;
mod slow_workers;
mod text;
mod worker_count;

#[cfg(test)]
mod tests;

pub use driver::{Balance, Event, Workers};
pub use settings::{Mode, Settings};

/// Minimum interval between measurements caused by rings.
pub const RING_INTERVAL_MIN: std::time::Duration = std::time::Duration::from_millis(10);
