//! The command line of `ashlar bench`.

use super::{Configuration, Workers};
use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct Bench {
    #[command(flatten)]
    pub(crate) configuration: Configuration,
    #[command(flatten)]
    pub(crate) workers: Workers,
    /// The device by which packets come in; default is the first one from which the configuration receives
    #[arg(long, value_name = "PORT")]
    pub(crate) from: Option<String>,
    /// The device by which packets should leave; default is the first other one to which the configuration sends
    #[arg(long, value_name = "PORT")]
    pub(crate) to: Option<String>,
    /// Run the configuration on its own devices, and send and receive by these ports of this machine, at the
    /// other ends of the devices' cables
    #[arg(long, num_args = 2, value_names = ["SEND", "RECEIVE"], conflicts_with = "simulate")]
    pub(crate) cable: Option<Vec<String>>,
    /// Run on one worker in simulated time, in which processing takes no time. This shows the effect of queues, shapers
    /// and schedulers, with the same result on every machine. Each microsecond with a due timer takes about 3 us, and a
    /// source that always has packets (InfiniteSource) has 10,000 turns at each moment
    #[arg(long, conflicts_with = "workers")]
    pub(crate) simulate: bool,
    /// Bytes of a frame, with its CRC; several sizes are measured one after the other
    #[arg(
        long,
        value_name = "BYTES",
        value_delimiter = ',',
        default_value = "64"
    )]
    pub(crate) size: Vec<usize>,
    /// Search the highest load without loss (the default if nothing else is asked for)
    #[arg(long)]
    pub(crate) ndr: bool,
    /// Search the highest load at which at most this share is lost, such as 0.5%
    #[arg(long, value_name = "SHARE", value_delimiter = ',', value_parser = share)]
    pub(crate) pdr: Vec<f64>,
    /// Measure latency and loss at these loads: packets a second (10k, 1.5M), or percent of the
    /// first throughput found
    #[arg(long, value_name = "LOAD", value_delimiter = ',', value_parser = load)]
    pub(crate) rates: Vec<Load>,
    /// The same as --rates 10%,25%,50%,75%,90%,100%
    #[arg(long)]
    pub(crate) latency: bool,
    /// Lowest and highest load to try, in packets a second
    #[arg(long, value_name = "MIN-MAX", value_parser = range, default_value = "100-20M")]
    pub(crate) range: (f64, f64),
    /// Length of a full trial
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = super::interval)]
    pub(crate) seconds: f64,
    /// Maximum distance of the result's two bounds, relative to the lower one
    #[arg(long, value_name = "SHARE", default_value = "0.5%", value_parser = precision)]
    pub(crate) precision: f64,
    /// Full trials for each load; the majority decides
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=99))]
    pub(crate) trials: u8,
    /// Number of flows
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) flows: u32,
    /// Source of the packets: an address or a prefix
    #[arg(long, value_name = "ADDRESS", default_value = "198.18.0.1")]
    pub(crate) source: benchmark::traffic::Hosts,
    /// Destination of the packets: an address or a prefix
    #[arg(long, value_name = "ADDRESS", default_value = "198.19.0.0/16")]
    pub(crate) destination: benchmark::traffic::Hosts,
    /// Workers never sleep
    #[arg(long)]
    pub(crate) poll: bool,
    /// Seed of the random numbers that elements use
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print JSON: a list with one object for each frame size, without rounding
    #[arg(long)]
    pub(crate) json: bool,
}

/// A load to measure at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Load {
    /// Packets a second.
    Rate(f64),
    /// A share of the throughput found.
    Share(f64),
}

/// Packets a second: `950`, `10k`, `1.5M`.
fn rate(text: &str) -> Result<f64, String> {
    let units = [("k", 1e3), ("M", 1e6), ("G", 1e9)];
    let unit = units
        .iter()
        .find_map(|(u, n)| Some((text.strip_suffix(u)?, *n)));
    let (number, unit) = unit.unwrap_or((text, 1.0));
    match number.parse::<f64>() {
        Ok(n) if (1.0..=1e9).contains(&(n * unit)) => Ok(n * unit),
        _ => Err("write packets a second, 1 to 1G, such as 950, 10k or 1.5M".to_owned()),
    }
}

fn load(text: &str) -> Result<Load, String> {
    match text.strip_suffix('%').map(str::parse::<f64>) {
        Some(Ok(n)) if (0.1..=1000.0).contains(&n) => Ok(Load::Share(n / 100.0)),
        Some(_) => Err("write 0.1% to 1000%".to_owned()),
        None => rate(text).map(Load::Rate),
    }
}

fn range(text: &str) -> Result<(f64, f64), String> {
    let wrong = "write the least and the greatest load, such as 100-20M";
    let (least, most) = text.split_once('-').ok_or(wrong)?;
    match (rate(least)?, rate(most)?) {
        (least, most) if least <= most => Ok((least, most)),
        _ => Err(wrong.to_owned()),
    }
}

/// `0.5%` or `0.005`, from 0 to below 1.
fn share(text: &str) -> Result<f64, String> {
    let parsed = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map(|n| n / 100.0),
        None => text.parse(),
    };
    match parsed {
        Ok(n) if (0.0..1.0).contains(&n) => Ok(n),
        _ => Err("write a share below 100%, such as 0.5%".to_owned()),
    }
}

fn precision(text: &str) -> Result<f64, String> {
    match share(text)? {
        n if n >= 0.0001 => Ok(n),
        _ => Err("write at least 0.01%".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_and_shares_are_read_in_their_units() {
        assert_eq!(rate("1.5M"), Ok(1_500_000.0));
        assert_eq!(load("10k"), Ok(Load::Rate(10_000.0)));
        assert_eq!(load("50%"), Ok(Load::Share(0.5)));
        assert_eq!(range("1k-1M"), Ok((1000.0, 1_000_000.0)));
        assert_eq!((share("0.5%"), share("0.005")), (Ok(0.005), Ok(0.005)));
        for wrong in ["0", "-1", "x", "1e99", ""] {
            assert!(rate(wrong).is_err() && load(wrong).is_err(), "{wrong}");
        }
        assert!(range("2k-1k").is_err() && range("1k").is_err());
        assert!(share("100%").is_err() && precision("0%").is_err() && load("%").is_err());
    }
}
