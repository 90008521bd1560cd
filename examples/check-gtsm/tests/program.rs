//! The program with the class of this crate.

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
