//! `ashlar click` as a program: options, messages, exit codes, control sockets, signals.

use crate::common::{Folder, bounded, to_its_end};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};

fn click(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ashlar"));
    command.arg("click").args(words).stdin(Stdio::null());
    command
}

fn run(words: &[&str]) -> Output {
    to_its_end(&mut click(words))
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const THREE: &str = "InfiniteSource(LIMIT 3, STOP true) -> c :: Counter -> d :: Discard";

#[test]
fn one_handler_is_answered_bare_and_several_by_name() {
    let one = run(&["-e", THREE, "-h", "c.count"]);
    assert_eq!((out(&one), one.status.code()), ("3\n".into(), Some(0)));
    let two = run(&["-e", THREE, "-h", "c.count", "-h", "[cd].class"]);
    assert_eq!(
        out(&two),
        "c.count:\n3\n\nc.class:\nCounter\n\nd.class:\nDiscard\n\n"
    );
    let class = run(&["-e", THREE, "--handler=Counter.name"]);
    assert_eq!(out(&class), "c.name:\nc\n\n", "several may have the class");
    let none = run(&["-e", THREE, "-h", "x.count"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(err(&none).contains("'x'"), "{}", err(&none));
}

#[test]
fn a_configuration_without_elements_ends_at_once() {
    let ended = run(&["-e", "define($x 1)", "-h", "list"]);
    assert_eq!((out(&ended), ended.status.code()), ("0\n".into(), Some(0)));
    assert_eq!(
        err(&ended),
        "warning: config: configuration has no elements, exiting\n"
    );
    assert_eq!(err(&run(&["-q", "-e", ""])), "");
}

#[test]
fn the_exit_state_is_a_handlers_value() {
    for (value, status) in [("7", 7), ("true", 0), ("false", 1)] {
        let script = format!("s :: Script(TYPE PASSIVE, return {value})");
        let ended = run(&["-q", "-x", "s.run", "-e", &script]);
        assert_eq!(
            ended.status.code(),
            Some(status),
            "{value}: {}",
            err(&ended)
        );
    }
}

#[test]
fn the_flat_configuration_is_written_with_compound_elements_opened() {
    let text =
        "elementclass A { $n | input -> Paint($n) -> output }\nIdle -> a :: A(3) -> Discard;";
    let flat = out(&run(&["-qo-", "-e", text]));
    assert!(flat.contains("a/Paint@1 :: Paint(3);\n"), "{flat}");
    assert!(
        flat.contains("Idle@1 -> a/Paint@1\n    -> Discard@3;\n"),
        "{flat}"
    );
    let again = run(&["-q", "-o-", "-e", &flat]);
    assert_eq!(out(&again), flat);
}

#[test]
fn mistakes_are_worded_as_click_words_them() {
    let folder = Folder::new();
    let file = folder.write("x.click", "\np :: Paint(red);\nIdle -> p -> Discard;\n");
    let wrong = run(&[&file]);
    assert_eq!(wrong.status.code(), Some(1));
    assert_eq!(
        err(&wrong),
        format!(
            "{file}:2: While configuring 'p :: Paint':\n  COLOR: invalid number\n\
             Router could not be initialized!\n"
        )
    );
    let unknown = run(&["-e", "Idle -> Nothing -> Discard"]);
    assert_eq!(err(&unknown), "config:1: undeclared element 'Nothing'\n");
}

#[test]
fn a_handler_that_is_to_be_written_must_be_there() {
    let text = "InfiniteSource(END_CALL x.y 1) -> Counter(COUNT_CALL 5 c.count)
        -> c :: Counter(COUNT_CALL 1 c.reset) -> Discard";
    let wrong = run(&["-e", text]);
    assert_eq!(wrong.status.code(), Some(1));
    assert_eq!(
        err(&wrong),
        "config:1: While initializing 'InfiniteSource@1 :: InfiniteSource':\n  \
         no element named 'x'\n\
         config:1: While initializing 'Counter@2 :: Counter':\n  \
         no 'c.count' write handler\n\
         Router could not be initialized!\n"
    );
}

#[test]
fn a_queue_says_once_that_it_overflows() {
    for class in ["Queue", "SimpleQueue", "MixedQueue", "FrontDropQueue"] {
        let text = format!(
            "s :: RatedSource(RATE 1000, LIMIT 9, STOP true) -> q :: {class}(3)
             -> Unqueue(ACTIVE false) -> Discard; {}",
            if class == "MixedQueue" {
                "Idle -> [1] q"
            } else {
                ""
            }
        );
        let ran = run(&["--simtime", "-h", "q.drops", "-e", &text]);
        assert_eq!(
            (out(&ran), err(&ran)),
            ("6\n".into(), format!("q :: {class}: overflow\n"))
        );
    }
}

#[test]
fn standard_input_and_definitions_make_a_configuration() {
    let mut child = click(&["-", "N=4", "-h", "c.count"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let text = b"InfiniteSource(LIMIT $N, STOP true) -> c :: Counter -> Discard";
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(text)
        .expect("it reads");
    assert_eq!(out(&child.wait_with_output().expect("it ends")), "4\n");
}

#[test]
fn libraries_are_found_beside_the_file_and_in_clickpath() {
    let folder = Folder::new();
    let main = folder.write(
        "main.click",
        "require(library one, library two)\na :: A; b :: B;",
    );
    folder.write("one", "elementclass A { i :: Idle; }");
    let other = Folder::new();
    let two = other.write("two", "elementclass B { j :: Idle; }");
    let path = std::path::Path::new(&two).parent().expect("a folder");
    let list = run(&["-q", "-h", "list", "-C", &path.to_string_lossy(), &main]);
    assert_eq!(out(&list), "2\na/i\nb/j\n", "{}", err(&list));
}

#[test]
fn simulated_time_passes_at_once() {
    let began = std::time::Instant::now();
    let text = "Script(print $(now), wait 1h, print $(now), stop)";
    let ended = run(&["--simtime", "-e", text]);
    assert_eq!(
        out(&ended),
        "1000000000\n1000003600\n".replace('\n', ".000000\n")
    );
    assert!(began.elapsed().as_secs() < 60);
    let later = run(&["--simtime=5", "-e", "Script(print $(now), stop)"]);
    assert!(out(&later).starts_with("5."), "{}", out(&later));
}

#[test]
fn a_driver_manager_decides_when_the_driver_ends() {
    let text = "InfiniteSource(LIMIT 2, STOP true) -> c :: Counter -> Discard;
        DriverManager(wait_stop, print c.count, print \"end\")";
    assert_eq!(out(&run(&["-e", text])), "2\nend\n");
}

#[test]
fn requested_threads_are_reported_but_not_used() {
    let text = "StaticThreadSched(s 1); s :: InfiniteSource(LIMIT 1, STOP true) -> Discard";
    let ended = run(&["-j2", "-e", text, "-h", "s.home_thread"]);
    assert_eq!(out(&ended), "1\n", "{}", err(&ended));
}

#[test]
fn packages_that_are_not_there_are_refused_and_classes_may_be_required() {
    let text = "require(package Idle, nowhere,\n package elsewhere); Idle";
    let ended = run(&["-q", "-e", text]);
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(
        err(&ended),
        "config:1: requirement 'nowhere' not available\n\
         config:2: requirement 'elsewhere' not available\n"
    );
    let folder = Folder::new();
    let file = folder.write("a.click", "require(nowhere); Idle -> Discard;");
    let mut check = Command::new(env!("CARGO_BIN_EXE_ashlar"));
    let checked = check.args(["check", &file]).output().expect("it starts");
    assert_eq!(checked.status.code(), Some(1));
    let told = err(&checked) + &out(&checked);
    assert!(
        told.contains("a.click:1:9: error: package `nowhere` is not available"),
        "{told}"
    );
}

#[test]
fn the_router_s_own_handlers_are_there() {
    let read = |name: &str| {
        out(&run(&[
            "-q",
            "-R",
            "-e",
            "require(userlevel); i :: Idle",
            "-h",
            name,
        ]))
    };
    assert_eq!(read("config"), "require(userlevel); i :: Idle\n");
    assert_eq!(
        read("flatconfig"),
        "require(package userlevel);\n\ni :: Idle;\n\n"
    );
    assert_eq!(read("requirements"), "package\nuserlevel\n");
    assert!(read("classes").contains("\nIdle\n"));
    assert!(read("handlers").contains("hotconfig\tw\n"));
    assert_eq!(read("timewarp"), "1\n");
}

#[test]
fn usage_is_told_and_mistakes_of_the_command_line_end_it() {
    assert!(out(&run(&["--help"])).starts_with("Usage: click"));
    assert!(out(&run(&["--version"])).starts_with("click (Ashlar)"));
    let wrong = run(&["--what"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(err(&wrong).contains("unrecognized option '--what'"));
    let missing = run(&["/nowhere/at/all"]);
    assert_eq!(
        err(&missing),
        "/nowhere/at/all: No such file or directory\n"
    );
    assert_eq!(missing.status.code(), Some(1));
    let timed = out(&run(&["-t", "-e", THREE]));
    assert!(timed.contains('u') && timed.ends_with('\n'), "{timed}");
}

#[test]
fn program_named_click_needs_no_subcommand() {
    let folder = Folder::new();
    let link = format!(
        "{}/click",
        folder.write("here", "").trim_end_matches("/here")
    );
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ashlar"), &link).expect("links");
    let ended = Command::new(link)
        .args(["-q", "-e", "Idle", "-h", "list"])
        .output();
    assert_eq!(out(&ended.expect("it starts")), "1\nIdle@1\n");
}

/// A client of a control socket.
struct Client(BufReader<TcpStream>);

impl Client {
    fn say(&mut self, line: &str) -> String {
        let stream = self.0.get_mut();
        stream
            .write_all(format!("{line}\r\n").as_bytes())
            .expect("it is sent");
        let mut answer = String::new();
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).expect("an answer");
            answer += &line;
            if line.as_bytes().get(3) != Some(&b'-') {
                break;
            }
        }
        if answer.starts_with("200 Read") {
            let mut length = String::new();
            self.0.read_line(&mut length).expect("a length");
            let length = length
                .trim_start_matches("DATA ")
                .trim()
                .parse()
                .expect("a number");
            let mut data = vec![0; length];
            self.0.read_exact(&mut data).expect("data");
            return String::from_utf8_lossy(&data).into_owned();
        }
        answer
    }
}

#[test]
fn a_client_replaces_the_configuration_and_stays_connected() {
    let text = "i :: Idle -> s :: Switch(0) -> Idle; s[1] -> Idle;
        Script(print click_driver@@ControlSocket.port)";
    let mut child = click(&["-R", "-p", "41200+", "-e", text])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let _bounded = bounded(&child);
    let mut port = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    BufReader::new(stdout).read_line(&mut port).expect("a port");
    let port: u16 = port.trim().parse().expect("a number");
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let mut client = Client(BufReader::new(stream));
    let mut greeting = String::new();
    client.0.read_line(&mut greeting).expect("a greeting");
    assert_eq!(greeting, "Click::ControlSocket/1.3\r\n");
    assert_eq!(client.say("read s.config"), "0");
    let done = client.say("write hotconfig i :: Idle -> s :: Switch(1) -> Idle; s[1] -> Idle");
    assert!(done.starts_with("200 Write handler"), "{done}");
    assert_eq!(client.say("read s.config"), "1");
    let refused = client.say("write hotconfig Print");
    assert!(refused.starts_with("520-Write handler"), "{refused}");
    assert!(
        refused.ends_with("520 Router could not be initialized!\r\n"),
        "{refused}"
    );
    assert_eq!(client.say("read s.config"), "1");
    assert!(client.say("write stop").starts_with("200"));
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn a_configuration_that_a_script_installs_outlives_the_script() {
    let text =
        r#"Idle -> Discard; DriverManager(write hotconfig Script(print "new"); Script(stop))"#;
    assert_eq!(out(&run(&["--simtime", "-R", "-e", text])), "new\n");
}

#[test]
fn an_element_takes_another_configuration_while_it_runs() {
    let text = "i :: InfiniteSource(LIMIT 8) -> q :: Queue(10) -> u :: Unqueue(ACTIVE false)
        -> c :: Classifier(0/ff, -) -> d :: Discard; c[1] -> e :: Counter -> Discard;
        Script(wait 1ms, print q.config, writeq q.config \"  6 \", print q.config, print q.length,
            write q.capacity 5, print q.config, print q.length,
            writeq c.config \"-,0/ff\", print c.config, write u.active true, wait 1ms,
            print d.count, print e.count, print q.config,
            write q.config many, print q.config, print $(writable q.config d.class i.config),
            stop)";
    let ran = run(&["--simtime", "-e", text]);
    let said = "10\n6\n6\n5\n5\n-, 0/ff\n5\n0\n5\n5\nfalse\n";
    assert_eq!(out(&ran), said, "{}", err(&ran));
    assert!(err(&ran).contains("not 'many'"), "{}", err(&ran));
}

#[test]
fn handlers_that_are_not_there_are_named_in_full() {
    let text = "c :: { q :: Queue; Idle -> q -> Idle; Script(read q.foo, write q.length 1, stop) };
        InfiniteSource(LIMIT 1) -> d :: Counter(COUNT_CALL 1 c/q.reset) -> Discard";
    let said = err(&run(&["-e", text]));
    for words in ["no 'c/q.foo' read handler", "no 'c/q.length' write handler"] {
        assert!(said.contains(words), "{said}");
    }
    let text = "c :: { input -> Counter(COUNT_CALL 1 q.foo) -> q :: Queue -> Idle } Idle -> c";
    let said = err(&run(&["-e", text]));
    assert!(said.contains("  no 'c/q.foo' write handler\n"), "{said}");
}

#[test]
fn configuration_that_requires_compact_config_is_shown_expanded() {
    let text =
        "require(compact_config)\nelementclass A { input -> Null -> output } Idle -> A -> Idle";
    let shown = out(&run(&["-qe", text, "-h", "config"]));
    let opened = "require(compact_config);\n\nIdle@1 :: Idle;\nIdle@3 :: Idle;\nA@2/Null@1 :: Null;\n\n\
        Idle@1 -> A@2/Null@1\n    -> Idle@3;\n";
    assert_eq!(shown, opened);
}

#[test]
fn a_signal_ends_the_driver_in_order_or_starts_a_script() {
    let text = "Script(print $$); Script(TYPE SIGNAL USR1, print \"one\"); c :: Counter; Idle -> c -> Discard";
    let mut child = click(&["-e", text, "-h", "c.count"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let _bounded = bounded(&child);
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut next = || lines.next().map(|l| l.expect("text"));
    let process = next().expect("its number");
    let kill = |signal: &str| {
        let sent = Command::new("kill").args([signal, &process]).status();
        assert!(sent.expect("kill starts").success());
    };
    kill("-USR1");
    assert_eq!(next().as_deref(), Some("one"));
    kill("-TERM");
    assert_eq!(next().as_deref(), Some("0"));
    assert!(child.wait().expect("it ends").success());
}
