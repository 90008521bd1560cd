//! Every class with hostile arguments and handlers. Each argument that a class's description names, and each of its
//! handlers, gets numbers at the edges of all integer types, an empty value, and a very long one. Either it is
//! refused with a sentence, or the router runs with packets of several sizes. Nothing panics, and no plan takes
//! gigabytes.
//!
//! Each class has its own process with limited memory, so that one that runs out of memory is distinguished from the
//! others.

#![allow(clippy::print_stderr)]

use arguments::ArgInfo;
use engine::clock::{Clock, Time};
use engine::element::Class;
use engine::graph::single;
use engine::graph::{Graph, Walker};
use engine::packet::{Batch, Packet, pool};
use engine::port::PortDirectory;
use planner::Options;
use router_tests::{InMemory, registry, run_apart};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::ip4;

/// Environment variable with the class that a process tests.
const CLASS: &str = "ASHLAR_TEST_CLASS";
/// Memory that a process may map, in bytes.
const MEMORY: u64 = 2 << 30;
/// Maximum run time of the process.
const TIMEOUT: Duration = Duration::from_secs(240);

/// Classes that are only planned: they would change the machine that the test runs on, or wait for other programs.
const PLANNED_ONLY: &[&str] = &["KernelTap", "KernelTun"];

/// Numbers at the limits of types, and texts that are not numbers.
fn values() -> Vec<String> {
    let mut all: Vec<String> = [
        "", "\"\"", "0", "1", "-1", "1e300", "nan", "0x", "1 2 3", "0-65535",
    ]
    .map(str::to_owned)
    .to_vec();
    for bits in [7, 8, 15, 16, 31, 32, 63, 64] {
        let edge = 1i128 << bits;
        all.extend([edge - 1, edge, -edge].map(|n| n.to_string()));
    }
    for unit in ["s", "h", "Gbps", "/32"] {
        all.push(format!("{}{unit}", u64::MAX));
    }
    all.extend(["9".repeat(5_000), "x".repeat(70_000)]);
    all
}

/// The first example of a manual page in which the class is used.
fn example(class: &Class) -> Option<(lang::Router, usize)> {
    let manual = class.manual();
    let blocks = manual.split("```click\n").skip(1);
    blocks
        .filter_map(|block| block.split("```").next())
        .find_map(|text| {
            let mut map = lang::SourceMap::new();
            let file = map.add("example", text);
            let (router, _) = lang::parse(&mut map, file, &[]);
            let at = router.elements.iter().position(|e| e.class == class.name)?;
            Some((router, at))
        })
}

/// A configuration in which one argument has another value: the `place`-th of those without a keyword.
fn with(
    config: &str,
    known: &[&str],
    (info, place): (&ArgInfo, Option<usize>),
    value: &str,
) -> String {
    let word = |arg: &str| lang::args::keyword(arg).map(|(word, _)| word.to_owned());
    let all = lang::args::split(config).into_iter();
    let mut all: Vec<String> = all.map(|range| config[range].to_owned()).collect();
    all.retain(|arg| word(arg).is_none_or(|word| word != info.name));
    let by_place = |arg: &&mut String| word(arg).is_none_or(|word| !known.contains(&&*word));
    match place.and_then(|place| all.iter_mut().filter(by_place).nth(place)) {
        Some(arg) => *arg = value.to_owned(),
        None => all.push(format!("{} {value}", info.name)),
    }
    all.join(", ")
}

/// Packets of several sizes.
fn frames() -> Vec<Vec<u8>> {
    let sizes = [0, 1, 13, 14, 33, 34, 60, 1514, 2048];
    let mut all = sizes.map(|size| vec![0x45; size]).to_vec();
    for payload in [0, 1, 1400] {
        let ip = ip4()
            .src("10.0.0.2")
            .dst("10.0.1.2")
            .udp(5, 7)
            .payload("p".repeat(payload))
            .bytes();
        all.push([&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0][..], &ip].concat());
        all.push(ip);
    }
    all
}

/// Plans a router and, if that succeeds, runs it and gives all values to a handler of an element. False if it is
/// refused.
fn run(router: &lang::Router, at: usize, handler: Option<&str>) -> bool {
    let ports = Arc::new(InMemory::default());
    let options = Options {
        open_inputs: true,
        ..Options::new(1, &*ports)
    };
    let (plan, errors) = planner::compile(router, registry(), &options);
    // A Message prints the configuration's own text.
    assert!(
        errors
            .iter()
            .all(|e| e.code == "message" || !e.message.is_empty())
    );
    let Some(plan) = plan.filter(|_| !errors.iter().any(lang::Diagnostic::is_error)) else {
        return false;
    };
    if plan
        .elements
        .iter()
        .any(|e| PLANNED_ONLY.contains(&e.class.name))
    {
        return true;
    }
    let far = plan.devices.iter().filter(|d| d.request.rx_queues > 0);
    let far: Vec<_> = far.map(|d| ports.far(&d.name)).collect();
    let clock = Clock::at(Time(1_000_000_000));
    let directory: Arc<dyn PortDirectory> = ports;
    let Ok(mut graph) = single(&plan, directory, Walker::Sweep, clock, 7) else {
        return false;
    };
    let element = &plan.elements[at];
    let open = element.class.needs.is_empty() && element.inputs.first() == Some(&false);
    turns(&mut graph);
    for value in handler.map_or_else(Vec::new, |_| values()) {
        let path = format!("{}.{}", element.name, handler.unwrap_or_default());
        eprintln!("{path} {}", value.chars().take(200).collect::<String>());
        let (read, written) = graph.job(|cx| (cx.read(&path, &value), cx.write(&path, &value)));
        for refused in [read.err(), written.err()].into_iter().flatten() {
            assert!(!refused.to_string().is_empty());
        }
        for port in &far {
            port.inject_all(0, frames().iter().map(Vec::as_slice));
        }
        turns(&mut graph);
    }
    for _ in 0..2 {
        for port in &far {
            port.inject_all(0, frames().iter().map(Vec::as_slice));
        }
        if open {
            let packets = frames();
            let mut batch: Batch = packets
                .iter()
                .filter_map(|b| Packet::from_bytes(b))
                .collect();
            graph.inject(at, 0, &mut batch);
        }
        turns(&mut graph);
        let now = graph.now() + Duration::from_millis(700);
        graph.set_time(now);
    }
    turns(&mut graph);
    true
}

/// Runs a few turns: some of these routers never become idle.
fn turns(graph: &mut Graph) {
    graph.quiescent();
    for _ in 0..8 {
        if !graph.turn() || graph.stopped() {
            return;
        }
    }
}

/// Runs `work`. True if it succeeded, false if it was refused, `None` if it panicked.
fn attempt(what: &str, work: impl FnOnce() -> bool) -> Option<bool> {
    let shown: String = what.chars().take(200).collect();
    eprintln!("{shown}");
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// Tries all arguments and handlers of a class. Returns those that caused a panic.
fn attempts(class: &Class) -> Vec<String> {
    let Some((router, at)) = example(class) else {
        return Vec::new();
    };
    let infos = class.arguments();
    let known: Vec<&str> = infos.iter().map(|info| info.name).collect();
    let config = router.elements[at].config.clone();
    let (mut place, mut wrong, mut ran) = (0, Vec::new(), 0);
    for info in &infos {
        let here = (!info.keyword).then_some(place);
        place += usize::from(!info.keyword);
        for value in values() {
            let text = with(&config.text, &known, (info, here), &value);
            let what = format!("{}({text})", class.name);
            let mut router = router.clone();
            router.elements[at].config = lang::Config::verbatim(text, config.span());
            match attempt(&what, || run(&router, at, None)) {
                Some(accepted) => ran += usize::from(accepted),
                None => wrong.push(what),
            }
        }
    }
    eprintln!("{} of {} ran", ran, infos.len() * values().len());
    // Handlers that act beyond the router are tested only on its own elements.
    for handler in (class.handlers)().iter().filter(|handler| !handler.inner) {
        let what = format!("{}.{}", class.name, handler.name);
        let used = attempt(&what, || run(&router, at, Some(handler.name)));
        wrong.extend(used.is_none().then_some(what));
    }
    wrong
}

/// Work of one process: one class, with its own folder and limited memory.
fn child(name: &str) {
    let limits = getrlimit(Resource::As);
    setrlimit(
        Resource::As,
        Rlimit {
            current: Some(MEMORY),
            ..limits
        },
    )
    .expect("it may be lowered");
    // Bounds the time of endless bursts.
    pool::configure(2048, 8192);
    let folder = std::env::temp_dir().join(format!("ashlar-arguments-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder takes folders");
    std::env::set_current_dir(&folder).expect("it was made just now");
    let class = registry().classes().into_iter().find(|c| c.name == name);
    let (done, over) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        if over.recv_timeout(TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            eprintln!("it takes too long");
            std::process::exit(1);
        }
    });
    let wrong = attempts(class.expect("the parent knows it"));
    drop(done);
    let _ = std::fs::remove_dir_all(folder);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs a class in its own process. The error is the process's last output.
fn try_apart(name: &str) -> Result<(), String> {
    let test = "hostile::any_argument_and_any_value_of_a_handler_is_refused_or_taken";
    run_apart(test, (CLASS, name), Path::new(".")).map_err(|said| {
        let lines: Vec<&str> = said.lines().collect();
        let panics = lines.iter().filter(|line| line.contains("panicked at"));
        let panics: BTreeSet<&&str> = panics.collect();
        let last = lines[lines.len().saturating_sub(12)..].join("\n");
        format!("{name}: {panics:?}\n{last}")
    })
}

#[test]
fn any_argument_and_any_value_of_a_handler_is_refused_or_taken() {
    if let Ok(name) = std::env::var(CLASS) {
        return child(&name);
    }
    let mut names: Vec<_> = registry().classes().into_iter().map(|c| c.name).collect();
    names.reverse();
    let (names, wrong) = (Mutex::new(names), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(name) = { names.lock().expect("no thread panics").pop() } {
                    if let Err(said) = try_apart(name) {
                        wrong.lock().expect("no thread panics").push(said);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no thread panics");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
