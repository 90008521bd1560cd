//! Many servers, one router: who belongs to a cluster, and what each of its servers runs.
//!
//! A [`Description`] says what a cluster is made of. Today it comes from a file that all servers have ([`file`]);
//! whatever it comes from, [`generate`] makes of it the configuration of one server, and that is run as any other.

mod description;
pub mod file;
pub mod generate;
mod numbers;
#[cfg(test)]
pub(crate) mod testing;

pub use description::{
    Connected, Description, Gateway, Heartbeat, Link, Over, Port, Route, Server, Underlay,
};

/// A rate for people, from bits per second.
pub fn rate_text(bits: u64) -> String {
    let bits = bits as f64;
    match bits {
        1e9.. => format!("{:.3} Gbit/s", bits / 1e9),
        _ => format!("{:.3} Mbit/s", bits / 1e6),
    }
}
