mod access_tables;
mod endpoint;
mod exchange;
mod mcast_socket;
mod socket;

use engine::element::Class;
use std::fmt::Display;
use std::io;

/// The folder's classes.
pub const CLASSES: &[Class] = &[
    Class::of::<mcast_socket::McastSocket>(),
    Class::of::<socket::Socket>(),
];

/// Converts a system error to a sentence with the failed action, the reason and the remedy.
fn io_error_text<T>(result: io::Result<T>, what: impl Display, remedy: &str) -> Result<T, String> {
    result.map_err(|e| format!("cannot {what}: {}; {remedy}", arguments::show::reason(&e)))
}
