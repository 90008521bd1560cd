//! `ashlar cluster`: many servers, one router. Each of its commands has a file.

mod check;
mod plan;
mod reload;
mod results;
mod show;
mod simulate;
mod up;

use super::{Done, print, say};
use crate::cli::{Cluster, ClusterCommand};
use control::Source;
use control::cluster::{Description, Server, file};

pub(crate) fn cluster(asked: Cluster) -> Done {
    match asked.command {
        ClusterCommand::Plan(asked) => plan::plan(&asked),
        ClusterCommand::Simulate(asked) => simulate::simulate(&asked),
        ClusterCommand::Check(asked) => check::check(&asked),
        ClusterCommand::Text(asked) => {
            let file = read(&asked.of.file)?;
            print(&server(&file, &asked.server)?.text)
        }
        ClusterCommand::Up(asked) => up::up(*asked),
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

/// The routers of the servers, as far as they answer.
fn routers(file: &File) -> impl Iterator<Item = (&Server, control::client::Client)> {
    let of = &file.description;
    let client = |server| control::client::Client::new(&of.socket(server));
    of.servers
        .iter()
        .map(move |server| (server, client(server)))
}
