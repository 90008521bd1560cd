//! `ashlar cluster simulate`

use std::collections::HashMap;
use std::fmt::Write;
use std::io::{BufReader, IsTerminal};
use std::path::Path;
use std::time::Instant;

use super::Done;
use crate::cli::Simulate;
use crate::cmd::{print, say};
use cluster::map::Map;
use cluster::resequencer::Bounds;
use cluster::simulate::{
    Config, Growth, Record, Report, Simulation, Stage, Trace, Traffic, backbone,
};
use control::cluster::Description;
use serde_json::{Value, json};

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
            let text = serde_json::to_string_pretty(&to_json(asked, &of, &report));
            print(&format!("{}\n", text.map_err(|e| e.to_string())?))
        }
        false => print(&text(asked, &of, &report)),
    }
}

/// What was simulated.
struct Of {
    nodes: usize,
    rate: f64,
}

fn ns(ms: f64) -> u64 {
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
    config.spread.flows = if flowlets { asked.flowlets } else { 0 };
    let wait = asked.resequence.map(ns);
    let wait = wait.or_else(|| file?.resequence.map(|wait| wait.as_nanos() as u64));
    config.resequence = wait.map(|wait| Bounds {
        wait,
        capacity: 1 << 20,
    });
    config.failures = asked.failures.clone();
    config.growth = growth(&asked.join, map);
    let last = config.growth.last().map_or(map, |growth| &growth.map);
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

/// Lengths and flows of a capture's IP packets.
fn trace(file: &Path) -> Result<Trace, String> {
    let say = |text: String| format!("{}: {text}", file.display());
    let open = std::fs::File::open(file).map_err(|e| say(e.to_string()))?;
    let mut reader = captures::Reader::new(BufReader::new(open)).map_err(say)?;
    let (mut flows, mut records, mut frame) = (HashMap::new(), Vec::new(), Vec::new());
    while let Some(record) = reader.next(&mut frame).map_err(say)? {
        let start = match frame.get(12..14) {
            Some([0x81, 0]) => 18,
            _ => 14,
        };
        let Some(key) = wire::flow::FlowKey::of_ip(frame.get(start..).unwrap_or(&[])) else {
            continue;
        };
        let next = flows.len() as u32;
        records.push(Record {
            // With the check sequence that captures lack.
            bytes: (record.original + 4).max(64) as u32,
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

const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p99", 0.99), ("p99_9", 0.999), ("max", 1.0)];

fn share(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}

fn gbit(bytes: u64, ns: u64) -> f64 {
    8.0 * bytes as f64 / ns as f64
}

fn text(asked: &Simulate, of: &Of, report: &Report) -> String {
    let what = match &asked.trace {
        Some(file) => file.display().to_string(),
        None => asked.matrix.name().to_owned(),
    };
    let mut out = format!(
        "{} servers, {what}, {} ms\n",
        of.nodes,
        report.time as f64 / 1e6
    );
    let mut row = |name: &str, value: String| {
        let _ = writeln!(out, "  {name:<14}{value}");
    };
    let (offered, delivered) = (report.offered, report.delivered);
    row(
        "throughput",
        format!(
            "{:.3} Gbit/s of {:.3} offered ({:.2} %)",
            gbit(delivered, report.time),
            gbit(offered, report.time),
            100.0 * share(delivered, offered)
        ),
    );
    let pairs = match (report.pair_least, report.pair_fairness) {
        (Some(least), Some(fair)) => format!("least {least:.4} of what it offers, Jain {fair:.4}"),
        _ => "none that offers enough to outputs that can carry it".to_owned(),
    };
    row("pairs", pairs);
    if let Some(fair) = report.input_fairness {
        row(
            "overload",
            format!("Jain {fair:.4} over the inputs of an output that is asked for too much"),
        );
    }
    let links = &report.links;
    row(
        "links",
        format!(
            "of their rate: mean {:.3}, p50 {:.3}, p99 {:.3}, max {:.3}",
            links.mean, links.p50, links.p99, links.most
        ),
    );
    row(
        "c",
        format!(
            "processed per server: mean {:.2}, max {:.2} times its port's rate",
            report.c_mean, report.c_most
        ),
    );
    let hops = report
        .hops
        .iter()
        .enumerate()
        .filter(|(_, packets)| **packets > 0);
    let all = report.hops.iter().sum();
    let hops: Vec<_> = hops
        .map(|(n, &packets)| format!("{n}: {:.1} %", 100.0 * share(packets, all)))
        .collect();
    row("links passed", hops.join(", "));
    let us = |q: f64| report.latency.quantile(q) as f64 / 1e3;
    let latency: Vec<_> = QUANTILES
        .iter()
        .map(|(name, q)| format!("{name} {:.0}", us(*q)))
        .collect();
    row("latency, us", latency.join(", "));
    let order = &report.reordering;
    row(
        "reordered",
        format!(
            "{:.3} % of sequences ({} of {} flows), {:.3} % of packets late",
            100.0 * share(order.reordered_flows, order.flows),
            order.reordered_flows,
            order.flows,
            100.0 * share(order.late, order.packets)
        ),
    );
    let how = &report.spread;
    row(
        "spread",
        format!(
            "{} direct, {} straight, {} phase1, {} kept, {} moved",
            how.direct, how.straight, how.phase1, how.kept, how.moved
        ),
    );
    for (stage, until) in stages(asked, report) {
        let time = until - stage.from;
        row(
            &format!("{} servers", stage.servers),
            format!(
                "{:.3} Gbit/s of {:.3} offered, from {:.0} ms on",
                gbit(stage.delivered, time),
                gbit(stage.offered, time),
                stage.from as f64 / 1e6
            ),
        );
    }
    for (failure, noticed) in asked.failures.iter().zip(&report.noticed) {
        let ms = |ns: Option<u64>| {
            ns.map_or("never".to_owned(), |ns| {
                format!("after {:.1} ms", ns as f64 / 1e6)
            })
        };
        row(
            "broken",
            format!(
                "{:?} {:?}: all know {}, and that it is back {}",
                failure.what,
                failure.how,
                ms(noticed.gone),
                ms(noticed.back)
            ),
        );
    }
    let drops: Vec<_> = report
        .drops
        .list()
        .into_iter()
        .filter(|(_, packets)| *packets > 0)
        .collect();
    let drops: Vec<_> = drops
        .iter()
        .map(|(name, packets)| format!("{name} {packets}"))
        .collect();
    row(
        "dropped",
        if drops.is_empty() {
            "nothing".to_owned()
        } else {
            drops.join(", ")
        },
    );
    out + &results(report)
}

/// Stages of a cluster that grows, and when they ended.
fn stages<'a>(asked: &Simulate, report: &'a Report) -> impl Iterator<Item = (&'a Stage, u64)> {
    let end = ns(asked.warmup) + report.time;
    let ends = report.stages.iter().skip(1).map(|stage| stage.from);
    report.stages.iter().zip(ends.chain([end]))
}

/// What `make cluster` prints of a running cluster.
fn results(report: &Report) -> String {
    let us = |q: f64| report.latency.quantile(q) as f64 / 1e3;
    let order = &report.reordering;
    let reordered = 100.0 * share(order.reordered_flows, order.flows);
    let throughput = 1e3 * gbit(report.delivered, report.time);
    let lost = report.packets_in - report.packets_out;
    format!(
        "cluster throughput {throughput:.2}\ncluster fairness {:.4}\ncluster reordered {reordered:.3}\n\
         cluster lost {lost}\ncluster latency-p50 {:.1}\ncluster latency-p99 {:.1}\n",
        report.fairness,
        us(0.5),
        us(0.99)
    )
}

fn to_json(asked: &Simulate, of: &Of, report: &Report) -> Value {
    let (links, order) = (&report.links, &report.reordering);
    let latency = QUANTILES.map(|(name, q)| (name.to_owned(), json!(report.latency.quantile(q))));
    let drops = report
        .drops
        .list()
        .map(|(name, packets)| (name.to_owned(), json!(packets)));
    let last = report
        .hops
        .iter()
        .rposition(|&packets| packets > 0)
        .unwrap_or(0);
    json!({
        "servers": of.nodes,
        "matrix": asked.trace.is_none().then(|| asked.matrix.name()),
        "rate_bps": of.rate,
        "load": asked.load,
        "seed": asked.seed,
        "time_ns": report.time,
        "packets_in": report.packets_in,
        "packets_out": report.packets_out,
        "offered_bytes": report.offered,
        "delivered_bytes": report.delivered,
        "pair_least": report.pair_least,
        "pair_fairness": report.pair_fairness,
        "input_fairness": report.input_fairness,
        "links": {"mean": links.mean, "p50": links.p50, "p99": links.p99, "max": links.most, "excess_bytes": links.excess},
        "c": {"mean": report.c_mean, "max": report.c_most},
        "hops": report.hops[..=last],
        "fairness": report.fairness,
        "straight": report.straight.0,
        "balanced": report.straight.1,
        "spread": {
            "direct": report.spread.direct,
            "straight": report.spread.straight,
            "phase1": report.spread.phase1,
            "kept": report.spread.kept,
            "moved": report.spread.moved,
        },
        "stages": stages(asked, report).map(|(stage, until)| json!({
            "servers": stage.servers,
            "from_ns": stage.from,
            "until_ns": until,
            "offered_bytes": stage.offered,
            "delivered_bytes": stage.delivered,
        })).collect::<Vec<_>>(),
        "latency_ns": serde_json::Map::from_iter(latency),
        "reordering": {
            "flows": order.flows,
            "reordered_flows": order.reordered_flows,
            "packets": order.packets,
            "late": order.late,
            "runs": order.runs,
        },
        "noticed": report.noticed.iter().map(|n| json!({"gone_ns": n.gone, "back_ns": n.back})).collect::<Vec<_>>(),
        "drops": serde_json::Map::from_iter(drops),
    })
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
            say(&format!(
                "\r\x1b[K[{bar}] {:3.0} %, {left:.0} s left",
                100.0 * part
            ));
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if self.live {
            say("\r\x1b[K");
        }
    }
}
