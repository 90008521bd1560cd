//! Commands that ask all servers of a cluster, from any of them.

use super::agreement::ServerFolder;
use crate::cli::running::packets;
use crate::cli::{Copies, interval};
use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct Top {
    /// Print one table and end; fails if a server does not answer
    #[arg(long)]
    pub(crate) once: bool,
    /// Seconds between tables
    #[arg(long, short, default_value_t = 1.0, value_name = "SECONDS", value_parser = interval)]
    pub(crate) interval: f64,
    /// Print rates as JSON, one object a line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) at: ServerFolder,
}

#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) at: ServerFolder,
}

/// A server, or one of its external ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) server: String,
    pub(crate) port: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Capture {
    /// Server, and an external port whose packets are captured in both directions: `b:lan`
    #[arg(value_name = "SERVER[:PORT]", value_parser = spot)]
    pub(crate) spot: Spot,
    /// Places in the server's router, as for `ashlar capture`
    #[arg(value_name = "POINT")]
    pub(crate) points: Vec<String>,
    #[command(flatten)]
    pub(crate) how: Copies,
    #[command(flatten)]
    pub(crate) at: ServerFolder,
}

#[derive(Args, Debug)]
pub(crate) struct Trace {
    /// Server, and an external port by which the packets come in: `b:lan`. Default: any external port
    #[arg(value_name = "SERVER[:PORT]", value_parser = spot)]
    pub(crate) spot: Spot,
    /// Packets to follow
    #[arg(value_name = "N", default_value_t = 1, value_parser = packets())]
    pub(crate) packets: u16,
    /// Maximum time to wait for packets
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=60))]
    pub(crate) seconds: u8,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) at: ServerFolder,
}

#[derive(Args, Debug)]
pub(crate) struct Events {
    /// Number of events, the latest ones of all servers
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100)]
    pub(crate) number: usize,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) at: ServerFolder,
}

fn spot(text: &str) -> Result<Spot, String> {
    let (server, port) = match text.split_once(':') {
        Some((server, port)) => (server, Some(port.to_owned())),
        None => (text, None),
    };
    if server.is_empty() || port.as_deref() == Some("") {
        return Err("write a server's name, or a server and its port, as b:lan".to_owned());
    }
    Ok(Spot {
        server: server.to_owned(),
        port,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spot_is_a_server_or_one_of_its_ports() {
        let named = |text| spot(text).map(|spot| (spot.server, spot.port));
        assert_eq!(named("b"), Ok(("b".to_owned(), None)));
        assert_eq!(named("b:lan"), Ok(("b".to_owned(), Some("lan".to_owned()))));
        assert!(spot(":lan").is_err() && spot("b:").is_err());
    }
}
