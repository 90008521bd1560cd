//! One client of a control socket: its commands, and the answers.

use super::listener::Stream;
use super::protocol::{self, Command, Input};
use crate::prelude::*;
use engine::graph::call::ResolvedHandler;
use engine::handler::AskError;
use std::cell::RefCell;
use std::os::fd::RawFd;
use std::time::Duration;

/// Bytes that are read from a client at a time.
const READ_MAX: usize = 64 << 10;
/// Commands of a client that run at a time.
const COMMANDS_MAX: usize = 32;
/// Time after which a client that reads nothing of an answer is disconnected.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Permissions of a control socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rules {
    /// True if handlers may only be read.
    pub(super) read_only: bool,
    /// An element that is put before each name.
    pub(super) proxy: String,
}

/// A client.
pub(super) struct Session {
    stream: Stream,
    /// Address of the client, for people.
    pub(super) from: String,
    input: Input,
    output: Vec<u8>,
    /// Bytes of the output that have been sent.
    sent: usize,
    /// True if commands wait: for others to have their turn, until the client reads answers, or until the driver has
    /// done the last one.
    waits: bool,
    /// True if the client has closed its side of the connection.
    ended: bool,
    /// Last time at which the client took a part of its waiting output.
    took: Time,
    /// Last time of input from the client.
    last_input: Time,
}

impl Session {
    pub(super) fn new(stream: Stream, from: String, now: Time) -> Session {
        Session {
            stream,
            from,
            input: Input::default(),
            output: protocol::GREETING.to_vec(),
            sent: 0,
            waits: false,
            ended: false,
            took: now,
            last_input: now,
        }
    }

    pub(super) fn fd(&self) -> RawFd {
        self.stream.fd()
    }

    /// True if nothing more is to be read or written.
    pub(super) fn is_over(&self) -> bool {
        self.ended && self.output.is_empty() && !self.waits
    }

    /// Time for which the client has neither sent anything nor read a part of an answer, while no request of it was in
    /// progress.
    pub(super) fn idle_time(&self, now: Time) -> Duration {
        match self.waits {
            true => Duration::ZERO,
            false if self.has_output() => now.since(self.took),
            false => now.since(self.last_input),
        }
    }

    /// True if answers wait for room.
    pub(super) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// True if commands wait that can run now.
    pub(super) fn is_ready(&self) -> bool {
        self.waits && self.output.is_empty()
    }

    /// Takes part in a check of all sockets. Returns true if there may be commands to run. Nothing is read while
    /// answers or commands wait. So a client that does not read is not heard, and no more than one answer is kept here.
    pub(super) fn poll(&mut self, now: Time) -> bool {
        self.send(now);
        if self.has_output() {
            if now.since(self.took) > READ_TIMEOUT {
                self.give_up();
            }
            return false;
        }
        if !self.waits && self.receive() {
            (self.waits, self.last_input) = (true, now);
        }
        self.waits
    }

    /// Reads received bytes, up to a bound. Returns true if there were some.
    fn receive(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let mut count = 0;
        while !self.ended && count < READ_MAX {
            match self.stream.read(&mut bytes) {
                None => return count > 0,
                Some(0) => self.ended = true,
                Some(n) => self.input.add(&bytes[..n]),
            }
            count += bytes.len();
        }
        count > 0
    }

    /// Adds an answer.
    fn answer(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    /// Ends the connection once its answers are out.
    fn quit(&mut self) {
        self.input.end();
        (self.ended, self.waits) = (true, false);
    }

    /// The client is gone.
    fn give_up(&mut self) {
        self.output.clear();
        self.sent = 0;
        self.quit();
    }

    /// Writes answers, as far as there is room.
    pub(super) fn send(&mut self, now: Time) {
        while !self.output.is_empty() {
            match self.stream.write(&self.output[self.sent..]) {
                None => return,
                Some(0) => return self.give_up(),
                Some(n) => (self.sent, self.took) = (self.sent + n, now),
            }
            if self.sent == self.output.len() {
                self.output.clear();
                self.sent = 0;
            }
        }
        self.took = now;
    }
}

/// Runs commands of a client, as many as are one turn; none of the session is borrowed while one runs.
pub(super) fn answer(session: &RefCell<Session>, rules: &Rules, cx: &mut JobCx) {
    for _ in 0..COMMANDS_MAX {
        let next = session.borrow_mut().input.next();
        let Some(command) = next else {
            break;
        };
        // A handler of the router may replace the configuration: later commands are meant for the new one.
        let is_last = matches!(&command, Command::Write(name, _) if !name.contains('.'));
        let answer = serve(command, rules, cx);
        let mut session = session.borrow_mut();
        match answer {
            Some(bytes) => session.answer(&bytes),
            None => {
                session.answer(b"200 Goodbye!\r\n");
                session.quit();
            }
        }
        session.send(cx.now());
        if is_last || session.has_output() {
            break;
        }
    }
    let mut session = session.borrow_mut();
    session.waits = session.input.has_more();
}

/// Runs a command; None ends the connection.
fn serve(command: Command, rules: &Rules, cx: &mut JobCx) -> Option<Vec<u8>> {
    Some(match command {
        Command::Read(name, argument) => {
            let path = path(&name, rules, cx);
            let cx = &mut cx.for_client(&path);
            let found = find(&path, &name, Use::Read, only(&name, "write"), (rules, cx));
            match found.and_then(|()| call(&path, &argument, Use::Read, cx)) {
                Ok(value) => protocol::data(&format!("Read handler '{name}' OK"), &value),
                Err(wrong) => refuse(wrong, "Read", &name),
            }
        }
        Command::Write(name, value) => {
            let path = path(&name, rules, cx);
            let cx = &mut cx.for_client(&path);
            let found = find(&path, &name, Use::Write, only(&name, "read"), (rules, cx));
            match found.and_then(|()| call(&path, &value, Use::Write, cx)) {
                Ok(_) => protocol::answer(200, &format!("Write handler '{name}' OK")),
                Err(wrong) => refuse(wrong, "Write", &name),
            }
        }
        Command::CheckRead(name) => check(&name, Use::Read, "Read", rules, cx),
        Command::CheckWrite(name) => check(&name, Use::Write, "Write", rules, cx),
        Command::Wrong(code, text) => protocol::answer(code, &text),
        Command::Quit => return None,
    })
}

fn check(name: &str, wanted: Use, word: &str, rules: &Rules, cx: &mut JobCx) -> Vec<u8> {
    let path = path(name, rules, cx);
    let able = match wanted {
        Use::Read => "readable",
        Use::Write => "writable",
    };
    let unable = (511, format!("Handler '{name}' not {able}"));
    let cx = cx.for_client(&path);
    match find(&path, name, wanted, unable, (rules, &cx)) {
        Ok(()) => protocol::answer(200, &format!("{word} handler '{name}' OK")),
        Err(wrong) => refuse(wrong, word, name),
    }
}

/// A name as the router knows it: elements may be named by number, from 1. A dot alone, and the number 0, stand before
/// the router's own handlers.
fn path(name: &str, rules: &Rules, cx: &JobCx) -> String {
    if !rules.proxy.is_empty() {
        return format!("{}.{name}", rules.proxy);
    }
    for root in [".", "0."] {
        if let Some(own) = name.strip_prefix(root) {
            return own.to_owned();
        }
    }
    let numbered = name.split_once('.').and_then(|(element, handler)| {
        let number: usize = element.parse().ok()?;
        let element = cx.plan().elements.get(number.checked_sub(1)?)?;
        Some(format!("{}.{handler}", element.name))
    });
    numbered.unwrap_or_else(|| name.to_owned())
}

/// Refusal of a handler that can only be read, or only be written.
fn only(name: &str, other: &str) -> (u16, String) {
    (530, format!("Handler '{name}' {other}-only"))
}

/// Checks that a handler may be used. The error is code and text of the refusal, `unable` for a handler that lacks this
/// use.
fn find(
    path: &str,
    name: &str,
    wanted: Use,
    unable: (u16, String),
    (rules, cx): (&Rules, &JobCx),
) -> Result<(), (u16, String)> {
    match cx.find(path, wanted) {
        // Inner handlers do not exist for clients, as in Click.
        Ok(ResolvedHandler::Own(_, _, info)) if info.inner => {
            Err((511, format!("No handler named '{name}'")))
        }
        Ok(_) if wanted == Use::Write && rules.read_only => {
            Err((530, format!("Permission denied for '{name}'")))
        }
        Ok(_) => Ok(()),
        Err(AskError::NoElement(_)) => {
            let element = name.split('.').next().unwrap_or_default();
            Err((510, format!("No element named '{element}'")))
        }
        Err(AskError::NoHandler(_)) => Err((511, format!("No handler named '{name}'"))),
        Err(_) => Err(unable),
    }
}

fn call(path: &str, value: &str, wanted: Use, cx: &mut JobCx) -> Result<String, (u16, String)> {
    let answer = match wanted {
        Use::Read => cx.read(path, value),
        Use::Write => cx.write(path, value),
    };
    answer.map_err(|wrong| (520, wrong.to_string()))
}

fn refuse((code, text): (u16, String), word: &str, name: &str) -> Vec<u8> {
    if code != 520 {
        return protocol::answer(code, &text);
    }
    let text = lang::click_quotes(&text);
    protocol::answer(520, &format!("{word} handler '{name}' error:\n{text}"))
}
