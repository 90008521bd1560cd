//! `ashlar cluster simulate`

use std::collections::HashMap;
use std::io::{BufReader, IsTerminal};
use std::path::Path;
use std::time::Instant;

use super::Done;
use super::results::{self, Of};
use crate::cli::Simulate;
use crate::cmd::{print, say_for_now};
use cluster::map::Map;
use cluster::resequencer::Bounds;
use cluster::simulate::{
    Broken, Config, Failure, Growth, Record, Simulation, Trace, Traffic, backbone,
};
use control::cluster::Description;

pub(crate) fn simulate(asked: &Simulate) -> Done {
    let file = asked.file.as_deref().map(super::read).transpose()?;
    let file = file.map(|file| file.description);
    let map = match (&file, asked.fly) {
        (Some(file), _) => file.map(),
        (None, Some((k, n))) => Map::fly(usize::from(k), n, asked.rate),
        (None, None) => Map::mesh(usize::from(asked.ports), asked.rate),
    };
    let config = config(asked, file.as_ref(), &map)?;
    let of = Of {
        nodes: map.nodes.len(),
        rate: map.most(),
    };
    let mut simulation = Simulation::new(map, config);
    let mut bar = Bar::new();
    while let Some(part) = simulation.run(1 << 18) {
        bar.show(part);
    }
    drop(bar);
    let report = simulation.into_report();
    match asked.json {
        true => {
            let text = serde_json::to_string_pretty(&results::to_json(asked, &of, &report));
            print(&format!("{}\n", text.map_err(|e| e.to_string())?))
        }
        false => print(&results::text(asked, &of, &report)),
    }
}

/// Nanoseconds.
pub(super) fn ns(ms: f64) -> u64 {
    (ms * 1e6) as u64
}

fn config(asked: &Simulate, file: Option<&Description>, map: &Map) -> Result<Config, String> {
    let mut config = Config::new(asked.matrix, asked.seed);
    config.traffic = match &asked.trace {
        Some(file) => Traffic::Trace(trace(file)?),
        None => Traffic::Matrix {
            matrix: asked.matrix,
            flows: asked.flows,
            sizes: asked.size.map_or_else(backbone, |bytes| vec![(bytes, 1)]),
        },
    };
    config.load = asked.load;
    config.time = ns(asked.time).max(1);
    config.warmup = ns(asked.warmup);
    config.c = asked.c;
    config.headroom = asked
        .headroom
        .unwrap_or(if file.is_some() { 1.0 } else { 1.05 });
    config.latency = (asked.latency * 1e3) as u64;
    config.queue = ns(asked.queue);
    config.spread.burst = ns(asked.burst).min(u64::from(u32::MAX)) as u32;
    if let Some(delta) = asked.delta.map(ns) {
        config.spread.delta = delta;
    } else if let Some(file) = file {
        config.spread.delta = file.delta.as_nanos() as u64;
    }
    let flowlets = config.spread.delta > 0;
    config.spread.flows = if flowlets { asked.flowlets as usize } else { 0 };
    let wait = asked.resequence.map(ns);
    let wait = wait.or_else(|| file?.resequence.map(|wait| wait.as_nanos() as u64));
    config.resequence = wait.map(|wait| Bounds {
        wait,
        capacity: 1 << 20,
    });
    config.failures = asked.failures.clone();
    config.growth = growth(&asked.join, map);
    let last = config.growth.last().map_or(map, |growth| &growth.map);
    let end = config.warmup + config.time;
    let wrong = config
        .failures
        .iter()
        .find_map(|f| impossible(f, last, end));
    if let Some((failure, why)) = wrong {
        return Err(format!("--break {failure}: {why}"));
    }
    let links = (0..last.nodes.len()).map(|node| last.links_of(node as u16).count());
    let most = links.max().unwrap_or(0);
    let beats = !config.failures.is_empty() || !config.growth.is_empty();
    if beats && most > cluster::health::LINKS_MAX {
        return Err(format!(
            "a server has {most} links: nothing can break or join where there are more than {}",
            cluster::health::LINKS_MAX
        ));
    }
    Ok(config)
}

/// First failure of a part that does not exist, with the reason.
fn impossible<'a>(failure: &'a Failure, map: &Map, end: u64) -> Option<(&'a Failure, String)> {
    let servers = map.nodes.len();
    let linked = |a, b| {
        map.links
            .iter()
            .any(|link| [[a, b], [b, a]].contains(&link.ends))
    };
    let why = match failure.what {
        Broken::Node(node) if usize::from(node) >= servers => {
            format!("there is no server {node}: they are 0 to {}", servers - 1)
        }
        Broken::Link(a, b) | Broken::OneWay(a, b) if !linked(a, b) => {
            format!(
                "no link is between servers {a} and {b}, of 0 to {}",
                servers - 1
            )
        }
        _ if failure.from >= end => {
            let end = end as f64 / 1e6;
            format!("the run ends at {end} ms: use a longer --time")
        }
        _ => return None,
    };
    Some((failure, why))
}

/// Servers that join a mesh at milliseconds of the run.
fn growth(join: &[f64], map: &Map) -> Vec<Growth> {
    let mut at: Vec<u64> = join.iter().map(|&ms| ns(ms)).collect();
    at.sort_unstable();
    let mut map = map.clone();
    let step = |at| {
        map = map.mesh_with(1);
        let map = map.clone();
        Growth { at, map }
    };
    at.into_iter().map(step).collect()
}

/// Longer frames of a capture are taken to be of this length.
const FRAME_MAX: usize = 65_535;

/// Lengths and flows of a capture's IP packets.
fn trace(file: &Path) -> Result<Trace, String> {
    let say = |text: String| format!("{}: {text}", file.display());
    let open = std::fs::File::open(file).map_err(|e| say(e.to_string()))?;
    let mut reader = captures::Reader::new(BufReader::new(open)).map_err(say)?;
    let (mut flows, mut records, mut frame) = (HashMap::new(), Vec::new(), Vec::new());
    while let Some(record) = reader.next(&mut frame).map_err(say)? {
        if record.link != captures::ETHERNET {
            let link = record.link;
            return Err(say(format!("its link type is {link}, not Ethernet (1)")));
        }
        let packet = wire::tunnel::ip_of_ether(&frame);
        let Some(key) = packet.and_then(wire::flow::FlowKey::of_ip) else {
            continue;
        };
        let next = flows.len() as u32;
        records.push(Record {
            // The length includes the frame check sequence, which captures lack.
            bytes: (record.original.min(FRAME_MAX) + 4).max(64) as u32,
            flow: *flows.entry(key).or_insert(next),
        });
    }
    match records.is_empty() {
        true => Err(say("no IP packets".to_owned())),
        false => Ok(Trace {
            records: records.into(),
            flows: flows.len() as u32,
        }),
    }
}

/// A line on standard error that fills, if that is a terminal.
struct Bar {
    live: bool,
    start: Instant,
}

impl Bar {
    const WIDTH: usize = 40;

    fn new() -> Bar {
        Bar {
            live: std::io::stderr().is_terminal(),
            start: Instant::now(),
        }
    }

    fn show(&mut self, part: f64) {
        if self.live && part > 0.0 {
            let full = (part * Self::WIDTH as f64) as usize;
            let left = self.start.elapsed().as_secs_f64() * (1.0 / part - 1.0);
            let bar = format!("{}{}", "#".repeat(full), ".".repeat(Self::WIDTH - full));
            say_for_now(&format!("[{bar}] {:3.0} %, {left:.0} s left", 100.0 * part));
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if self.live {
            say_for_now("");
        }
    }
}
