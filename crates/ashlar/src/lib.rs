//! The program, for crates that add element classes and kinds of ports to it: docs/extending.md. `cli` is the command
//! line; each subcommand is a file of `cmd`.

mod class_pages;
mod cli;
mod click;
mod cmd;
mod confine;
#[cfg(test)]
mod generated_pages;
mod graph;
mod keep;
mod packet;
mod rates;
mod user;

/// The messages that `ashlar keep` takes, for fuzzing.
#[doc(hidden)]
pub use keep::fd_store::held_after;

use clap::{CommandFactory, Parser};
use cli::{Cli, Command};
use engine::element::Class;
use ports::scheme::Scheme;
use std::process::ExitCode;

/// Runs the program with this process's command line. The program has Ashlar's own element classes and kinds of ports,
/// and those of `classes` and `schemes`. An added class or kind replaces Ashlar's own of the same name.
pub fn main(classes: &[&'static [Class]], schemes: &[&'static dyn Scheme]) -> ExitCode {
    control::log::end_on_panic();
    ports::scheme::add(schemes);
    let registry = classes::registry().with_classes(classes);
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    if std::path::Path::new(&name).file_name() == Some("click".as_ref()) {
        return click::main(words, registry);
    }
    if words.next().as_deref() == Some("click".as_ref()) {
        return click::main(words, registry);
    }
    // A shell may have started the program to complete a command line.
    clap_complete::CompleteEnv::with_factory(Cli::command).complete();
    let done = match Cli::parse().command {
        Command::Run(run) => cmd::run::run(run, &registry),
        Command::Keep(keep) => match keep::keep(&keep) {
            Ok(code) => return code,
            Err(text) => Err(text),
        },
        Command::Confine(args) => match confine::confine(&args) {
            Ok(code) => return code,
            Err(text) => Err(text),
        },
        Command::Netns(args) => confine::namespace::make(&args),
        Command::Check(check) => cmd::check::check(&check, &registry),
        Command::Plan(plan) => cmd::plan::plan(&plan, &registry),
        Command::Graph(graph) => cmd::graph::graph(&graph, &registry),
        Command::Ports(ports) => cmd::list_ports::ports(&ports, &registry),
        Command::Doctor(doctor) => match cmd::doctor::doctor(&doctor, &registry) {
            Ok(code) => return code,
            Err(text) => Err(text),
        },
        Command::Doc(doc) => cmd::doc::doc(&doc, &registry),
        // The command line of `click` was processed above.
        Command::Click { .. } => Ok(()),
        Command::Show(show) => cmd::show::show(&show),
        Command::Save(save) => cmd::save::save(&save),
        Command::Set(set) => cmd::set::set(&set),
        Command::Top(top) => cmd::top::top(&top),
        Command::Capture(capture) => cmd::capture::capture(&capture),
        Command::Trace(trace) => cmd::trace::trace(&trace),
        Command::Reload(reload) => cmd::reload::reload(&reload),
        Command::Shell(target) => cmd::shell::shell(&target),
        Command::Bench(bench) => cmd::bench::bench(&bench, &registry),
        Command::Cluster(cluster) => match cmd::cluster::cluster(cluster, &registry) {
            Ok(code) => return code,
            Err(text) => Err(text),
        },
        Command::Balance(balancer) => cmd::balance::balance(&balancer),
        Command::Router(router) => cmd::router::router(&router),
        Command::Ipsec(cli::Ipsec::Show(target)) => cmd::ipsec::show(&target),
        Command::Flow(flow) => cmd::flow::flow(&flow),
        Command::Stop(target) => cmd::set::stop(&target),
        Command::Man { folder } => cmd::man::man(folder.as_deref()),
        Command::Completions { shell } => cmd::man::completions(shell),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            // A reader that closes early (`ashlar show | head`) is no mistake.
            if !text.is_empty() {
                cmd::complain(&text);
            }
            ExitCode::FAILURE
        }
    }
}
