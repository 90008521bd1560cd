//! Placeholder.
pub mod publish;
pub mod ring;
