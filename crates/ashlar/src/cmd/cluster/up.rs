//! `ashlar cluster up`

use super::{Done, File, one_of, read, server, workers};
use crate::cli::Run;
use crate::cli::cluster::servers::Up;
use crate::cmd::run::run_source;
use planner::Registry;

pub(crate) fn up(asked: Up, registry: &Registry) -> Done {
    let file = read(&asked.run.configuration.file)?;
    up_file(asked.run, registry, &file)
}

/// Runs the server that is named.
pub(super) fn up_file(mut run: Run, registry: &Registry, file: &File) -> Done {
    let name = one_of(file, run.configuration.server.as_deref())?;
    let source = server(file, name)?;
    let of = &file.description;
    if let Some(number) = of.server(name) {
        let server = &of.servers[number];
        let count = workers(&run.configuration.file, server, &run.workers)?;
        run.workers.workers = Some(count);
        run.name.get_or_insert_with(|| of.router_name(server));
        if !run.no_socket {
            run.socket.get_or_insert_with(|| of.socket(server));
        }
    }
    run_source(run, registry, move |run| {
        let mut source = source;
        source.define(&run.configuration.definitions);
        Ok(source)
    })
}
