//! `ashlar cluster up`

use super::{Done, read, server, workers};
use crate::cli::cluster::servers::Up;
use crate::cmd::run::run_source;
use engine::plan::Registry;

pub(crate) fn up(asked: Up, registry: &Registry) -> Done {
    let mut run = asked.run;
    let file = read(&run.configuration.file)?;
    let source = server(&file, &asked.server)?;
    let of = &file.description;
    if let Some(number) = of.server(&asked.server) {
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
