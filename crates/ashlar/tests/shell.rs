//! `ashlar shell`, and command completion in other shells.

use crate::common::{Folder, Running, ashlar, said};
use std::io::Write;
use std::process::{Output, Stdio};

const TEXT: &str = "elementclass Side { input -> q :: Queue(7) -> Unqueue -> output };
    Idle -> fw :: { input -> s :: Side -> output } -> Discard;";

/// Output of the shell for these lines.
fn lines(router: &Running, folder: &Folder, lines: &str) -> Output {
    let mut child = ashlar()
        .args(["shell", "--socket", &router.socket])
        .env("XDG_STATE_HOME", folder.path("state"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let _bounded = crate::common::bounded(&child);
    let mut stdin = child.stdin.take().expect("standard input is piped");
    stdin.write_all(lines.as_bytes()).expect("it reads");
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

#[test]
fn a_shell_takes_commands_for_its_router_and_says_what_may_follow() {
    let folder = Folder::new();
    let router = Running::start(&folder, TEXT, &[]);
    let output = lines(
        &router,
        &folder,
        "show fw/s/q.capacity\nset fw/s/q.capacity 9\nshow fw/s/q.capacity\n",
    );
    assert_eq!(said(&output), "7\n9\n");
    let text = said(&lines(&router, &folder, "tree\n"));
    assert!(text.contains("fw\n  s\n    Unqueue@"), "{text}");
    assert!(text.contains("    q :: Queue\n"), "{text}");
    let text = said(&lines(
        &router,
        &folder,
        "show fw/s/q.cap?\nsh?\nshow --?\n",
    ));
    assert!(
        text.contains("fw/s/q.capacity") && text.contains("  show "),
        "{text}"
    );
    assert!(text.contains("  --json "), "{text}");
    // A wrong line ends nothing, and lines after `exit` are not read.
    let output = lines(
        &router,
        &folder,
        "nonsense\nshow 'fw\nshow no.such\nshow fw/s/q.capacity\nexit\nstop\n",
    );
    assert_eq!(said(&output), "9\n");
    let wrong = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        wrong.contains("nonsense") && wrong.contains("has no end"),
        "{wrong}"
    );
    assert_eq!(router.count("fw/s/q.capacity"), 9);
}

#[test]
fn other_shells_complete_elements_and_handlers_of_the_running_router() {
    let script = said(&crate::common::run(&["completions", "bash"]));
    assert!(script.contains("COMPLETE=\"bash\""), "{script}");
    let folder = Folder::new();
    let router = Running::start(&folder, TEXT, &[]);
    let complete = |words: &[&str]| {
        let mut command = ashlar();
        command
            .args(["--", "ashlar"])
            .args(words)
            .env("COMPLETE", "bash")
            .env("_CLAP_IFS", "\n")
            .env("_CLAP_COMPLETE_INDEX", words.len().to_string())
            .env("ASHLAR_SOCKET", &router.socket);
        said(&crate::common::to_its_end(&mut command))
    };
    let text = complete(&["show", "fw/s/q.cap"]);
    assert!(text.lines().any(|word| word == "fw/s/q.capacity"), "{text}");
    let text = complete(&["set", "fw/s/q.res"]);
    assert!(text.lines().any(|word| word == "fw/s/q.reset"), "{text}");
    let text = complete(&["sh"]);
    assert!(text.contains("show") && text.contains("shell"), "{text}");
}
