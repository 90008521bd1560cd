//! The first hour of somebody who has just got the program, and what an operator does every day.

mod common;
use common::{Folder, Running, complained, run, said};
use std::path::Path;
use std::process::Output;

/// A configuration of the repository.
fn conf(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf");
    folder.join(name).display().to_string()
}

/// What a command said, on both outputs.
fn all(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// The variables that have ip-router.click run without interfaces.
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
    // In a file of several routers a definition may be for some of them.
    folder.write("a.click", "FromDevice(null:64) -> Queue($A) -> Discard;");
    folder.write("b.click", "FromDevice(null:64) -> Discard;");
    let routers = "[[router]]\nname = \"a\"\ngraph = \"a.click\"\n[[router]]\nname = \"b\"\ngraph = \"b.click\"\n";
    let routers = folder.write("routers.toml", routers);
    said(&run(&["check", &routers, "A=5"]));
    let text = all(&run(&["check", &routers, "A=5", "AA=1"]));
    assert!(text.contains("has no variable `AA`"), "{text}");
}

#[test]
fn a_reload_says_what_its_variables_lack() {
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
fn a_configuration_of_nothing_is_refused() {
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
fn workers_that_have_nothing_to_do_are_told() {
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
fn what_is_no_configuration_is_called_what_it_is() {
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
    let text = all(&ip_router("check", &["IP0=10.0.1.999"]));
    assert_eq!(text.matches("error: ").count(), 1, "{text}");
    assert!(text.contains("10.0.1.999"), "{text}");
}

/// A capture with so many frames: UDP in IPv4, or in IPv6.
fn capture(frames: u32, six: bool) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for n in 0..frames {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9];
        if six {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64]);
            for last in [1u8, 2] {
                frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
            }
        } else {
            frame.extend([8, 0]);
            let mut ip = [
                0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
            ];
            let words = ip.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
            let sum: u32 = words.sum();
            let sum = !(((sum & 0xffff) + (sum >> 16)) as u16);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
            frame.extend(ip);
        }
        frame.extend([0, 1, 0, 2, 0, 8, 0, 0]);
        let length = frame.len() as u32;
        for word in [n, 0, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

/// The remedies of all errors of a configuration that is to run on so many workers.
fn remedies(file: &str, workers: &str) -> Vec<String> {
    let output = run(&["check", "--json", "-j", workers, file]);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let errors = found.as_array().expect("a list").iter();
    let errors = errors.filter(|wrong| wrong["severity"] == "error");
    errors
        .map(|wrong| wrong["help"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Does what a remedy says: what stands in backquotes goes to the place, or to the end if it is a statement.
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

/// Each configuration is refused. What the error proposes is done, until nothing is wrong: then it carries all packets.
#[test]
fn what_an_error_proposes_is_right() {
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
                let report = common::said(&output);
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
fn check_tells_what_more_workers_would_refuse() {
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

#[test]
fn routes_are_written_and_shown_with_interfaces() {
    let folder = Folder::new();
    let text = "rt :: DirectIPLookup(10.0.1.0/24 0, 10.0.2.0/24 1, NOROUTE 2);
        FromDevice(mem:9) -> Strip(14) -> CheckIPHeader -> rt;
        rt[0] -> Unstrip(14) -> Queue -> ToDevice(mem:0); rt[1] -> Unstrip(14) -> ToDevice(mem:1); rt[2] -> Discard;";
    let router = Running::start(&folder, text, &[]);
    router.tell(&["set", "rt.add", "203.0.113.0/24 via 10.0.2.254 dev mem:1"]);
    router.tell(&["set", "rt.add", "198.51.100.0/24 via 10.0.1.254"]);
    router.tell(&[
        "set",
        "rt.add",
        "default via 10.0.1.9 | via 10.0.2.9 weight 3",
    ]);
    router.tell(&["set", "rt.set", "192.0.2.0/24 output 1"]);
    let routes = router.tell(&["show", "rt.routes"]);
    for line in [
        "0.0.0.0/0 via 10.0.1.9 dev mem:0 | via 10.0.2.9 dev mem:1 weight 3",
        "10.0.1.0/24 dev mem:0",
        "192.0.2.0/24 dev mem:1",
        "198.51.100.0/24 via 10.0.1.254 dev mem:0",
        "203.0.113.0/24 via 10.0.2.254 dev mem:1",
    ] {
        assert!(
            routes.lines().any(|known| known == line),
            "{line}:\n{routes}"
        );
        // What is shown can be written.
        router.tell(&["set", "rt.set", line]);
    }
    assert_eq!(router.tell(&["show", "rt.routes"]), routes);
    let asked = router.tell(&["show", "rt.lookup", "203.0.113.7"]);
    assert_eq!(asked, "203.0.113.0/24 via 10.0.2.254 dev mem:1\n");
    router.tell(&["set", "rt.remove", "default"]);
    let asked = router.tell(&["show", "rt.lookup", "9.9.9.9"]);
    assert_eq!(asked, "no route: packets leave by output 2\n");
    let refused = |value: &str| complained(&router.ask(&["set", "rt.add", value]), 1);
    assert!(
        refused("9.0.0.0/8 via 10.0.1.9 dev mem:2")
            .contains("no output leads to `mem:2` alone; there are: mem:0, mem:1")
    );
    assert!(
        refused("9.0.0.0/8 via 10.0.1.9 dev mem:1")
            .contains("10.0.1.9 is on no network attached to mem:1")
    );
    assert!(refused("9.0.0.0/8 via 10.0.9.9").contains("10.0.9.9 is on no attached network"));
    assert!(refused("9.0.0.0/8 by 10.0.9.9 dev mem:0").contains("a route is written"));
    let told = router.tell(&["set", "rt.add", "9.0.0.0/8 10.0.9.9 1"]);
    assert!(
        told.starts_with("warning: 10.0.9.9 is on no network attached to mem:1"),
        "{told}"
    );
    let told = router.tell(&[
        "set",
        "rt.ctrl",
        "add 9.1.0.0/16 10.0.2.9 1\nremove 9.0.0.0/8 via 10.0.9.9 dev mem:1",
    ]);
    assert!(told.is_empty(), "{told}");
}

#[test]
fn both_tables_of_ip_router_know_the_same_interfaces() {
    let folder = Folder::new();
    let file = conf("ip-router.click");
    let router = Running::start_file(&folder, &file, &["DEV0=mem:0", "DEV1=mem:1"]);
    for (table, gateway) in [
        ("rt4", "10.0.2.254"),
        ("rt6", "fd00:2::254"),
        ("rt6", "fe80::9"),
    ] {
        router.tell(&[
            "set",
            &format!("{table}.set"),
            &format!("default via {gateway} dev mem:1"),
        ]);
        let asked = router.tell(&[
            "show",
            &format!("{table}.lookup"),
            if table == "rt4" { "9.9.9.9" } else { "2001::9" },
        ]);
        assert!(
            asked.ends_with(&format!(" via {gateway} dev mem:1\n")),
            "{asked}"
        );
        assert!(
            router
                .tell(&["show", &format!("{table}.table")])
                .contains("\t2\n")
        );
    }
}

#[test]
fn a_reload_says_what_it_did_and_one_file_counts_for_good() {
    let folder = Folder::new();
    let own = "Idle -> c :: Counter -> q :: Queue(10) -> Discard;";
    let mut router = Running::start(&folder, own, &[]);
    let own = folder.path("router.click");
    let other = folder.write(
        "other.click",
        "Idle -> c :: Counter -> Null -> q :: Queue(20) -> Discard;",
    );
    let told = router.tell(&["reload", &other]);
    let first = format!("{other}: 1 added, 0 removed, 1 reconfigured, 3 kept\n");
    assert!(told.starts_with(&first), "{told}");
    assert!(
        told.contains(&format!(
            "it runs until the next reload without a file, SIGHUP or restart, which read {own}"
        )),
        "{told}"
    );
    let shown = complained(&router.ask(&["show"]), 0);
    assert!(
        shown.contains(&format!("{other} runs; the next reload")),
        "{shown}"
    );
    let told = router.tell(&["reload"]);
    assert_eq!(
        told,
        format!("{own}: 0 added, 1 removed, 1 reconfigured, 3 kept\n")
    );
    assert_eq!(complained(&router.ask(&["show"]), 0), "");
    router.tell(&["reload", &other]);
    // The log is read up to this reload: the one of the signal has the name of the same file as the one before.
    for file in [&other, &own, &other] {
        router.log_line(&format!("configuration=\"{file}\""));
    }
    router.signal(rustix::process::Signal::HUP);
    router.log_line(&format!("configuration=\"{own}\""));
    assert_eq!(router.tell(&["show", "q.capacity"]), "10\n");
}

#[test]
fn anonymous_elements_keep_their_names_and_counts_across_a_reload() {
    let folder = Folder::new();
    let text = "a :: Null; b :: Null;
        FromDevice(mem:0) -> Counter -> a -> Counter -> b -> Counter -> { input -> Counter -> output } -> Discard;";
    let router = Running::start(&folder, text, &[]);
    let names = |class: &str| -> Vec<String> {
        let list = router.tell(&["show"]);
        let lines = list
            .lines()
            .filter(|line| line.contains(&format!(":: {class} ")));
        lines
            .map(|line| line.split(' ').next().unwrap_or_default().to_owned())
            .collect()
    };
    let before = names("Counter");
    assert_eq!(before.len(), 4);
    // One more before all others, and one between.
    let more = text
        .replace(
            "FromDevice(mem:0) -> ",
            "FromDevice(mem:0) -> Null -> Counter -> Counter(COUNT_CALL 9) -> ",
        )
        .replace("-> a -> Counter -> b", "-> a -> Counter -> Null -> b");
    let more = more.replacen("-> Counter -> Counter(", "-> Counter(", 1);
    let file = folder.write("more.click", more);
    let told = router.tell(&["reload", &file]);
    assert!(
        told.contains(": 3 added, 0 removed, 0 reconfigured, 8 kept\n"),
        "{told}"
    );
    let after = names("Counter");
    assert_eq!(after.len(), 5);
    assert!(
        before.iter().all(|name| after.contains(name)),
        "{before:?} {after:?}"
    );
    // And away again.
    let told = router.tell(&["reload"]);
    assert!(
        told.contains(": 0 added, 3 removed, 0 reconfigured, 8 kept\n"),
        "{told}"
    );
    assert_eq!(names("Counter"), before);
}

#[test]
fn what_was_set_is_kept_if_it_is_saved() {
    let folder = Folder::new();
    let text = "rt :: DirectIPLookup(10.0.1.0/24 0, 10.0.2.0/24 1, 10.0.3.0/24 1);
        FromDevice(mem:9) -> Strip(14) -> CheckIPHeader -> rt;
        rt[0] -> Unstrip(14) -> Queue -> ToDevice(mem:0); rt[1] -> Unstrip(14) -> ToDevice(mem:1);";
    let router = Running::start(&folder, text, &[]);
    let told = router.tell(&["save"]);
    assert!(
        told.starts_with("all is as the configuration says"),
        "{told}"
    );
    router.tell(&["set", "rt.add", "203.0.113.0/24 via 10.0.2.254 dev mem:1"]);
    router.tell(&[
        "set",
        "rt.add",
        "198.51.100.0/24 via 10.0.2.4 dev mem:1 | via 10.0.2.2 dev mem:1",
    ]);
    router.tell(&["set", "rt.remove", "10.0.3.0/24"]);
    let routes = router.tell(&["show", "rt.routes"]);
    let told = router.tell(&["save"]);
    let saved = folder.path("router.saved");
    assert!(
        told.starts_with("3 changes in ") && told.contains("router.saved"),
        "{told}"
    );
    drop(router);
    let router = Running::start(&folder, text, &[]);
    assert_eq!(router.tell(&["show", "rt.routes"]), routes);
    drop(router);
    // A line that does not fit any more is left out with a warning.
    let mut lines = std::fs::read_to_string(&saved).expect("it is written");
    lines.insert_str(
        0,
        "rt.ctrl add 9.0.0.0/8 dev eth7\ngone.ctrl add 1.0.0.0/8 1\n",
    );
    folder.write("router.saved", lines);
    let router = Running::start(&folder, text, &[]);
    assert_eq!(router.tell(&["show", "rt.routes"]), routes);
    router.tell(&[
        "set",
        "rt.ctrl",
        "remove 203.0.113.0/24\nremove 198.51.100.0/24\nadd 10.0.3.0/24 dev mem:1",
    ]);
    let told = router.tell(&["save"]);
    assert!(
        told.contains("which is removed") && !Path::new(&saved).exists(),
        "{told}"
    );
}

#[test]
fn what_prints_prints_json_and_counts_alike() {
    let folder = Folder::new();
    let text = "FromDevice(pace:20k/null:64, PROMISCUOUS true) -> c :: Counter -> Queue(50) -> Unqueue -> Discard; k :: Idle -> q :: Queue(7) -> Discard;";
    let router = Running::start(&folder, text, &[]);
    let json = |words: &[&str]| -> serde_json::Value {
        let said = router.tell(words);
        serde_json::from_str(&said).unwrap_or_else(|e| panic!("{words:?}: {e}: {said}"))
    };
    assert_eq!(json(&["show", "q.capacity", "--json"])["value"], "7");
    assert!(json(&["show", "--json"]).is_array());
    assert_eq!(
        json(&["set", "--json", "c.reset", ""])["handler"],
        "c.reset"
    );
    assert_eq!(json(&["save", "--json"])["changes"], 0);
    assert_eq!(json(&["reload", "--json"])["good"], true);
    assert_eq!(json(&["show", "q", "--json"])["capacity"], "7");
    let page: serde_json::Value =
        serde_json::from_str(&said(&run(&["doc", "Queue", "--json"]))).expect("it is JSON");
    assert!(
        page["page"]
            .as_str()
            .is_some_and(|page| page.starts_with("# Queue"))
    );
    for count in ["-n", "-c", "--count"] {
        let packets = router.tell(&["capture", "c", count, "3", "--json"]);
        assert_eq!(packets.lines().count(), 3);
        let first: serde_json::Value =
            serde_json::from_str(packets.lines().next().unwrap_or_default()).expect("JSON");
        assert_eq!(first["length"], 64);
        assert_eq!(
            json(&["trace", count, "2", "--json"])
                .as_array()
                .map(Vec::len),
            Some(2)
        );
    }
    assert_eq!(
        json(&["trace", "2", "--json"]).as_array().map(Vec::len),
        Some(2)
    );
    // An empty answer is none that failed.
    let idle = Folder::new();
    let quiet = Running::start(&idle, "Idle -> c :: Counter -> Discard;", &[]);
    assert_eq!(
        quiet.tell(&["trace", "--json", "--seconds", "1"]).trim(),
        "[]"
    );
    assert!(
        complained(&quiet.ask(&["trace", "--seconds", "1"]), 0)
            .contains("no packet came within 1 s")
    );
    assert_eq!(json(&["stop", "--json"])["stopped"], true);
    router.end();
}

#[test]
fn help_is_a_command() {
    let text = said(&run(&["help"]));
    assert!(
        text.contains("Usage: ashlar") && text.contains("\n  save "),
        "{text}"
    );
    assert!(said(&run(&["help", "trace"])).contains("Follow packets"));
}

#[test]
fn a_trace_shows_when_each_step_was() {
    let folder = Folder::new();
    let text =
        "FromDevice(pace:20k/null:64) -> Counter -> CheckLength(2000) -> Counter -> Discard;";
    let router = Running::start(&folder, text, &[]);
    let packets: serde_json::Value =
        serde_json::from_str(&router.tell(&["trace", "5", "--json"])).expect("JSON");
    for packet in packets.as_array().expect("a list") {
        let steps = packet["steps"].as_array().expect("a list");
        let times: Vec<u64> = steps
            .iter()
            .filter_map(|step| step["time_ns"].as_u64())
            .collect();
        assert!(
            times.len() >= 4 && times.is_sorted() && times.first() < times.last(),
            "{times:?}"
        );
    }
}
