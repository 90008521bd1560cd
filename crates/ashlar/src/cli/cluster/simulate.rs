//! The command line of `ashlar cluster simulate`.

use super::parse_bounded;
use clap::Args;
use cluster::simulate::{Broken, Failure, Fault, Matrix};
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct Simulate {
    /// Servers, each with an external port, in a full mesh with links of 2R/N
    #[arg(
        long,
        short = 'n',
        value_name = "N",
        default_value_t = 4,
        value_parser = clap::value_parser!(u16).range(2..=2048)
    )]
    pub(crate) ports: u16,
    /// Instead, a k-ary n-fly of K^N servers, each with an external port
    #[arg(long, value_name = "K,N", value_parser = parse_fly, conflicts_with = "ports")]
    pub(crate) fly: Option<(u16, u32)>,
    /// Instead, the cluster of a file, with its rates, delta and resequencing
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["ports", "fly", "rate", "join"])]
    pub(crate) file: Option<String>,
    /// Another server joins the mesh at this millisecond of the run; may be given several times. Inputs send to the
    /// new server when all servers know it
    #[arg(long, value_name = "MS", value_parser = milliseconds, conflicts_with_all = ["fly", "trace"])]
    pub(crate) join: Vec<f64>,
    /// Rate of an external port
    #[arg(long, short, value_name = "RATE", default_value = "10Gbps", value_parser = super::rate)]
    pub(crate) rate: f64,
    /// The traffic matrix: uniform, permutation, hotspot, incast, random (admissible) or adverse
    #[arg(long, short, value_name = "NAME", default_value = "uniform", value_parser = matrix)]
    pub(crate) matrix: Matrix,
    /// Instead, replay a capture from the first server to the last, at the rate that follows from --load, repeatedly,
    /// each time with new flows
    #[arg(long, value_name = "FILE", conflicts_with = "matrix")]
    pub(crate) trace: Option<PathBuf>,
    /// Offered load, as a part of an input's rate
    #[arg(long, value_name = "PART", default_value_t = 1.0, value_parser = parse_share)]
    pub(crate) load: f64,
    /// Milliseconds of virtual time to measure
    #[arg(long, value_name = "MS", default_value_t = 20.0, value_parser = milliseconds)]
    pub(crate) time: f64,
    /// Milliseconds of virtual time before the measurement
    #[arg(long, value_name = "MS", default_value_t = 10.0, value_parser = milliseconds)]
    pub(crate) warmup: f64,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Flows of an input, divided over its outputs
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) flows: u32,
    /// Bytes of a frame; default is a mix as on a backbone link
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(64..=9018))]
    pub(crate) size: Option<u32>,
    /// Packets of a flow that follow each other within this many milliseconds keep their path, default 100; 0: a path
    /// is chosen for each packet
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub(crate) delta: Option<f64>,
    /// Milliseconds for which a server may save up unused quotas and rates of links, or exceed rates of links
    #[arg(long, value_name = "MS", default_value_t = 2.0, value_parser = milliseconds)]
    pub(crate) burst: f64,
    /// Maximum number of flows whose path a server remembers
    #[arg(long, value_name = "N", default_value_t = 16384, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub(crate) flowlets: u32,
    /// Output nodes restore the order of packets; a packet waits at most this many milliseconds for earlier ones
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub(crate) resequence: Option<f64>,
    /// Processing rate of a server, in units of its port's rate
    #[arg(long, value_name = "C", default_value_t = 3.15, value_parser = parse_share)]
    pub(crate) c: f64,
    /// Rate of internal cables: in units of 2R/N, default 1.05; with --file in units of the file's rates, default 1
    #[arg(long, value_name = "PART", value_parser = parse_share)]
    pub(crate) headroom: Option<f64>,
    /// Microseconds that a packet takes through a server, without waiting in queues
    #[arg(long, value_name = "US", default_value_t = 24.0, value_parser = super::microseconds)]
    pub(crate) latency: f64,
    /// Maximum time that a packet waits in a queue, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5.0, value_parser = milliseconds)]
    pub(crate) queue: f64,
    /// Break something from one millisecond of the run to another: a link (0-1@100-200), one direction of it
    /// (0>1@100-200) or a server (1@100-200). HOW is cut (the default), lossy (0-1:lossy@100-200), slow, or,
    /// for a server, hang. Servers need about 40 ms to detect a failure, so give a longer --time. With this option
    /// servers send heartbeats, and have at most 64 links
    #[arg(long = "break", value_name = "WHAT[:HOW]@FROM-UNTIL", value_parser = failure)]
    pub(crate) failures: Vec<Failure>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A traffic matrix by its name.
pub(crate) fn matrix(text: &str) -> Result<Matrix, String> {
    let named = Matrix::ALL.iter().find(|(_, name)| *name == text);
    named.map(|(matrix, _)| *matrix).ok_or_else(|| {
        let names: Vec<_> = Matrix::ALL.iter().map(|(_, name)| *name).collect();
        format!("there are {}", names.join(", "))
    })
}

fn parse_fly(text: &str) -> Result<(u16, u32), String> {
    let wrong = || "write K,N with K^N from 4 to 2048, such as 4,2".to_owned();
    let (k, n) = text.split_once(',').ok_or_else(wrong)?;
    let (k, n): (u16, u32) = (
        k.parse().map_err(|_| wrong())?,
        n.parse().map_err(|_| wrong())?,
    );
    match u64::from(k).checked_pow(n) {
        Some(4..=2048) if k > 1 => Ok((k, n)),
        _ => Err(wrong()),
    }
}

fn failure(text: &str) -> Result<Failure, String> {
    let parse = || {
        let (what, when) = text.split_once('@')?;
        let (what, how) = what.split_once(':').unwrap_or((what, "cut"));
        let named = |(fault, name): (Fault, &str)| (name == how).then_some(fault);
        let how = Fault::ALL.into_iter().find_map(named)?;
        let number = |text: &str| text.parse::<u16>().ok();
        let what = match (what.split_once('-'), what.split_once('>')) {
            (Some((a, b)), _) => Broken::Link(number(a)?, number(b)?),
            (_, Some((a, b))) => Broken::OneWay(number(a)?, number(b)?),
            _ => Broken::Node(number(what)?),
        };
        let (from, until) = when.split_once('-')?;
        let ns = |text: &str| milliseconds(text).ok().map(|ms| (ms * 1e6) as u64);
        let (from, until) = (ns(from)?, ns(until)?);
        let sensible = from < until && (how != Fault::Hang || matches!(what, Broken::Node(_)));
        sensible.then_some(Failure {
            what,
            how,
            from,
            until,
        })
    };
    parse().ok_or_else(|| {
        "write A-B@MS-MS, A>B@MS-MS or A@MS-MS, such as 0-1@100-200 or 2:hang@100-200".to_owned()
    })
}

fn parse_share(text: &str) -> Result<f64, String> {
    parse_bounded(text, 0.001, 1000.0, "a number from 0.001 to 1000")
}

fn milliseconds(text: &str) -> Result<f64, String> {
    parse_bounded(text, 0.0, 3_600_000.0, "milliseconds, 0 to 3600000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_are_named_and_flies_have_sizes_that_fit() {
        assert_eq!(matrix("incast"), Ok(Matrix::Incast));
        assert!(matrix("all").is_err_and(|text| text.contains("uniform")));
        assert_eq!(parse_fly("4,2"), Ok((4, 2)));
        let cut = failure("0>1@100-200").expect("it is one");
        assert_eq!((cut.what, cut.from), (Broken::OneWay(0, 1), 100_000_000));
        let hang = failure("2:hang@1-2").expect("it is one");
        assert_eq!((hang.what, hang.how), (Broken::Node(2), Fault::Hang));
        assert!(failure("0-1:hang@1-2").is_err() && failure("0-1:bent@1-2").is_err());
        assert!(failure("0-1").is_err() && failure("1@200-100").is_err());
        assert!(parse_fly("4").is_err() && parse_fly("1,9").is_err() && parse_fly("64,3").is_err());
    }
}
