//! The command line of `ashlar balance`.

mod simulate;

use super::Target;
use clap::{Args, Subcommand};
pub(crate) use simulate::SimulateBalancer;

#[derive(Debug, Subcommand)]
pub(crate) enum Balancer {
    /// Print the Click configuration that the balancer runs
    Text(BalancerFile),
    /// Print the commands that make a stock Linux box a back end
    Backend(Backend),
    /// Show how many boxes a multistage router needs, and the cost
    ///
    /// Each packet passes a balancer twice, on its way in and on its way out, and a back end once.
    Plan(BalancerPlan),
    /// Run a multistage router in virtual time: balancers, back ends, hosts, failures and planned changes
    ///
    /// Balancers are the real code; boxes and cables are models with a rate and a queue. The same seed gives the same
    /// result.
    Simulate(SimulateBalancer),
    /// Show the back ends of a running balancer: state, buckets, health
    Show(ShowBackends),
    /// Assign no new flows to a back end, and move each of its flows when the flow is idle, so that no packet is
    /// reordered
    Drain(OneBackend),
    /// Move all flows of a back end at once
    Remove(OneBackend),
    /// Use a back end again that was drained or removed
    Add(OneBackend),
    /// Give a back end another weight
    Weight(Weight),
}

#[derive(Args, Debug)]
pub(crate) struct BalancerFile {
    /// The balancer's file
    pub(crate) file: String,
}

#[derive(Args, Debug)]
pub(crate) struct Backend {
    #[command(flatten)]
    pub(crate) of: BalancerFile,
    /// The back end
    #[arg(long, value_name = "NAME")]
    pub(crate) name: String,
    /// Print commands that show differences on the box, and change nothing
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ShowBackends {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct OneBackend {
    /// The back end
    pub(crate) name: String,
    /// Time after which flows move even if they are not idle, such as 10s; default is the file's `deadline`
    #[arg(long, value_name = "TIME")]
    pub(crate) within: Option<String>,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Args, Debug)]
pub(crate) struct Weight {
    /// The back end
    pub(crate) name: String,
    /// Weight relative to that of other back ends
    pub(crate) weight: u16,
    /// Time after which flows move even if they are not idle
    #[arg(long, value_name = "TIME")]
    pub(crate) within: Option<String>,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Args, Debug)]
pub(crate) struct BalancerPlan {
    /// Number of front ports
    #[arg(long, short = 'n', value_name = "N")]
    pub(crate) ports: u32,
    /// Packets per second that each front port receives
    #[arg(long, short, value_name = "PPS", value_parser = packets)]
    pub(crate) rate: f64,
    /// Packets per second that a back end forwards
    #[arg(long, value_name = "PPS", default_value = "640k", value_parser = packets)]
    pub(crate) backend: f64,
    /// Packets per second that a balancer forwards in each direction
    #[arg(long, value_name = "PPS", default_value = "1488k", value_parser = packets)]
    pub(crate) balancer: f64,
    /// Maximum number of front ports of a balancer
    #[arg(long, value_name = "N", default_value_t = 24)]
    pub(crate) fronts: u32,
    /// Back ports of a balancer
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) backs: u32,
    /// Number of back ends that may fail without overload
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) spare: u32,
    /// Ports of a switch
    #[arg(long, value_name = "N", default_value_t = 48)]
    pub(crate) switch: u32,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Parses packets per second, with the suffixes `k` and `M`.
fn packets(text: &str) -> Result<f64, String> {
    let (number, factor) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1e3),
        None => match text.strip_suffix('M') {
            Some(number) => (number, 1e6),
            None => (text, 1.0),
        },
    };
    match number.parse::<f64>() {
        Ok(n) if n > 0.0 && n * factor <= 1e12 => Ok(n * factor),
        _ => Err("write packets per second, such as 640k or 1.5M".to_owned()),
    }
}
