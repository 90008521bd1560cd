//! `ashlar cluster` on files, without a router.

use crate::common::{Folder, complained, run, said};
use control::view::{Changes, Info, ReloadReply};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};

const RB4: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conf/cluster.toml");

#[test]
fn check_says_what_each_server_would_run() {
    let text = said(&run(&["cluster", "check", RB4, "-j2"]));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    let head = "cluster rb4: 4 servers, 6 internal links, 40.000 Gbit/s of external ports";
    assert_eq!(lines[0], head);
    for (name, line) in ["a", "b", "c", "d"].iter().zip(&lines[1..]) {
        assert!(line.starts_with(&format!("server {name}: ")), "{line}");
        let inside =
            "1 external port, 3 internal links of 15.000 Gbit/s where 15.000 Gbit/s may be needed";
        assert!(line.contains(inside), "{line}");
        assert!(line.contains("on 2 workers"), "{line}");
    }
}

#[test]
fn workers_are_as_many_as_the_file_says() {
    let folder = Folder::new();
    let text = std::fs::read_to_string(RB4).expect("a file");
    let text = text.replace("name = \"b\"\n", "name = \"b\"\nworkers = 3\n");
    let file = folder.write("cluster.toml", &text);
    let told = said(&run(&["cluster", "check", &file]));
    let count = |workers: &str| told.matches(workers).count();
    assert_eq!(
        (count("on 1 worker,"), count("on 3 workers,")),
        (3, 1),
        "{told}"
    );
    let other = "--workers is 2, and";
    let wrong = complained(&run(&["cluster", "check", &file, "-j2"]), 1);
    assert!(wrong.contains(other), "{wrong}");
    let up = ["cluster", "up", &file, "--server", "b", "-j2"];
    let wrong = complained(&run(&up), 1);
    assert!(
        wrong.contains(other) && wrong.contains("`workers = 3` for server `b`"),
        "{wrong}"
    );
}

#[test]
fn a_file_is_planned_as_it_is_and_with_one_server_more() {
    let text = said(&run(&["cluster", "plan", "--file", RB4]));
    let plans: Vec<&str> = text.split("\n\n").collect();
    assert_eq!(plans.len(), 2, "{text}");
    for (plan, ports, links) in [(plans[0], 4, 6), (plans[1], 5, 10)] {
        let head = format!("{ports} external ports of 10.000 Gbit/s\n");
        assert!(plan.starts_with(&head), "{plan}");
        let has = format!(
            "links                 {links}; each server has {}",
            ports - 1
        );
        assert!(plan.contains(&has), "{plan}");
    }
    let folder = Folder::new();
    let inside = "[cluster]\nname = \"x\"\n[[server]]\nname = \"a\"\n";
    let file = folder.write("inside.toml", inside);
    let wrong = complained(&run(&["cluster", "plan", "--file", &file]), 1);
    assert!(wrong.contains("no server has an external port"), "{wrong}");
}

#[test]
fn configuration_of_a_server_runs_like_any_other() {
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
fn the_key_is_never_shown_and_a_file_that_others_may_read_is_warned_of() {
    const KEY: &str = "00112233445566778899aabbccddeeff";
    let folder = Folder::new();
    let text = std::fs::read_to_string(RB4).expect("a file");
    let text = text
        .replace(
            "name = \"rb4\"",
            &format!("name = \"rb4\"\nkey = [\"{KEY}\", \"{}\"]", "f".repeat(32)),
        )
        .replace("[[link]]", "[[link]]\nmtu = 1530");
    let file = folder.write("cluster.toml", &text);
    let modes = [(0o644, true), (0o604, true), (0o640, false), (0o600, false)];
    for (mode, warned) in modes {
        let open = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&file, open).expect("it is ours");
        let commands: [&[&str]; 5] = [
            &["cluster", "check", &file, "--server", "a"],
            &["cluster", "text", &file, "--server", "a"],
            &["plan", &file, "--server", "a"],
            &["plan", "--json", &file, "--server", "a"],
            &["check", &file, "--server", "a"],
        ];
        for words in commands {
            let done = run(words);
            let all = [&*done.stdout, &*done.stderr]
                .map(String::from_utf8_lossy)
                .concat();
            assert!(done.status.success(), "{words:?}: {all}");
            assert!(
                !all.contains(KEY) && !all.contains("ffffffff"),
                "{words:?}: {all}"
            );
            let warning = format!("may read the key in {file} (mode {mode:03o})");
            assert_eq!(all.contains(&warning), warned, "{words:?} {mode:o}: {all}");
        }
    }
    // A user who has the key can run a server's configuration without the file.
    let text = said(&run(&["cluster", "text", &file, "--server", "a"]));
    assert!(text.contains("KEY $KEY"), "{text}");
    let server = folder.write("a.click", &text);
    let done = run(&["check", &server, &format!("KEY={KEY}x")]);
    let wrong = String::from_utf8_lossy(&done.stdout);
    assert!(
        wrong.contains("KEY is no key") && !wrong.contains(KEY),
        "{wrong}"
    );
}

#[test]
fn mistakes_have_their_line_and_a_remedy() {
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
    // Each server gets a socket in the test's folder: a real cluster may be running on this machine.
    let text = ["a", "b", "c", "d"].iter().fold(text, |text, name| {
        let socket = folder.path(&format!("{name}.sock"));
        let named = format!("name = \"{name}\"");
        text.replacen(&named, &format!("{named}\nsocket = \"{socket}\""), 1)
    });
    let file = folder.write("cluster.toml", text);
    let show = ["cluster", "show", "--interval", "0.05", &file];
    let done = run(&show);
    let shown = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(shown.contains("server a: no router answers at "), "{shown}");
    let wrong = complained(&done, 1);
    assert!(wrong.contains("no answer from a, b, c, d"), "{wrong}");
    let wrong = complained(&run(&[&show[..], &["--server", "c"]].concat()), 1);
    assert!(wrong.contains("no answer from c"), "{wrong}");
    let wrong = complained(&run(&[&show[..], &["--server", "e"]].concat()), 1);
    assert!(wrong.contains("no server `e`: there are a, b"), "{wrong}");
    let wrong = complained(&run(&["cluster", "reload", &file]), 1);
    assert!(wrong.contains("no answer from a, b, c, d"), "{wrong}");
}

/// Stand-in for a router: it accepts every configuration, or (`takes` false) only dry runs.
fn router(socket: &str, takes: bool) {
    let listener = UnixListener::bind(socket).expect("the folder takes sockets");
    std::thread::spawn(move || {
        for mut caller in listener.incoming().flatten() {
            let asked = request(&caller);
            let good = takes || asked.contains("\"dry_run\":true");
            let answer = match asked.starts_with("GET /v1/info ") {
                true => serde_json::to_string(&Info::default()),
                false => serde_json::to_string(&ReloadReply {
                    good,
                    changes: Changes::default(),
                    text: String::new(),
                    diagnostics: serde_json::Value::Null,
                    ..ReloadReply::default()
                }),
            };
            let body = answer.expect("it is JSON");
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            let _ = caller.write_all((head + &body).as_bytes());
        }
    });
}

/// A request as received.
fn request(caller: &UnixStream) -> String {
    let (mut reader, mut said, mut length) = (BufReader::new(caller), String::new(), 0);
    while reader.read_line(&mut said).is_ok_and(|n| n > 2) {
        let last = said.lines().next_back().unwrap_or_default();
        if let Some(value) = last.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("it is a number");
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("it comes whole");
    said + &String::from_utf8_lossy(&body)
}

#[test]
fn servers_that_took_a_file_are_named_when_another_refuses_it_late() {
    let folder = Folder::new();
    let mut text = std::fs::read_to_string(RB4).expect("conf/ is there");
    for name in ["a", "b", "c", "d"] {
        let socket = folder.path(name);
        if name != "d" {
            router(&socket, name != "c");
        }
        let (old, new) = (
            format!("name = \"{name}\""),
            format!("name = \"{name}\"\nsocket = \"{socket}\""),
        );
        text = text.replacen(&old, &new, 1);
    }
    let file = folder.write("cluster.toml", text);
    let done = run(&["cluster", "reload", &file]);
    let wrong = complained(&done, 1);
    assert!(
        wrong.contains("server c refuses it") && wrong.contains("; already changed: a, b"),
        "{wrong}"
    );
    let dry = run(&["cluster", "reload", "--dry-run", &file]);
    let said = String::from_utf8_lossy(&dry.stdout).into_owned();
    assert_eq!(said.matches("would use it").count(), 3, "{said}");
    let wrong = complained(&dry, 1);
    assert!(wrong.contains("no answer from d"), "{wrong}");
}

#[test]
fn impossible_simulations_are_refused_and_failures_are_named() {
    let simulate = |more: &[&str]| {
        let words = [
            "cluster", "simulate", "--rate", "100Mbps", "--time", "260", "--warmup", "40",
        ];
        run(&[&words, more].concat())
    };
    for (wrong, why) in [
        ("9@1-3", "no server 9: they are 0 to 3"),
        (
            "0-7:lossy@1-3",
            "--break 0-7:lossy@1-3: no link is between servers 0 and 7",
        ),
        (
            "0>1@400-500",
            "--break 0>1:cut@400-500: the run ends at 300 ms",
        ),
    ] {
        let said = complained(&simulate(&["--break", wrong]), 1);
        assert!(said.contains(why), "{wrong}: {said}");
    }
    complained(&simulate(&["--flowlets", "18446744073709551615"]), 2);
    let text = said(&simulate(&["--break", "0-1@100-200"]));
    assert!(text.contains("0-1:cut@100-200: all know after "), "{text}");
    assert!(
        text.contains(" 0 working links were taken for broken"),
        "{text}"
    );
}

#[test]
fn a_trace_may_have_vlan_tags_and_must_be_of_ethernet() {
    let folder = Folder::new();
    let capture = |link: u8, frame: &[u8]| {
        let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
        file.extend([[0; 4], [0; 4], [0, 0, 1, 0], [link, 0, 0, 0]].concat());
        let length = (frame.len() as u32).to_le_bytes();
        file.extend([[0; 4], [0; 4], length, length].concat());
        file.extend(frame);
        let path = folder.path("trace.pcap");
        std::fs::write(&path, file).expect("the folder takes files");
        run(&["cluster", "simulate", "--time", "1", "--trace", &path])
    };
    let mut frame = vec![2; 12];
    frame.extend([
        0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0,
    ]);
    frame.extend([10, 0, 0, 1, 10, 0, 0, 2, 0, 1, 0, 2, 0, 8, 0, 0]);
    said(&capture(1, &frame));
    let wrong = complained(&capture(101, &frame), 1);
    assert!(
        wrong.contains("its link type is 101, not Ethernet"),
        "{wrong}"
    );
}
