//! `ashlar bench`

use super::{Done, compile, print, say, say_for_now};
use crate::cli::{Bench, Load};
use crate::rates;
use benchmark::cable::{self, Cable};
use benchmark::memory_devices::{HOSTS, MemoryDevices, ROUTER};
use benchmark::search::{Bounds, Settings, Trial};
use benchmark::test_bed::{Live, Measured, Simulated, TestBed};
use benchmark::test_stand::BenchState;
use benchmark::traffic::Traffic;
use benchmark::{SearchResult, throughput, warm_up};
use engine::plan::Plan;
use engine::port::PortDirectory;
use planner::Registry;
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

/// Preamble and gap between two frames on an Ethernet, in bytes.
const ETHERNET_GAP_BYTES: f64 = 20.0;
/// Maximum number of trials that a search may take.
const TRIALS_MAX: usize = 1000;

pub(crate) fn bench(args: &Bench, registry: &Registry) -> Done {
    let mut all = Vec::new();
    for &size in &args.size {
        let ports = choose(args, registry)?;
        let mut bed = test_bed(args, registry, &ports, size)?;
        warm_up(&mut *bed, args.flows as usize, &ports.1)?;
        let found = search(args, &mut *bed)?;
        let measured = loads(args, &mut *bed, &found)?;
        let report = Report {
            size,
            ports,
            found,
            measured,
        };
        match args.json {
            true => all.push(report.json(args)),
            false => print(&report.text(args))?,
        }
    }
    match args.json {
        true => print(&format!("{:#}\n", Value::Array(all))),
        false => Ok(()),
    }
}

/// The ports by which packets enter and leave: those given on the command line, else the first suitable ones.
fn choose(args: &Bench, registry: &Registry) -> Result<(String, String), String> {
    let any = traffic(args, args.size.first().copied().unwrap_or(64)).templates()?;
    let plan = plan(
        args,
        registry,
        &MemoryDevices::new(&BenchState::new(any, true), "", ""),
    )?;
    let known = |name: &String| plan.devices.iter().any(|d| d.name == *name);
    let mut asked_for = args.from.iter().chain(&args.to);
    if let Some(name) = asked_for.find(|name| !known(name)) {
        let names: Vec<&str> = plan.devices.iter().map(|d| d.name.as_str()).collect();
        let names = names.join(", ");
        return Err(format!(
            "the configuration has no device `{name}`; it has: {names}"
        ));
    }
    let receives = plan.devices.iter().find(|d| d.request.rx_queues > 0);
    let from = args.from.clone().or(receives.map(|d| d.name.clone()));
    let from = from.ok_or("the configuration receives from no device, so it cannot be measured")?;
    let sends = || plan.devices.iter().filter(|d| d.request.tx_queues > 0);
    let to = sends().find(|d| d.name != from).or(sends().next());
    let to = args.to.clone().or(to.map(|d| d.name.clone()));
    let to = to.ok_or("the configuration sends to no device, so it cannot be measured")?;
    Ok((from, to))
}

fn plan(args: &Bench, registry: &Registry, ports: &dyn PortDirectory) -> Result<Arc<Plan>, String> {
    let (_, compiled) = compile(
        &args.configuration,
        registry,
        args.workers.count(),
        ports,
        true,
    )?;
    if compiled.plan.is_none() {
        say(&compiled.text());
    }
    compiled.plan.ok_or_else(String::new)
}

fn traffic(args: &Bench, size: usize) -> Traffic {
    Traffic {
        size,
        flows: args.flows as usize,
        source: args.source,
        destination: args.destination,
        from: HOSTS,
        to: ROUTER,
    }
}

/// Test bed for the trials.
fn test_bed(
    args: &Bench,
    registry: &Registry,
    (from, to): &(String, String),
    size: usize,
) -> Result<Box<dyn TestBed>, String> {
    let mut traffic = traffic(args, size);
    if let Some([send, receive]) = args.cable.as_deref() {
        let ports = Arc::new(ports::Directory::new());
        let plan = plan(args, registry, &*ports)?;
        let used = |name: &&String| plan.devices.iter().any(|d| d.name == **name);
        if let Some(name) = [send, receive].into_iter().find(used) {
            return Err(format!(
                "`{name}` is a device of the configuration: name the other end of its cable"
            ));
        }
        traffic.to.0 = ports.probe(from)?.mac;
        let (send, receive) = (cable::open(&*ports, send)?, cable::open(&*ports, receive)?);
        traffic.from.0 = send.port.info().mac;
        let stand = BenchState::new(traffic.templates()?, false);
        let cable = Cable::new(&stand, &send, &receive)?;
        let live = Live::start(&stand, &plan, ports, args.seed, args.poll)?;
        return Ok(Box::new(live.with_cable(cable)));
    }
    let stand = BenchState::new(traffic.templates()?, args.simulate);
    let rig = Arc::new(MemoryDevices::new(&stand, from, to));
    let plan = plan(args, registry, &*rig)?;
    Ok(match args.simulate {
        true => Box::new(Simulated::start(&stand, &plan, rig, args.seed)?),
        false => Box::new(Live::start(&stand, &plan, rig, args.seed, args.poll)?),
    })
}

/// Acceptable shares of lost packets, one for each goal.
fn goals(args: &Bench) -> Vec<f64> {
    let of_it = |load: &Load| matches!(load, Load::Share(_));
    let unasked = args.pdr.is_empty() && args.rates.is_empty() && !args.latency;
    let needed = args.latency || args.rates.iter().any(of_it);
    let mut goals = args.pdr.clone();
    if args.ndr || unasked || (needed && goals.is_empty()) {
        goals.insert(0, 0.0);
    }
    if unasked && !args.ndr {
        goals.push(0.005);
    }
    goals
}

fn search(args: &Bench, bed: &mut dyn TestBed) -> Result<Vec<SearchResult>, String> {
    let settings = Settings {
        goals: goals(args),
        loads: args.range,
        duration: Duration::from_secs_f64(args.seconds),
        precision: args.precision,
        votes: usize::from(args.trials),
        trials_max: TRIALS_MAX,
    };
    let (mut progress, mut n) = (Progress::new(), 0);
    throughput(bed, settings, &mut |measured, bounds| {
        n += 1;
        progress.show(n, measured, bounds);
    })
}

/// Measures at the requested loads.
fn loads(
    args: &Bench,
    bed: &mut dyn TestBed,
    found: &[SearchResult],
) -> Result<Vec<Measured>, String> {
    let shares = [0.1, 0.25, 0.5, 0.75, 0.9, 1.0].map(Load::Share);
    let usual = args.latency.then_some(shares).into_iter().flatten();
    let whole = found.first().and_then(|f| f.bounds.lower);
    let load = |load: Load| match (load, whole) {
        (Load::Rate(rate), _) => Some(rate),
        (Load::Share(share), Some(whole)) => Some(share * whole),
        (Load::Share(_), None) => None,
    };
    let mut progress = Progress::new();
    let each = args.rates.iter().copied().chain(usual).filter_map(load);
    let run = |(n, load): (usize, f64)| {
        let duration = Duration::from_secs_f64(args.seconds);
        let measured = bed.run(Trial { load, duration })?;
        progress.show(n + 1, &measured, Bounds::default());
        Ok(measured)
    };
    each.enumerate().map(run).collect()
}

/// A line on the terminal that the next one replaces.
struct Progress(bool);

impl Progress {
    fn new() -> Progress {
        Progress(std::io::stderr().is_terminal())
    }

    fn show(&mut self, n: usize, measured: &Measured, bounds: Bounds) {
        if !self.0 {
            return;
        }
        let bound = |b: Option<f64>| b.map_or("?".to_owned(), rates::short_number);
        let between = match bounds {
            Bounds {
                lower: None,
                upper: None,
            } => String::new(),
            Bounds { lower, upper } => format!("; between {} and {}", bound(lower), bound(upper)),
        };
        say_for_now(&format!(
            "trial {n}: {}/s for {:.2} s, {:.3}% lost{between}",
            rates::short_number(measured.trial.load),
            measured.trial.duration.as_secs_f64(),
            100.0 * measured.lost(),
        ));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.0 {
            say_for_now("");
        }
    }
}

/// Results with frames of one size.
struct Report {
    size: usize,
    ports: (String, String),
    found: Vec<SearchResult>,
    measured: Vec<Measured>,
}

const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p99", 0.99), ("p99_9", 0.999), ("max", 1.0)];

/// `NDR`, or `PDR 0.5%`.
fn name(goal: f64) -> String {
    match goal {
        0.0 => "NDR".to_owned(),
        // Sums of decimal fractions have no exact text.
        _ => format!("PDR {}%", (goal * 1e8).round() / 1e6),
    }
}

impl Report {
    fn gigabits(&self, load: f64) -> f64 {
        load * (self.size as f64 + ETHERNET_GAP_BYTES) * 8.0 / 1e9
    }

    fn text(&self, args: &Bench) -> String {
        let (from, to) = &self.ports;
        let mut text = format!(
            "{}: {from} -> {to}, workers {}, frames of {} bytes, flows {}\n\n",
            args.configuration.file,
            args.workers.count(),
            self.size,
            args.flows
        );
        let head = [
            "",
            "packets/s",
            "below",
            "Gbit/s",
            "lost",
            "p50 us",
            "p99 us",
            "p99.9 us",
            "max us",
        ];
        let goals = self.found.iter().map(|f| self.goal_row(f));
        let loads = self.measured.iter().map(|m| {
            let load = format!("{:.0}", m.trial.load);
            self.row(
                ["load".to_owned(), load, String::new()],
                m.trial.load,
                Some(m),
            )
        });
        rates::print(&mut text, &head, 1, goals.chain(loads).collect());
        for found in &self.found {
            if let Some(over) = &found.fails {
                text += &lost_line(&format!("beyond {} ", name(found.goal)), over);
            }
        }
        for load in self.measured.iter().filter(|m| m.lost() > 0.0) {
            text += &lost_line("", load);
        }
        let fits = self.found.iter().filter_map(|found| found.fits.as_ref());
        text.extend(fits.chain(&self.measured).map(odd_line));
        text
    }

    fn goal_row(&self, found: &SearchResult) -> [String; 9] {
        let Bounds { lower, upper } = found.bounds;
        let least = |load: Option<f64>| load.map(|l| format!("{l:.0}"));
        let first = [
            name(found.goal),
            least(lower).unwrap_or_else(|| "none".to_owned()),
            // Without an upper bound, no greater load was tried.
            least(upper).unwrap_or_else(|| "-".to_owned()),
        ];
        self.row(first, lower.unwrap_or(0.0), found.fits.as_ref())
    }

    fn row(&self, first: [String; 3], load: f64, measured: Option<&Measured>) -> [String; 9] {
        let lost = measured.map_or(String::new(), |m| format!("{:.3}%", 100.0 * m.lost()));
        let quantile = |share| {
            let latency = measured.and_then(|m| m.latency.quantile(share));
            latency.map_or("-".to_owned(), |ns| rates::short_number(ns as f64 / 1e3))
        };
        let [what, packets, below] = first;
        let [p50, p99, p999, max] = QUANTILES.map(|(_, share)| quantile(share));
        let gigabits = format!("{:.3}", self.gigabits(load));
        [what, packets, below, gigabits, lost, p50, p99, p999, max]
    }

    fn json(&self, args: &Bench) -> Value {
        let goals = self.found.iter().map(|f| {
            json!({
                "goal": name(f.goal),
                "loss_ratio_max": f.goal,
                "packets_per_second": f.bounds.lower,
                "packets_per_second_below": f.bounds.upper,
                "line_bits_per_second": f.bounds.lower.map(|l| self.gigabits(l) * 1e9),
                "fits": f.fits.as_ref().map(trial_json),
                "fails": f.fails.as_ref().map(trial_json),
            })
        });
        json!({
            "configuration": args.configuration.file,
            "from": self.ports.0,
            "to": self.ports.1,
            "workers": args.workers.count(),
            "frame_bytes": self.size,
            "flows": args.flows,
            "simulated": args.simulate,
            "cable": args.cable,
            "throughput": goals.collect::<Vec<_>>(),
            "loads": self.measured.iter().map(trial_json).collect::<Vec<_>>(),
        })
    }
}

/// Line about the places where packets of a trial were lost.
fn lost_line(what: &str, over: &Measured) -> String {
    let missed = (over.missed > 0).then(|| ("the port's ring is full".to_owned(), over.missed));
    let mut places: Vec<_> = missed
        .into_iter()
        .chain(over.drops.iter().cloned())
        .collect();
    places.sort_by_key(|place| std::cmp::Reverse(place.1));
    let places: Vec<String> = places
        .iter()
        .map(|(name, n)| format!("{name} {n}"))
        .collect();
    let places = match places.is_empty() {
        true => "no element dropped them: were they addressed to the router itself?".to_owned(),
        false => places.join(", "),
    };
    let (load, lost) = (over.trial.load, 100.0 * over.lost());
    format!("{what}of {load:.0}/s, {lost:.3}% are lost: {places}\n")
}

/// Line about duplicates and reordering; empty if all packets arrived once and in order.
fn odd_line(m: &Measured) -> String {
    match (m.duplicates, m.reordered) {
        (0, 0) => String::new(),
        (again, late) => format!(
            "of {:.0}/s, {again} packets came twice and {late} after later packets of their flow\n",
            m.trial.load
        ),
    }
}

fn trial_json(m: &Measured) -> Value {
    let latency =
        QUANTILES.map(|(name, share)| (name.to_owned(), json!(m.latency.quantile(share))));
    json!({
        "load": m.trial.load,
        "seconds": m.trial.duration.as_secs_f64(),
        "offered": m.offered,
        "received": m.received,
        "duplicates": m.duplicates,
        "reordered": m.reordered,
        "loss_ratio": m.lost(),
        "ring_full": m.missed,
        "elsewhere": m.elsewhere,
        "drops": m.drops.iter().map(|(name, n)| json!({"name": name, "packets": n})).collect::<Vec<_>>(),
        "latency_ns": Value::Object(latency.into_iter().collect()),
    })
}
