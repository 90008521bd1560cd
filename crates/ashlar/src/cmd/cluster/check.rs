//! `ashlar cluster check`

use super::{Done, File, read, server, workers};
use crate::cli::Workers;
use crate::cli::cluster::servers::Check;
use crate::cmd::{compile_source, print, say};
use control::cluster::{Description, Server, rate_text};
use engine::plan::Plan;
use planner::Registry;
use std::fmt::Write;

pub(crate) fn check(asked: &Check, registry: &Registry) -> Done {
    let name = &asked.of.file;
    check_file(
        (name, &read(name)?),
        registry,
        &asked.workers,
        asked.server.as_deref(),
    )
}

/// Checks what each server would run, and shows all of `wanted`.
pub(super) fn check_file(
    (name, file): (&str, &File),
    registry: &Registry,
    asked: &Workers,
    wanted: Option<&str>,
) -> Done {
    let ports = ports::Directory::new();
    let of = &file.description;
    let mut text = format!(
        "cluster {}: {}, {}, {} of external ports\n",
        of.name,
        lang::count(of.servers.len(), "server"),
        lang::count(of.links.len(), "internal link"),
        rate_text(of.servers.iter().map(Server::rate).sum()),
    );
    let mut wrong = 0;
    for of in &file.description.servers {
        let source = server(file, &of.name)?;
        let workers = workers(name, of, asked)?;
        let compiled = compile_source(&source, registry, workers, &ports, false);
        // Warnings concern this machine: a device of another server need not exist here.
        let asked_for = wanted == Some(&*of.name);
        let told = compiled.diagnostics.iter();
        let told: Vec<_> = told
            .filter(|d| asked_for || d.is_error())
            .cloned()
            .collect();
        say(&lang::render_all(&told, &compiled.map));
        wrong += compiled.errors();
        let Some(plan) = &compiled.plan else {
            continue;
        };
        text += &line(file, of, plan);
        if asked_for {
            text += &control::describe::describe(plan).to_string();
        }
    }
    if let Some(name) = wanted {
        server(file, name)?;
    }
    print(&text)?;
    match wrong {
        0 => Ok(()),
        n => Err(lang::count(n, "error")),
    }
}

/// A server's links, their rates, and the load that its own ports may put on them.
fn links(of: &Description, server: usize) -> String {
    let links = lang::count(of.links_of(server).count(), "internal link");
    match of.inside(server) {
        (0, _) => links,
        (inside, 0) => format!("{links} of {}", rate_text(inside)),
        (inside, asked) => format!(
            "{links} of {} where {} may be needed",
            rate_text(inside),
            rate_text(asked)
        ),
    }
}

/// Summary of a server's configuration, in a line.
fn line(file: &File, of: &Server, plan: &Plan) -> String {
    let number = file.description.server(&of.name).unwrap_or_default();
    let mut text = format!(
        "server {}: {}, {}, {} on {}, receives and sends by",
        of.name,
        lang::count(of.ports.len(), "external port"),
        links(&file.description, number),
        lang::count(plan.elements.len(), "element"),
        lang::count(plan.workers, "worker"),
    );
    let devices: Vec<&str> = plan.devices.iter().map(|device| &*device.name).collect();
    let _ = writeln!(text, " {}", devices.join(", "));
    text
}
