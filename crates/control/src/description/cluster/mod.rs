//! Clusters, in which several servers form one router: the members of a cluster, and the configuration of each server.
//!
//! A [`Description`] lists the parts of a cluster. It is parsed from a file that all servers have ([`file`]).
//! [`generate`] writes the configuration of one server, which runs like any other configuration.

mod description;
pub mod file;
pub mod generate;
mod numbers;
#[cfg(test)]
pub(crate) mod testing;

pub use description::{
    Connected, Description, Gateway, Heartbeat, Link, LinkCarrier, Port, Route, Server, Underlay,
};

/// A rate for people, from bits per second.
pub fn rate_text(bits: u64) -> String {
    let bits = bits as f64;
    match bits {
        1e9.. => format!("{:.3} Gbit/s", bits / 1e9),
        _ => format!("{:.3} Mbit/s", bits / 1e6),
    }
}
