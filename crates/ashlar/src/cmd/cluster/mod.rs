//! `ashlar cluster`: many servers, one router. Each of its commands has a file.

mod check;
mod plan;
mod reload;
mod results;
mod show;
mod simulate;
mod up;

use super::{Done, print, say};
use crate::cli::cluster::servers::Running;
use crate::cli::{Cluster, ClusterCommand, Workers};
use control::Source;
use control::client::Client;
use control::cluster::{Description, Server, file};
use engine::plan::Registry;

pub(crate) fn cluster(asked: Cluster, registry: &Registry) -> Done {
    match asked.command {
        ClusterCommand::Plan(asked) => plan::plan(&asked),
        ClusterCommand::Simulate(asked) => simulate::simulate(&asked),
        ClusterCommand::Check(asked) => check::check(&asked, registry),
        ClusterCommand::Text(asked) => {
            let file = read(&asked.of.file)?;
            print(&server(&file, &asked.server)?.text)
        }
        ClusterCommand::Up(asked) => up::up(*asked, registry),
        ClusterCommand::Show(asked) => show::show(&asked),
        ClusterCommand::Reload(asked) => reload::reload(&asked),
    }
}

/// A cluster's file.
struct File {
    source: Source,
    description: Description,
}

/// Reads a cluster's file, and says its mistakes.
fn read(name: &str) -> Result<File, String> {
    let source = Source::read(name, Vec::new())?;
    let parsed = file::parse(&source.name, &source.text);
    say(&parsed.text());
    match parsed.description {
        Some(description) => Ok(File {
            source,
            description,
        }),
        None => Err(lang::count(parsed.errors(), "error")),
    }
}

/// What a server of the file runs.
fn server(file: &File, name: &str) -> Result<Source, String> {
    file.source.of_server(&file.description, name)
}

/// How many workers a server has: as the file says, or as is asked for, which must not differ.
fn workers(name: &str, server: &Server, asked: &Workers) -> Result<u8, String> {
    match (server.workers, asked.workers) {
        (Some(said), Some(asked)) if said != asked => Err(format!(
            "--workers is {asked}, and {name} says `workers = {said}` for server `{}`: leave --workers out, or change the \
             file on all servers",
            server.name
        )),
        (Some(said), _) => Ok(said),
        (None, _) => Ok(asked.count()),
    }
}

/// The numbers of the servers that are asked, and clients of their routers.
fn routers(of: &Description, asked: &Running) -> Result<Vec<(usize, Client)>, String> {
    let named: Result<Vec<usize>, String> =
        asked.servers.iter().map(|name| of.number(name)).collect();
    let numbers = match named? {
        none if none.is_empty() => (0..of.servers.len()).collect(),
        named => named,
    };
    let client = |number| (number, Client::new(&of.socket(&of.servers[number])));
    Ok(numbers.into_iter().map(client).collect())
}

/// The end of a command that has asked servers, some of which may not have answered.
fn answered(silent: &[&str]) -> Done {
    match silent.is_empty() {
        true => Ok(()),
        false => Err(format!("no answer from {}", silent.join(", "))),
    }
}
