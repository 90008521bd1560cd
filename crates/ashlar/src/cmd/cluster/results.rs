//! Output of `ashlar cluster simulate`.

use super::simulate::ns;
use crate::cli::Simulate;
use cluster::simulate::{Report, Stage, Users};
use serde_json::{Value, json};
use std::fmt::Write;

/// Size of the simulated cluster.
pub(super) struct Of {
    pub(super) nodes: usize,
    pub(super) rate: f64,
}

const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p99", 0.99), ("p99_9", 0.999), ("max", 1.0)];

fn share(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}

fn gbit(bytes: u64, ns: u64) -> f64 {
    8.0 * bytes as f64 / ns as f64
}

/// A run, for people, and the lines of [`results`].
pub(super) fn text(asked: &Simulate, of: &Of, report: &Report) -> String {
    let what = match &asked.trace {
        Some(file) => file.display().to_string(),
        None => asked.matrix.name().to_owned(),
    };
    let mut out = format!(
        "{} servers, {what}, {} ms\n",
        of.nodes,
        report.time as f64 / 1e6
    );
    let rows = shares(report).into_iter();
    let rows = rows
        .chain(loads_and_reordering(report))
        .chain(growth(asked, report));
    for (name, value) in rows.chain(failures(asked, report)).chain([dropped(report)]) {
        let _ = writeln!(out, "  {name:<14}{value}");
    }
    out + &results(report)
}

/// A line of the text: name and value.
type Row = (String, String);

fn row(name: &str, value: String) -> Row {
    (name.to_owned(), value)
}

/// Throughput and fairness.
fn shares(report: &Report) -> Vec<Row> {
    let (offered, delivered) = (report.offered, report.delivered);
    let throughput = format!(
        "{:.3} Gbit/s of {:.3} offered ({:.2} %)",
        gbit(delivered, report.time),
        gbit(offered, report.time),
        100.0 * share(delivered, offered)
    );
    let pairs = match (report.pair_least, report.pair_fairness) {
        (Some(least), Some(fair)) => format!("least {least:.4} of what it offers, Jain {fair:.4}"),
        _ => "no pair offers enough to an output that is not overloaded".to_owned(),
    };
    let mut rows = vec![row("throughput", throughput), row("pairs", pairs)];
    rows.extend(report.input_fairness.map(|fair| {
        let over = "over the inputs of an overloaded output";
        row("overload", format!("Jain {fair:.4} {over}"))
    }));
    rows
}

/// Loads of links and servers, and reordering.
fn loads_and_reordering(report: &Report) -> Vec<Row> {
    let links = &report.links;
    let loads = format!(
        "of their rate: mean {:.3}, p50 {:.3}, p99 {:.3}, max {:.3}",
        links.mean, links.p50, links.p99, links.most
    );
    let c = format!(
        "processed per server: mean {:.2}, max {:.2} times its port's rate",
        report.c_mean, report.c_most
    );
    let all = report.hops.iter().sum();
    let hops = report.hops.iter().enumerate();
    let hops = hops.filter(|(_, packets)| **packets > 0);
    let hops = hops.map(|(n, &packets)| format!("{n}: {:.1} %", 100.0 * share(packets, all)));
    let us = |(name, q): &(&str, f64)| {
        let us = report.latency.quantile(*q) as f64 / 1e3;
        format!("{name} {us:.0}")
    };
    let order = &report.reordering;
    let late = format!(
        "{:.3} % of sequences ({} of {} flows), {:.3} % of packets late",
        100.0 * share(order.reordered_flows, order.flows),
        order.reordered_flows,
        order.flows,
        100.0 * share(order.late, order.packets)
    );
    let how = &report.spread;
    let spread = format!(
        "{} direct, {} straight, {} phase1, {} kept, {} moved",
        how.direct, how.straight, how.phase1, how.kept, how.moved
    );
    vec![
        row("links", loads),
        row("c", c),
        row("links passed", hops.collect::<Vec<_>>().join(", ")),
        row("latency, us", QUANTILES.each_ref().map(us).join(", ")),
        row("reordered", late),
        row("spread", spread),
    ]
}

/// A row of each stage of a cluster that grows.
fn growth(asked: &Simulate, report: &Report) -> Vec<Row> {
    let stage = |(stage, until): (&Stage, u64)| {
        let time = until - stage.from;
        let carried = format!(
            "{:.3} Gbit/s of {:.3} offered, from {:.0} ms on",
            gbit(stage.delivered, time),
            gbit(stage.offered, time),
            stage.from as f64 / 1e6
        );
        (format!("{} servers", stage.servers), carried)
    };
    stages(asked, report).map(stage).collect()
}

/// Failures, and when all nodes knew of them.
fn failures(asked: &Simulate, report: &Report) -> Vec<Row> {
    let after = |ns: Option<u64>| match ns {
        Some(ns) => format!("after {:.1} ms", ns as f64 / 1e6),
        None => "never".to_owned(),
    };
    let all = asked.failures.iter().zip(&report.noticed);
    let known = all.map(|(failure, noticed)| {
        let (gone, back) = (after(noticed.gone), after(noticed.back));
        let Users { through, ends } = noticed.lost;
        let lost = format!("lost {through} on their way and {ends} from or to it");
        row(
            "broken",
            format!("{failure}: all know {gone}, and that it is back {back}; {lost}"),
        )
    });
    let alarms = format!(
        "{} working links were taken for broken",
        report.false_alarms
    );
    let mut rows: Vec<Row> = known.collect();
    if !rows.is_empty() {
        rows.push(row("false alarms", alarms));
    }
    rows
}

fn dropped(report: &Report) -> Row {
    let drops = report.drops.list().into_iter();
    let drops = drops.filter(|(_, packets)| *packets > 0);
    let drops: Vec<_> = drops
        .map(|(name, packets)| format!("{name} {packets}"))
        .collect();
    row(
        "dropped",
        if drops.is_empty() {
            "nothing".to_owned()
        } else {
            drops.join(", ")
        },
    )
}

/// Stages of a cluster that grows, and when they ended.
fn stages<'a>(asked: &Simulate, report: &'a Report) -> impl Iterator<Item = (&'a Stage, u64)> {
    let end = ns(asked.warmup) + report.time;
    let ends = report.stages.iter().skip(1).map(|stage| stage.from);
    report.stages.iter().zip(ends.chain([end]))
}

/// Output of `make cluster` for a running cluster.
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

pub(super) fn to_json(asked: &Simulate, of: &Of, report: &Report) -> Value {
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
        "links": {
            "mean": links.mean, "p50": links.p50, "p99": links.p99, "max": links.most, "excess_bytes": links.excess,
        },
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
        "noticed": report.noticed.iter().map(|n| json!({
            "gone_ns": n.gone,
            "back_ns": n.back,
            "passed": {"through": n.passed.through, "ends": n.passed.ends},
            "lost": {"through": n.lost.through, "ends": n.lost.ends},
        })).collect::<Vec<_>>(),
        "false_alarms": report.false_alarms,
        "drops": serde_json::Map::from_iter(drops),
    })
}
