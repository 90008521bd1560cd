//! `ashlar cluster show`

use super::{Done, answered, read, routers};
use crate::cli::cluster::servers::Show;
use crate::cmd::print;
use control::client::cluster::{Look, Seen, SeenLink};
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

pub(crate) fn show(file: &str, asked: &Show) -> Done {
    let of = read(file)?.description;
    let first: Vec<_> = routers(&of, &asked.servers)?
        .into_iter()
        .map(|(server, client)| (&*of.servers[server].name, Look::begin(&of, server, client)))
        .collect();
    std::thread::sleep(Duration::from_secs_f64(asked.interval));
    let seen = first.into_iter().map(|(name, first)| {
        let seen = first.and_then(|first| first.end());
        (name, seen)
    });
    let seen: Vec<(&str, Result<Seen, String>)> = seen.collect();
    let mut text = String::new();
    if asked.json {
        let list = seen.iter().map(|(name, seen)| json(name, seen)).collect();
        text = serde_json::to_string_pretty(&Value::Array(list)).map_err(|e| e.to_string())?;
        text.push('\n');
    } else {
        for (name, seen) in &seen {
            write(&mut text, name, seen);
        }
    }
    print(&text)?;
    let silent = seen.iter().filter(|(_, seen)| seen.is_err());
    answered(&silent.map(|(name, _)| *name).collect::<Vec<_>>())
}

fn write(text: &mut String, name: &str, seen: &Result<Seen, String>) {
    let seen = match seen {
        Ok(seen) => seen,
        Err(why) => {
            let _ = writeln!(text, "server {name}: {why}");
            return;
        }
    };
    let up = seen.links.iter().filter(|link| link.up()).count();
    let _ = writeln!(
        text,
        "server {name}: running for {}, {up} of {} up",
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

/// Time since a moment, both in milliseconds since 1970, as hours, minutes and seconds.
pub(super) fn since(then: u64, now: u64) -> String {
    clock(now.saturating_sub(then) / 1000)
}

/// Hours, minutes and seconds.
fn clock(seconds: u64) -> String {
    let (minutes, seconds) = (seconds / 60, seconds % 60);
    format!("{}:{:02}:{seconds:02}", minutes / 60, minutes % 60)
}

fn json(name: &str, seen: &Result<Seen, String>) -> Value {
    let seen = match seen {
        Ok(seen) => seen,
        Err(why) => return json!({"server": name, "error": why}),
    };
    let link = |link: &SeenLink| {
        json!({
            "to": link.peer,
            "up": link.up(),
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
    let drop = |of: &(String, String, u64)| json!({"element": of.0, "name": of.1, "packets": of.2});
    json!({
        "server": name,
        "uptime": seen.uptime.as_secs_f64(),
        "links": seen.links.iter().map(link).collect::<Vec<_>>(),
        "spread": spread,
        "drops": seen.drops.iter().map(drop).collect::<Vec<_>>(),
    })
}
