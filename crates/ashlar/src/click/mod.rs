//! `ashlar click`: Click's user-level driver on the strict walker.
//!
//! `options` is the command line. `archive` finds the configuration in a file. `compile` makes plans, with mistakes in
//! Click's words. `global_handlers` has the handlers of the router as a whole. `run` is the loop, `signals` handles
//! signals, and `final_handlers` prints the handlers asked for at the end.

mod archive;
mod compile;
#[cfg(test)]
mod doc_lists;
mod final_handlers;
mod global_handlers;
mod interfaces;
mod options;
mod run;
mod signals;

use arguments::show::reason;
use compile::{Compiler, Text};
use engine::clock::{Clock, Time};
use engine::graph::root::Root;
use engine::graph::{BuildContext, Graph, Walker};
use engine::port::PortDirectory;
use engine::random::Seed;
use engine::wake::Wakers;
use global_handlers::Click;
use options::{Input, Options, Parsed};
use planner::Registry;
use signals::Signals;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// Runs the driver; `words` are the command line without the program's name.
pub(crate) fn main(words: impl IntoIterator<Item = OsString>, registry: Registry) -> ExitCode {
    let options = match options::parse(words) {
        Parsed::Run(options) => *options,
        Parsed::Help => return print(&options::help()),
        Parsed::Version => {
            let version = env!("CARGO_PKG_VERSION");
            return print(&format!("click (Ashlar) {version}\n"));
        }
        Parsed::Wrong(wrong) => {
            complain(&format!(
                "{wrong}\nUsage: click [OPTION]... [ROUTERFILE]\nTry 'click --help' for more information.\n"
            ));
            return ExitCode::FAILURE;
        }
    };
    match drive(&options, registry) {
        Ok(status) => status,
        Err(said) => {
            complain(&said);
            ExitCode::FAILURE
        }
    }
}

fn print(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Writes a formatted text to standard error.
fn complain(text: &str) {
    // The reader may have closed its end.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Makes the router, runs it and prints the requested handlers.
///
/// # Errors
/// The configuration has mistakes, or the run failed; all messages are in one text.
fn drive(options: &Options, registry: Registry) -> Result<ExitCode, String> {
    if let Some(first) = options.affinity {
        pin(first)?;
    }
    let (name, text) = read(options.input.as_ref())?;
    let ports: Arc<dyn PortDirectory> = Arc::new(ports::Directory::new());
    let compiler = Compiler {
        registry,
        ports: Arc::clone(&ports),
        definitions: options.definitions.clone(),
        sockets: options.sockets.clone(),
        clickpath: clickpath(options),
        warnings: options.warnings,
    };
    let click = Arc::new(Click::new(compiler, options.reconfigure));
    let source = Text {
        name: &name,
        text: &text,
    };
    let compiled = click.compiler.compile(&source, None)?;
    complain(&compiled.messages);
    let clock = match options.simtime {
        Some(begin) => Clock::at(Time((begin * 1e9) as u64)),
        None => Clock::plain(),
    };
    let plan = Arc::clone(&compiled.plan);
    click.remember(compiled, false);
    let mut written = true;
    if let Some(file) = &options.output
        && let Err(wrong) = write_flat(file, &click.flattened())
    {
        complain(&wrong);
        written = false;
    }
    let site = BuildContext {
        worker: 0,
        walker: Walker::Strict,
        clock,
        ports: Arc::clone(&ports),
        wakers: Arc::new(Wakers::none(1)),
        seed: Seed::Kernel, // random numbers differ from run to run, as Click's do
        root: Arc::clone(&click) as Arc<dyn Root>,
        peers: engine::graph::peers::Peers::new(1),
    };
    let mut graph = engine::graph::single_at(&plan, &site).map_err(|e| e + "\n")?;
    let began = Instant::now();
    if !options.quit && plan.elements.is_empty() {
        // A configuration without elements has nothing to do.
        if options.warnings {
            let end = "configuration has no elements, exiting";
            complain(&format!("warning: {name}: {end}\n"));
        }
    } else if !options.quit {
        graph = run(graph, &click, &ports)?;
    }
    if options.time {
        print(&times(began));
    }
    answer(&mut graph, options, written)
}

fn run(graph: Graph, click: &Click, ports: &Arc<dyn PortDirectory>) -> Result<Graph, String> {
    let cannot = |e: std::io::Error| format!("cannot run: {e}\n");
    let mut signals = Signals::new().map_err(cannot)?;
    let (mut waiter, _waker) = ports::waiter::Waiter::new().map_err(cannot)?;
    Ok(run::run(graph, click, ports, &mut signals, &mut waiter))
}

/// Prints the requested handlers, and returns the exit status. `written` is false if the flat configuration could not
/// be written.
fn answer(graph: &mut Graph, options: &Options, written: bool) -> Result<ExitCode, String> {
    let (text, fine) = final_handlers::handlers(graph, &options.handlers);
    if !text.is_empty() {
        print(&text);
    }
    match &options.exit_handler {
        Some(path) => Ok(ExitCode::from(final_handlers::exit_status(graph, path))),
        None if fine && written => Ok(ExitCode::SUCCESS),
        None => Ok(ExitCode::FAILURE),
    }
}

/// Name and text of the configuration.
fn read(input: Option<&Input>) -> Result<(String, String), String> {
    let (name, bytes) = match input {
        Some(Input::Text(text)) => return Ok(("config".to_owned(), text.clone())),
        Some(Input::File(file)) if file != "-" => {
            let bytes = std::fs::read(file).map_err(|e| format!("{file}: {}\n", reason(&e)))?;
            (file.clone(), bytes)
        }
        _ => {
            let mut bytes = Vec::new();
            let all = std::io::stdin().lock().read_to_end(&mut bytes);
            all.map_err(|e| format!("<stdin>: {}\n", reason(&e)))?;
            ("<stdin>".to_owned(), bytes)
        }
    };
    let text = archive::configuration(&bytes, &name).map_err(|wrong| wrong + "\n")?;
    // Click's files may hold any bytes in comments and strings.
    let text = String::from_utf8_lossy(text).into_owned();
    Ok((name, text))
}

fn write_flat(file: &str, text: &str) -> Result<(), String> {
    if file == "-" {
        print(text);
        return Ok(());
    }
    std::fs::write(file, text).map_err(|e| format!("{file}: {}\n", reason(&e)))
}

fn clickpath(options: &Options) -> Vec<PathBuf> {
    let path = options.clickpath.clone();
    let path = path.or_else(|| std::env::var("CLICKPATH").ok());
    std::env::split_paths(&path.unwrap_or_default()).collect()
}

/// Pins the process to one processor, counted from the first one that it may use.
fn pin(first: usize) -> Result<(), String> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(first.min(rustix::thread::CpuSet::MAX_CPU - 1));
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|e| format!("cannot pin to processor {first}: {e}\n"))
}

/// User, system and elapsed time, in the format of Click.
fn times(began: Instant) -> String {
    let real = began.elapsed();
    // Fields 14 and 15 of proc(5)'s stat, in ticks of 10 ms; the second field may hold spaces.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = |n| {
        let field: Option<u64> = fields
            .split_whitespace()
            .nth(n)
            .and_then(|f| f.parse().ok());
        field.unwrap_or(0)
    };
    let (user, system) = (ticks(11), ticks(12));
    format!(
        "{}.{:03}u {}.{:03}s {}:{:02}.{:02}\n",
        user / 100,
        user % 100 * 10,
        system / 100,
        system % 100 * 10,
        real.as_secs() / 60,
        real.as_secs() % 60,
        real.subsec_millis() / 10
    )
}
