//! `ashlar cluster` on files: no router runs.

mod common;
use common::{Folder, complained, run, said};

const RB4: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conf/cluster.toml");

#[test]
fn check_says_what_each_server_would_run() {
    let text = said(&run(&["cluster", "check", RB4, "-j2"]));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert_eq!(lines[0], "cluster rb4: 4 servers, 6 internal links");
    for (name, line) in ["a", "b", "c", "d"].iter().zip(&lines[1..]) {
        assert!(line.starts_with(&format!("server {name}: ")), "{line}");
        assert!(line.contains("1 external port, 3 internal links"), "{line}");
        assert!(line.contains("on 2 workers"), "{line}");
    }
}

#[test]
fn what_a_server_runs_is_a_configuration_as_any_other() {
    let text = said(&run(&["cluster", "text", RB4, "--server", "c"]));
    assert!(
        text.starts_with("// Server c of the cluster rb4.\n"),
        "{text}"
    );
    let folder = Folder::new();
    let file = folder.write("c.click", &text);
    assert_eq!(said(&run(&["check", &file])).matches("error").count(), 0);
    let wrong = complained(&run(&["cluster", "text", RB4, "--server", "e"]), 1);
    assert!(
        wrong.contains("no server `e`") && wrong.contains("a, b, c, d"),
        "{wrong}"
    );
}

#[test]
fn mistakes_have_their_line_and_what_to_do() {
    let folder = Folder::new();
    let text = std::fs::read_to_string(RB4).expect("conf/ is there");
    let text = text.replacen("10.0.2.1/24", "10.0.1.7/24", 1);
    let text = text.replacen("\"b\", \"c\"", "\"b\", \"x\"", 1);
    let file = folder.write("cluster.toml", &text);
    let wrong = complained(&run(&["cluster", "check", &file]), 1);
    for part in [
        "two ports are attached to the same network",
        "there is no server `x`",
        "2 errors",
        "    = ",
    ] {
        assert!(wrong.contains(part), "{part}: {wrong}");
    }
    assert_eq!(
        wrong.matches("cluster.toml:").count(),
        3,
        "each with its place: {wrong}"
    );
}

#[test]
fn servers_that_do_not_answer_are_told() {
    let folder = Folder::new();
    let text = std::fs::read_to_string(RB4).expect("conf/ is there");
    let socket = format!("name = \"a\"\nsocket = \"{}\"", folder.path("a.sock"));
    let file = folder.write("cluster.toml", text.replacen("name = \"a\"", &socket, 1));
    let shown = said(&run(&["cluster", "show", "--interval", "0.05", &file]));
    assert!(shown.contains("server a: no router answers at "), "{shown}");
    let wrong = complained(&run(&["cluster", "reload", &file]), 1);
    assert!(wrong.contains("no server's router answers"), "{wrong}");
}
