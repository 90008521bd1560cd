//! Commands for a running router.

use super::{Target, completion, interval};
use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCompleter;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct Show {
    /// ELEMENT.HANDLER, or ELEMENT for all its handlers; without it, a list of all elements
    #[arg(add = ArgValueCompleter::new(completion::readable))]
    pub(crate) what: Option<String>,
    /// Argument of the handler, such as an address for `lookup`; after `--` it may begin with a hyphen
    #[arg(value_name = "ARG", allow_negative_numbers = true)]
    pub(crate) argument: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Args, Debug)]
pub(crate) struct Set {
    /// ELEMENT.HANDLER
    #[arg(add = ArgValueCompleter::new(completion::writable))]
    pub(crate) handler: String,
    /// The value; `-` reads it from standard input; after `--` it may begin with a hyphen
    #[arg(allow_negative_numbers = true)]
    pub(crate) value: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Args, Debug)]
pub(crate) struct Stop {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Args, Debug)]
pub(crate) struct Save {
    /// The file to write (`-` is standard output); default is the one that the next start reads
    #[arg(long, value_name = "FILE")]
    pub(crate) to: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// Orders of elements in the table of `ashlar top`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// Packets per second
    #[default]
    Packets,
    /// Cycles of all packets together
    Cycles,
    /// Drops per second
    Drops,
    /// Name
    Name,
}

#[derive(Args, Debug)]
pub(crate) struct Top {
    /// Show only elements whose name or class has one of these words
    #[arg(value_name = "WORD")]
    pub(crate) elements: Vec<String>,
    /// Order of elements: the greatest first, or by name
    #[arg(long, value_enum, default_value_t = Sort::Packets, value_name = "BY")]
    pub(crate) sort: Sort,
    /// Print one table and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Seconds between tables
    #[arg(long, short, default_value_t = 1.0, value_name = "SECONDS", value_parser = interval)]
    pub(crate) interval: f64,
    /// Print counts since the start as JSON, one object a line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Args, Debug)]
pub(crate) struct Capture {
    /// Place: `a -> b`, `element[0]` (an output), `[0]element` (an input), or `element` for all packets that enter it
    #[arg(value_name = "POINT", required_unless_present = "drops", add = ArgValueCompleter::new(completion::elements))]
    pub(crate) points: Vec<String>,
    #[command(flatten)]
    pub(crate) how: Copies,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// Choice and output of captured packets.
#[derive(Args, Debug)]
pub(crate) struct Copies {
    /// Capture packets that ELEMENT drops, or all that are lost: drops except `heard` and `learned`
    #[arg(long, value_name = "ELEMENT", num_args = 0..=1, default_missing_value = "", require_equals = true)]
    pub(crate) drops: Option<String>,
    /// Write pcapng to FILE (`-` is standard output); without it, one line for each packet
    #[arg(long, short, value_name = "FILE")]
    pub(crate) write: Option<String>,
    /// End after this many packets
    #[arg(long, short, visible_short_alias = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Filter in tcpdump's language: 'udp port 53'
    #[arg(long, short, value_name = "EXPRESSION", default_value = "")]
    pub(crate) filter: String,
    /// Bytes of each packet that are copied
    #[arg(long, value_name = "BYTES", default_value_t = u16::MAX)]
    pub(crate) snaplen: u16,
    /// Print each packet as a JSON object instead of a line
    #[arg(long, conflicts_with = "write")]
    pub(crate) json: bool,
}

pub(crate) fn packets() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..=i64::from(control::trace::COUNT_MAX))
}

#[derive(Args, Debug)]
pub(crate) struct Trace {
    /// Packets to follow
    #[arg(value_name = "N", value_parser = packets(), conflicts_with = "count")]
    pub(crate) packets: Option<u16>,
    /// Packets to follow, as an option
    #[arg(long, short, visible_short_alias = 'n', value_name = "N", default_value_t = 1, value_parser = packets())]
    pub(crate) count: u16,
    /// Only packets from this source, such as a FromDevice
    #[arg(long, value_name = "ELEMENT", add = ArgValueCompleter::new(completion::elements))]
    pub(crate) at: Option<String>,
    /// Maximum time to wait for packets
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=60))]
    pub(crate) seconds: u8,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Args, Debug)]
pub(crate) struct Reload {
    /// The new configuration (`-` is standard input; default: the router reads its own file again, with which it was
    /// started), and values for its variables, in addition to those given at the start. Another file or other values
    /// last until the next reload without them, SIGHUP or restart
    #[arg(value_name = "FILE|NAME=value")]
    pub(crate) words: Vec<String>,
    /// Server of a cluster that this router is, if the file describes one
    #[arg(long, value_name = "NAME")]
    pub(crate) server: Option<String>,
    /// Only print the changes that a reload would make
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}
