//! The multistage router: a balancer in front of ordinary routers.
//!
//! A [`Description`] is parsed from a file ([`file`]). [`generate`] writes the balancer's Click configuration, and
//! [`backend`] the set-up of each back end.

pub mod backend;
mod cross_checks;
mod description;
pub(crate) mod file;
pub mod generate;
mod peer;
#[cfg(test)]
mod tests;

pub use description::{Backend, Class, Description, Health, Inside, Port, Vrrp};
