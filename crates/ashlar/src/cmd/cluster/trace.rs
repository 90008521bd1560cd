//! `ashlar cluster trace`: paths of packets through the elements of another server.

use super::Done;
use super::capture::{port, ports};
use crate::cli::cluster::members::Trace;
use crate::cmd::trace::trace_from;
use control::agreement::Home;
use control::client::Servers;

pub(crate) fn trace(asked: &Trace) -> Done {
    let servers = Servers::find(&Home::open(&asked.at.home)?)?;
    let client = servers.client(&asked.spot.server)?;
    // Packets of links are mostly heartbeats.
    let ports = match port(client, &asked.spot)? {
        Some(port) => vec![port],
        None => ports(client)?,
    };
    if ports.is_empty() {
        let server = &asked.spot.server;
        return Err(format!(
            "server {server} receives nothing by an external port"
        ));
    }
    let sources: Vec<&str> = ports.iter().map(|port| &*port.receiver).collect();
    trace_from(client, (asked.packets, asked.seconds), &sources, asked.json)
}
