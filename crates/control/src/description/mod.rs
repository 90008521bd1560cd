//! Descriptions: the contents of a user's files, before anything is compiled or opened.
//!
//! From bottom to top: [`source`], the Click text of one router; `reader`, TOML with a place for each value;
//! `addresses`; [`cluster`] and [`balancer`], from whose sections Click text is generated; [`file`], a whole TOML file.

mod addresses;
pub mod balancer;
pub mod cluster;
pub mod file;
pub(crate) mod numbers;
pub(crate) mod reader;
pub mod source;
#[cfg(test)]
mod testing;
pub(crate) mod unreadable;
