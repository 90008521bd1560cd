//! The multistage router: a balancer in front of ordinary routers.
//!
//! A [`Description`] is read from a file ([`file`]); [`generate`] makes of it the Click configuration of the balancer,
//! which runs as any other router, and [`backend`] says what each back end needs.

pub mod backend;
mod checks;
mod description;
pub(crate) mod file;
pub mod generate;
mod peer;
#[cfg(test)]
mod tests;

pub use description::{Backend, Class, Description, Health, Inside, Port, Vrrp};
