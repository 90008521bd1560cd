//! Subcommands that need no running router.

use crate::common::{Folder, all, ashlar, complained, golden, run, said, to_its_end};
use std::io::Write;
use std::process::Stdio;

fn golden_path(name: &str) -> String {
    format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Runs in the golden folder, so that paths in messages are short.
fn in_golden(words: &[&str]) -> std::process::Output {
    let mut command = ashlar();
    command.current_dir(golden_path("")).args(words);
    command.output().expect("the program starts")
}

#[test]
fn check_says_all_mistakes_at_once() {
    let output = in_golden(&["check", "wrong.click"]);
    let errors = complained(&output, 1);
    golden(
        "wrong.check",
        &(String::from_utf8_lossy(&output.stdout) + &*errors),
    );
    let output = in_golden(&["check", "--json", "wrong.click"]);
    assert_eq!(complained(&output, 1), "");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let list = json.as_array().expect("a list");
    assert!(
        list.len() >= 3 && list.iter().all(|d| d["line"].is_u64()),
        "{json}"
    );
}

#[test]
fn check_is_silent_where_all_is_well_and_warns_of_missing_devices() {
    assert_eq!(said(&in_golden(&["check", "router.click", "-j2"])), "");
    let folder = Folder::new();
    let file = folder.write("a.click", "FromDevice(nosuchdevice0) -> Discard;");
    assert!(said(&run(&["check", &file])).contains("warning: in `FromDevice@1 :: FromDevice`"));
    let errors = complained(&run(&["run", "--no-socket", &file]), 1);
    assert!(
        errors.contains("error: in `FromDevice@1 :: FromDevice`"),
        "{errors}"
    );
}

#[test]
fn a_configuration_that_the_machine_has_no_memory_for_is_refused() {
    let folder = Folder::new();
    let refused = |text: &str| {
        let file = folder.write("large.click", text);
        let limited = "ulimit -v 131000; exec \"$0\" check \"$1\"";
        let program = ashlar().get_program().to_owned();
        let mut shell = std::process::Command::new("sh");
        let shell = shell.args(["-c", limited]).arg(program).arg(&file);
        let output = shell.output().expect("a shell");
        complained(&output, 1);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for (table, size) in [
        ("RadixIPLookup(0/0 0)", 130),
        ("StaticIPLookup(0/0 0)", 130),
        ("LookupIP6Route(::/0 0)", 133),
    ] {
        let errors = refused(&format!("Idle -> {table} -> Discard;"));
        assert!(errors.contains("large.click:1:2"), "{errors}");
        let refuses = format!("refuses the {size} MiB of address space of a routing table");
        assert!(errors.contains(&refuses), "{errors}");
        assert!(errors.contains("= let the process have more"));
    }
    let errors = refused("a, b :: ARPTable(ENTRY_CAPACITY 1048576);");
    assert!(errors.contains("in `b :: ARPTable`: the system refuses the 96 MiB that it takes"));
    // A queue holds no more packets than there are buffers.
    let file = folder.write("queue.click", "Idle -> Queue(16777216) -> Discard;");
    said(&run(&["plan", &file]));
}

#[test]
fn plan_tells_the_workers_of_elements_and_where_packets_change_worker() {
    golden(
        "router.plan",
        &said(&in_golden(&["plan", "router.click", "-j2"])),
    );
    let json = said(&in_golden(&[
        "plan",
        "router.click",
        "--workers",
        "2",
        "--json",
    ]));
    let plan: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(plan["crossings"][0]["element"], "q");
    assert_eq!(plan["workers"][1]["starts"][0]["queues"][0], 1);
    let folder = Folder::new();
    let text = "in :: FromDevice(null:64) -> ToDevice(null:);";
    let bare = said(&run(&["plan", &folder.write("bare.click", text)]));
    assert!(
        bare.contains("nobody looks at: packets from in\n"),
        "{bare}"
    );
    let refused = in_golden(&["plan", "router.click"]);
    assert!(complained(&refused, 1).contains("worker 1 is asked for, but there are 1"));
}

#[test]
fn graph_draws_what_is_planned() {
    golden(
        "router.dot",
        &said(&in_golden(&[
            "graph",
            "--format",
            "dot",
            "router.click",
            "-j2",
        ])),
    );
    let svg = said(&in_golden(&["graph", "router.click", "-j2"]));
    golden("router.svg", &svg);
    assert_eq!(
        svg.matches("<rect").count(),
        1 + 11 + 3,
        "paper, elements, legend"
    );
}

#[test]
fn doc_shows_a_page_a_list_what_words_find_and_the_nearest_name() {
    golden("queue.md", &said(&run(&["doc", "Queue"])));
    let list = said(&run(&["doc"]));
    assert!(list.lines().any(|l| l.starts_with("Queue ")), "{list}");
    assert!(
        list.contains("\nNetwork address translation (NAT) (rewrite)\n"),
        "{list}"
    );
    let found = said(&run(&["doc", "firewall"]));
    assert!(found.lines().any(|l| l.starts_with("IPFilter ")), "{found}");
    assert!(complained(&run(&["doc", "Qeue"]), 1).contains("did you mean `Queue`?"));
}

#[test]
fn a_wrong_command_line_ends_with_2_and_a_missing_file_with_1() {
    complained(&run(&["run"]), 2);
    complained(&run(&["no-such-command"]), 2);
    complained(&run(&["run", "a.click", "--workers", "0"]), 2);
    complained(&run(&["run", "a.click", "no definition"]), 2);
    complained(&run(&["capture"]), 2);
    let said = complained(&run(&["check", "/no/such/file.click"]), 1);
    assert!(said.contains("cannot read /no/such/file.click"), "{said}");
    let folder = Folder::new();
    let binary = folder.write("binary.click", [0xff, 0xfe]);
    assert!(complained(&run(&["check", &binary]), 1).contains("is not text"));
    let (file, socket) = (
        folder.write("none.click", "Idle -> Discard;"),
        folder.path("none.sock"),
    );
    let fpm = ["--fpm", "127.0.0.1:2620", "--fpm-from", "127.0.0.1"];
    let words = [&["run", &file, "--socket", &socket], &fpm[..]].concat();
    assert!(complained(&run(&words), 1).contains("every user of this machine"));
}

#[test]
fn a_configuration_comes_from_standard_input_with_definitions() {
    let mut child = ashlar()
        .args([
            "run",
            "-",
            "N=7",
            "--no-socket",
            "--report",
            "--log-level",
            "off",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut input = child.stdin.take().expect("it is piped");
    input
        .write_all(b"InfiniteSource(LIMIT $N) -> Discard;")
        .expect("it reads");
    drop(input);
    let report = said(&child.wait_with_output().expect("it ends"));
    assert!(
        report.ends_with("books: in 7 = out 7 + drops 0 + held 0\n"),
        "{report}"
    );
}

#[test]
fn router_without_active_sources_ends_silently() {
    let folder = Folder::new();
    let file = folder.write(
        "a.click",
        "InfiniteSource(LIMIT 100) -> Queue -> Unqueue -> Discard;",
    );
    for workers in ["1", "3"] {
        let output = run(&[
            "run",
            &file,
            "--no-socket",
            "--log-level",
            "error",
            "-j",
            workers,
        ]);
        assert_eq!((said(&output), output.stderr.len()), (String::new(), 0));
    }
}

/// A capture file with `frames` frames, numbered in their last byte.
fn pcap(frames: u32) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for n in 0..frames {
        for word in [n, 0, 60, 60] {
            file.extend(word.to_le_bytes());
        }
        let mut frame = [0u8; 60];
        frame[12..14].copy_from_slice(&[8, (n % 2) as u8 * 6]);
        frame[59] = n as u8;
        file.extend(frame);
    }
    file
}

#[test]
fn packets_go_from_file_to_file_and_the_books_balance() {
    let folder = Folder::new();
    let input = folder.write("in.pcap", pcap(100));
    let file = folder.write(
        "a.click",
        "FromDevice(pcap:$IN) -> c :: Classifier(12/0800, -) -> Queue(1000) -> ToDevice(\"pcap:,$OUT\");\n\
         c[1] -> CheckLength(10) -> Discard;",
    );
    for workers in ["1", "2"] {
        let output = folder.path("out.pcap");
        let done = run(&[
            "run",
            &file,
            &format!("IN={input}"),
            &format!("OUT={output}"),
            "--no-socket",
            "--report",
            "-j",
            workers,
        ]);
        let report = said(&done);
        assert!(report.contains("too_long 50"), "{report}");
        assert!(
            report.ends_with("books: in 100 = out 50 + drops 50 + held 0\n"),
            "{report}"
        );
        let written = std::fs::read(&output).expect("it is written");
        let last_bytes: Vec<u8> = written[24..].chunks(76).map(|r| r[75]).collect();
        assert_eq!(last_bytes, (0..100).step_by(2).collect::<Vec<u8>>());
    }
}

#[test]
fn help_pages_and_completions_know_every_subcommand() {
    let help = said(&run(&["--help"]));
    let pages = said(&run(&["man"]));
    let mut asked = ashlar();
    asked
        .args(["--", "ashlar", ""])
        .envs([("COMPLETE", "bash"), ("_CLAP_IFS", "\n")])
        .env("_CLAP_COMPLETE_INDEX", "1");
    let complete = said(&to_its_end(&mut asked));
    for name in [
        "run", "check", "plan", "graph", "doc", "show", "set", "top", "capture", "trace", "reload",
        "save", "ipsec", "flow", "router", "ports", "doctor", "shell", "bench", "stop",
    ] {
        assert!(help.contains(&format!("\n  {name} ")), "{help}");
        assert!(
            pages.contains(&format!(".TH ashlar-{name} 1")),
            "no page for {name}"
        );
        assert!(complete.lines().any(|word| word == name), "{complete}");
    }
    let folder = Folder::new();
    said(&run(&["man", &folder.path("man")]));
    assert!(folder.0.join("man/ashlar-run.1").exists());
}

#[test]
fn a_mistake_in_a_compound_element_is_told_once() {
    let folder = Folder::new();
    let file = folder.write(
        "uses.click",
        "elementclass Port { input -> c :: CheckLength(many) -> Queue(5, ENTRY_PACKET_CAPACTY 7) -> Discard }
        Idle -> a :: Port; Idle -> b :: Port; Idle -> c :: Port;",
    );
    let told = all(&run(&["check", &file]));
    assert_eq!(told.matches("must be").count(), 1, "{told}");
    assert_eq!(
        told.matches("the same in 2 other uses").count(),
        2,
        "{told}"
    );
    assert!(
        told.contains("unknown keyword `ENTRY_PACKET_CAPACTY`"),
        "{told}"
    );
    assert!(told.contains("2 errors"), "{told}");
}
