//! `ashlar balance`: ordinary routers behind a balancer.

mod simulate;

use super::show::read;
use super::{Done, print, print_as_it_is, print_json, say};
use crate::cli::Balancer;
use crate::cli::balancer::{BalancerPlan, OneBackend, ShowBackends, Weight};
use cluster::balance::{Demand, Layout, plan};
use control::Source;
use control::balancer::generate::{HEALTH, PEER, POOL};
use control::balancer::{Description, backend, generate};
use control::client::{Client, encode};
use control::file;
use serde_json::json;
use std::fmt::Write;
use std::path::Path;

pub(crate) fn balance(args: &Balancer) -> Done {
    match args {
        Balancer::Text(of) => print_as_it_is(&generate::text(&described(&of.file)?)),
        Balancer::Backend(args) => {
            let of = described(&args.of.file)?;
            let number = of.backend(&args.name)?;
            print_as_it_is(&match args.check {
                true => backend::check(&of, number),
                false => backend::script(&of, number),
            })
        }
        Balancer::Plan(args) => plan_boxes(args),
        Balancer::Simulate(args) => simulate::simulate(args),
        Balancer::Show(args) => show(args),
        Balancer::Drain(one) => drain_or_use(one, "drain", one.within.as_deref()),
        Balancer::Remove(one) => drain_or_use(one, "drain", Some("0")),
        Balancer::Add(one) => drain_or_use(one, "use", one.within.as_deref()),
        Balancer::Weight(args) => set_weight(args),
    }
}

/// Reads a balancer's file, and prints its mistakes.
fn described(name: &str) -> Result<Description, String> {
    let source = Source::read(name, Vec::new())?;
    let folder = source.path.as_deref().and_then(Path::parent);
    let parsed = file::parse(&source.name, &source.text, folder.unwrap_or(Path::new(".")));
    say(&parsed.text());
    match parsed.balancer {
        Some(of) => Ok(of),
        None if parsed.errors() > 0 => Err(lang::count(parsed.errors(), "error")),
        None => Err(format!(
            "{name} describes no balancer: it has no table [balancer]"
        )),
    }
}

fn write_handler(client: &Client, handler: &str, value: String) -> Done {
    let path = format!("/v1/handlers/{}", encode(&format!("{POOL}.{handler}")));
    client.put(&path, value.into_bytes()).map(|_| ())
}

fn drain_or_use(one: &OneBackend, handler: &str, within: Option<&str>) -> Done {
    let value = format!("{} {}", one.name, within.unwrap_or_default());
    write_handler(&one.target.client()?, handler, value)
}

fn set_weight(args: &Weight) -> Done {
    let within = args.within.as_deref().unwrap_or_default();
    let value = format!("{} {} {within}", args.name, args.weight);
    write_handler(
        &args.target.client()?,
        "weight",
        value.trim_end().to_owned(),
    )
}

fn show(args: &ShowBackends) -> Done {
    let client = args.target.client()?;
    let backends = read(&client, &format!("{POOL}.backends"), "")?;
    let health = read(&client, &format!("{HEALTH}.backends"), "")?;
    let journal = read(&client, &format!("{POOL}.journal"), "")?;
    // The element exists only if there are other balancers.
    let peers = read(&client, &format!("{PEER}.peers"), "").unwrap_or_default();
    let health_of = |name: &str| {
        let mut lines = health.lines().filter_map(|line| line.split_once(' '));
        lines
            .find(|(known, _)| *known == name)
            .map_or("", |(_, rest)| rest)
    };
    let pairs = backends.lines().filter_map(|line| line.split_once(' '));
    if args.json {
        let all: Vec<_> = pairs
            .map(|(name, state)| json!({"name": name, "state": state, "health": health_of(name)}))
            .collect();
        let events: Vec<&str> = journal.lines().collect();
        let peers: Vec<&str> = peers.lines().collect();
        return print_json(&json!({"backends": all, "balancers": peers, "journal": events}));
    }
    let mut text = String::new();
    for (name, state) in pairs {
        let _ = writeln!(text, "{name} {state}\n  health: {}", health_of(name));
    }
    for line in peers.lines() {
        let _ = writeln!(text, "balancer {line}");
    }
    let lines: Vec<&str> = journal.lines().collect();
    for line in lines.iter().skip(lines.len().saturating_sub(10)) {
        let _ = writeln!(text, "  {line}");
    }
    print(&text)
}

fn plan_boxes(args: &BalancerPlan) -> Done {
    let demand = Demand {
        ports: args.ports,
        rate: args.rate,
        backend: args.backend,
        balancer: args.balancer,
        fronts: args.fronts,
        backs: args.backs,
        spare: args.spare,
        switch: args.switch,
    };
    let Layout {
        balancers,
        backends,
        cables,
        switches,
        carried,
    } = plan(&demand)?;
    if args.json {
        return print_json(&json!({
            "balancers": balancers, "backends": backends, "cables": cables, "switches": switches,
            "packets_per_second": carried,
        }));
    }
    print(&format!(
        "{}, {}, {}, {}\nThey carry {:.0} packets per second where {:.0} may come.\n",
        lang::count(balancers as usize, "balancer"),
        lang::count(backends as usize, "back end"),
        lang::count(cables as usize, "cable"),
        match switches {
            1 => "1 switch".to_owned(),
            n => format!("{n} switches"),
        },
        carried,
        args.rate * f64::from(args.ports),
    ))
}
