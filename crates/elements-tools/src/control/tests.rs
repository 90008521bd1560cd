use super::protocol::{Command, Input, answer};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use testkit::Bench;

fn commands(parts: &[&str]) -> Vec<Command> {
    let mut input = Input::default();
    let mut all = Vec::new();
    for part in parts {
        input.add(part.as_bytes());
        while let Some(command) = input.next() {
            all.push(command);
        }
    }
    all
}

fn read(handler: &str, data: &str) -> Command {
    Command::Read(handler.into(), data.into())
}

fn write(handler: &str, data: &str) -> Command {
    Command::Write(handler.into(), data.into())
}

#[test]
fn lines_end_in_any_of_three_ways() {
    assert_eq!(
        commands(&[
            "read a.b x y\r\nREAD c\rwrite d e\n\n\r\n",
            "quit\r",
            "\nread f\n"
        ]),
        [
            read("a.b", "x y"),
            read("c", ""),
            write("d", "e"),
            Command::Quit,
            read("f", "")
        ]
    );
}

#[test]
fn data_may_come_in_pieces_and_hold_line_ends() {
    assert_eq!(
        commands(&["WRITEDATA a.b 5\r\nx\r", "\ny\r", "READDATA c 2\nok"]),
        [write("a.b", "x\r\ny\r"), read("c", "ok")]
    );
    assert_eq!(
        commands(&["writeuntil a END\r\none\r\ntwo\r\nEND  \r\nreaduntil b\nq\n\n"]),
        [write("a", "one\r\ntwo\r\n"), read("b", "q\n")]
    );
}

#[test]
fn the_pieces_in_which_input_comes_change_nothing() {
    let input = "read a\r\n\r\rWRITEDATA b 4\r\nx\r\n\ncheckread c\rwriteuntil d E\r\n1\r2\n\r\nE \r\nwriteuntil \
        e\r\nf\r\n\r\nget g\n";
    let whole = commands(&[input]);
    assert_eq!(whole.len(), 6);
    for size in 1..input.len() {
        let pieces = input.as_bytes().chunks(size);
        let pieces: Vec<_> = pieces.filter_map(|p| str::from_utf8(p).ok()).collect();
        assert_eq!(commands(&pieces), whole, "{size} bytes at a time");
    }
}

#[test]
fn input_is_looked_at_once() {
    // The test would take minutes if each line moved all later bytes, or each piece were compared with all earlier
    // ones.
    let mut input = Input::default();
    let lines = vec![b'\n'; 12 << 20];
    input.add(&lines);
    assert_eq!(input.next(), None);
    input.add(b"writeuntil a END\n");
    for piece in lines.chunks(4096) {
        input.add(piece);
        assert_eq!(input.next(), None);
    }
    input.add(b"END\n");
    assert!(matches!(input.next(), Some(Command::Write(_, data)) if data.len() == lines.len()));
    for _ in 0..2 {
        assert_eq!(input.next(), None);
        input.add(b"read a\n");
        assert_eq!(input.next(), Some(read("a", "")));
    }
}

#[test]
fn unknown_commands_are_answered() {
    let wrong = |line: &str| match &commands(&[line])[..] {
        [Command::Wrong(code, _)] | [Command::Wrong(code, _), Command::Quit] => *code,
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(wrong("hello\n"), 501);
    assert_eq!(wrong("read\n"), 500);
    assert_eq!(wrong("writedata a b\n"), 500);
    assert_eq!(wrong("writedata a 999999999\n"), 500);
    assert_eq!(wrong(&"x".repeat(1 << 21)), 500);
    assert_eq!(answer(520, "a\nb\n"), b"520-a\r\n520 b\r\n");
}

#[test]
fn a_client_reads_and_writes_handlers() {
    let text = "s :: ControlSocket(TCP, 0, LOCALHOST true); Idle -> c :: Counter -> Discard";
    let mut bench = Bench::strict(crate::with_basics(), text);
    bench.push("c", &[b"x"]);
    let port: u16 = bench.read("s.port").parse().expect("a port");
    let mut client = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let lines = "read c.count\r\nread 2.class\r\nwrite c.reset\r\nread x.y\r\nread c.z\r\n\
        read c.reset\r\ncheckwrite c.reset\r\ncheckwrite c.count\r\ncheckread c.reset\r\nread c.count\r\nquit\r\n";
    client.write_all(lines.as_bytes()).expect("it takes them");
    let mut said = String::new();
    let reader = std::thread::spawn(move || {
        client.read_to_string(&mut said).expect("text");
        said
    });
    while !reader.is_finished() {
        bench.graph().turn();
    }
    assert_eq!(
        reader.join().expect("it reads to the end"),
        "Click::ControlSocket/1.3\r\n200 Read handler 'c.count' OK\r\nDATA 1\r\n1\
         200 Read handler '2.class' OK\r\nDATA 4\r\nIdle\
         200 Write handler 'c.reset' OK\r\n510 No element named 'x'\r\n\
         511 No handler named 'c.z'\r\n530 Handler 'c.reset' write-only\r\n\
         200 Write handler 'c.reset' OK\r\n511 Handler 'c.count' not writable\r\n\
         511 Handler 'c.reset' not readable\r\n200 Read handler 'c.count' OK\r\nDATA 1\r\n0\
         200 Goodbye!\r\n"
    );
}

/// A router with a control socket, and its port.
fn listening(arguments: &str) -> (Bench, u16) {
    let text = format!("s :: ControlSocket(TCP, 0{arguments}); Idle -> c :: Counter -> Discard");
    let mut bench = Bench::strict(crate::with_basics(), &text);
    let port = bench.read("s.port").parse().expect("a port");
    (bench, port)
}

fn turns(bench: &mut Bench, n: usize) {
    for _ in 0..n {
        bench.graph().turn();
    }
}

#[test]
fn socket_listens_on_loopback_by_default() {
    let second = |port| TcpStream::connect(("127.0.0.2", port));
    for arguments in ["", ", LOCALHOST true", ", ADDRESS 127.0.0.1"] {
        let (_bench, port) = listening(arguments);
        assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
        assert!(second(port).is_err(), "{arguments}");
    }
    for arguments in [
        ", LOCALHOST false",
        ", ADDRESS 0.0.0.0",
        ", ADDRESS 127.0.0.2",
    ] {
        let (_bench, port) = listening(arguments);
        assert!(second(port).is_ok(), "{arguments}");
    }
    let both = "ControlSocket(TCP, 0, ADDRESS 127.0.0.1, LOCALHOST false)";
    assert!(testkit::errors(crate::with_basics(), both).contains("say different things"));
}

#[test]
fn client_that_does_not_read_is_not_served_and_delays_no_other() {
    let (mut bench, port) = listening("");
    let connect = || TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let (mut silent, mut client) = (connect(), connect());
    silent.set_nonblocking(true).expect("a socket");
    let lines = "read c.count\r\n".repeat(1000);
    // Buffers of both ends fill. Then nothing more is read, however long the router runs.
    let mut still = 0;
    while still < 20 {
        match silent.write(lines.as_bytes()) {
            Ok(_) => still = 0,
            Err(e) if e.kind() == ErrorKind::WouldBlock => still += 1,
            Err(e) => panic!("{e}"),
        }
        turns(&mut bench, 64);
    }
    client
        .write_all(b"read c.count\r\nquit\r\n")
        .expect("it takes them");
    let reader = std::thread::spawn(move || {
        let mut said = String::new();
        client.read_to_string(&mut said).map(|_| said)
    });
    while !reader.is_finished() {
        bench.graph().turn();
    }
    let said = reader.join().expect("no panic").expect("text");
    assert!(said.ends_with("DATA 1\r\n0200 Goodbye!\r\n"), "{said}");
    // After a minute it is disconnected; the system may buffer a little more meanwhile.
    for _ in 0..10 {
        bench.advance(std::time::Duration::from_secs(61));
        turns(&mut bench, 64);
    }
    silent.set_nonblocking(false).expect("a socket");
    let mut rest = Vec::new();
    let _ = silent.read_to_end(&mut rest);
    assert!(rest.starts_with(b"Click::ControlSocket/1.3\r\n200 Read"));
}

#[test]
fn requests_before_the_end_are_answered() {
    let (mut bench, port) = listening("");
    let mut client = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let lines = "read c.count\r\n".repeat(3000);
    client.write_all(lines.as_bytes()).expect("it takes them");
    client.shutdown(Shutdown::Write).expect("a socket");
    let reader = std::thread::spawn(move || {
        let mut said = String::new();
        client.read_to_string(&mut said).map(|_| said)
    });
    while !reader.is_finished() {
        bench.graph().turn();
    }
    let said = reader.join().expect("no panic").expect("text");
    assert_eq!(said.matches("200 Read handler").count(), 3000);
}

#[test]
fn clients_are_not_too_many() {
    let (mut bench, port) = listening("");
    let mut clients = Vec::new();
    for _ in 0..40 {
        clients.push(TcpStream::connect(("127.0.0.1", port)).expect("it listens"));
        turns(&mut bench, 64);
    }
    let mut said = String::new();
    let last = clients.last_mut().expect("there are 40");
    last.read_to_string(&mut said).expect("text");
    assert!(said.ends_with("500 Too many connections\r\n"), "{said}");
    clients.remove(0);
    turns(&mut bench, 64);
    let mut client = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    client.write_all(b"quit\r\n").expect("it takes them");
    turns(&mut bench, 64);
    let mut said = String::new();
    client.read_to_string(&mut said).expect("text");
    assert!(said.ends_with("200 Goodbye!\r\n"), "{said}");
}

#[test]
fn silent_clients_do_not_hold_their_places_for_ever() {
    let (mut bench, port) = listening("");
    let connect = || TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let ask = |bench: &mut Bench, client: &mut TcpStream| {
        client
            .write_all(b"read c.count\r\n")
            .expect("it takes them");
        turns(bench, 64);
        let mut said = [0; 1024];
        let count = client.read(&mut said).expect("it answers");
        String::from_utf8_lossy(&said[..count]).into_owned()
    };
    let mut clients: Vec<TcpStream> = (0..32).map(|_| connect()).collect();
    turns(&mut bench, 64);
    bench.advance(std::time::Duration::from_secs(59));
    // No client has been silent long enough yet.
    let mut said = String::new();
    let mut more = connect();
    turns(&mut bench, 64);
    more.read_to_string(&mut said).expect("text");
    assert!(said.ends_with("500 Too many connections\r\n"), "{said}");
    // A client that sends keeps its connection; the longest silent one loses it.
    for client in clients.iter_mut().skip(1) {
        assert!(ask(&mut bench, client).contains("200"));
    }
    bench.advance(std::time::Duration::from_secs(2));
    let mut more = connect();
    turns(&mut bench, 64);
    assert!(ask(&mut bench, &mut more).contains("1.3"));
    let mut said = String::new();
    let gone = clients[0].read_to_string(&mut said);
    assert!(gone.is_ok() && !said.contains("500"), "{said}");
    for client in clients.iter_mut().skip(1) {
        assert!(ask(&mut bench, client).contains("200"));
    }
}

#[test]
fn a_page_in_a_browser_commands_nothing() {
    let request = "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nWRITE sw.switch 1\r\n";
    assert_eq!(commands(&[request]), [Command::Quit]);
    assert_eq!(commands(&["GET /a HTTP/1.0\n"]), [Command::Quit]);
    assert_eq!(commands(&["get a.b\n"]), [read("a.b", "")]);
    let pieces = request.split_inclusive('\n').collect::<Vec<_>>();
    assert_eq!(commands(&pieces), [Command::Quit]);
}

#[test]
fn overlong_line_ends_the_connection_and_later_text_is_ignored() {
    let too_long = Command::Wrong(500, "Line too long".into());
    let ended = [too_long, Command::Quit];
    let begin = format!("POST /{}", "a".repeat(1 << 20));
    let end = " HTTP/1.1\r\n\r\nWRITE sw.switch 1\r\n";
    assert_eq!(commands(&[&begin, end]), ended);
    assert_eq!(commands(&[&format!("{begin}{end}")]), ended);
    let data = "x\n".repeat(9 << 20);
    let pieces = ["writeuntil a END\n", &data, "WRITE sw.switch 1\n"];
    assert_eq!(commands(&pieces), ended);
}

#[test]
fn a_file_that_is_no_socket_stays() {
    let file = std::env::temp_dir().join(format!("ashlar-precious-{}", std::process::id()));
    std::fs::write(&file, "precious").expect("a file");
    let text = format!("ControlSocket(UNIX, {}); Idle -> Discard", file.display());
    let tried = std::panic::catch_unwind(|| Bench::new(crate::with_basics(), &text));
    assert!(tried.is_err(), "it is refused");
    let left = std::fs::read_to_string(&file);
    std::fs::remove_file(&file).expect("it is there");
    assert_eq!(left.as_deref().ok(), Some("precious"));
}

#[test]
fn socket_file_is_the_users_alone() {
    use std::os::unix::fs::MetadataExt;
    let file = std::env::temp_dir().join(format!("ashlar-mode-{}", std::process::id()));
    let text = format!("ControlSocket(UNIX, {}); Idle -> Discard", file.display());
    let bench = Bench::new(crate::with_basics(), &text);
    let mode = file.metadata().expect("it listens").mode();
    drop(bench);
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn socket_is_opened_again_when_a_plan_is_initialised_again() {
    let file = std::env::temp_dir().join(format!("ashlar-again-{}", std::process::id()));
    let text = format!("ControlSocket(UNIX, {}); Idle -> Discard", file.display());
    let plan = testkit::plan(crate::with_basics(), &text, 1, &engine::port::NoPorts, None);
    let plan = plan.expect("it is good");
    for _ in 0..2 {
        assert!(plan.initialize(None).is_empty());
    }
    std::fs::remove_file(&file).expect("it listens");
}
