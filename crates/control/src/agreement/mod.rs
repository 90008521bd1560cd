//! One server's part in the cluster's agreement, and the operator's.
//!
//! The rules are in the crate `agree`. Here are etcd as its store, the server's files, its certificates, and the driver
//! that reloads the router.

mod authority;
mod connect;
mod etcd;
mod events;
mod home;
mod join;
mod membership;
mod operator;
mod own_certificate;
mod participant;
mod private;
mod refusals;
mod routes;
#[cfg(test)]
pub(crate) mod testing;
mod validity;

pub use crate::host::clock::wall_clock;
pub use authority::found;
pub use home::{About, DESCRIPTION, Home};
pub use join::{Invitation, Token, invite, join, renew};
pub use operator::{Operator, Outcome};
pub use participant::Participant;

pub(crate) use authority::client as tls_client;
#[cfg(test)]
pub(crate) use authority::mutual as tls_server;
pub(crate) use connect::connect;
pub(crate) use etcd::{chain, end_when_silent};
pub(crate) use participant::Members;
pub(crate) use refusals::Refusals;

use rustix::rand::{GetRandomFlags, getrandom};
use std::fmt::Write;

/// Fills the bytes at random. The error is a sentence.
fn random(bytes: &mut [u8]) -> Result<(), String> {
    // getrandom(2) never returns less than requested for up to 256 bytes.
    let done = getrandom(bytes, GetRandomFlags::empty());
    done.map(|_| ())
        .map_err(|e| format!("the system gives no random numbers: {e}"))
}

/// A random identifier of 32 hexadecimal digits. The error is a sentence.
pub fn identifier() -> Result<String, String> {
    let mut bytes = [0; 16];
    random(&mut bytes)?;
    Ok(hex(&bytes))
}

/// Hexadecimal digits of bytes.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
