//! `ashlar show`

use super::{Done, complain, print, print_json};
use crate::cli::Show;
use control::client::{Client, encode};
use control::view::{Element, Info, Router};
use std::fmt::Write;

pub(crate) fn show(show: &Show) -> Done {
    let client = show.target.client()?;
    let Some(what) = &show.what else {
        if !client.names_router() && routers(&client, show.json)? {
            return Ok(());
        }
        let info: Info = client.get_json("/v1/info")?;
        if !info.own.is_empty() && info.own != info.configuration {
            complain(&format!(
                "{} runs; the next reload without a file, SIGHUP or restart reads {}",
                info.configuration, info.own
            ));
        }
        return list(&client, show.json);
    };
    let elements: Vec<Element> = client.get_json("/v1/elements")?;
    match elements.iter().find(|e| e.name == *what) {
        Some(element) if show.argument.is_empty() => print_element(&client, element, show.json),
        _ => {
            let text = read(&client, what, &show.argument.join(" "))?;
            if show.json {
                return print_json(&serde_json::json!({"handler": what, "value": text}));
            }
            let end = if text.is_empty() || text.ends_with('\n') {
                ""
            } else {
                "\n"
            };
            print(&format!("{text}{end}"))
        }
    }
}

/// Lists the routers of a process that runs several; returns true if it does.
fn routers(client: &Client, json: bool) -> Result<bool, String> {
    let routers: Vec<Router> = client.get_json("/v1/routers")?;
    if routers.len() < 2 {
        return Ok(false);
    }
    if json {
        let text = serde_json::to_string(&routers).map_err(|e| e.to_string())?;
        print(&format!("{text}\n"))?;
        return Ok(true);
    }
    let width = routers.iter().map(|r| r.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for r in &routers {
        let netns = r.netns.as_deref().map(|netns| format!(" in {netns}"));
        let ended = if r.ended { ", ended" } else { "" };
        let isolated = r.isolated.as_ref().map(|own| {
            let state = if own.running { "runs" } else { "does not run" };
            format!(
                ", isolated: user {}, {state}, started {}",
                own.user,
                times(own.starts)
            )
        });
        let _ = writeln!(
            text,
            "{:width$}  {}{}, share {}{}, priority {}{}, {}, {}{ended}{}",
            r.name,
            r.configuration,
            netns.unwrap_or_default(),
            r.share,
            of_group(r.group_share),
            r.priority,
            bounds(r.buffers, r.routes),
            lang::count(r.elements, "element"),
            r.ports.join(" "),
            isolated.unwrap_or_default(),
        );
    }
    print(&text)?;
    Ok(true)
}

/// Names the group of a router's share.
pub(crate) fn of_group(tickets: Option<u32>) -> String {
    tickets.map_or(String::new(), |n| format!(" in a group of {n}"))
}

/// Lists the limits of a router.
pub(crate) fn bounds(buffers: Option<u32>, routes: Option<u32>) -> String {
    let all = [(buffers, "buffers"), (routes, "routes")].into_iter();
    let each = all.filter_map(|(most, what)| Some(format!(", {} {what} at most", most?)));
    each.collect()
}

fn times(n: u64) -> String {
    if n == 1 {
        "once".to_owned()
    } else {
        format!("{n} times")
    }
}

/// A handler's text.
pub(super) fn read(client: &Client, path: &str, argument: &str) -> Result<String, String> {
    let target = format!(
        "/v1/handlers/{}?argument={}",
        encode(path),
        encode(argument)
    );
    let bytes = client.get(&target)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn list(client: &Client, json: bool) -> Done {
    if json {
        let bytes = client.get("/v1/elements")?;
        return print(&format!("{}\n", String::from_utf8_lossy(&bytes)));
    }
    let elements: Vec<Element> = client.get_json("/v1/elements")?;
    let width = |f: fn(&Element) -> usize| elements.iter().map(f).max().unwrap_or(0);
    let (name, class) = (width(|e| e.name.len()), width(|e| e.class.len()));
    let mut text = String::new();
    for e in &elements {
        let own = e.handlers.iter().filter(|h| !is_common(&h.name));
        let handlers: Vec<String> = own.map(|h| mark(&h.name, h.read)).collect();
        let line = format!(
            "{:name$} :: {:class$}  {}",
            e.name,
            e.class,
            handlers.join(" ")
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    print(&text)
}

/// Handlers that can only be written end in `=`.
fn mark(name: &str, read: bool) -> String {
    format!("{name}{}", if read { "" } else { "=" })
}

fn is_common(name: &str) -> bool {
    let mut standard = engine::graph::standard::COMMON
        .iter()
        .chain(&engine::graph::standard::TASK);
    standard.any(|h| h.name == name)
}

/// Prints all readable handlers of an element, with short values.
fn print_element(client: &Client, element: &Element, json: bool) -> Done {
    let mut values = Vec::new();
    for handler in &element.handlers {
        let value = match handler.read {
            // A handler that needs an argument returns an error: this is no failure of the list.
            true => read(client, &format!("{}.{}", element.name, handler.name), "").ok(),
            false => None,
        };
        values.push(value);
    }
    if json {
        let pairs = element.handlers.iter().zip(&values);
        let map: serde_json::Map<String, serde_json::Value> = pairs
            .filter_map(|(h, v)| Some((h.name.clone(), v.clone()?.into())))
            .collect();
        let text = serde_json::to_string_pretty(&map).map_err(|e| e.to_string())?;
        return print(&format!("{text}\n"));
    }
    let width = element
        .handlers
        .iter()
        .map(|h| h.name.len() + 1)
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for (handler, value) in element.handlers.iter().zip(values) {
        let name = mark(&handler.name, handler.read);
        let value = value.unwrap_or_else(|| format!("({})", handler.doc));
        let mut lines = value.lines();
        let first = lines.next().unwrap_or_default();
        let _ = writeln!(text, "{}", format!("{name:width$}  {first}").trim_end());
        let rest: Vec<&str> = lines.collect();
        for line in rest.iter().take(10) {
            let _ = writeln!(text, "{:width$}  {line}", "");
        }
        if rest.len() > 10 {
            let _ = writeln!(text, "{:width$}  ... {} more lines", "", rest.len() - 10);
        }
    }
    print(&text)
}
