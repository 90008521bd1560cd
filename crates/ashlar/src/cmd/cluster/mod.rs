//! `ashlar cluster`: many servers, one router. Each of its commands has a file.

mod agreed;
mod apply;
mod capture;
mod check;
mod doctor;
mod events;
mod join;
mod leave;
mod mixture;
mod plan;
mod reload;
mod results;
mod server_rates;
mod show;
mod simulate;
mod top;
mod trace;
mod up;

use super::{Done, print_as_it_is, say};
use crate::cli::{Cluster, ClusterCommand, Configuration, Run, Workers};
use control::Source;
use control::client::Client;
use control::cluster::{Description, Server};
use control::file::{self, Parsed};
use lang::{Diagnostic, SourceMap};
use planner::Registry;
use std::os::unix::fs::PermissionsExt;
use std::process::ExitCode;

pub(crate) fn cluster(asked: Cluster, registry: &Registry) -> Result<ExitCode, String> {
    let done = match asked.command {
        ClusterCommand::Doctor(asked) => return doctor::doctor(&asked),
        ClusterCommand::Top(asked) => top::top(&asked),
        ClusterCommand::Capture(asked) => capture::capture(&asked),
        ClusterCommand::Trace(asked) => trace::trace(&asked),
        ClusterCommand::Events(asked) => events::events(&asked),
        ClusterCommand::Plan(asked) => plan::plan(&asked),
        ClusterCommand::Simulate(asked) => simulate::simulate(&asked),
        ClusterCommand::Check(asked) => check::check(&asked, registry),
        ClusterCommand::Text(asked) => {
            let file = read(&asked.of.file)?;
            print_as_it_is(&server(&file, &asked.server)?.text)
        }
        ClusterCommand::Up(asked) => up::up(*asked, registry),
        ClusterCommand::Show(asked) => match &asked.file {
            Some(file) => show::show(file, &asked),
            None => agreed::show(&asked),
        },
        ClusterCommand::Init(asked) => join::init(&asked),
        ClusterCommand::Invite(asked) => join::invite(&asked),
        ClusterCommand::Join(asked) => join::join(&asked),
        ClusterCommand::Leave(asked) => leave::leave(&asked),
        ClusterCommand::Apply(asked) => apply::apply(&asked),
        ClusterCommand::Reload(asked) => reload::reload(&asked),
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// A cluster's file.
struct File {
    source: Source,
    description: Description,
}

/// Reads a cluster's file, and prints its mistakes.
fn read(name: &str) -> Result<File, String> {
    let source = Source::read(name, Vec::new())?;
    let parsed = file::parse_cluster(&source.name, &source.text);
    read_as(source, parsed)
}

/// A cluster's file that has been read.
fn read_as(source: Source, parsed: Parsed) -> Result<File, String> {
    say(&parsed.text());
    if let Some(description) = &parsed.description {
        say(&open_key(&source, description));
    }
    match parsed.description {
        Some(description) => Ok(File {
            source,
            description,
        }),
        None => Err(lang::count(parsed.errors(), "error")),
    }
}

/// A warning if others on this machine may read the key.
fn open_key(source: &Source, of: &Description) -> String {
    let path = source.path.as_deref().filter(|_| of.keys.is_some());
    let mode = path.and_then(|path| std::fs::metadata(path).ok());
    let mode = mode.map_or(0, |about| about.permissions().mode() & 0o777);
    match mode & 0o007 {
        0 => String::new(),
        _ => {
            let name = &source.name;
            let wrong =
                format!("everybody on this machine may read the key in {name} (mode {mode:03o})");
            let warning = Diagnostic::warning("cluster-key-open", wrong);
            let warning = warning.help(format!(
                "chmod 600 {name}, and take another key if somebody has read this one"
            ));
            lang::render(&warning, &SourceMap::new())
        }
    }
}

/// `ashlar run` of a cluster's file.
pub(super) fn run(run: Run, registry: &Registry, source: Source, parsed: Parsed) -> Done {
    up::up_file(run, registry, &read_as(source, parsed)?)
}

/// `ashlar check` of a cluster's file.
pub(super) fn check_as(
    configuration: &Configuration,
    registry: &Registry,
    workers: &Workers,
    source: Source,
    parsed: Parsed,
) -> Done {
    let file = read_as(source, parsed)?;
    check::check_file(
        (&configuration.file, &file),
        registry,
        workers,
        configuration.server.as_deref(),
    )
}

/// Server for `ashlar plan` and `ashlar reload` of a cluster's file: its configuration and its workers.
pub(super) fn one(
    configuration: (&str, Option<&str>),
    asked: &Workers,
    source: Source,
    parsed: Parsed,
) -> Result<(Source, u8), String> {
    let (name, wanted) = configuration;
    let file = read_as(source, parsed)?;
    let of = one_of(&file, wanted)?;
    let number = file.description.number(of)?;
    let workers = workers(name, &file.description.servers[number], asked)?;
    Ok((server(&file, of)?, workers))
}

/// The named server of a file. The error asks for a name, and lists the servers.
fn one_of<'a>(file: &File, wanted: Option<&'a str>) -> Result<&'a str, String> {
    wanted.ok_or_else(|| {
        let names = file.description.servers.iter().map(|server| &*server.name);
        let names: Vec<&str> = names.collect();
        format!(
            "{} describes a cluster: say which server by --server: {}",
            file.source.name,
            names.join(", ")
        )
    })
}

/// Configuration of a server of the file.
fn server(file: &File, name: &str) -> Result<Source, String> {
    file.source.of_server(&file.description, name)
}

/// Number of workers of a server, from the file or the command line, which must not differ.
fn workers(name: &str, server: &Server, asked: &Workers) -> Result<u8, String> {
    match (server.workers, asked.workers) {
        (Some(said), Some(asked)) if said != asked => Err(format!(
            "--workers is {asked}, and {name} says `workers = {said}` for server `{}`: leave --workers out, or change \
             the file on all servers",
            server.name
        )),
        (Some(said), _) => Ok(said),
        (None, _) => Ok(asked.count()),
    }
}

/// The numbers of the servers that are asked, and clients of their routers.
fn routers(of: &Description, servers: &[String]) -> Result<Vec<(usize, Client)>, String> {
    let named: Result<Vec<usize>, String> = servers.iter().map(|name| of.number(name)).collect();
    let numbers = match named? {
        none if none.is_empty() => (0..of.servers.len()).collect(),
        named => named,
    };
    let client = |number| (number, Client::new(&of.socket(&of.servers[number]), None));
    Ok(numbers.into_iter().map(client).collect())
}

/// Result of a command to servers, of which those in `silent` have not answered.
fn answered(silent: &[&str]) -> Done {
    match silent.is_empty() {
        true => Ok(()),
        false => Err(format!("no answer from {}", silent.join(", "))),
    }
}
