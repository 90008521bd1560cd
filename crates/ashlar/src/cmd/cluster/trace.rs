//! `ashlar cluster trace`: paths of packets through the elements of another server.

use super::Done;
use super::capture::port;
use crate::cli::cluster::members::Trace;
use crate::cmd::trace::trace_from;
use control::agreement::Home;
use control::client::Servers;

pub(crate) fn trace(asked: &Trace) -> Done {
    let servers = Servers::find(&Home::open(&asked.at.home)?)?;
    let client = servers.client(&asked.spot.server)?;
    let port = port(client, &asked.spot)?;
    let source = port.as_ref().map(|port| &*port.receiver);
    trace_from(client, (asked.packets, asked.seconds), source, asked.json)
}
