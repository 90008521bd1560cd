//! The command line of `ashlar balance simulate`.

use super::packets;
use crate::cli::cluster::parse_bounded;
use clap::Args;
use cluster::balance::WEIGHT_MAX;
use cluster::balance::simulate::{Change, Failure, Fault, Order, Target};
use cluster::simulate::Matrix;

#[derive(Args, Debug)]
pub(crate) struct SimulateBalancer {
    /// Number of front ports, each with a host
    #[arg(
        long,
        short = 'n',
        value_name = "N",
        default_value_t = 4,
        value_parser = clap::value_parser!(u32).range(2..=4096)
    )]
    pub(crate) fronts: u32,
    /// Number of balancers, over which front ports are spread
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) balancers: u16,
    /// Number of back ends, named r0, r1 and so on
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) backends: u16,
    /// Weight of each back end; with this option there are as many back ends as weights
    #[arg(
        long,
        value_name = "W,W...",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u16).range(1..=WEIGHT_MAX as i64),
        conflicts_with = "backends"
    )]
    pub(crate) weights: Vec<u16>,
    /// Packets per second that each host sends
    #[arg(long, short, value_name = "PPS", default_value = "100k", value_parser = packets)]
    pub(crate) rate: f64,
    /// The traffic matrix: uniform, permutation, hotspot, incast, random (admissible) or adverse
    #[arg(long, short, value_name = "NAME", default_value = "uniform", value_parser = crate::cli::cluster::matrix)]
    pub(crate) matrix: Matrix,
    /// Hosts answer each packet
    #[arg(long)]
    pub(crate) answers: bool,
    /// Packets go to back ends in turn, and not by their flows
    #[arg(long)]
    pub(crate) round_robin: bool,
    /// Flows of a host at a time
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) flows: u32,
    /// Packets of a flow, on average
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) packets: u32,
    /// Packets per second that a front port carries in each direction
    #[arg(long, value_name = "PPS", default_value = "1488k", value_parser = packets)]
    pub(crate) front_port: f64,
    /// Packets per second that a balancer handles, both directions together; default is as many as its ports carry
    #[arg(long, value_name = "PPS", value_parser = packets)]
    pub(crate) balancer: Option<f64>,
    /// Back ports of a balancer
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) backs: u16,
    /// Packets per second that a back port sends
    #[arg(long, value_name = "PPS", default_value = "640k", value_parser = packets)]
    pub(crate) back_port: f64,
    /// Packets per second that a back end forwards
    #[arg(long, value_name = "PPS", default_value = "640k", value_parser = packets)]
    pub(crate) backend: f64,
    /// Maximum time that a packet waits in a queue, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1.0, value_parser = milliseconds)]
    pub(crate) queue: f64,
    /// Milliseconds of virtual time to measure
    #[arg(long, value_name = "MS", default_value_t = 100.0, value_parser = milliseconds)]
    pub(crate) time: f64,
    /// Milliseconds of virtual time before the measurement
    #[arg(long, value_name = "MS", default_value_t = 10.0, value_parser = milliseconds)]
    pub(crate) warmup: f64,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Idle time after which flows move in a planned change, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 100.0, value_parser = milliseconds)]
    pub(crate) idle: f64,
    /// Milliseconds after which a planned change moves all remaining flows
    #[arg(long, value_name = "MS", default_value_t = 30_000.0, value_parser = milliseconds)]
    pub(crate) deadline: f64,
    /// Milliseconds after a balancer's start without planned moves
    #[arg(long, value_name = "MS", default_value_t = 0.0, value_parser = milliseconds)]
    pub(crate) settle: f64,
    /// Milliseconds between probes
    #[arg(long, value_name = "MS", default_value_t = 10.0, value_parser = milliseconds)]
    pub(crate) interval: f64,
    /// Consecutive unanswered probes after which a back end is down
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=31))]
    pub(crate) misses: u32,
    /// Consecutive answers after which a back end is up again
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) answers_needed: u32,
    /// Break a box from one millisecond of the run to another: a back end (r1@20-60), a balancer (b0@20-60) or the
    /// switch (switch@20-60). HOW is crash (the default), hang, one-way (packets from a back end are lost) or slow:
    /// r1:hang@20-60. May be given several times
    #[arg(long = "break", value_name = "WHAT[:HOW]@FROM-UNTIL", value_parser = failure)]
    pub(crate) failures: Vec<Failure>,
    /// Drain a back end at one millisecond of the run, and use it again at another: r1@20-60
    #[arg(long, value_name = "WHAT@FROM-UNTIL", value_parser = drained)]
    pub(crate) drain: Vec<(u16, u64, u64)>,
    /// Give a back end another weight at a millisecond of the run: r1=3@20
    #[arg(long, value_name = "WHAT=WEIGHT@AT", value_parser = weighed)]
    pub(crate) weight: Vec<Change>,
    /// Add random events of all these kinds, spread over the time, of up to 100 ms each
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub(crate) random: u32,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl SimulateBalancer {
    /// The planned changes.
    pub(crate) fn changes(&self) -> Vec<Change> {
        let drained = self.drain.iter().flat_map(|&(of, from, until)| {
            let change = |order, at| Change { of, order, at };
            [change(Order::Drain, from), change(Order::Use, until)]
        });
        drained.chain(self.weight.iter().copied()).collect()
    }
}

fn milliseconds(text: &str) -> Result<f64, String> {
    parse_bounded(text, 0.0, 3_600_000.0, "milliseconds, 0 to 3600000")
}

fn ns(text: &str) -> Option<u64> {
    milliseconds(text).ok().map(|ms| (ms * 1e6) as u64)
}

/// `FROM-UNTIL` in milliseconds, as nanoseconds.
fn parse_times(text: &str) -> Option<(u64, u64)> {
    let (from, until) = text.split_once('-')?;
    let (from, until) = (ns(from)?, ns(until)?);
    (from < until).then_some((from, until))
}

fn backend(text: &str) -> Option<u16> {
    text.strip_prefix('r')?.parse().ok()
}

fn failure(text: &str) -> Result<Failure, String> {
    let parse = || {
        let (what, when) = text.split_once('@')?;
        let (what, how) = what.split_once(':').unwrap_or((what, "crash"));
        let named = |(fault, name): (Fault, &str)| (name == how).then_some(fault);
        let how = Fault::ALL.into_iter().find_map(named)?;
        let what = match what.strip_prefix('b') {
            _ if what == "switch" => Target::Switch,
            Some(number) => Target::Balancer(number.parse().ok()?),
            None => Target::Backend(backend(what)?),
        };
        let possible = match what {
            Target::Backend(_) => true,
            Target::Balancer(_) => how != Fault::OneWay,
            Target::Switch => how == Fault::Crash,
        };
        let (from, until) = parse_times(when)?;
        possible.then_some(Failure {
            what,
            how,
            from,
            until,
        })
    };
    parse().ok_or_else(|| "write r1:hang@20-60, b0@20-60 or switch@20-60: back ends crash, hang, are slow or one-way, \
        balancers crash, hang or are slow, the switch crashes".to_owned())
}

fn drained(text: &str) -> Result<(u16, u64, u64), String> {
    let parse = || {
        let (what, when) = text.split_once('@')?;
        let (from, until) = parse_times(when)?;
        Some((backend(what)?, from, until))
    };
    parse().ok_or_else(|| "write r1@20-60".to_owned())
}

fn weighed(text: &str) -> Result<Change, String> {
    let parse = || {
        let (what, at) = text.split_once('@')?;
        let (what, weight) = what.split_once('=')?;
        let weight = weight.parse().ok()?;
        (1..=WEIGHT_MAX).contains(&weight).then_some(Change {
            of: backend(what)?,
            order: Order::Weight(weight),
            at: ns(at)?,
        })
    };
    parse().ok_or_else(|| "write r1=3@20, with a weight from 1 to 10000".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_and_changes_are_read_as_they_are_shown() {
        for text in [
            "r3:hang@100-200",
            "b0:crash@1-2.5",
            "switch:crash@5-6",
            "r0:one-way@1-2",
        ] {
            assert_eq!(failure(text).map(|of| of.to_string()), Ok(text.to_owned()));
        }
        assert_eq!(failure("r3@1-2").map(|of| of.how), Ok(Fault::Crash));
        for text in [
            "switch:hang@1-2",
            "b1:one-way@1-2",
            "r1@2-1",
            "r1",
            "x1@1-2",
            "r1:bent@1-2",
        ] {
            assert!(failure(text).is_err(), "{text}");
        }
        assert_eq!(drained("r1@20-60"), Ok((1, 20_000_000, 60_000_000)));
        assert_eq!(weighed("r1=3@20").map(|of| of.order), Ok(Order::Weight(3)));
        assert!(weighed("r1=0@20").is_err() && drained("b1@20-60").is_err());
    }
}
