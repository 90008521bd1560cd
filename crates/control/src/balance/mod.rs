//! Load balancing of buckets of flows over workers: which worker owns which bucket, and how many workers a load needs.
//!
//! Packets are sorted into buckets and handed to the workers that own them ([`steer`]). A [`Balance`] measures the load
//! of each bucket and of each worker at intervals, without disturbing the workers. Pure functions ([`moves`],
//! [`scale`]) decide which buckets move.

mod doorbell;
mod driver;
mod follow;
pub mod moves;
mod scale;
mod settings;
mod slower;
mod text;

#[cfg(test)]
mod tests;

pub use driver::{Balance, Event, Workers};
pub use settings::{Mode, Settings};

/// Minimum interval between measurements caused by rings.
pub const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);
