//! `ashlar trace`

use super::capture::clock;
use super::{Done, complain, print};
use crate::cli::Trace;
use crate::packet::describe;
use control::client::{Client, encode};
use control::view::TracedPacket;
use std::fmt::Write;
use std::time::Duration;

pub(crate) fn trace(args: &Trace) -> Done {
    let client = args.target.client()?;
    let count = args.packets.unwrap_or(args.count);
    trace_from(
        &client,
        (count, args.seconds),
        args.at.as_deref().as_slice(),
        args.json,
    )
}

/// Follows packets of a router from some sources, or from any if there are none, for some seconds at most.
pub(crate) fn trace_from(
    client: &Client,
    (count, seconds): (u16, u8),
    sources: &[&str],
    json: bool,
) -> Done {
    let mut target = format!("/v1/trace?count={count}&seconds={seconds}");
    for element in sources {
        target += &format!("&from={}", encode(element));
    }
    let bytes = client.get_within(&target, Duration::from_secs(seconds.into()))?;
    if json {
        return print(&format!("{}\n", String::from_utf8_lossy(&bytes)));
    }
    let packets: Vec<TracedPacket> = serde_json::from_slice(&bytes)
        .map_err(|e| format!("cannot read the router's answer: {e}"))?;
    if packets.is_empty() {
        complain(&format!("no packet came within {seconds} s"));
        return Ok(());
    }
    print(&packets.iter().map(path).collect::<String>())
}

/// A packet's path: one line for each step, with the time since the first.
fn path(packet: &TracedPacket) -> String {
    let mut text = String::new();
    let start = packet.steps.first().map_or(0, |s| s.time_ns);
    let _ = writeln!(
        text,
        "packet {}, {}: {}",
        packet.number,
        clock(start),
        describe(&packet.bytes, false)
    );
    let width = packet
        .steps
        .iter()
        .map(|s| s.element.len() + s.class.len())
        .max();
    let width = width.unwrap_or(0) + 4;
    let (mut worker, mut len) = (None, None);
    for step in &packet.steps {
        let micros = step.time_ns.saturating_sub(start) as f64 / 1000.0;
        let name = format!("{} :: {}", step.element, step.class);
        let what = match (step.what.as_str(), &step.reason) {
            (_, Some(reason)) => format!("dropped: {reason}"),
            ("enters", _) => format!("in {}", step.port),
            (_, _) => format!("out {}", step.port),
        };
        let _ = write!(text, "  {micros:>9.1} us  {name:<width$}  {what}");
        if worker.replace(step.worker) != Some(step.worker) {
            let _ = write!(text, ", worker {}", step.worker);
        }
        if len.replace(step.len) != Some(step.len) {
            let _ = write!(text, ", {} bytes", step.len);
        }
        text.push('\n');
    }
    if !packet.over {
        let _ = writeln!(text, "  it is held there, or became another packet");
    }
    text
}
