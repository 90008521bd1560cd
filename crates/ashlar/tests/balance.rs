//! `ashlar balance simulate`, without a router.

use crate::common::{complained, run, said};

fn simulated(words: &[&str]) -> String {
    said(&run(
        &[&["balance", "simulate", "--time", "200"], words].concat()
    ))
}

/// The value of a line `balance NAME VALUE`.
fn value(text: &str, name: &str) -> f64 {
    let mut lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("balance "));
    let found = lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    found.unwrap_or_else(|| panic!("no {name} in:\n{text}"))
}

#[test]
fn a_planned_change_loses_nothing_and_a_crash_at_most_detection_times_share() {
    let small = ["-r", "5k", "--answers", "--flows", "16", "--idle", "20"];
    let planned = [&small[..], &["--drain", "r1@20-120", "--weight", "r0=3@50"]].concat();
    let text = simulated(&planned);
    assert_eq!(
        (value(&text, "lost"), value(&text, "reordered")),
        (0.0, 0.0)
    );
    assert!(text.contains("the books balance"), "{text}");
    let text = simulated(&[&small[..], &["--break", "r2@50-190"]].concat());
    assert!(text.contains("r2:crash@50-190"), "{text}");
    assert!(value(&text, "detection-ms") <= 41.0, "{text}");
    assert!(value(&text, "lost-at-crash") > 0.0);
    assert_eq!(value(&text, "false-alarms"), 0.0);
}

#[test]
fn json_has_the_same_run_again_for_the_same_seed() {
    let words = [
        "--json",
        "--balancers",
        "2",
        "--random",
        "20",
        "-r",
        "5k",
        "--seed",
        "9",
    ];
    let text = simulated(&words);
    assert_eq!(text, simulated(&words));
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(value["books_balance"], true);
    assert_eq!(value["doubled"], 0);
    assert!(value["packets_in"].as_u64() > Some(1000));
}

#[test]
fn boxes_that_are_not_there_cannot_break() {
    let wrong = |words: &[&str]| complained(&run(&[&["balance", "simulate"], words].concat()), 1);
    let text = wrong(&["--break", "r9@1-2"]);
    assert!(text.contains("there is no r9: they are r0 to r2"), "{text}");
    assert!(wrong(&["--break", "b1@1-2"]).contains("b0 to b0"));
    assert!(wrong(&["--drain", "r1@500-900"]).contains("use a longer --time"));
    assert!(wrong(&["--balancers", "9"]).contains("give each one at least"));
}
