use super::protocol::{Command, Input, answer};
use std::io::{Read, Write};
use std::net::TcpStream;
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
fn what_is_no_command_is_answered() {
    let wrong = |line: &str| match &commands(&[line])[..] {
        [Command::Wrong(code, _)] => *code,
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(wrong("hello\n"), 501);
    assert_eq!(wrong("read\n"), 500);
    assert_eq!(wrong("writedata a b\n"), 500);
    assert_eq!(answer(520, "a\nb\n"), b"520-a\r\n520 b\r\n");
}

#[test]
fn a_client_reads_and_writes_handlers() {
    let text = "s :: ControlSocket(TCP, 0, LOCALHOST true); Idle -> c :: Counter -> Discard";
    let mut bench = Bench::strict(crate::CLASSES, text);
    bench.push("c", &[b"x"]);
    let port: u16 = bench.read("s.port").parse().expect("a port");
    let mut client = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let lines = "read c.count\r\nread 2.class\r\nwrite c.reset\r\nread x.y\r\nread c.z\r\n\
        read c.reset\r\ncheckwrite c.reset\r\nread c.count\r\nquit\r\n";
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
         200 Write handler 'c.reset' OK\r\n200 Read handler 'c.count' OK\r\nDATA 1\r\n0\
         200 Goodbye!\r\n"
    );
}
