//! Network address translation without packets: patterns and specifications, mappings, and free places for new ones.
//!
//! [`spec`] reads what an input does with flows that have no mapping. [`set`] holds the mappings of rewriters,
//! [`free_values`] the addresses and ports that they have not taken. [`key`] and [`tcp`] change headers by a mapping.

pub mod free_values;
pub mod key;
pub mod pattern;
pub mod set;
pub mod spec;
pub mod tcp;
