//! `ashlar cluster up`

use super::{Done, File, one_of, read, server, workers};
use crate::cli::Run;
use crate::cli::cluster::servers::Up;
use crate::cmd::run::run_source;
use control::agreement::{DESCRIPTION, Home, Participant};
use planner::Registry;
use std::ffi::OsStr;
use std::path::Path;

pub(crate) fn up(asked: Up, registry: &Registry) -> Done {
    let Up { mut run, agreed } = asked;
    let file = read(&run.configuration.file)?;
    let participant = if agreed {
        Some(participant(&mut run)?)
    } else {
        None
    };
    up_agreed(run, registry, &file, participant)
}

/// This server's participant in the cluster's agreement, under the name with which the server joined.
fn participant(run: &mut Run) -> Result<Participant, String> {
    let file = Path::new(&run.configuration.file);
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let home = Home::open(folder.unwrap_or(Path::new(".")))?;
    if file.file_name() != Some(OsStr::new(DESCRIPTION)) {
        return Err(format!(
            "with --agreed a server runs its own copy of the description: {}",
            home.path(DESCRIPTION).display()
        ));
    }
    let own = &home.about.server;
    match &run.configuration.server {
        Some(named) if named != own => {
            return Err(format!(
                "{} belongs to server {own}, not {named}",
                home.folder.display()
            ));
        }
        _ => run.configuration.server = Some(own.clone()),
    }
    Participant::new(home)
}

/// Runs the server that is named.
pub(super) fn up_file(run: Run, registry: &Registry, file: &File) -> Done {
    up_agreed(run, registry, file, None)
}

fn up_agreed(
    mut run: Run,
    registry: &Registry,
    file: &File,
    participant: Option<Participant>,
) -> Done {
    let name = one_of(file, run.configuration.server.as_deref())?;
    let source = server(file, name)?;
    let of = &file.description;
    if of.namespace.is_some() && participant.is_none() {
        return Err(
            "[cluster.routes] is for servers that agree on a leader: start them by `ashlar cluster up FILE --agreed`"
                .to_owned(),
        );
    }
    if let Some(number) = of.server(name) {
        let server = &of.servers[number];
        let count = workers(&run.configuration.file, server, &run.workers)?;
        run.workers.workers = Some(count);
        run.name.get_or_insert_with(|| of.router_name(server));
        if !run.no_socket {
            run.socket.get_or_insert_with(|| of.socket(server));
        }
    }
    let read = move |run: &Run| {
        let mut source = source;
        source.define(&run.configuration.definitions);
        Ok(source)
    };
    run_source(run, registry, participant, read)
}
