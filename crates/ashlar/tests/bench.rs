//! `ashlar bench` on configurations of known capacity.

use crate::common::{Folder, complained, run, said};
use serde_json::Value;

/// 20,000 packets a second after the first ten, with a queue of fifty.
const BOUNDED: &str =
    "FromDevice(a) -> q :: Queue(50) -> RatedUnqueue(20000, BURST_SIZE 10) -> ToDevice(b);
    FromDevice(b) -> Discard; Idle -> ToDevice(a);";

fn conf(name: &str) -> String {
    format!("{}/../../conf/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// JSON output for frames of one size.
fn bench(words: &[&str]) -> Value {
    let said = said(&run(&[&["bench"], words, &["--json"]].concat()));
    let all: Value = serde_json::from_str(&said).expect("JSON");
    all[0].clone()
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn the_throughput_of_a_known_bottleneck_and_its_dropping_element_are_found() {
    let folder = Folder::new();
    let file = folder.write("bounded.click", BOUNDED);
    let found = bench(&[
        &file,
        "--simulate",
        "--ndr",
        "--pdr",
        "5%",
        "--range",
        "1k-1M",
        "--precision",
        "1%",
        "--flows",
        "10",
    ]);
    assert_eq!((&found["from"], &found["to"]), (&"a".into(), &"b".into()));
    // Packets that wait in the queue at the end of a second count as carried.
    for (goal, least, most) in [(0, 19_700.0, 20_100.0), (1, 20_700.0, 21_150.0)] {
        let goal = &found["throughput"][goal];
        let (lower, upper) = (
            &goal["packets_per_second"],
            &goal["packets_per_second_below"],
        );
        assert!(number(lower) >= least && number(lower) <= most, "{goal}");
        assert!(
            number(upper) > number(lower) && number(upper) <= number(lower) * 1.0101,
            "{goal}"
        );
        assert_eq!(goal["fails"]["drops"][0]["name"], "q full", "{goal}");
        assert!(number(&goal["fits"]["loss_ratio"]) <= number(&goal["loss_ratio_max"]));
    }
    let fits = &found["throughput"][0]["fits"];
    assert_eq!(fits["received"], fits["offered"]);
    // Delay of fifty packets at 20,000 a second.
    assert!(number(&fits["latency_ns"]["max"]) < 2.8e6, "{fits}");
}

#[test]
fn a_packet_counts_once_and_those_that_come_again_or_late_are_told_apart() {
    let folder = Folder::new();
    let at_1000 = |text: &str, flows: &str| {
        let text = format!("{text}; FromDevice(b) -> Discard; Idle -> ToDevice(a);");
        let file = folder.write("odd.click", text);
        let words = ["--simulate", "--rates", "1000", "--seconds", "1"];
        let found = bench(&[&[&*file], &words[..], &["--flows", flows]].concat());
        let load = &found["loads"][0];
        ["received", "duplicates", "reordered"].map(|name| number(&load[name]))
    };
    // One of two packets is lost, the other arrives twice: the number is right, but the loss is found.
    let twice = "FromDevice(a) -> s :: RoundRobinSwitch -> t :: Tee -> q :: Queue -> ToDevice(b);
        t[1] -> q; s[1] -> Discard";
    assert_eq!(at_1000(twice, "1"), [500.0, 500.0, 0.0]);
    // Every other packet is overtaken by the next, but with two flows not by one of its own flow.
    let late = "FromDevice(a) -> s :: RoundRobinSwitch -> SetTimestamp -> Queue -> DelayUnqueue(1.5ms) -> q :: Queue
        -> ToDevice(b); s[1] -> q";
    assert_eq!(at_1000(late, "1"), [1000.0, 0.0, 500.0]);
    assert_eq!(at_1000(late, "2"), [1000.0, 0.0, 0.0]);
}

#[test]
fn simulated_results_are_the_same_every_time() {
    let folder = Folder::new();
    let file = folder.write("bounded.click", BOUNDED);
    let words = [
        &*file,
        "--simulate",
        "--rates",
        "15k,30k",
        "--seconds",
        "0.1",
    ];
    let (first, again) = (bench(&words), bench(&words));
    assert_eq!(first, again);
    let loads = first["loads"].as_array().expect("a list");
    let lost: Vec<bool> = loads
        .iter()
        .map(|l| number(&l["loss_ratio"]) > 0.0)
        .collect();
    assert_eq!(lost, [false, true], "{first}");
    let p50 = |n: usize| number(&loads[n]["latency_ns"]["p50"]);
    assert!(
        p50(0) < 200e3 && p50(1) > 2e6,
        "a full queue takes its time: {first}"
    );
}

#[test]
fn a_running_router_carries_no_more_than_its_bottleneck() {
    let folder = Folder::new();
    let file = folder.write("bounded.click", BOUNDED);
    let found = bench(&[
        &file,
        "--ndr",
        "--range",
        "100-100k",
        "--seconds",
        "0.2",
        "--precision",
        "10%",
        "--trials",
        "1",
        "-j2",
    ]);
    let ndr = &found["throughput"][0];
    // The rate depends on the machine. In a fifth of a second 4,010 packets leave. Packets that wait in the queue
    // then and, between polls, in the ring follow.
    let lower = ndr["packets_per_second"].as_f64().unwrap_or(0.0);
    assert!(lower * 0.2 <= 4010.0 + 50.0 + 1024.0, "{found}");
    assert!(number(&ndr["packets_per_second_below"]) > 0.0, "{found}");
}

#[test]
fn hosts_behind_the_router_are_found_by_both_versions_of_ip() {
    for (source, destination, size) in [
        ("10.0.1.2", "10.0.2.0/24", "64"),
        ("fd00:1::2", "fd00:2::/64", "128"),
    ] {
        let done = bench(&[
            &conf("ip-router.click"),
            "--simulate",
            "--source",
            source,
            "--destination",
            destination,
            "--size",
            size,
            "--rates",
            "10k",
            "--seconds",
            "0.1",
            "--flows",
            "50",
        ]);
        let load = &done["loads"][0];
        assert_eq!(
            (&load["offered"], &load["received"]),
            (&1000.into(), &1000.into()),
            "{done}"
        );
    }
}

#[test]
fn the_table_names_goals_loads_and_losses() {
    let folder = Folder::new();
    let file = folder.write("bounded.click", BOUNDED);
    let text = said(&run(&[
        "bench",
        &file,
        "--simulate",
        "--range",
        "1k-100k",
        "--seconds",
        "0.2",
        "--precision",
        "5%",
        "--latency",
        "--rates",
        "99k",
        "--pdr",
        "1%",
        "--ndr",
        "--size",
        "64,1518",
    ]));
    for word in [
        "a -> b, workers 1, frames of 64 bytes",
        "frames of 1518 bytes",
        "packets/s",
        "NDR",
        "PDR 1%",
        "\nload",
        "beyond NDR of",
        "\nof 99000/s, ",
        "q full",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn unmeasurable_configurations_are_refused_with_a_reason() {
    let folder = Folder::new();
    let file = folder.write("bounded.click", BOUNDED);
    let wrong = |words: &[&str]| complained(&run(&[&["bench"], words].concat()), 1);
    assert!(wrong(&[&file, "--from", "c"]).contains("no device `c`; it has: a, b"));
    assert!(wrong(&[&file, "--size", "20"]).contains("64 to"));
    assert!(wrong(&[&file, "--source", "::1"]).contains("different IP versions"));
    let two = run(&["bench", &file, "--simulate", "-j2"]);
    assert!(complained(&two, 2).contains("cannot be used with"));
    let drops = folder.write(
        "drops.click",
        "FromDevice(a) -> Discard; Idle -> ToDevice(b);",
    );
    let said = wrong(&[&drops, "--simulate"]);
    assert!(
        said.contains("none of") && said.contains("left by b"),
        "{said}"
    );
    let own = folder.write(
        "own.click",
        BOUNDED.replace("(a)", "(mem:a)").replace("(b)", "(mem:b)"),
    );
    let said = wrong(&[&own, "--cable", "mem:c", "mem:b"]);
    assert!(
        said.contains("`mem:b` is a device of the configuration"),
        "{said}"
    );
    let none = folder.write("none.click", "Idle -> Discard;");
    assert!(wrong(&[&none]).contains("receives from no device"));
    assert!(wrong(&[&folder.write("wrong.click", "x")]).contains("error"));
}
