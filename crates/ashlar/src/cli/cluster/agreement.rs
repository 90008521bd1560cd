//! Commands on a cluster whose servers agree by etcd.

use clap::Args;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Folder of a server.
#[derive(Args, Debug)]
pub(crate) struct ServerFolder {
    /// Folder with this server's identity, certificates and copy of the description
    #[arg(long, value_name = "DIR", default_value = "/etc/ashlar/cluster")]
    pub(crate) home: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct Init {
    /// The cluster's file
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    /// Name of this server in the file
    #[arg(long, value_name = "NAME")]
    pub(crate) server: String,
    /// Address of this server for the others
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) address: IpAddr,
    /// Servers that run a member of etcd, best three, and their addresses. Default: this server alone
    #[arg(long, value_name = "NAME=ADDRESS", value_delimiter = ',', value_parser = named)]
    pub(crate) etcd: Vec<(String, IpAddr)>,
    #[command(flatten)]
    pub(crate) at: ServerFolder,
}

#[derive(Args, Debug)]
pub(crate) struct Invite {
    /// Servers and their addresses for the others
    #[arg(value_name = "NAME=ADDRESS", required = true, value_parser = named)]
    pub(crate) servers: Vec<(String, IpAddr)>,
    /// Address and port for the servers that join. Default: this server's address, port 2381
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// Time after which the tokens are worth nothing
    #[arg(long, value_name = "MINUTES", default_value_t = 60)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_080))]
    pub(crate) minutes: u64,
    #[command(flatten)]
    pub(crate) at: ServerFolder,
}

#[derive(Args, Debug)]
pub(crate) struct Join {
    /// Token that `ashlar cluster invite` has printed for this server; `-` reads it from standard input
    #[arg(value_name = "TOKEN")]
    pub(crate) token: String,
    /// Renew the certificate and key of a server that has joined, while it runs
    #[arg(long)]
    pub(crate) renew: bool,
    #[command(flatten)]
    pub(crate) at: ServerFolder,
}

#[derive(Args, Debug)]
pub(crate) struct Leave {
    /// Another server that is to leave, such as one that is broken. Default: this server
    #[arg(value_name = "NAME")]
    pub(crate) server: Option<String>,
    #[command(flatten)]
    pub(crate) at: ServerFolder,
}

#[derive(Args, Debug)]
pub(crate) struct Apply {
    /// The cluster's file
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    /// Only ask all servers whether they could use the file
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Time limit for all servers to check the file and to use it
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) wait: u64,
    #[command(flatten)]
    pub(crate) at: ServerFolder,
}

fn named(text: &str) -> Result<(String, IpAddr), String> {
    let parts = text.split_once('=');
    let parts = parts.and_then(|(name, address)| Some((name.to_owned(), address.parse().ok()?)));
    parts.ok_or_else(|| "write the server's name and its address, as b=192.0.2.2".to_owned())
}
