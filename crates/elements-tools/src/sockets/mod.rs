mod endpoint;
mod exchange;
mod guard;
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

/// Turns an error of the system into a sentence: what could not be done, why, and what to do.
fn cannot<T>(result: io::Result<T>, what: impl Display, remedy: &str) -> Result<T, String> {
    result.map_err(|e| format!("cannot {what}: {}; {remedy}", arguments::show::reason(&e)))
}
