//! Output of commands on narrow and wide terminals.

use crate::common::{Folder, Running, conf};
use std::process::Command;

/// Output of a command on a terminal with `columns` columns.
fn printed(columns: usize, words: &[&str]) -> String {
    let quoted = |word: &&str| format!("'{word}'");
    let words: Vec<String> = words.iter().map(quoted).collect();
    let command = format!(
        "stty cols {columns} rows 50; exec '{}' {}",
        env!("CARGO_BIN_EXE_ashlar"),
        words.join(" ")
    );
    let told = Command::new("script")
        .args(["--quiet", "--return", "--command", &command, "/dev/null"])
        .env("TERM", "dumb")
        .output()
        .expect("script of util-linux");
    let text = String::from_utf8_lossy(&told.stdout).replace('\r', "");
    assert!(told.status.success(), "{command}: {text}");
    text
}

#[test]
fn no_line_is_longer_than_the_terminal_and_none_is_broken_where_there_is_room() {
    let folder = Folder::new();
    let file = conf("ip-router.click");
    let router = Running::start_file(&folder, &file, &["DEV0=mem:0", "DEV1=mem:1"]);
    let socket = router.socket.as_str();
    let commands: [&[&str]; 11] = [
        &["show", "--socket", socket],
        &["show", "--socket", socket, "rt4"],
        &["show", "--socket", socket, "rt4.routes"],
        &["top", "--socket", socket, "--once", "--interval", "0.1"],
        &[
            "set",
            "--socket",
            socket,
            "rt4.set",
            "198.51.100.0/24 via 10.0.2.254 dev mem:1",
        ],
        &["ports"],
        &["doc"],
        &["doc", "IPFilter"],
        &["plan", &file, "DEV0=mem:0", "DEV1=mem:1", "-j", "2"],
        &["reload", "--socket", socket],
        &["check", &file, "DEV0=mem:0", "DEV1=mem:1"],
    ];
    for words in commands {
        let (narrow, wide) = (printed(40, words), printed(200, words));
        for (columns, text) in [(40, &narrow), (200, &wide)] {
            for line in text.lines() {
                assert!(line.chars().count() <= columns, "{words:?}: {line}");
            }
        }
        let has_text = !matches!(words[0], "set" | "check");
        assert!(!has_text || !wide.is_empty(), "{words:?} prints nothing");
        assert!(wide.lines().count() <= narrow.lines().count(), "{words:?}");
    }
    // JSON is for programs, and is not wrapped on any terminal.
    let json = printed(40, &["show", "--socket", socket, "--json", "rt4.routes"]);
    assert_eq!(json.lines().count(), 1, "{json}");
}

#[test]
fn errors_are_coloured_on_a_terminal_that_wants_it() {
    let folder = Folder::new();
    let file = folder.write("wrong.click", "Idle -> NoSuchClass -> Discard;");
    let told = |name: &str, value: &str| {
        let command = format!("'{}' check '{file}'", env!("CARGO_BIN_EXE_ashlar"));
        let told = Command::new("script")
            .args(["--quiet", "--command", &command, "/dev/null"])
            .env("TERM", "xterm")
            .env_remove("NO_COLOR")
            .env(name, value)
            .output()
            .expect("script of util-linux");
        String::from_utf8_lossy(&told.stdout).into_owned()
    };
    let text = told("TERM", "xterm");
    assert!(text.contains("\x1b[1;31merror\x1b[0m"), "{text}");
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let text = told(name, value);
        assert!(text.contains("error") && !text.contains('\x1b'), "{text}");
    }
}
