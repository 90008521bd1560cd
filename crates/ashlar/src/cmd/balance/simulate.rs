//! `ashlar balance simulate`

use crate::cli::balancer::SimulateBalancer;
use crate::cmd::{Done, print, print_json};
use cluster::balance::simulate::{Config, Drop, Loss, Order, Report, Simulation, Target};
use cluster::balance::{HealthSettings, Settings};
use serde_json::{Value, json};
use std::fmt::Write;

pub(crate) fn simulate(args: &SimulateBalancer) -> Done {
    let config = config(args)?;
    let report = Simulation::new(config.clone()).finish();
    match args.json {
        true => print_json(&to_json(&config, &report)),
        false => print(&text(&config, &report)),
    }
}

fn ns(ms: f64) -> u64 {
    (ms * 1e6) as u64
}

fn config(args: &SimulateBalancer) -> Result<Config, String> {
    let weights = match args.weights.is_empty() {
        true => vec![1; usize::from(args.backends)],
        false => args.weights.clone(),
    };
    let each = args.fronts.div_ceil(u32::from(args.balancers));
    let mut config = Config {
        fronts: args.fronts,
        balancers: args.balancers,
        weights,
        front_rate: args.front_port,
        balancer_rate: args
            .balancer
            .unwrap_or(2.0 * f64::from(each) * args.front_port),
        backs: args.backs,
        back_rate: args.back_port,
        backend_rate: args.backend,
        queue: ns(args.queue),
        in_turn: args.round_robin,
        settings: Settings {
            idle: ns(args.idle),
            deadline: ns(args.deadline),
            settle: ns(args.settle),
        },
        health: HealthSettings {
            interval: ns(args.interval).max(100_000),
            misses: args.misses,
            losses: 12.max(args.misses),
            answers: args.answers_needed,
        },
        matrix: args.matrix,
        rate: args.rate,
        answers: args.answers,
        flows: args.flows,
        flow_packets: args.packets,
        time: ns(args.time).max(1),
        warmup: ns(args.warmup),
        seed: args.seed,
        failures: args.failures.clone(),
        changes: args.changes(),
        ..Config::default()
    };
    if usize::from(config.balancers) > config.fronts as usize {
        return Err(format!(
            "{} balancers have only {} front ports: give each one at least",
            config.balancers, config.fronts
        ));
    }
    check(&config)?;
    config.add_random(args.random);
    Ok(config)
}

/// Checks that each event names an existing part and lies before the end of the run.
fn check(config: &Config) -> Done {
    let backends = config.weights.len();
    let end = config.end();
    let late = |at: u64| match at >= end {
        true => Err(format!(
            "the run ends at {} ms: use a longer --time",
            end as f64 / 1e6
        )),
        false => Ok(()),
    };
    let there = |of: u16| match usize::from(of) >= backends {
        true => Err(format!(
            "there is no r{of}: they are r0 to r{}",
            backends - 1
        )),
        false => Ok(()),
    };
    for failure in &config.failures {
        let found = match failure.what {
            Target::Backend(of) => there(of),
            Target::Balancer(of) if of >= config.balancers => Err(format!(
                "there is no b{of}: they are b0 to b{}",
                config.balancers - 1
            )),
            _ => Ok(()),
        };
        let found = found.and_then(|()| late(failure.from));
        found.map_err(|why| format!("--break {failure}: {why}"))?;
    }
    for change in &config.changes {
        let name = match change.order {
            Order::Weight(_) => "--weight",
            _ => "--drain",
        };
        let found = there(change.of).and_then(|()| match change.order {
            Order::Use => Ok(()),
            _ => late(change.at),
        });
        found.map_err(|why| format!("{name} r{}: {why}", change.of))?;
    }
    Ok(())
}

const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("max", 1.0)];

fn per_second(packets: u64, report: &Report) -> f64 {
    packets as f64 * 1e9 / report.time as f64
}

fn percent(part: u64, all: u64) -> f64 {
    100.0 * part as f64 / all.max(1) as f64
}

fn drops(report: &Report) -> impl Iterator<Item = (&'static str, u64)> {
    let all = Drop::ALL.into_iter();
    all.map(|(drop, name)| (name, report.dropped(drop)))
        .filter(|(_, packets)| *packets > 0)
}

/// Longest detection time in milliseconds, packets lost at failures of back ends, and packets possibly lost.
fn at_crashes(report: &Report) -> Option<(f64, u64, f64)> {
    let seen = || report.losses.iter().filter(|loss| loss.detection.is_some());
    let longest = seen().filter_map(|loss| loss.detection).max()?;
    let lost = seen().map(|loss| loss.lost).sum();
    let expected = seen().map(Loss::expected).sum();
    Some((longest as f64 / 1e6, lost, expected))
}

fn text(config: &Config, report: &Report) -> String {
    let mut out = format!(
        "{}, {}, {}, {}, {} ms\n",
        lang::count(usize::from(config.balancers), "balancer"),
        lang::count(config.weights.len(), "back end"),
        lang::count(config.fronts as usize, "front port"),
        config.matrix.name(),
        report.time as f64 / 1e6
    );
    let mut row = |name: &str, value: String| _ = writeln!(out, "  {name:<14}{value}");
    row(
        "throughput",
        format!(
            "{:.0} packets per second of {:.0} offered ({:.2} %)",
            per_second(report.carried, report),
            per_second(report.offered, report),
            percent(report.carried, report.offered)
        ),
    );
    let each = || report.backends.iter();
    row(
        "back ends",
        format!(
            "least {:.0}, most {:.0} packets per second",
            per_second(each().copied().min().unwrap_or(0), report),
            per_second(each().copied().max().unwrap_or(0), report)
        ),
    );
    let us =
        |(name, q): (&str, f64)| format!("{name} {:.0}", report.latency.quantile(q) as f64 / 1e3);
    row("latency, us", QUANTILES.map(us).join(", "));
    let order = &report.reordering;
    row(
        "order",
        format!(
            "{:.4} % of packets late, in {} of {} flows",
            percent(order.late, order.packets),
            order.reordered_flows,
            order.flows
        ),
    );
    if config.answers {
        row(
            "directions",
            format!(
                "{} packets at another back end than the other direction",
                report.apart
            ),
        );
    }
    let dropped: Vec<String> = drops(report)
        .map(|(name, n)| format!("{name} {n}"))
        .collect();
    row(
        "dropped",
        match dropped.is_empty() {
            true => "none".to_owned(),
            false => dropped.join(", "),
        },
    );
    row(
        "packets",
        format!(
            "{} in, {} out, {} copies, {} doubled: the books {}",
            report.packets_in,
            report.packets_out,
            report.copies,
            report.doubled,
            if report.balances() {
                "balance"
            } else {
                "DO NOT balance"
            }
        ),
    );
    for loss in &report.losses {
        let detection = match loss.detection {
            Some(ns) => format!(
                "noticed after {:.1} ms, {:.0} may be lost by then",
                ns as f64 / 1e6,
                loss.expected()
            ),
            None => "not noticed by all".to_owned(),
        };
        row(
            &loss.failure.to_string(),
            format!(" lost {}, {detection}", loss.lost),
        );
    }
    for (name, value) in results(config, report) {
        let _ = writeln!(out, "balance {name} {value}");
    }
    out
}

/// Result lines, the same as at the end of `make balance`.
fn results(config: &Config, report: &Report) -> Vec<(&'static str, String)> {
    let mut all = vec![
        (
            "packets-per-second",
            format!("{:.0}", per_second(report.carried, report)),
        ),
        (
            "share-error-percent",
            format!("{:.3}", 100.0 * report.share_error(&config.weights)),
        ),
        ("reordered", report.reordering.late.to_string()),
        ("lost", report.lost().to_string()),
        ("false-alarms", report.false_alarms.to_string()),
    ];
    if let Some((detection, lost, expected)) = at_crashes(report) {
        all.push(("detection-ms", format!("{detection:.1}")));
        all.push(("lost-at-crash", lost.to_string()));
        all.push(("detection-times-share", format!("{expected:.0}")));
    }
    all
}

fn to_json(config: &Config, report: &Report) -> Value {
    let losses = report.losses.iter().map(|loss| {
        json!({
            "failure": loss.failure.to_string(), "share": loss.share, "detection_ns": loss.detection, "lost": loss.lost,
            "detection_times_share": loss.expected(),
        })
    });
    let latency = QUANTILES.map(|(name, q)| (name.to_owned(), json!(report.latency.quantile(q))));
    let dropped = drops(report).map(|(name, n)| (name.to_owned(), json!(n)));
    let order = &report.reordering;
    json!({
        "balancers": config.balancers, "backends": config.weights.len(), "fronts": config.fronts,
        "matrix": config.matrix.name(), "seed": config.seed, "time_ns": report.time,
        "offered_pps": per_second(report.offered, report), "carried_pps": per_second(report.carried, report),
        "backend_packets": report.backends, "share_error": report.share_error(&config.weights),
        "packets_in": report.packets_in, "packets_out": report.packets_out, "copies": report.copies,
        "doubled": report.doubled, "lost": report.lost(), "books_balance": report.balances(),
        "drops": dropped.collect::<serde_json::Map<_, _>>(),
        "reordering": {
            "flows": order.flows, "reordered_flows": order.reordered_flows, "packets": order.packets,
            "late": order.late,
        },
        "apart": report.apart, "forced_buckets": report.forced,
        "latency_ns": latency.into_iter().collect::<serde_json::Map<_, _>>(),
        "failures": losses.collect::<Vec<_>>(), "false_alarms": report.false_alarms, "tables_equal": report.agreed,
    })
}
