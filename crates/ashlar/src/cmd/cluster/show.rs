//! `ashlar cluster show`

use super::{Done, File, read, routers};
use crate::cli::cluster::servers::Show;
use crate::cmd::print;
use control::client::{Client, encode};
use control::cluster::Server;
use control::view::{ElementStats, Info, Stats};
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Elements that every server's configuration has by these names.
const NODE: [&str; 7] = [
    "enter", "transit", "order", "leave4", "leave6", "beat", "from",
];
/// Where what comes by an IP network is looked at.
const UNDERLAY: &str = "under/";
/// Names of drops that are no loss: heartbeats end in VLBHeartbeat, answers in ARPQuerier.
const TAKEN: [&str; 2] = ["heard", "learned"];
const SPREAD: [&str; 4] = ["direct", "straight", "phase1", "moved"];

/// What a server says of itself.
struct Seen {
    uptime: Duration,
    /// By own link.
    links: Vec<LinkSeen>,
    /// Packets that entered here, by how they were spread.
    spread: Vec<(&'static str, u64)>,
    /// Element, name of the drop, packets.
    drops: Vec<(String, String, u64)>,
}

struct LinkSeen {
    peer: String,
    rate: u64,
    /// As the heartbeats have it.
    state: String,
    /// Seconds since it is used, or not.
    age: Option<f64>,
    /// Bits per second that it sent.
    load: f64,
}

pub(crate) fn show(asked: &Show) -> Done {
    let file = read(&asked.of.file)?;
    let first: Vec<_> = routers(&file)
        .map(|(of, client)| {
            let stats = client.get_json::<Stats>("/v1/stats");
            let sent = stats.map(|stats| sent(&file, of, &client, &stats));
            (of, client, Instant::now(), sent)
        })
        .collect();
    std::thread::sleep(Duration::from_secs_f64(asked.interval));
    let mut text = String::new();
    let mut list = Vec::new();
    for (of, client, since, before) in &first {
        let seen = match before {
            Ok(before) => look(&file, of, client, (before, *since)),
            Err(why) => Err(why.clone()),
        };
        if asked.json {
            list.push(json(of, &seen));
        } else {
            write(&mut text, of, &seen);
        }
    }
    if asked.json {
        text = serde_json::to_string_pretty(&Value::Array(list)).map_err(|e| e.to_string())?;
        text.push('\n');
    }
    print(&text)
}

fn look(
    file: &File,
    of: &Server,
    client: &Client,
    (before, since): (&[u64], Instant),
) -> Result<Seen, String> {
    let info: Info = client.get_json("/v1/info")?;
    let after: Stats = client.get_json("/v1/stats")?;
    let seconds = since.elapsed().as_secs_f64();
    let states = handler(client, "beat.links").unwrap_or_default();
    let number = file.description.server(&of.name).unwrap_or_default();
    let sent = sent(file, of, client, &after);
    let links = file.description.links_of(number).enumerate();
    let links = links.map(|(own, (link, end))| {
        let at = |all: &[u64]| all.get(own).copied().unwrap_or_default();
        let bytes = at(&sent).saturating_sub(at(before));
        let mut words = states.lines().filter_map(|line| line.split_once(' '));
        let state = words.find(|(place, _)| *place == own.to_string());
        // Behind the number stands the peer's name.
        let state = state.and_then(|(_, rest)| rest.split_once(' '));
        let (state, age) = aged(state.map_or("unknown", |(_, state)| state.trim()));
        LinkSeen {
            peer: file.description.servers[link.ends[1 - end]].name.clone(),
            rate: link.rate,
            state,
            age,
            load: bytes as f64 * 8.0 / seconds,
        }
    });
    let count = |what| {
        handler(client, &format!("enter.{what}"))?
            .trim()
            .parse()
            .ok()
    };
    Ok(Seen {
        uptime: Duration::from_nanos(info.uptime_ns),
        links: links.collect(),
        spread: SPREAD
            .into_iter()
            .filter_map(|what| Some((what, count(what)?)))
            .collect(),
        drops: after.elements.iter().flat_map(drops).collect(),
    })
}

/// A state, and for how many seconds it is so.
fn aged(state: &str) -> (String, Option<f64>) {
    let parts = state.rsplit_once(" for ");
    let age = parts.and_then(|(state, age)| Some((state, age.strip_suffix('s')?.parse().ok()?)));
    match age {
        Some((state, age)) => (state.to_owned(), Some(age)),
        None => (state.to_owned(), None),
    }
}

fn handler(client: &Client, path: &str) -> Option<String> {
    let bytes = client.get(&format!("/v1/handlers/{}", encode(path))).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Bytes that a server has sent by each of its links: by a device, or as the link's Counter has it.
fn sent(file: &File, of: &Server, client: &Client, stats: &Stats) -> Vec<u64> {
    let number = file.description.server(&of.name).unwrap_or_default();
    let links = file.description.links_of(number).enumerate();
    let all = links.map(|(own, (link, end))| {
        let name = format!("link{own}");
        if link.device(end).is_none() {
            let counted = handler(client, &format!("{name}.byte_count"));
            return counted
                .and_then(|text| text.trim().parse().ok())
                .unwrap_or_default();
        }
        let found = stats.elements.iter().filter(|e| e.name == name);
        let copies = found.flat_map(|e| &e.copies);
        copies
            .filter_map(|copy| copy.device.as_ref())
            .map(|device| device.bytes)
            .sum()
    });
    all.collect()
}

/// What an element of the node has dropped.
fn drops(element: &ElementStats) -> Vec<(String, String, u64)> {
    if !NODE.contains(&&*element.name) && !element.name.starts_with(UNDERLAY) {
        return Vec::new();
    }
    let names = element.drop_names.iter().enumerate();
    let counted = names.map(|(at, name)| {
        let copies = element.copies.iter();
        let packets = copies.filter_map(|copy| copy.drops.get(at)).sum();
        (element.name.clone(), name.clone(), packets)
    });
    counted
        .filter(|(_, name, packets)| *packets > 0 && !TAKEN.contains(&&**name))
        .collect()
}

fn write(text: &mut String, of: &Server, seen: &Result<Seen, String>) {
    let seen = match seen {
        Ok(seen) => seen,
        Err(why) => {
            let _ = writeln!(text, "server {}: {why}", of.name);
            return;
        }
    };
    let up = seen
        .links
        .iter()
        .filter(|link| link.state.starts_with("up"))
        .count();
    let _ = writeln!(
        text,
        "server {}: running for {}, {up} of {} up",
        of.name,
        clock(seen.uptime.as_secs()),
        lang::count(seen.links.len(), "link"),
    );
    for link in &seen.links {
        let _ = writeln!(
            text,
            "  to {:12} {:9.3} of {:.3} Mbit/s ({:.0} %)  {}{}",
            link.peer,
            link.load / 1e6,
            link.rate as f64 / 1e6,
            100.0 * link.load / link.rate as f64,
            link.state,
            link.age
                .map_or(String::new(), |age| format!(" for {}", clock(age as u64))),
        );
    }
    let spread: Vec<String> = seen
        .spread
        .iter()
        .map(|(what, n)| format!("{n} {what}"))
        .collect();
    if !spread.is_empty() {
        let _ = writeln!(text, "  packets that entered: {}", spread.join(", "));
    }
    for (element, name, packets) in &seen.drops {
        let _ = writeln!(text, "  dropped by {element}: {packets} {name}");
    }
}

/// Hours, minutes and seconds.
fn clock(seconds: u64) -> String {
    let (minutes, seconds) = (seconds / 60, seconds % 60);
    format!("{}:{:02}:{seconds:02}", minutes / 60, minutes % 60)
}

fn json(of: &Server, seen: &Result<Seen, String>) -> Value {
    let seen = match seen {
        Ok(seen) => seen,
        Err(why) => return json!({"server": of.name, "error": why}),
    };
    let link = |link: &LinkSeen| {
        json!({
            "to": link.peer,
            "up": link.state.starts_with("up"),
            "state": link.state,
            "seconds": link.age,
            "rate": link.rate,
            "load": link.load,
        })
    };
    let spread: serde_json::Map<String, Value> = seen
        .spread
        .iter()
        .map(|(what, n)| (what.to_string(), (*n).into()))
        .collect();
    let drop = |(element, name, packets): &(String, String, u64)| json!({"element": element, "name": name, "packets": packets});
    json!({
        "server": of.name,
        "uptime": seen.uptime.as_secs_f64(),
        "links": seen.links.iter().map(link).collect::<Vec<_>>(),
        "spread": spread,
        "drops": seen.drops.iter().map(drop).collect::<Vec<_>>(),
    })
}
