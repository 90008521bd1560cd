//! Errors of new users: each is reported, and its remedy works.

use crate::common::{Folder, Running, all, capture, complained, conf, run, said};
use std::process::Output;

/// Variables with which ip-router.click runs without interfaces.
const NO_DEVICES: [&str; 2] = ["DEV0=mem:0", "DEV1=mem:1"];

fn ip_router(command: &str, more: &[&str]) -> Output {
    let file = conf("ip-router.click");
    let mut words = vec![command, &file];
    words.extend(NO_DEVICES);
    words.extend(more);
    run(&words)
}

#[test]
fn a_misspelt_variable_is_an_error_that_names_the_nearest() {
    for command in ["check", "run", "plan"] {
        let output = ip_router(command, &["IPO=10.0.1.1"]);
        assert_eq!(output.status.code(), Some(1));
        let text = all(&output);
        assert!(text.contains("has no variable `IPO`"), "{text}");
        assert!(text.contains("did you mean `IP0`?"), "{text}");
    }
    let text = all(&ip_router("check", &["NONSENSE=1"]));
    assert!(
        text.contains("has no variable `NONSENSE`") && text.contains("it has DEV0, DEV1,"),
        "{text}"
    );
    said(&ip_router("check", &["IP0=10.0.9.1"]));
    let folder = Folder::new();
    let file = folder.write("none.click", "Idle -> Discard;");
    let text = all(&run(&["check", &file, "A=1"]));
    assert!(text.contains("leave the definition out"), "{text}");
    // In a file of several routers a definition may apply to some of them only.
    folder.write("a.click", "FromDevice(null:64) -> Queue($A) -> Discard;");
    folder.write("b.click", "FromDevice(null:64) -> Discard;");
    let routers = "[[router]]\nname = \"a\"\ngraph = \"a.click\"\n[[router]]\nname = \"b\"\ngraph = \"b.click\"\n";
    let routers = folder.write("routers.toml", routers);
    said(&run(&["check", &routers, "A=5"]));
    let text = all(&run(&["check", &routers, "A=5", "AA=1"]));
    assert!(text.contains("has no variable `AA`"), "{text}");
}

#[test]
fn a_reload_reports_wrong_and_missing_variables() {
    let folder = Folder::new();
    let router = Running::start(&folder, "Idle -> q :: Queue($N) -> Discard;", &["N=7"]);
    let text = all(&router.ask(&["reload", "M=8"]));
    assert!(
        text.contains("has no variable `M`") && text.contains("did you mean `N`?"),
        "{text}"
    );
    let other = folder.write("other.click", "Idle -> q :: Queue(9) -> Discard;");
    let text = all(&router.ask(&["reload", &other]));
    assert!(
        text.contains("warning: the configuration has no variable `N`"),
        "{text}"
    );
    assert_eq!(router.tell(&["show", "q.capacity"]), "9\n");
}

#[test]
fn empty_configuration_is_refused() {
    let folder = Folder::new();
    for text in ["", "  \n", "// only a comment\n"] {
        let file = folder.write("empty.click", text);
        for command in ["check", "run"] {
            let output = run(&[command, &file]);
            assert_eq!(output.status.code(), Some(1));
            let text = all(&output);
            assert!(text.contains("empty.click has no elements"), "{text}");
        }
    }
}

#[test]
fn idle_workers_are_reported() {
    let folder = Folder::new();
    let file = folder.write("one.click", "FromDevice(null:64, CORES 0) -> Discard;");
    let text = said(&run(&["check", &file, "-j", "8"]));
    assert!(
        text.contains("warning: of 8 workers 7 have nothing to do"),
        "{text}"
    );
    assert!(text.contains("run with --workers 1"), "{text}");
    assert_eq!(said(&run(&["check", &file])), "");
}

#[test]
fn the_same_network_on_both_ports_is_told() {
    let text = said(&ip_router("check", &["-j1", "IP1=10.0.1.1"]));
    let told = "warning: in `rt4 :: DirectIPLookup`: 10.0.1.0/24 is routed to";
    assert!(text.contains(told), "{text}");
    assert_eq!(said(&ip_router("check", &["-j1"])), "");
}

#[test]
fn files_that_are_no_configuration_are_named_by_their_kind() {
    let folder = Folder::new();
    let program = env!("CARGO_BIN_EXE_ashlar");
    for command in ["check", "run", "plan"] {
        let text = complained(&run(&[command, program]), 1);
        assert!(text.contains("is not text but a program"), "{text}");
        let text = complained(&run(&[command, &conf("")]), 1);
        assert!(
            text.contains("is a folder: name a configuration, such as"),
            "{text}"
        );
        assert!(!text.contains("os error"), "{text}");
    }
    folder.write("edge.click", "Idle -> Discard;");
    let text = complained(&run(&["check", &folder.path("egde.click")]), 1);
    assert!(
        text.contains("did you mean") && text.contains("edge.click?"),
        "{text}"
    );
}

#[test]
fn one_wrong_value_is_one_error() {
    for (name, value) in [
        ("IP0", "10.0.1.999"),
        ("IP6_1", "fd00::12345"),
        ("LEN6_0", "129"),
    ] {
        let text = all(&ip_router("check", &[&format!("{name}={value}")]));
        assert_eq!(text.matches("error: ").count(), 1, "{text}");
        assert!(text.contains(value), "{text}");
    }
}

/// Remedies of all errors of a configuration for `workers` workers.
fn remedies(file: &str, workers: &str) -> Vec<String> {
    let output = run(&["check", "--json", "-j", workers, file]);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let errors = found.as_array().expect("a list").iter();
    let errors = errors.filter(|wrong| wrong["severity"] == "error");
    errors
        .map(|wrong| wrong["help"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Follows a remedy: the text in backquotes goes to the place, or to the end if it is a statement.
fn obey(text: &str, remedy: &str) -> String {
    let mut quoted = remedy.split('`').skip(1).step_by(2);
    let mut first = quoted
        .next()
        .unwrap_or_else(|| panic!("nothing to put there: {remedy}"));
    let mut text = text.to_owned();
    if let Some((_, class)) = first.split_once(" :: ") {
        text = text.replacen(class, first, 1);
        first = quoted
            .next()
            .unwrap_or_else(|| panic!("nothing to connect: {remedy}"));
    }
    match first.contains('[') {
        true => format!("{text} {first};"),
        false => text.replacen("HERE", &format!("{first} -> HERE"), 1),
    }
}

/// Each configuration is refused. Following the errors' advice until none is left gives a router that carries all
/// packets.
#[test]
fn remedies_of_errors_work() {
    let folder = Folder::new();
    let four = folder.write("4.pcap", capture(20, false));
    let six = folder.write("6.pcap", capture(20, true));
    let from = |file: &str| format!("FromDevice(pcap:{file}, CORES 0) -> ");
    let (four, six) = (from(&four), from(&six));
    for (text, workers) in [
        // Facts.
        (format!("{four} HERE DecIPTTL -> Discard;"), "1"),
        (
            format!("{four} Strip(14) -> HERE DecIPTTL -> Discard;"),
            "1",
        ),
        (format!("{six} HERE DecIP6HLIM -> Discard;"), "1"),
        (
            format!("{six} Strip(14) -> HERE DecIP6HLIM -> Discard;"),
            "1",
        ),
        (
            format!("{four} HERE DirectIPLookup(0/0 0) -> Discard;"),
            "1",
        ),
        (
            format!("{six} HERE LookupIP6Route(::/0 0) -> Discard;"),
            "1",
        ),
        (
            format!("{four} Strip(14) -> HERE EtherMirror -> Discard;"),
            "1",
        ),
        (format!("{four} HERE IPFragmenter(1500) -> Discard;"), "1"),
        // Placement.
        (
            format!(
                "{four} m :: Null -> HERE Meter(1000000) -> Discard; InfiniteSource(LIMIT 0, CORES 1) -> m;"
            ),
            "2",
        ),
        (
            format!(
                "{four} m :: Null -> HERE AggregateCounter -> Discard; InfiniteSource(LIMIT 0, CORES 1) -> m;"
            ),
            "2",
        ),
        // Push and pull.
        (format!("{four} HERE Unqueue -> Discard;"), "1"),
        (
            format!("{four} Queue(100) -> HERE CheckLength(2000) -> Tee -> Discard;"),
            "1",
        ),
        (format!("{four} Queue(100) -> HERE Tee -> Discard;"), "1"),
        // Ports.
        (
            format!("{four} c :: Classifier(12/86dd, -); c[1] -> Discard;"),
            "1",
        ),
        (
            format!("{four} s :: StaticSwitch(1); s[1] -> Discard;"),
            "1",
        ),
    ] {
        let mut now = text.clone();
        let mut said = Vec::new();
        loop {
            let file = folder.write("a.click", now.replace("HERE", ""));
            let all = remedies(&file, workers);
            let Some(remedy) = all.first() else {
                let output = run(&[
                    "run",
                    &file,
                    "-j",
                    workers,
                    "--no-socket",
                    "--report",
                    "--log-level",
                    "off",
                ]);
                let report = crate::common::said(&output);
                assert!(!said.is_empty(), "nothing is wrong with {text}");
                assert!(
                    report.ends_with("books: in 20 = out 20 + drops 0 + held 0\n"),
                    "{now}\n{report}"
                );
                break;
            };
            assert!(said.len() < 4, "{text}: again and again {remedy}");
            said.push(remedy.clone());
            now = obey(&now, remedy);
        }
    }
}

#[test]
fn check_tells_which_elements_refuse_more_workers() {
    let folder = Folder::new();
    let file = folder.write(
        "meter.click",
        "FromDevice(null:64) -> m :: Meter(1000000) -> Discard; m[1] -> Discard;",
    );
    let text = said(&run(&["check", &file]));
    assert!(
        text.contains("warning: with --workers 2 this is an error: "),
        "{text}"
    );
    assert!(
        text.contains("put `Queue -> Unqueue(CORES 0)` before it"),
        "{text}"
    );
    assert_eq!(said(&run(&["check", &file, "-j", "1"])), "");
    complained(&run(&["check", &file, "-j", "2"]), 1);
}
