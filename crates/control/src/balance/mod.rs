//! Buckets of flows over workers: who should have which, and how many workers a load needs.

pub mod moves;
pub mod scale;

#[cfg(test)]
mod tests;
