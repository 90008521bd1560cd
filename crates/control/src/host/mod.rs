//! The process on its machine: log, service manager, sockets, terminal, users, clock, processors, memory, namespaces.

pub(crate) mod build;
pub(crate) mod clock;
pub(crate) mod cores;
pub mod log;
pub(crate) mod memory;
pub mod namespace;
pub mod needs;
pub mod service;
pub mod socket;
pub mod terminal;
pub mod user;
