//! `ashlar cluster show` of what all servers agree on

use super::Done;
use super::mixture::{description_text, mixture, of_view};
use super::show::since;
use crate::cli::cluster::servers::Show;
use crate::cmd::print;
use agree::View;
use agree::records::{Behind, Routes};
use control::agreement::{DESCRIPTION, Home, Operator, wall_clock};
use control::file;
use serde_json::{Value, json};
use std::fmt::Write;

pub(crate) fn show(asked: &Show) -> Done {
    let home = Home::open(&asked.at.home)?;
    let view = Operator::new(&home)?.view();
    let now = wall_clock();
    let text = match (&view, asked.json) {
        (Ok(view), false) => {
            let mut text = text(&home.about.cluster, view, now);
            for name in strangers(&home, view) {
                let _ = writeln!(
                    text,
                    "  {name:12} is described, and has not come up: if it has joined, run `ashlar cluster up --agreed` \
                     there, otherwise `ashlar cluster invite {name}=ADDRESS` where `ashlar cluster init` ran"
                );
            }
            text
        }
        (Err(why), false) => away(&home, why, now)?,
        (view, true) => {
            let value = json(&home, view)?;
            format!(
                "{}\n",
                serde_json::to_string_pretty(&value).map_err(|e| e.to_string())?
            )
        }
    };
    print(&text)?;
    match view {
        Ok(view) => missing(&view).and_then(|()| match view.leader() {
            Some(_) => Ok(()),
            None => Err("no server leads the cluster".to_owned()),
        }),
        Err(_) => Err("etcd does not answer".to_owned()),
    }
}

/// An error that names members that are away.
fn missing(view: &View) -> Done {
    super::answered(&view.away_members().collect::<Vec<_>>())
}

/// Servers of this server's copy of the description that are no members.
fn strangers(home: &Home, view: &View) -> Vec<String> {
    let text = home.read(DESCRIPTION).unwrap_or_default();
    let described = file::parse_cluster(DESCRIPTION, &text).description;
    let servers = described.into_iter().flat_map(|of| of.servers);
    let names = servers.map(|server| server.name);
    names
        .filter(|name| view.present().all(|member| member != name.as_str()))
        .collect()
}

fn text(cluster: &str, view: &View, now: u64) -> String {
    let mut text = format!("cluster {cluster}: ");
    let _ = match &view.wanted.record {
        Some(wanted) => writeln!(
            text,
            "version {} is wanted, which {} proposed {} ago",
            wanted.version,
            wanted.by,
            since(wanted.at, now)
        ),
        None => writeln!(
            text,
            "no description was applied yet: servers run the files they joined with"
        ),
    };
    let leader = view.leader().map(|leader| &*leader.name);
    let _ = match leader {
        Some(name) => writeln!(text, "  leader {name}, epoch {}", view.epoch()),
        None => writeln!(
            text,
            "  no leader since epoch {}: nothing can be changed until there is one",
            view.epoch()
        ),
    };
    if let Some(routes) = view.current_routes() {
        write_routes(&mut text, routes, leader.unwrap_or_default());
    }
    if let Some(open) = view.open_proposal() {
        let _ = writeln!(
            text,
            "  {} proposed another one {} ago: servers check it",
            open.by,
            since(open.at, now)
        );
    }
    for name in view.present() {
        let _ = writeln!(text, "  {name:12} {}", server(view, name, now));
        let error = view.state(name).and_then(|state| state.error.as_deref());
        for line in error.into_iter().flat_map(str::lines) {
            let _ = writeln!(text, "    {line}");
        }
    }
    let mixture = mixture(&of_view(view));
    if let Some(programs) = mixture.programs {
        let _ = writeln!(text, "  a mixture of programs: {programs}");
    }
    if let Some(descriptions) = mixture.descriptions {
        let _ = writeln!(text, "  a mixture of descriptions: {descriptions}");
    }
    text
}

fn write_routes(text: &mut String, routes: &Routes, leader: &str) {
    let _ = write!(
        text,
        "  {} of {leader}'s kernel, version {}",
        lang::count(
            usize::try_from(routes.routes).unwrap_or(usize::MAX),
            "route"
        ),
        routes.version
    );
    let _ = match (routes.took_ms, &routes.error) {
        (_, Some(why)) => writeln!(text, ", not led: {why}"),
        (Some(ms), None) => writeln!(
            text,
            "; the last server had the latest change after {ms} ms"
        ),
        (None, None) => writeln!(text),
    };
    if let Some(why) = &routes.interfaces {
        let _ = writeln!(text, "  interfaces for routing daemons are missing: {why}");
    }
    if routes.held > 0 {
        let held = usize::try_from(routes.held).unwrap_or(usize::MAX);
        let held = lang::count(held, "route");
        let _ = writeln!(
            text,
            "  {held} of the former leader's, kept for the time of `hold`"
        );
    }
    if routes.left_out > 0 {
        let left_out = usize::try_from(routes.left_out).unwrap_or(usize::MAX);
        let _ = writeln!(text, "  {} left out:", lang::count(left_out, "route"));
        for example in &routes.examples {
            let _ = writeln!(text, "    {example}");
        }
        if left_out > routes.examples.len() {
            let _ = writeln!(text, "    ...");
        }
    }
}

/// State of a server's routes, as the leader knows it.
fn server_routes(routes: &Routes, name: &str, now: u64) -> String {
    let Some(state) = routes.servers.get(name) else {
        return String::new();
    };
    let version = match state.version {
        0 => "no version".to_owned(),
        version => format!("version {version}"),
    };
    let routes = lang::count(usize::try_from(state.routes).unwrap_or(usize::MAX), "route");
    let mut text = format!(", {routes} ({version}");
    let _ = match state.behind {
        Some(Behind::Late) => write!(text, ", behind for {}", since(state.since, now)),
        Some(Behind::Silent) => write!(text, ", not heard of for {}", since(state.since, now)),
        None => Ok(()),
    };
    if state.missing > 0 {
        let _ = write!(text, ", {} not in its tables", state.missing);
    }
    text.push(')');
    text
}

fn server(view: &View, name: &str, now: u64) -> String {
    let Some(state) = view.state(name) else {
        return "has not said what it runs".to_owned();
    };
    let there = view.alive.contains_key(name);
    let away = view.away.get(name).and_then(|of| of.record);
    let away = match (there, away) {
        (true, _) => String::new(),
        (false, Some(away)) => format!("away for {}; ", since(away, now)),
        (false, None) => "away; ".to_owned(),
    };
    let mut text = format!("{away}{}", description_text(state.version));
    if state.version > 0 {
        let _ = write!(text, " for {}", since(state.since, now));
    }
    if let Some(wanted) = view
        .wanted
        .record
        .as_ref()
        .filter(|wanted| wanted.version > state.version)
    {
        let _ = write!(text, ", behind for {}", since(wanted.at, now));
    }
    if let Some(links) = state.links.as_ref().filter(|_| there) {
        let up = links.all - links.down.len().min(links.all);
        let _ = write!(text, ", {up} of {} up", lang::count(links.all, "link"));
        if !links.down.is_empty() {
            let _ = write!(text, " (not to {})", links.down.join(", "));
        }
    }
    if let Some(routes) = view.current_routes() {
        text.push_str(&server_routes(routes, name, now));
    }
    let _ = write!(text, ", ashlar {}", state.program);
    text
}

/// The server's own account, for want of etcd.
fn away(home: &Home, why: &str, now: u64) -> Result<String, String> {
    let kept = home.kept()?;
    let described = description_text(kept.version);
    let runs = match kept.version {
        0 => format!("runs {described}"),
        _ => format!("took {described} {} ago", since(kept.since, now)),
    };
    Ok(format!(
        "cluster {}: etcd does not answer: {why}\n  nothing can be changed until a majority of its members answers: no \
         description, no member, no leader. Forwarding goes on\n  this server, {}, {runs}, and has seen epoch {}\n",
        home.about.cluster, home.about.server, kept.epoch
    ))
}

fn json(home: &Home, view: &Result<View, String>) -> Result<Value, String> {
    let view = match view {
        Ok(view) => view,
        Err(why) => {
            let kept = home.kept()?;
            return Ok(json!({
                "cluster": home.about.cluster, "error": why,
                "server": home.about.server, "version": kept.version, "epoch": kept.epoch,
            }));
        }
    };
    let wanted = view.wanted.record.as_ref();
    let server = |name: &str| {
        let state = view.state(name).cloned().unwrap_or_default();
        let behind = wanted.filter(|wanted| wanted.version > state.version);
        json!({
            "server": name,
            "there": view.alive.contains_key(name),
            "away_since": view.away.get(name).and_then(|of| of.record),
            "version": state.version,
            "since": state.since,
            "behind_since": behind.map(|wanted| wanted.at),
            "epoch": state.epoch,
            "program": state.program,
            "error": state.error,
            "links": state.links,
        })
    };
    let mixture = mixture(&of_view(view));
    Ok(json!({
        "cluster": home.about.cluster,
        "mixture": {"programs": mixture.programs, "descriptions": mixture.descriptions},
        "epoch": view.epoch(),
        "leader": view.leader().map(|leader| &leader.name),
        "version": view.version(),
        "by": wanted.map(|wanted| &wanted.by),
        "at": wanted.map(|wanted| wanted.at),
        "routes": view.current_routes(),
        "servers": view.present().map(server).collect::<Vec<_>>(),
    }))
}
