//! The program with the class and the kind of port of this crate.

use std::process::Command;

fn said(words: &[&str]) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_check-gtsm"));
    let folder = env!("CARGO_MANIFEST_DIR");
    let output = program.current_dir(folder).args(words).output();
    let output = output.expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it is text");
    let errors = text(output.stderr);
    assert!(output.status.success(), "{errors}");
    text(output.stdout) + &errors
}

#[test]
fn the_program_runs_a_configuration_with_the_class() {
    assert_eq!(said(&["check", "gtsm.click"]), "");
    let counts = said(&["click", "gtsm.click", "-h", "near.count", "-h", "far.count"]);
    let counts: Vec<&str> = counts
        .lines()
        .filter(|line| line.parse::<u64>().is_ok())
        .collect();
    assert_eq!(counts, ["1000", "10"]);
}

#[test]
fn the_program_knows_its_manual_page() {
    let page = said(&["doc", "CheckGTSM"]);
    for word in ["time to live", "HOPS", "far", "hops"] {
        assert!(page.contains(word), "{word}: {page}");
    }
    assert!(said(&["doc"]).contains("CheckGTSM"));
}

#[test]
fn frames_cross_a_port_of_the_added_kind() {
    // Addresses that no other program uses: each process has its own of the 127.0.0.0/8.
    let [.., high, low] = std::process::id().to_be_bytes();
    let [a, b] = [7001, 7002].map(|port| format!("127.{high}.{low}.9:{port}"));
    let (a, b) = (format!("A={a}"), format!("B={b}"));
    let counts = said(&["click", "tunnel.click", &a, &b, "-h", "received.count"]);
    assert!(counts.lines().any(|line| line == "100"), "{counts}");
}

#[test]
fn names_of_unknown_kinds_are_refused_with_those_that_there_are() {
    let file = std::env::temp_dir().join(format!("upd-{}.click", std::process::id()));
    let text = "FromDevice(\"upd:127.0.0.1:7001,127.0.0.1:7002\") -> Discard;";
    std::fs::write(&file, text).expect("the folder takes files");
    let mut program = Command::new(env!("CARGO_BIN_EXE_check-gtsm"));
    let output = program.arg("click").arg(&file).output();
    let output = output.expect("the program starts");
    std::fs::remove_file(&file).expect("it is there");
    let errors = String::from_utf8(output.stderr).expect("it is text");
    assert!(!output.status.success());
    for form in ["udp:LOCAL,REMOTE", "memif:WORDS", "INTERFACE"] {
        assert!(errors.contains(form), "{form}: {errors}");
    }
}
