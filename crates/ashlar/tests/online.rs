//! Subcommands and requests against a running router.

use crate::common::{Folder, IDLE, Running, SLOW, ashlar, complained, get, raw, run, said, until};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn handlers_are_listed_read_and_written() {
    let folder = Folder::new();
    let router = Running::start(&folder, SLOW, &[]);
    let list = router.tell(&["show"]);
    assert!(
        list.contains(":: Queue        length highwater_length capacity"),
        "{list}"
    );
    until("packets", || router.count("c.count") > 100);
    let one = router.tell(&["show", "c"]);
    assert!(one.contains("\nclass             Counter\n"), "{one}");
    assert_eq!(router.tell(&["show", "q.capacity"]), "100\n");
    assert_eq!(router.tell(&["show", "c.class"]), "Counter\n");
    assert!(router.tell(&["show", "flatconfig"]).contains("t[1] -> l;"));
    assert!(
        router
            .tell(&["show", "l.named_drops"])
            .starts_with("too_long\t")
    );
    router.tell(&["set", "in.set_burst", "7"]);
    assert_eq!(router.tell(&["show", "in.burst"]), "7\n");
    let wrong = |words: &[&str]| complained(&router.ask(words), 1);
    assert!(wrong(&["set", "in.set_burst", "x"]).contains("must be"));
    assert!(wrong(&["show", "c.cuont"]).contains("has no handler `cuont`"));
    assert!(wrong(&["show", "cc.count"]).contains("did you mean `c`?"));
    assert!(wrong(&["set", "q.length", "5"]).contains("can only be read"));
    assert!(wrong(&["set", "c.name", "x"]).contains("can only be read"));
    assert!(wrong(&["show", "q.reset"]).contains("can only be written"));
    router.tell(&["stop"]);
    let (_, log) = router.end();
    assert!(log.contains("reason=\"asked\""), "{log}");
    assert!(!folder.0.join("router.sock").exists());
}

#[test]
fn large_values_reach_a_handler_and_too_large_ones_are_refused() {
    let folder = Folder::new();
    let text =
        "Idle -> r :: RadixIPLookup(0.0.0.0/0 0) -> Discard; r[1] -> Discard; r[2] -> Discard;";
    let router = Running::start(&folder, text, &[]);
    let routes = 100_000;
    let mut value = String::new();
    for n in 0..routes {
        let [_, a, b, c] = u32::to_be_bytes(n);
        value += &format!("add 10.{a}.{b}.{c}/32 {}\n", n % 3);
    }
    let mut child = crate::common::ashlar()
        .args(["set", "--socket", &router.socket, "r.ctrl", "-"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut input = child.stdin.take().expect("it is piped");
    input.write_all(value.as_bytes()).expect("it reads");
    drop(input);
    said(&child.wait_with_output().expect("it ends"));
    assert_eq!(router.count("r.length"), u64::from(routes) + 1);
    assert!(
        router
            .tell(&["show", "r.lookup", "10.0.0.2"])
            .ends_with(" output 2\n")
    );
    let head = format!(
        "PUT /v1/handlers/r.ctrl HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n",
        65 << 20
    );
    let answer = raw(&router.socket, &(head + &"x".repeat(1 << 16)));
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[test]
fn the_longest_turn_is_measured_again_after_each_request() {
    let folder = Folder::new();
    let router = Running::start(&folder, SLOW, &[]);
    let longest = || {
        let ask = "POST /v1/turns HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        let answer = raw(&router.socket, ask);
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        let turns: Vec<control::view::Longest> = serde_json::from_str(body).expect("a list");
        for turn in &turns {
            let parts = [
                turn.longest_run_ns,
                turn.longest_wait_ns,
                turn.longest_control_ns,
            ];
            assert!(
                parts.map(|part| part <= turn.longest_turn_ns) == [true; 3],
                "{turn:?}"
            );
        }
        let longest = turns.iter().map(|turn| turn.longest_turn_ns);
        longest.max().unwrap_or(0)
    };
    until("a turn", || longest() > 0);
    let first = longest();
    until("a shorter longest turn", || longest() < first.max(1));
    until("another turn", || longest() > 0);
}

#[test]
fn bad_requests_are_refused_with_a_sentence() {
    let folder = Folder::new();
    let router = Running::start(&folder, IDLE, &[]);
    let socket = &router.socket;
    for (target, status) in [
        ("/", 404),
        ("/v1/", 404),
        ("/v1/handlers/", 400),
        ("/v1/handlers/%ff", 400),
        ("/v1/handlers/x.y", 404),
        ("/v1/stats?x=1", 400),
        ("/v1/capture?point=x", 422),
        ("/v1/capture?point=c&filter=%00", 422),
        ("/v1/trace?from=nobody", 404),
        ("/v1/trace?count=9999", 400),
        ("/v1/turns", 405),
        ("/v1/reload", 405),
    ] {
        let answer = get(socket, target);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{target}: {answer}"
        );
        assert!(answer.contains("{\"error\":\""), "{target}: {answer}");
    }
    for bad in [
        "\r\n\r\n",
        "GET\r\n\r\n",
        "\0\0\0\0\r\n\r\n",
        "POST /v1/reload HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\nconnection: close\r\n\r\n{a}",
    ] {
        let mut stream = UnixStream::connect(socket).expect("it listens");
        stream.write_all(bad.as_bytes()).expect("it reads");
        // No more data will come: the program need not wait for the rest.
        stream.shutdown(Shutdown::Write).expect("it is open");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it closes");
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 400"),
            "{answer}"
        );
    }
    assert_eq!(router.count("c.count"), 0);
}

#[test]
fn each_socket_serves_one_router() {
    let folder = Folder::new();
    let router = Running::start(&folder, IDLE, &[]);
    let second = run(&[
        "run",
        &folder.path("router.click"),
        "--socket",
        &router.socket,
    ]);
    let refused = complained(&second, 1);
    assert!(refused.contains("a router listens at"), "{refused}");
    assert_eq!(router.count("c.count"), 0);
}

#[test]
fn a_leftover_socket_is_replaced_and_its_missing_router_is_reported() {
    let folder = Folder::new();
    let socket = folder.path("router.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("binds"));
    let gone = complained(&run(&["show", "--socket", &socket]), 1);
    assert!(gone.contains("no router answers at"), "{gone}");
    let router = Running::start(&folder, IDLE, &[]);
    assert_eq!(router.count("c.count"), 0);
}

#[test]
fn signals_end_it_in_order_and_counts_are_final() {
    for signal in [Signal::TERM, Signal::INT] {
        let folder = Folder::new();
        let router = Running::start(&folder, SLOW, &["--report", "--workers", "2"]);
        until("packets", || router.count("c.count") > 100);
        router.signal(signal);
        let (report, log) = router.end();
        assert!(log.contains("reason=\"signal\""), "{log}");
        assert!(
            report.contains("books: in ") && !report.contains("buffers are in use"),
            "{report}"
        );
        assert!(!folder.0.join("router.sock").exists());
    }
}

#[test]
fn a_signal_that_comes_while_it_starts_ends_it_in_order() {
    let folder = Folder::new();
    let pipe = folder.path("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo is there").success());
    // A worker waits for a reader of the pipe, and so does the start.
    let text = format!("RatedSource(RATE 10) -> out :: ToDump({pipe});");
    let file = folder.write("router.click", text);
    let socket = folder.path("router.sock");
    let mut router = ashlar();
    let router = router.args(["run", &file, "--socket", &socket]);
    let child = router.stderr(Stdio::piped()).spawn();
    let child = child.expect("the program starts");
    until("its socket", || Path::new(&socket).exists());
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
    // A dead worker writes nothing.
    let reader = Command::new("timeout").args(["20", "cat", &pipe]).output();
    assert!(reader.expect("cat is there").status.success());
    let log = complained(&child.wait_with_output().expect("it ends"), 0);
    assert!(log.contains("reason=\"signal\""), "{log}");
    assert!(!Path::new(&socket).exists());
}

#[test]
fn a_capture_holds_packets_of_an_edge_and_names_drops() {
    let folder = Folder::new();
    let router = Running::start(&folder, SLOW, &["--workers", "2"]);
    let file = folder.path("a.pcapng");
    let output = router.ask(&["capture", "t -> c", "[0]u", "-c", "20", "-w", &file]);
    assert!(complained(&output, 0).contains("20 packets captured"));
    let bytes = std::fs::read(&file).expect("it is written");
    let packets = blocks(&bytes).filter(|kind| *kind == 6).count();
    assert_eq!(packets, 20);
    let lines = router.tell(&["capture", "--drops=l", "-c", "3", "--filter", "greater 10"]);
    assert_eq!(
        lines.matches("dropped by l: too_long").count(),
        3,
        "{lines}"
    );
    let wrong = complained(
        &router.ask(&["capture", "t", "--filter", "nonsense here"]),
        1,
    );
    assert!(wrong.contains("the filter is not understood"), "{wrong}");
    assert!(complained(&router.ask(&["capture", "t[7]"]), 1).contains("there is no connection"));
}

/// Kinds of the blocks of a pcapng file; every block's two lengths must agree.
fn blocks(mut bytes: &[u8]) -> impl Iterator<Item = u32> {
    let word =
        |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
    let mut kinds = Vec::new();
    while !bytes.is_empty() {
        let length = word(bytes, 4) as usize;
        assert_eq!(word(bytes, length - 4) as usize, length);
        kinds.push(word(bytes, 0));
        bytes = &bytes[length..];
    }
    kinds.into_iter()
}

#[test]
fn router_has_ended_when_stop_returns() {
    let folder = Folder::new();
    let text = "FromDevice(pace:20k/null:64) -> Queue -> Unqueue -> Discard;";
    for _ in 0..5 {
        let mut router = Running::start(&folder, text, &[]);
        router.tell(&["stop"]);
        let status = router.child.try_wait().expect("a child");
        assert!(status.is_some_and(|status| status.success()), "{status:?}");
    }
}

#[test]
fn a_client_that_reads_nothing_delays_no_packet() {
    let folder = Folder::new();
    let fast = SLOW.replace("pace:20k/", "");
    let router = Running::start(&folder, &fast, &[]);
    let mut lazy = Vec::new();
    for _ in 0..4 {
        let mut stream = UnixStream::connect(&router.socket).expect("it listens");
        stream
            .write_all(b"GET /v1/capture?point=c HTTP/1.1\r\nhost: a\r\n\r\n")
            .expect("it reads");
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("it answers");
        lazy.push(stream);
    }
    let busy = complained(&router.ask(&["capture", "c", "-c", "1"]), 1);
    assert!(busy.contains("4 captures and traces run already"), "{busy}");
    let before = router.count("c.count");
    until("more packets", || {
        router.count("c.count") > before + 1_000_000
    });
    drop(lazy);
    until("a free place", || {
        router.ask(&["capture", "c", "-c", "1"]).status.success()
    });
}

#[test]
fn trace_shows_the_path_of_packets_to_their_ends() {
    let folder = Folder::new();
    let router = Running::start(&folder, SLOW, &[]);
    let text = router.tell(&["trace", "2"]);
    for word in [
        "packet 1,",
        "packet 2,",
        "in :: FromDevice",
        "l :: CheckLength",
        "dropped: too_long",
        "d :: Discard",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let json = router.tell(&["trace", "3", "--at", "in", "--json"]);
    let packets: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(packets.as_array().map(Vec::len), Some(3));
    assert_eq!(packets[0]["steps"][0]["element"], "in");
    assert_eq!(packets[0]["over"], true);
    assert!(complained(&router.ask(&["trace", "--at", "q"]), 1).contains("is no source"));
    let idle = Folder::new();
    let silent = Running::start(&idle, IDLE, &[]);
    assert!(complained(&silent.ask(&["trace", "--seconds", "1"]), 0).contains("no packet came"));
}

#[test]
fn top_gives_rates_and_counts() {
    let folder = Folder::new();
    let router = Running::start(&folder, SLOW, &["--workers", "2"]);
    until("packets", || router.count("c.count") > 100);
    let table = router.tell(&["top", "--once", "--interval", "0.2"]);
    for word in [
        "pace:20k/null:64",
        "empty polls",
        "cycles/packet",
        "longest turn",
        "too_long",
    ] {
        assert!(table.contains(word), "{word}: {table}");
    }
    let json = router.tell(&["top", "--once", "--json"]);
    let stats: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    let copy = &stats["elements"][0]["copies"][1];
    assert_eq!(
        (&copy["worker"], &copy["device"]["queues"][0]),
        (&1.into(), &1.into())
    );
    assert!(copy["device"]["bytes"].as_u64() > Some(0));
}

#[test]
fn metrics_are_served_on_the_socket_and_alone_over_tcp() {
    let folder = Folder::new();
    let port = testkit::tcp_port()
        .local_addr()
        .expect("it is bound")
        .port();
    let router = Running::start(&folder, SLOW, &["--metrics", &port.to_string()]);
    let over_tcp = |target: &str| {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        let request = format!("GET {target} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    };
    for answer in [get(&router.socket, "/metrics"), over_tcp("/metrics")] {
        let drops = r#"ashlar_element_drops_total{element="l",class="CheckLength",worker="0",reason="too_long"}"#;
        assert!(answer.contains(drops), "{answer}");
        let packets =
            r#"ashlar_port_packets_total{port="pace:20k/null:64",queue="0",direction="receive""#;
        assert!(answer.contains(packets), "{answer}");
        assert!(
            answer.contains("ashlar_worker_asleep_seconds_total{worker=\"0\"}"),
            "{answer}"
        );
    }
    assert!(over_tcp("/v1/info").starts_with("HTTP/1.1 403"));
}

#[test]
fn clients_of_metrics_that_read_nothing_take_no_place_from_others() {
    let folder = Folder::new();
    let port = testkit::tcp_port()
        .local_addr()
        .expect("it is bound")
        .port();
    let router = Running::start(&folder, IDLE, &["--metrics", &port.to_string()]);
    let ask = |times: usize| {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        let request = "GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n".repeat(times);
        stream.write_all(request.as_bytes()).expect("it reads");
        stream
    };
    let begun = std::time::Instant::now();
    // Some clients send nothing, some send more requests than they read answers.
    let lazy: Vec<_> = (0..100).map(|n| ask(n % 2 * 50)).collect();
    assert_eq!(router.count("c.count"), 0);
    router.tell(&["top", "--once", "--json"]);
    // The server disconnects such clients later; the control socket has not waited for that.
    assert!(begun.elapsed() < std::time::Duration::from_secs(25));
    let mut late = ask(1);
    let mut answer = String::new();
    let _ = late.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 200"), "in its turn: {answer}");
    drop(lazy);
}

#[test]
fn bodies_are_read_only_where_there_is_room_for_all_of_them() {
    let folder = Folder::new();
    let text = "Idle -> s :: Switch(0) -> Discard;";
    let router = Running::start(&folder, text, &[]);
    let announce = |bytes: usize| {
        let mut stream = UnixStream::connect(&router.socket).expect("it listens");
        let head = format!(
            "PUT /v1/handlers/s.switch HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\n\
             connection: close\r\ncontent-length: {bytes}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it reads");
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).expect("it answers");
        (stream, String::from_utf8_lossy(&answer).into_owned())
    };
    let large = [announce(64 << 20), announce(64 << 20)];
    assert!(large.iter().all(|(_, answer)| answer == "HTTP/1.1 100"));
    // The limit for unfinished large requests is reached, so even a request of one byte is refused.
    assert_eq!(announce(1).1, "HTTP/1.1 503");
    drop(large);
    until("room", || announce(1).1 == "HTTP/1.1 100");
    router.tell(&["set", "s.switch", "0"]);
}

#[test]
fn logs_are_json_where_asked() {
    let folder = Folder::new();
    let mut router = Running::start(&folder, SLOW, &["--log-format", "json"]);
    let line = router.log_line("port open");
    let event: serde_json::Value = serde_json::from_str(&line).expect("it is JSON");
    assert_eq!(event["fields"]["port"], "pace:20k/null:64");
    router.tell(&["stop"]);
    router.end();
}

#[test]
fn workers_are_pinned_where_asked() {
    let folder = Folder::new();
    let router = Running::start(&folder, IDLE, &["--cores", "0"]);
    let tasks = format!("/proc/{}/task", router.child.id());
    let mut seen = 0;
    for task in std::fs::read_dir(tasks).expect("it runs").flatten() {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        if read("comm").starts_with("worker") {
            seen += 1;
            assert!(read("status").contains("Cpus_allowed_list:\t0\n"));
        }
    }
    assert_eq!(seen, 1);
    let refused = run(&[
        "run",
        &folder.path("router.click"),
        "--no-socket",
        "--cores",
        "1023",
    ]);
    assert!(complained(&refused, 1).contains("cannot pin worker 0 to processor 1023"));
}
