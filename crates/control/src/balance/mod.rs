//! Buckets of flows over workers: who should have which, and how many workers a load needs.
//!
//! Packets are sorted into buckets and handed to the workers that own them
//! ([`steer`]). A [`Balance`] looks at what each bucket brings and how busy the workers are, again and
//! again; workers are not disturbed by that. What should move is decided by pure functions ([`moves`],
//! [`scale`]).

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
