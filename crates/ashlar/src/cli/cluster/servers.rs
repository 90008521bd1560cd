//! Commands on a cluster's file, and on its servers.

use super::agreement::ServerFolder;
use crate::cli::{Run, Workers, interval};
use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct ClusterFile {
    /// The cluster's file
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
}

/// Running servers.
#[derive(Args, Debug)]
pub(crate) struct Running {
    #[command(flatten)]
    pub(crate) of: ClusterFile,
    /// Ask this server; may be given several times. Default: all servers. Only sockets on this machine can be reached
    #[arg(long = "server", value_name = "NAME")]
    pub(crate) servers: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) of: ClusterFile,
    #[command(flatten)]
    pub(crate) workers: Workers,
    /// Show the whole plan of this server
    #[arg(long, value_name = "NAME")]
    pub(crate) server: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Text {
    #[command(flatten)]
    pub(crate) of: ClusterFile,
    /// The server
    #[arg(long, value_name = "NAME")]
    pub(crate) server: String,
}

#[derive(Args, Debug)]
pub(crate) struct Up {
    #[command(flatten)]
    pub(crate) run: Run,
    /// Run what the servers agree on; FILE is the server's own copy, `cluster.toml` in the folder of `init` or `join`
    #[arg(long)]
    pub(crate) agreed: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Show {
    /// The cluster's file: ask the routers of its servers on this machine
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<String>,
    /// Ask this server; may be given several times. Default: all servers. Only sockets on this machine can be reached
    #[arg(long = "server", value_name = "NAME", requires = "file")]
    pub(crate) servers: Vec<String>,
    #[command(flatten)]
    pub(crate) at: ServerFolder,
    /// Seconds over which rates are measured
    #[arg(long, short, default_value_t = 1.0, value_name = "SECONDS", value_parser = interval)]
    pub(crate) interval: f64,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Reload {
    #[command(flatten)]
    pub(crate) running: Running,
    /// Only check that all servers would accept the file
    #[arg(long)]
    pub(crate) dry_run: bool,
}
