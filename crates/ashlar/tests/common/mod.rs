//! Runs the built program, and exchanges requests with it.
#![allow(dead_code, unreachable_pub)] // each test program uses a part of it

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Endless packets, slowly enough to leave the machine to others.
pub const SLOW: &str = "in :: FromDevice(pace:20k/null:64) -> t :: Tee -> c :: Counter
    -> q :: Queue(100) -> u :: Unqueue -> d :: Discard;
    t[1] -> l :: CheckLength(10) -> e :: Discard;";

/// A configuration in which nothing happens.
pub const IDLE: &str = "Idle -> c :: Counter -> Discard;";

/// The program.
pub fn ashlar() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ashlar"));
    command.stdin(Stdio::null());
    command
}

/// Runs a subcommand to its end.
pub fn run(words: &[&str]) -> Output {
    to_its_end(ashlar().args(words))
}

/// Runs a program to its end.
pub fn to_its_end(command: &mut Command) -> Output {
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("the program starts");
    let _bounded = bounded(&child);
    child.wait_with_output().expect("it ends")
}

/// Kills a program after two minutes, so that a test does not wait for ever. Dropping the returned value prevents that.
pub fn bounded(child: &Child) -> Sender<()> {
    let (dropped, over) = channel();
    let pid = Pid::from_child(child);
    std::thread::spawn(move || {
        if over.recv_timeout(Duration::from_secs(120)) == Err(RecvTimeoutError::Timeout) {
            let _ = kill_process(pid, Signal::KILL);
        }
    });
    dropped
}

/// Standard output of a program; panics unless it has succeeded.
pub fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    out
}

/// Standard error of a program; panics unless it has ended with this exit code.
pub fn complained(output: &Output, status: i32) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{text}");
    text
}

/// A folder that is removed with the test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ashlar-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("the temporary folder takes folders");
        Folder(path)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        std::fs::write(self.0.join(name), text).expect("the folder takes files");
        self.path(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running router.
pub struct Running {
    pub child: Child,
    pub socket: String,
    log: BufReader<std::process::ChildStderr>,
    /// The log up to the start of the router.
    pub begun: String,
    _bounded: Sender<()>,
}

impl Running {
    /// Starts `ashlar run` on a configuration, and waits until it listens.
    pub fn start(folder: &Folder, text: &str, words: &[&str]) -> Running {
        let file = folder.write("router.click", text);
        Running::start_file(folder, &file, words)
    }

    pub fn start_file(folder: &Folder, file: &str, words: &[&str]) -> Running {
        let socket = folder.path("router.sock");
        let mut child = ashlar()
            .args(["run", file, "--socket", &socket])
            .args(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let log = BufReader::new(child.stderr.take().expect("standard error is piped"));
        let mut running = Running {
            _bounded: bounded(&child),
            child,
            socket,
            log,
            begun: String::new(),
        };
        running.begun = running.log_until("start");
        running
    }

    /// Waits for a line of the log that has `word`.
    pub fn log_line(&mut self, word: &str) -> String {
        let mut all = self.log_until(word);
        all.split_off(all.trim_end().rfind('\n').map_or(0, |end| end + 1))
    }

    /// The log up to a line that has `word`.
    fn log_until(&mut self, word: &str) -> String {
        let mut all = String::new();
        loop {
            let begin = all.len();
            let read = self.log.read_line(&mut all).expect("the log is text");
            assert!(read > 0, "the log ends without `{word}`:\n{all}");
            if all[begin..].contains(word) {
                return all;
            }
        }
    }

    /// Runs a subcommand for this router.
    pub fn ask(&self, words: &[&str]) -> Output {
        let mut words = words.to_vec();
        words.splice(1..1, ["--socket", &self.socket]);
        run(&words)
    }

    /// Output of a subcommand, which must succeed.
    pub fn tell(&self, words: &[&str]) -> String {
        said(&self.ask(words))
    }

    /// Reads a handler that counts.
    pub fn count(&self, handler: &str) -> u64 {
        self.tell(&["show", handler])
            .trim()
            .parse()
            .expect("a number")
    }

    /// Waits for the end of the router. Returns the standard output, and the rest of the log.
    pub fn end(mut self) -> (String, String) {
        let mut out = String::new();
        let mut stdout = self.child.stdout.take().expect("standard output is piped");
        stdout.read_to_string(&mut out).expect("it is text");
        let mut log = String::new();
        self.log.read_to_string(&mut log).expect("it is text");
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}\n{log}");
        (out, log)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Compares with a file in the folder of the tests; `ASHLAR_BLESS=1` writes it instead.
pub fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("ASHLAR_BLESS").is_some() {
        std::fs::write(&path, text).expect("the folder takes files");
    }
    let right = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == right,
        "{} differs; what is said now:\n{text}",
        path.display()
    );
}

/// A configuration of the repository.
pub fn conf(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf");
    folder.join(name).display().to_string()
}

/// Standard output and standard error of a command.
pub fn all(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// A capture with `frames` frames: UDP in IPv4, or in IPv6.
pub fn capture(frames: u32, six: bool) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for n in 0..frames {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9];
        if six {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64]);
            for last in [1u8, 2] {
                frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
            }
        } else {
            frame.extend([8, 0]);
            let mut ip = [
                0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
            ];
            let words = ip.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
            let sum: u32 = words.sum();
            let sum = !(((sum & 0xffff) + (sum >> 16)) as u16);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
            frame.extend(ip);
        }
        frame.extend([0, 1, 0, 2, 0, 8, 0, 0]);
        let length = frame.len() as u32;
        for word in [n, 0, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

/// Repeats the check until it is true.
pub fn until(what: &str, is: impl Fn() -> bool) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !is() {
        assert!(std::time::Instant::now() < end, "never: {what}");
    }
}

/// Sends a request as bytes. Returns the answer's head and body.
pub fn raw(socket: &str, request: &str) -> String {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    // A server that refuses may close the connection before it has read everything.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

pub fn get(socket: &str, target: &str) -> String {
    raw(
        socket,
        &format!("GET {target} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"),
    )
}
