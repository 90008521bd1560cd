//! Classes by which other programs use the router's handlers.

mod control_socket;
mod listener;
mod protocol;
mod session;
#[cfg(test)]
mod tests;

use engine::element::Class;
pub use protocol::understood;

/// The folder's classes.
pub const CLASSES: &[Class] = &[Class::of::<control_socket::ControlSocket>()];
