//! The command line of `ashlar cluster`.

pub(crate) mod agreement;
pub(crate) mod members;
pub(crate) mod servers;
mod simulate;

use clap::{Args, Subcommand, ValueEnum};
use cluster::plan::Nic;
pub(crate) use simulate::{Simulate, matrix};

#[derive(Args, Debug)]
pub(crate) struct Cluster {
    #[command(subcommand)]
    pub(crate) command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Show how many servers a router with N ports needs, how they are connected, and the cost
    ///
    /// Each server gets as many external ports as it can process. The servers form a full mesh if they have enough
    /// internal ports, otherwise a k-ary n-fly. The cost is compared with that of servers around a strictly
    /// non-blocking network of switches with 48 ports; four switches cost as much as one server.
    Plan(ClusterPlan),
    /// Simulate a cluster in virtual time, with the code of real servers
    ///
    /// The cluster is a full mesh of servers with one external port each, or a k-ary n-fly. The inputs send by a
    /// traffic matrix, or one of them replays a capture. The same seed gives the same result.
    Simulate(Simulate),
    /// Find all mistakes of a cluster's file, and show what each server would run
    ///
    /// Opens no port and contacts no server.
    Check(servers::Check),
    /// Print the configuration that a server runs
    Text(servers::Text),
    /// Run a server's router, as `ashlar run` does
    ///
    /// At SIGHUP it reads the cluster's file again. With --agreed it runs what the cluster's servers agree on.
    Up(Box<servers::Up>),
    /// Show links, paths and drops of running servers, or, without FILE, what all servers of the cluster agree on
    ///
    /// Fails if one of the servers does not answer, or etcd does not.
    Show(servers::Show),
    /// Show rates of all servers that agree: external ports, links, workers, drops
    ///
    /// On a terminal the table is live; `q` or Ctrl-C ends it. All servers are asked over the cluster's mutual TLS.
    Top(members::Top),
    /// Show what is wrong with any server of the cluster, or between them, the reason, and what to do
    ///
    /// Asks all servers, etcd and its members: findings of `ashlar doctor` on each server, servers and links that are
    /// down, programs or descriptions that differ, clocks, certificates near their end, namespaces. The exit status is
    /// 0 if nothing is wrong, though something could be better; 1 if something does not work as expected; 2 if
    /// something does not work at all.
    Doctor(members::Doctor),
    /// Copy packets of another server, at an external port, at connections, or where they are dropped
    ///
    /// Packets never wait for a capture: copies that cannot be kept are counted as lost. A capture ends after a day.
    Capture(members::Capture),
    /// Follow packets through the elements of another server
    Trace(members::Trace),
    /// Show what has happened in the cluster: leaders, descriptions, servers away and back, links down and up
    ///
    /// Each server remembers its latest 1000 events since its start. Fails if a server does not answer.
    Events(members::Events),
    /// Make a cluster whose servers agree by etcd, and its first server
    ///
    /// Makes the cluster's certificate authority, the server's certificate, and the configuration of its etcd.
    Init(agreement::Init),
    /// Let servers join the cluster
    ///
    /// Prints a token for each, and waits until all have joined. A token admits one server once. Works on the server
    /// on which `init` ran.
    Invite(agreement::Invite),
    /// Join a cluster with a token that `invite` has printed
    Join(agreement::Join),
    /// Leave the cluster, or remove another server from it
    ///
    /// A server that has left takes no new description, and nobody waits for it. It forwards until it is stopped.
    Leave(agreement::Leave),
    /// Make all servers of the cluster use a description, from any of them
    ///
    /// All servers that are there check it first; if one refuses it, none uses it. Others take it when they come back.
    Apply(agreement::Apply),
    /// Make the servers use the changed file
    ///
    /// All servers that answer check it first; if one refuses it, none uses it. It fails if one does not answer.
    Reload(servers::Reload),
}

#[derive(Args, Debug)]
pub(crate) struct ClusterPlan {
    /// Number of external ports; several numbers are planned one after the other
    #[arg(
        long,
        short = 'n',
        value_name = "N",
        value_delimiter = ',',
        required_unless_present = "file"
    )]
    pub(crate) ports: Vec<u32>,
    /// Take ports and rate from a cluster's file, and plan for the present cluster and for one more server
    #[arg(long, value_name = "FILE", conflicts_with_all = ["ports", "rate"])]
    pub(crate) file: Option<String>,
    /// Rate of an external port
    #[arg(long, short, value_name = "RATE", default_value = "10Gbps", value_parser = rate)]
    pub(crate) rate: f64,
    /// The kind of servers, as in the paper (RouteBricks, 3.3); the options below change it
    #[arg(long, value_enum, default_value_t = Server::Current, value_name = "MODEL")]
    pub(crate) server: Server,
    /// Processing rate of a server; a packet counts once for each server that it passes
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) processing: Option<f64>,
    /// Processing rate of a server per port, in units of the port's rate: 2 for uniform traffic, 3 for the worst case
    #[arg(long, value_name = "C", default_value_t = 3.0, value_parser = between_2_and_3)]
    pub(crate) c: f64,
    /// Slots for network cards in a server
    #[arg(long, value_name = "SLOTS")]
    pub(crate) slots: Option<u32>,
    /// Available kinds of network cards
    #[arg(
        long,
        value_name = "PORTSxRATE",
        value_delimiter = ',',
        default_value = "2x10Gbps,8x1Gbps",
        value_parser = nic
    )]
    pub(crate) nics: Vec<Nic>,
    /// Microseconds that a packet takes through a server
    #[arg(long, value_name = "US", default_value_t = 24.0, value_parser = microseconds)]
    pub(crate) latency: f64,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The paper's servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Server {
    /// One port of 10 Gbit/s in the worst case, 5 slots
    Current,
    /// The same, 20 slots
    MoreNics,
    /// Two ports, 20 slots
    Faster,
}

impl Server {
    /// Processing rate of the server in bits per second, and its number of slots.
    pub(crate) fn abilities(self) -> (f64, u32) {
        match self {
            Server::Current => (30e9, 5),
            Server::MoreNics => (30e9, 20),
            Server::Faster => (60e9, 20),
        }
    }
}

/// Parses a rate in bits per second.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let rate: arguments::units::Bandwidth = arguments::units::parse(text)?;
    match rate.0 {
        0 => Err("write a rate greater than 0, such as 10Gbps".to_owned()),
        bytes => Ok(8.0 * bytes as f64),
    }
}

fn nic(text: &str) -> Result<Nic, String> {
    let wrong = || "write PORTSxRATE, such as 8x1Gbps".to_owned();
    let (ports, each) = text.split_once('x').ok_or_else(wrong)?;
    let ports = ports.parse().map_err(|_| wrong())?;
    Ok(Nic {
        ports,
        rate: rate(each)?,
    })
}

/// Parses a number from `min` to `max`.
pub(crate) fn parse_bounded(text: &str, min: f64, max: f64, what: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(format!("write {what}")),
    }
}

fn between_2_and_3(text: &str) -> Result<f64, String> {
    parse_bounded(text, 2.0, 3.0, "a number from 2 to 3")
}

fn microseconds(text: &str) -> Result<f64, String> {
    parse_bounded(text, 0.0, 1e6, "microseconds, 0 to 1000000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_and_rates_are_written_as_people_say_them() {
        assert_eq!(
            nic("8x1Gbps"),
            Ok(Nic {
                ports: 8,
                rate: 1e9
            })
        );
        assert!(nic("8").is_err() && nic("x1Gbps").is_err() && nic("2x0bps").is_err());
        assert!(between_2_and_3("3.1").is_err() && between_2_and_3("NaN").is_err());
    }
}
