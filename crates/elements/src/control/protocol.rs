//! The protocol of Click's control sockets, version 1.3: bytes to commands, answers to bytes.

/// What the server says first.
pub(super) const GREETING: &[u8] = b"Click::ControlSocket/1.3\r\n";

/// Longest line, and largest data of a command, in bytes.
const LINE_MAX: usize = 1 << 20;
const DATA_MAX: usize = 64 << 20;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Read a handler, with what follows its name.
    Read(String, String),
    /// Write a handler.
    Write(String, String),
    /// Whether it can be read.
    CheckRead(String),
    /// Whether it can be written.
    CheckWrite(String),
    /// End the connection.
    Quit,
    /// Something else; the answer.
    Wrong(u16, String),
}

/// A connection's input: bytes that make no command yet.
#[derive(Default)]
pub(super) struct Input {
    bytes: Vec<u8>,
    /// The last line ended in a carriage return: a line feed may follow that belongs to it.
    after_return: bool,
}

/// A line without its end, and where the next one starts.
struct Line {
    text: String,
    next: usize,
    ended_by_return: bool,
}

impl Input {
    /// Adds what has come.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next command, if all of it is there. Empty lines are skipped.
    pub(super) fn next(&mut self) -> Option<Command> {
        loop {
            if self.after_return && !self.bytes.is_empty() {
                self.after_return = false;
                if self.bytes[0] == b'\n' {
                    self.bytes.remove(0);
                }
            }
            let Some(line) = self.line(0) else {
                return self.too_long();
            };
            let (word, rest) = split(&line.text);
            if word.is_empty() {
                self.drop_to(&line);
                continue;
            }
            let (handler, params) = split(rest);
            let (handler, params) = (handler.to_owned(), params.to_owned());
            let word = word.to_ascii_uppercase();
            let command = match word.as_str() {
                "READDATA" | "WRITEDATA" | "READUNTIL" | "WRITEUNTIL" if handler.is_empty() => {
                    arguments()
                }
                "READDATA" | "WRITEDATA" => {
                    return self.with_data(&line, word == "READDATA", handler, &params);
                }
                "READUNTIL" | "WRITEUNTIL" => {
                    return self.with_lines(&line, word == "READUNTIL", handler, &params);
                }
                "READ" | "GET" if !handler.is_empty() => Command::Read(handler, params),
                "WRITE" | "SET" if !handler.is_empty() => Command::Write(handler, params),
                "CHECKREAD" if !handler.is_empty() => Command::CheckRead(handler),
                "CHECKWRITE" if !handler.is_empty() => Command::CheckWrite(handler),
                "QUIT" | "CLOSE" | "EXIT" => Command::Quit,
                "READ" | "GET" | "WRITE" | "SET" | "CHECKREAD" | "CHECKWRITE" => arguments(),
                "LLRPC" => Command::Wrong(501, "Command 'LLRPC' unimplemented".to_owned()),
                _ => Command::Wrong(501, format!("Command '{word}' unimplemented")),
            };
            self.drop_to(&line);
            return Some(command);
        }
    }

    fn too_long(&mut self) -> Option<Command> {
        (self.bytes.len() > LINE_MAX).then(|| {
            self.bytes.clear();
            Command::Wrong(500, "Line too long".to_owned())
        })
    }

    /// The line that starts at a byte; None if its end has not come.
    fn line(&self, from: usize) -> Option<Line> {
        let bytes = &self.bytes[from..];
        let end = bytes.iter().position(|&b| b == b'\n' || b == b'\r')?;
        let has_feed = bytes[end] == b'\r' && bytes.get(end + 1) == Some(&b'\n');
        Some(Line {
            text: String::from_utf8_lossy(&bytes[..end]).into_owned(),
            next: from + end + 1 + usize::from(has_feed),
            ended_by_return: bytes[end] == b'\r' && !has_feed,
        })
    }

    fn drop_to(&mut self, line: &Line) {
        self.bytes.drain(..line.next);
        self.after_return = line.ended_by_return;
    }

    /// A command whose data follow its line, so many bytes.
    fn with_data(
        &mut self,
        line: &Line,
        read: bool,
        handler: String,
        length: &str,
    ) -> Option<Command> {
        let length = match length.parse::<usize>() {
            Ok(length) if length <= DATA_MAX => length,
            _ => {
                self.drop_to(line);
                return Some(Command::Wrong(
                    500,
                    "Syntax error in data length".to_owned(),
                ));
            }
        };
        // After a lone return the line feed that belongs to it may still come.
        let feed = line.ended_by_return && self.bytes.get(line.next) == Some(&b'\n');
        let start = line.next + usize::from(feed);
        let data = self.bytes.get(start..start + length)?;
        let data = String::from_utf8_lossy(data).into_owned();
        self.bytes.drain(..start + length);
        Some(either(read, handler, data))
    }

    /// A command whose data are the lines up to one that equals `terminator`.
    fn with_lines(
        &mut self,
        line: &Line,
        read: bool,
        handler: String,
        terminator: &str,
    ) -> Option<Command> {
        let terminator = terminator.trim_end();
        let (mut at, mut end) = (line.next, line.next);
        loop {
            let Some(next) = self.line(at) else {
                return match self.bytes.len() > DATA_MAX {
                    true => self.too_long(),
                    false => None,
                };
            };
            if next.text.trim_end() == terminator {
                let data = String::from_utf8_lossy(&self.bytes[line.next..end]).into_owned();
                self.drop_to(&next);
                return Some(either(read, handler, data));
            }
            at = next.next;
            end = at;
        }
    }
}

fn either(read: bool, handler: String, data: String) -> Command {
    match read {
        true => Command::Read(handler, data),
        false => Command::Write(handler, data),
    }
}

fn arguments() -> Command {
    Command::Wrong(500, "Wrong number of arguments".to_owned())
}

/// The first word, and what follows the space behind it.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    match text.find(|c: char| c.is_ascii_whitespace()) {
        Some(at) => (&text[..at], text[at..].trim_start()),
        None => (text, ""),
    }
}

/// Lines of an answer, each with the code; all but the last with a hyphen.
pub(super) fn answer(code: u16, text: &str) -> Vec<u8> {
    let mut out = String::new();
    let lines: Vec<&str> = text.trim_end_matches('\n').split('\n').collect();
    for (i, line) in lines.iter().enumerate() {
        let mark = if i + 1 < lines.len() { '-' } else { ' ' };
        out += &format!("{code}{mark}{line}\r\n");
    }
    out.into_bytes()
}

/// An answer with data behind it.
pub(super) fn data(text: &str, data: &str) -> Vec<u8> {
    let mut out = answer(200, text);
    out.extend_from_slice(format!("DATA {}\r\n", data.len()).as_bytes());
    out.extend_from_slice(data.as_bytes());
    out
}
