//! The process on its machine: log, service manager, sockets, terminal, users, processors, memory, namespaces.

pub(crate) mod cores;
pub mod log;
pub(crate) mod memory;
pub mod namespace;
pub mod service;
pub mod socket;
pub mod terminal;
pub mod user;

/// An error of the system without its number.
pub(crate) fn error_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}
