//! Events that end a router, or must not: a panic, a hanging thread, a log that no program reads.
//!
//! Without arguments this program runs its tests. With arguments it is Ashlar with a class that panics.

mod common;
use common::{Folder, ashlar, bounded};
use engine::prelude::*;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

struct Panics;

impl Element for Panics {
    const CONTRACT: Contract =
        Contract::new("Panics", "Panics when it is told to, or a packet comes.")
            .ports(Ports::new(&["in"], &["out"]))
            .ignores_annotations();

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, _: &Init) -> Panics {
        Panics
    }

    fn step(&mut self, _: &mut Packet, _: &mut Cx) -> Verdict {
        panic!("it had to come to this")
    }

    const HANDLERS: &'static [Handler<Panics>] = &[Handler::set("panic", "panics", |_, _, _| {
        panic!("it was told to")
    })];
}

/// A class whose handler does not return while a file exists.
struct Waits;

impl Element for Waits {
    const CONTRACT: Contract = Contract::new("Waits", "Has its configuration read slowly.")
        .ports(Ports::new(&["in"], &["out"]))
        .ignores_annotations();

    type Config = ();

    fn configure(args: &mut Args) {
        let file: String = args.required("FILE", "a file");
        let file = Path::new(&file);
        if file.exists() {
            std::fs::write(file.with_extension("begun"), "").expect("the folder takes files");
            until("the file to go", || (!file.exists()).then_some(()));
        }
    }

    fn new(_: &Arc<()>, _: &Init) -> Waits {
        Waits
    }
}

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|word| word == "run") {
        const ADDED: &[Class] = &[Class::of::<Panics>(), Class::of::<Waits>()];
        return ashlar::main(&[ADDED], &[]);
    }
    let tests: [(&str, fn()); 6] = [
        ("a_worker_that_panics_ends_the_process", a_worker_panics),
        ("keep_starts_a_router_that_panicked", keep_after_panic),
        ("keep_starts_a_router_that_hangs", keep_after_hang),
        (
            "keep_starts_what_ran_last_if_the_files_are_broken",
            keep_after_broken_files,
        ),
        ("nothing_waits_for_a_compilation", while_compiling),
        ("a_router_needs_no_reader_of_its_log", without_reader),
    ];
    let mut words = std::env::args().skip(1);
    let wanted: Vec<String> = words.by_ref().take_while(|word| word != "--skip").collect();
    let names = |name: &str| {
        let mut filters = wanted
            .iter()
            .filter(|word| !word.starts_with('-'))
            .peekable();
        filters.peek().is_none() || filters.any(|word| name.contains(word.as_str()))
    };
    for (name, test) in tests.into_iter().filter(|(name, _)| names(name)) {
        test();
        let _ = writeln!(std::io::stdout(), "test {name} ... ok");
    }
    ExitCode::SUCCESS
}

/// A command that runs this program as Ashlar.
fn with_class() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("its own path"));
    command.stdin(Stdio::null());
    command
}

/// Answer of the router at a socket, if there is one.
fn ask(socket: &str, request: &str) -> Option<String> {
    let mut stream = UnixStream::connect(socket).ok()?;
    let head = format!("{request} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n");
    // An empty object, if a body is required.
    write!(stream, "{head}content-length: 2\r\n\r\n{{}}").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
}

/// The process that answers at a socket.
fn pid_at(socket: &str) -> Option<Pid> {
    let info: control::view::Info = serde_json::from_str(&ask(socket, "GET /v1/info")?).ok()?;
    Pid::from_raw(i32::try_from(info.pid).ok()?)
}

/// Repeats until there is an answer.
fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        match ask() {
            Some(answer) => return answer,
            None => assert!(Instant::now() < end, "never: {what}"),
        }
        std::thread::yield_now();
    }
}

/// A child whose standard error is read.
fn start(command: &mut Command) -> (Child, Bound, BufReader<std::process::ChildStderr>) {
    let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let log = BufReader::new(child.stderr.take().expect("it is piped"));
    let bound = Bound {
        _timer: bounded(&child),
        pid: Pid::from_child(&child),
    };
    (child, bound, log)
}

/// A child process that is killed when the value is dropped.
struct Bound {
    _timer: std::sync::mpsc::Sender<()>,
    pid: Pid,
}

impl Drop for Bound {
    fn drop(&mut self) {
        // A keeper ends its router; a child that has been waited for no longer exists.
        let _ = kill_process(self.pid, Signal::TERM);
    }
}

fn a_worker_panics() {
    let folder = Folder::new();
    let file = folder.write(
        "router.click",
        "FromDevice(pace:1k/null:64) -> Panics -> Discard;",
    );
    let socket = folder.path("router.sock");
    let (mut child, _bound, mut log) =
        start(with_class().args(["run", &file, "--socket", &socket]));
    let mut said = String::new();
    log.read_to_string(&mut said).expect("text");
    let status = child.wait().expect("it ends");
    assert_eq!(status.signal(), Some(Signal::ABORT.as_raw()), "{said}");
    for word in [
        "thread worker0 panicked",
        "it had to come to this",
        "faults.rs",
        "::step",
    ] {
        assert!(said.contains(word), "no {word} in\n{said}");
    }
}

/// Starts a router under `keep`, and waits until it answers. Returns its keeper, its socket and its process.
fn kept(folder: &Folder, router: &Command, words: &[&str]) -> (Child, Bound, String, Pid) {
    let file = folder.write("router.click", "Idle -> boom :: Panics -> Discard;");
    let socket = folder.path("router.sock");
    let mut keep = ashlar();
    keep.arg("keep")
        .args(words)
        .arg("--")
        .arg(router.get_program());
    keep.args(["run", &file, "--socket", &socket]);
    let (keep, bound, mut log) = start(&mut keep);
    // The output must be read, so that the program never waits for a reader.
    std::thread::spawn(move || log.read_to_end(&mut Vec::new()));
    let pid = until("an answer", || pid_at(&socket));
    (keep, bound, socket, pid)
}

/// Waits for a router that replaces this one, and ends its keeper.
fn another(mut keep: Child, socket: &str, pid: Pid) {
    until("another router", || {
        pid_at(socket).filter(|now| *now != pid)
    });
    kill_process(Pid::from_child(&keep), Signal::TERM).expect("it runs");
    assert!(keep.wait().expect("it ends").success());
}

fn keep_after_panic() {
    let folder = Folder::new();
    let (keep, _bound, socket, pid) = kept(&folder, &with_class(), &[]);
    // The router does not answer that request.
    assert_eq!(ask(&socket, "PUT /v1/handlers/boom.panic"), None);
    another(keep, &socket, pid);
}

fn keep_after_hang() {
    let folder = Folder::new();
    let (keep, _bound, socket, pid) = kept(&folder, &with_class(), &["--watchdog", "2"]);
    kill_process(pid, Signal::STOP).expect("it runs");
    another(keep, &socket, pid);
}

fn keep_after_broken_files() {
    let folder = Folder::new();
    let rules = folder.write("rules", "first: allow udp\n");
    let text =
        format!("Idle -> Strip(14) -> CheckIPHeader -> fw :: IPFilter(RULES {rules}) -> Discard;");
    let file = folder.write("router.click", &text);
    let socket = folder.path("router.sock");
    let (mut keep, _bound, mut log) = start(
        ashlar()
            .args(["keep", "--"])
            .arg(ashlar().get_program())
            .args(["run", &file, "--socket", &socket]),
    );
    let said = std::thread::spawn(move || {
        let mut said = String::new();
        log.read_to_string(&mut said).map(|_| said)
    });
    let crash = |pid: Pid| {
        kill_process(pid, Signal::KILL).expect("it runs");
        until("another router", || {
            pid_at(&socket).filter(|now| *now != pid)
        })
    };
    let has = |rule: &str| {
        ask(&socket, "GET /v1/handlers/fw.rules").is_some_and(|rules| rules.contains(rule))
    };
    let pid = until("an answer", || pid_at(&socket));
    // Both files are broken, one after the other.
    folder.write("rules", "alow tcp\n");
    let pid = crash(pid);
    assert!(has("first: allow udp"));
    folder.write("router.click", "Idle -> Discrad;");
    let pid = crash(pid);
    assert!(has("first: allow udp"));
    // From now on, the reloaded configuration is the last that ran.
    folder.write("rules", "second: allow tcp\n");
    let good =
        |answer: Option<String>| answer.is_some_and(|answer| answer.contains("\"good\":true"));
    assert!(!good(ask(&socket, "POST /v1/reload")));
    folder.write("router.click", &text);
    assert!(good(ask(&socket, "POST /v1/reload")));
    assert!(has("second: allow tcp"));
    folder.write("router.click", "Idle ->");
    let pid = crash(pid);
    assert!(has("second: allow tcp"));
    // A corrected file is run.
    folder.write(
        "router.click",
        text.replace("RULES", "third: allow icmp, RULES"),
    );
    crash(pid);
    assert!(has("third: allow icmp") && has("second: allow tcp"));
    kill_process(Pid::from_child(&keep), Signal::TERM).expect("it runs");
    assert!(keep.wait().expect("it ends").success());
    let said = said.join().expect("no panic").expect("text");
    let told = said
        .matches("runs the configuration that ran before: ")
        .count();
    assert_eq!(told, 3, "{said}");
    // A manual start reads the files on disk.
    folder.write("router.click", "Idle ->");
    let (mut keep, _bound, _log) = start(
        ashlar()
            .args(["keep", "--"])
            .arg(ashlar().get_program())
            .args(["run", &file, "--socket", &socket]),
    );
    assert!(!keep.wait().expect("it ends").success());
}

fn while_compiling() {
    let folder = Folder::new();
    let file = folder.write("router.click", "Idle -> Discard;");
    let socket = folder.path("router.sock");
    let (child, _bound, mut log) = start(with_class().args(["run", &file, "--socket", &socket]));
    std::thread::spawn(move || log.read_to_end(&mut Vec::new()));
    until("an answer", || pid_at(&socket));
    let slow = folder.write("slow", "");
    folder.write("router.click", format!("Idle -> Waits({slow}) -> Discard;"));
    // More reloads than the maximum number of other requests in progress.
    let reload = || {
        let socket = socket.clone();
        std::thread::spawn(move || ask(&socket, "POST /v1/reload"))
    };
    let reloads: Vec<_> = (0..10).map(|_| reload()).collect();
    let begun = Path::new(&slow).with_extension("begun");
    until("a reload to begin", || {
        assert!(
            !reloads[0].is_finished(),
            "{:?}",
            ask(&socket, "POST /v1/reload")
        );
        begun.exists().then_some(())
    });
    for path in ["/v1/info", "/metrics", "/v1/routers", "/v1/elements"] {
        assert!(ask(&socket, &format!("GET {path}")).is_some(), "{path}");
    }
    assert!(reloads.iter().all(|one| !one.is_finished()));
    std::fs::remove_file(&slow).expect("it is there");
    for one in reloads {
        assert!(one.join().expect("no panic").is_some());
    }
    assert_eq!(pid_at(&socket), Some(Pid::from_child(&child)));
}

fn without_reader() {
    let folder = Folder::new();
    let file = folder.write("router.click", "Idle -> Discard;");
    let socket = folder.path("router.sock");
    let (mut child, _bound, mut log) = start(ashlar().args(["run", &file, "--socket", &socket]));
    while !{
        let mut line = String::new();
        assert!(log.read_line(&mut line).expect("text") > 0, "it ends");
        line.contains("start")
    } {}
    drop(log);
    for _ in 0..3 {
        assert!(ask(&socket, "POST /v1/reload").is_some(), "it answers");
    }
    assert!(ask(&socket, "GET /v1/info").is_some_and(|info| info.contains("\"reloads\":3")));
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(0), "{status}");
}
