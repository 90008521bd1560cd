//! The subcommands. Each returns nothing, or an error text for standard error (empty if the error was printed already).

pub(crate) mod balance;
pub(crate) mod bench;
pub(crate) mod capture;
pub(crate) mod check;
pub(crate) mod cluster;
mod colour;
pub(crate) mod doc;
pub(crate) mod doctor;
pub(crate) mod flow;
pub(crate) mod graph;
pub(crate) mod ipsec;
mod line_wrap;
pub(crate) mod list_ports;
pub(crate) mod man;
pub(crate) mod plan;
mod prepare;
pub(crate) mod reload;
pub(crate) mod router;
pub(crate) mod run;
pub(crate) mod save;
pub(crate) mod set;
pub(crate) mod shell;
pub(crate) mod show;
pub(crate) mod top;
pub(crate) mod trace;

use crate::cli::{Configuration, Workers};
use control::file::{self, File, Parsed, Section};
use control::{Base, Compiled, Planned, Source};
use engine::port::PortDirectory;
use planner::{Options, Registry};
use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::sync::Arc;

pub(crate) type Done = Result<(), String>;

/// The text without control characters that a terminal would interpret. The text may come from an isolated router,
/// which could otherwise control root's terminal.
fn harmless(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
    match text.contains(obeyed) {
        false => Cow::Borrowed(text),
        true => text
            .chars()
            .map(|c| {
                if obeyed(c) {
                    char::REPLACEMENT_CHARACTER
                } else {
                    c
                }
            })
            .collect(),
    }
}

/// Prints text to standard output, folded to the width of a terminal; JSON is never folded.
pub(crate) fn print(text: &str) -> Done {
    if !std::io::stdout().is_terminal() || text.starts_with(['{', '[']) {
        return print_as_it_is(text);
    }
    let columns = control::terminal::columns().unwrap_or(usize::MAX);
    put(&colour::for_terminal(&line_wrap::fold(
        &harmless(text),
        columns,
    )))
}

/// Prints to standard output; a terminal gets no control characters.
pub(crate) fn print_as_it_is(text: &str) -> Done {
    match std::io::stdout().is_terminal() {
        true => put(&harmless(text)),
        false => put(text),
    }
}

/// Prints text to standard output, which may contain control characters. If the reader has closed the pipe, the error
/// is empty, so that the program ends without a message.
pub(crate) fn put(text: &str) -> Done {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|_| String::new())
}

/// Prints a JSON value in a line.
pub(crate) fn print_json(value: &serde_json::Value) -> Done {
    print_as_it_is(&format!("{value}\n"))
}

/// Name of the program: a user's own program with further classes has its own name.
pub(crate) fn name() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    match std::path::Path::new(&path).file_name() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => "ashlar".to_owned(),
    }
}

/// Prints an error message to standard error. It is lost if the reader of a pipe is too slow.
pub(crate) fn complain(text: &str) {
    control::log::write(&format!("{}: {}\n", name(), harmless(text.trim_end())));
}

/// Prints a formatted text, such as diagnostics, to standard error. Control characters are removed if it is a terminal.
pub(crate) fn say(text: &str) {
    let mut err = std::io::stderr();
    let _ = match err.is_terminal() {
        true => err.write_all(colour::for_terminal(&harmless(text)).as_bytes()),
        false => err.write_all(text.as_bytes()),
    };
}

/// Prints a progress line to standard error, which the next output replaces.
pub(crate) fn say_for_now(text: &str) {
    let _ = std::io::stderr().write_all(format!("\r\x1b[K{text}").as_bytes());
}

/// Reads a configuration and plans it.
pub(crate) fn compile(
    configuration: &Configuration,
    registry: &Registry,
    workers: u8,
    ports: &dyn PortDirectory,
    devices_must_exist: bool,
) -> Result<(Source, Compiled), String> {
    let source = Source::read(&configuration.file, configuration.definitions.clone())?;
    let registry = optimizing(registry, configuration);
    let compiled = compile_source(&source, &registry, workers, ports, devices_must_exist);
    Ok((source, compiled))
}

/// Plans a configuration that has been read.
pub(crate) fn compile_source(
    source: &Source,
    registry: &Registry,
    workers: u8,
    ports: &dyn PortDirectory,
    devices_must_exist: bool,
) -> Compiled {
    let options = Options {
        devices_must_exist,
        ..Options::new(usize::from(workers), ports)
    };
    let mut compiled = control::compile(source, registry, &options);
    compiled.check_definitions(&source.definitions, true);
    compiled
}

/// The program's classes, with or without fused loops as the command line requests.
pub(crate) fn optimizing(registry: &Registry, configuration: &Configuration) -> Registry {
    let registry = registry.clone();
    match configuration.no_optimize {
        true => registry.with_fused_loops(&[]),
        false => registry,
    }
}

/// The file of a command, if it describes routers or a cluster.
pub(crate) fn described(
    configuration: &Configuration,
    (netns, name): (Option<&str>, Option<&str>),
) -> Result<Option<(File, Parsed)>, String> {
    if !file::is_described(&configuration.file) {
        return match configuration.server {
            Some(_) => {
                Err("--server names a server of a cluster's file, which ends in .toml".to_owned())
            }
            None => Ok(None),
        };
    }
    let source = Source::read(&configuration.file, configuration.definitions.clone())?;
    let file = File {
        folder: control::isolated::folder(name.unwrap_or(&source.stem())),
        netns: netns.map(str::to_owned),
        source,
    };
    let parsed = file.parse();
    if configuration.server.is_some() && parsed.description.is_none() && parsed.errors() == 0 {
        return Err(format!(
            "--server: {} describes no cluster",
            configuration.file
        ));
    }
    Ok(Some((file, parsed)))
}

/// Plans the routers of a file without opening anything.
pub(crate) fn plan_routers(
    configuration: &Configuration,
    registry: &Registry,
    workers: &Workers,
    file: &File,
    parsed: &mut Parsed,
) -> Vec<Planned> {
    let count = (usize::from(workers.count()), false);
    let shared_ports = ports::shared_port::SharedPorts::new(count.0);
    shared_ports.commit(&parsed.sharing);
    let all = ports::Directory::new().with_shared_ports(Arc::new(shared_ports));
    let base = |section: &Section| {
        let ports = all.of_router(&section.name, None);
        Ok(Base::new(Arc::new(ports)))
    };
    let registry = optimizing(registry, configuration);
    control::compile_all(parsed, &registry, count, file, &base)
}

/// Result of a command that has found `count` mistakes.
pub(crate) fn errors(count: usize) -> Done {
    match count {
        0 => Ok(()),
        n => Err(lang::count(n, "error")),
    }
}
