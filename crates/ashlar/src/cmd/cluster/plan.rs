//! `ashlar cluster plan`

use super::{Done, read};
use crate::cli::ClusterPlan;
use crate::cmd::print;
use cluster::health::LINKS_MAX;
use cluster::plan::{Plan, Server, Topology, Wanted, clos};
use control::cluster::Description;
use serde_json::{Value, json};

/// Number of ports of a switch in the design that is compared with.
const SWITCH: u32 = 48;

pub(crate) fn plan(asked: &ClusterPlan) -> Done {
    let (processing, slots) = asked.server.abilities();
    let server = Server {
        processing: asked.processing.unwrap_or(processing),
        slots: asked.slots.unwrap_or(slots),
        nics: asked.nics.clone(),
        latency: (asked.latency * 1e3) as u64,
    };
    let (ports, rate) = match &asked.file {
        Some(file) => described(file)?,
        None => (asked.ports.clone(), asked.rate),
    };
    let mut plans = Vec::new();
    for ports in ports {
        let wanted = Wanted {
            ports,
            rate,
            c: asked.c,
            server: server.clone(),
        };
        plans.push(cluster::plan::plan(&wanted).map_err(|e| format!("{ports} ports: {e}"))?);
    }
    match asked.json {
        true => {
            let all: Vec<Value> = plans.iter().map(to_json).collect();
            let text = serde_json::to_string_pretty(&all).map_err(|e| e.to_string())?;
            print(&format!("{text}\n"))
        }
        false => {
            let texts: Vec<String> = plans.iter().map(text).collect();
            print(&texts.join("\n"))
        }
    }
}

/// External ports of a cluster's file, now and with one more server, and the greatest rate.
fn described(file: &str) -> Result<(Vec<u32>, f64), String> {
    let servers = read(file)?.description.servers;
    let ports = servers.iter().flat_map(|server| &server.ports);
    let rate = ports.clone().map(|port| port.rate).max();
    let rate = rate.ok_or_else(|| format!("{file}: no server has an external port to plan for"))?;
    let all = ports.count() as u32;
    let most = servers.iter().map(|server| server.ports.len()).max();
    let more = all + most.unwrap_or(0) as u32;
    Ok((vec![all, more], rate as f64))
}

/// Servers' worth of the design around switches; its servers process 2R for each port, whatever the traffic.
fn switched(plan: &Plan) -> (clos::Clos, f64) {
    let servers = plan.wanted.ports.div_ceil(plan.ports_per_server);
    let net = clos::clos(plan.wanted.ports, SWITCH);
    (net, clos::cost(plan.wanted.ports, SWITCH, servers))
}

fn topology(plan: &Plan) -> String {
    match plan.topology {
        Topology::Single => "one server".to_owned(),
        Topology::Mesh => "full mesh".to_owned(),
        Topology::Fly { k, stages } => format!("{k}-ary {stages}-fly"),
    }
}

fn gbit(rate: f64) -> String {
    format!("{:.3} Gbit/s", rate / 1e9)
}

fn text(plan: &Plan) -> String {
    let rows = [servers(plan), links(plan), work(plan), vec![built(plan)]].concat();
    let rows: String = rows
        .iter()
        .map(|(name, value)| format!("  {name:<22}{value}\n"))
        .collect();
    let ports = count(plan.wanted.ports, "external port");
    format!("{ports} of {}\n{rows}", gbit(plan.wanted.rate))
}

/// A line: subject and text.
type Row = (String, String);

fn row(name: &str, value: String) -> Row {
    (name.to_owned(), value)
}

fn servers(plan: &Plan) -> Vec<Row> {
    let servers = match plan.transit_servers() {
        0 => format!("{}", plan.servers()),
        between => format!(
            "{} ({} with external ports, {between} between)",
            plan.servers(),
            plan.port_servers
        ),
    };
    let ports = format!(
        "{} for each server, {} slots",
        plan.ports_per_server, plan.slots.0
    );
    vec![
        row("topology", topology(plan)),
        row("servers", servers),
        row("external ports", ports),
    ]
}

fn links(plan: &Plan) -> Vec<Row> {
    if plan.links() == 0 {
        return Vec::new();
    }
    let links = format!(
        "{}; each server has {}, of {}",
        plan.links(),
        plan.fan_out(),
        gbit(plan.link)
    );
    let cards = format!(
        "{} of {} x {}, {} for each link",
        plan.slots.1,
        plan.nic.ports,
        gbit(plan.nic.rate),
        count(plan.trunk, "port")
    );
    vec![row("links", links), row("cards for links", cards)]
}

/// Processing load, latency, and the design with switches.
fn work(plan: &Plan) -> Vec<Row> {
    let load = format!(
        "{} of {} in the worst case",
        gbit(plan.port_load()),
        gbit(plan.wanted.server.processing)
    );
    let mut rows = vec![row("load of a server", load)];
    if plan.transit_servers() > 0 {
        let load = format!(
            "{}; {} such servers would be enough for processing alone",
            gbit(plan.transit_load()),
            plan.transit_by_processing()
        );
        rows.push(row("  of one between", load));
    }
    let ((direct, balanced), latency) = (plan.passes(), plan.latency());
    let latency = format!(
        "{} us directly ({}), {} us by an intermediate server ({})",
        latency.0 / 1000,
        count(direct, "server"),
        latency.1 / 1000,
        count(balanced, "server")
    );
    rows.push(row("latency", latency));
    let (net, cost) = switched(plan);
    let switches = format!(
        "{} ({} passed); with their servers they cost as much as {cost:.0} servers",
        clos::packed(&net, SWITCH),
        net.passes
    );
    rows.push((format!("{SWITCH}-port switches"), switches));
    rows
}

/// Reasons why no cluster's file can describe the plan.
fn obstacles(plan: &Plan) -> Vec<String> {
    let limits = [
        (plan.servers(), Description::SERVERS_MAX, "servers"),
        (plan.fan_out() * plan.trunk, LINKS_MAX, "links of a server"),
        (
            plan.ports_per_server,
            Description::PORTS_MAX,
            "ports of a server",
        ),
        (
            plan.wanted.ports,
            Description::DESTINATIONS_MAX,
            "external ports",
        ),
    ];
    let beyond = limits.iter().filter(|(n, most, _)| *n as usize > *most);
    let beyond = beyond.map(|(n, most, what)| format!("{n} {what}, where {most} are the most"));
    let one_way = "cables between its columns are one-way, and links of a file are not";
    let fly = matches!(plan.topology, Topology::Fly { .. }).then(|| one_way.to_owned());
    fly.into_iter().chain(beyond).collect()
}

/// Says if `ashlar cluster up` can run the plan.
fn built(plan: &Plan) -> Row {
    let value = match &*obstacles(plan) {
        [] => "can be built: write the servers and links into a file".to_owned(),
        obstacles => format!("cannot be built yet: {}", obstacles.join("; ")),
    };
    row("by ashlar cluster", value)
}

fn count(n: u32, what: &str) -> String {
    lang::count(n as usize, what)
}

fn to_json(plan: &Plan) -> Value {
    let (k, stages) = match plan.topology {
        Topology::Fly { k, stages } => (k, stages),
        _ => (plan.fan_out(), 0),
    };
    let (net, cost) = switched(plan);
    json!({
        "ports": plan.wanted.ports,
        "topology": topology(plan),
        "servers": plan.servers(),
        "port_servers": plan.port_servers,
        "transit_servers": plan.transit_servers(),
        "transit_by_processing": plan.transit_by_processing(),
        "ports_per_server": plan.ports_per_server,
        "fan_out": k,
        "stages": stages,
        "links": plan.links(),
        "link_bps": plan.link,
        "trunk": plan.trunk,
        "slots_external": plan.slots.0,
        "slots_internal": plan.slots.1,
        "load_bps": plan.port_load(),
        "transit_load_bps": plan.transit_load(),
        "latency_ns": [plan.latency().0, plan.latency().1],
        "switches": clos::packed(&net, SWITCH),
        "switch_ports": net.ports,
        "switched_cost": cost,
        "obstacles": obstacles(plan),
    })
}
