//! The protocol of Click's control sockets, version 1.3: parses commands and encodes answers.

/// Greeting of the server.
pub(super) const GREETING: &[u8] = b"Click::ControlSocket/1.3\r\n";

/// Maximum length of a line, and of a command's data, in bytes.
const LINE_MAX: usize = 1 << 20;
const DATA_MAX: usize = 16 << 20;

/// Request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Read a handler, with the text after its name.
    Read(String, String),
    /// Write a handler.
    Write(String, String),
    /// Check if a handler can be read.
    CheckRead(String),
    /// Check if a handler can be written.
    CheckWrite(String),
    /// End the connection.
    Quit,
    /// Something else; the answer.
    Wrong(u16, String),
}

/// A connection's input. The search for a line's end examines each byte once, and bytes are not moved for each command.
#[derive(Default)]
pub(super) struct Input {
    bytes: Vec<u8>,
    /// Start of the bytes not taken yet.
    start: usize,
    /// The end of a line is looked for from here on.
    seen: usize,
    /// The last line ended in a carriage return: a line feed may follow that belongs to it.
    after_return: bool,
    /// A command whose data follow.
    pending: Option<PendingCommand>,
    /// True if further input is ignored.
    ended: bool,
    /// True if the client must get a message about the end.
    announces_end: bool,
}

/// A command whose line has come.
struct PendingCommand {
    read: bool,
    handler: String,
    until: DataEnd,
}

/// End of a command's data.
enum DataEnd {
    /// Ends after this number of bytes.
    Length(usize),
    /// Ends before a line equal to this; the number counts the bytes already searched.
    Line(String, usize),
}

/// A line without its end, by its place, and where the next one starts.
struct Line {
    end: usize,
    next: usize,
    /// True if the line ended in a carriage return, and nothing has come after it.
    open: bool,
}

impl Input {
    /// Adds received bytes.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        if self.ended {
            return;
        }
        // Bytes taken are removed when they are more than the rest, so each byte is moved at most once.
        if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.seen -= self.start;
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Discards all input, also later input: it may begin in the middle of a command.
    pub(super) fn end(&mut self) {
        *self = Input {
            ended: true,
            ..Input::default()
        };
    }

    /// True if there is input beyond an incomplete command.
    pub(super) fn has_more(&self) -> bool {
        self.announces_end || self.seen < self.bytes.len() && self.pending.is_none()
    }

    /// Bytes that have not been taken.
    fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Consumes input up to a position, where the search for the next line begins.
    fn take_to(&mut self, place: usize) {
        (self.start, self.seen) = (place, place);
    }

    fn text(&self, from: usize, to: usize) -> String {
        String::from_utf8_lossy(&self.bytes[from..to]).into_owned()
    }

    /// The next command, if all of it is there. Empty lines are skipped.
    pub(super) fn next(&mut self) -> Option<Command> {
        if std::mem::take(&mut self.announces_end) {
            return Some(Command::Quit);
        }
        loop {
            if self.after_return && self.len() > 0 {
                self.after_return = false;
                if self.bytes[self.start] == b'\n' {
                    self.take_to(self.start + 1);
                }
            }
            if let Some(begun) = self.pending.take() {
                return self.go_on(begun);
            }
            let start = self.start;
            let Some(line) = self.line().filter(|line| line.end - start <= LINE_MAX) else {
                return self.too_long(LINE_MAX);
            };
            let text = self.text(self.start, line.end);
            self.take_to(line.next);
            self.after_return = line.open;
            let (word, rest) = split(&text);
            if word.is_empty() {
                continue;
            }
            // A web page in a browser must not command a router: the body of an HTTP request is not read.
            if rest
                .rsplit(' ')
                .next()
                .is_some_and(|last| last.starts_with("HTTP/"))
            {
                self.end();
                return Some(Command::Quit);
            }
            let (handler, params) = split(rest);
            let (handler, params) = (handler.to_owned(), params.to_owned());
            let word = word.to_ascii_uppercase();
            return Some(match word.as_str() {
                "READDATA" | "WRITEDATA" | "READUNTIL" | "WRITEUNTIL" if handler.is_empty() => {
                    arguments()
                }
                "READDATA" | "WRITEDATA" if words(&params) != 1 => arguments(),
                "READDATA" | "WRITEDATA" => match params.trim_end().parse() {
                    Ok(length) if length <= DATA_MAX => {
                        self.begin(word == "READDATA", handler, DataEnd::Length(length));
                        continue;
                    }
                    _ => Command::Wrong(500, "Syntax error in data length".to_owned()),
                },
                "READUNTIL" | "WRITEUNTIL" => {
                    let until = DataEnd::Line(params.trim_end().to_owned(), 0);
                    self.begin(word == "READUNTIL", handler, until);
                    continue;
                }
                "READ" | "GET" if !handler.is_empty() => Command::Read(handler, params),
                "WRITE" | "SET" if !handler.is_empty() => Command::Write(handler, params),
                "READ" | "GET" | "WRITE" | "SET" => arguments(),
                "CHECKREAD" | "CHECKWRITE" | "LLRPC" if words(rest) != 1 => arguments(),
                "CHECKREAD" => Command::CheckRead(handler),
                "CHECKWRITE" => Command::CheckWrite(handler),
                "QUIT" | "CLOSE" if handler.is_empty() => Command::Quit,
                "QUIT" | "CLOSE" => {
                    self.announces_end = true;
                    Command::Wrong(500, "Bad command syntax".to_owned())
                }
                _ => Command::Wrong(501, format!("Command '{word}' unimplemented")),
            });
        }
    }

    /// Ends the connection if a command is too long. The text after it is not taken for commands: otherwise a browser
    /// could send one after an address that is longer than a line.
    fn too_long(&mut self, limit: usize) -> Option<Command> {
        (self.len() > limit).then(|| {
            self.end();
            self.announces_end = true;
            Command::Wrong(500, "Line too long".to_owned())
        })
    }

    /// The next line; None if its end has not arrived.
    fn line(&mut self) -> Option<Line> {
        let bytes = &self.bytes[self.seen..];
        let Some(at) = bytes.iter().position(|&b| b == b'\n' || b == b'\r') else {
            self.seen = self.bytes.len();
            return None;
        };
        let (end, is_return) = (self.seen + at, bytes[at] == b'\r');
        let behind = self.bytes.get(end + 1);
        Some(Line {
            end,
            next: end + 1 + usize::from(is_return && behind == Some(&b'\n')),
            open: is_return && behind.is_none(),
        })
    }

    fn begin(&mut self, read: bool, handler: String, until: DataEnd) {
        self.pending = Some(PendingCommand {
            read,
            handler,
            until,
        });
    }

    /// The command, once its data have come.
    fn go_on(&mut self, begun: PendingCommand) -> Option<Command> {
        match begun.until {
            DataEnd::Length(length) if self.len() >= length => {
                let data = self.text(self.start, self.start + length);
                self.take_to(self.start + length);
                return Some(either(begun.read, begun.handler, data));
            }
            DataEnd::Length(_) => {}
            DataEnd::Line(terminator, mut looked) => {
                while let Some(line) = self.line() {
                    let from = self.start + looked;
                    if self.text(from, line.end).trim_end() == terminator {
                        let data = self.text(self.start, from);
                        self.take_to(line.next);
                        self.after_return = line.open;
                        return Some(either(begun.read, begun.handler, data));
                    }
                    if line.open {
                        // A line feed may follow, but has not arrived yet.
                        self.seen = line.end;
                        break;
                    }
                    looked = line.next - self.start;
                    self.seen = line.next;
                }
                self.begin(begun.read, begun.handler, DataEnd::Line(terminator, looked));
                return self.too_long(DATA_MAX);
            }
        }
        self.pending = Some(begun);
        None
    }
}

fn either(read: bool, handler: String, data: String) -> Command {
    match read {
        true => Command::Read(handler, data),
        false => Command::Write(handler, data),
    }
}

fn words(text: &str) -> usize {
    text.split_ascii_whitespace().count()
}

fn arguments() -> Command {
    Command::Wrong(500, "Wrong number of arguments".to_owned())
}

/// The first word, and the text after the next space.
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

/// A response, followed by data.
pub(super) fn data(text: &str, data: &str) -> Vec<u8> {
    let mut out = answer(200, text);
    out.extend_from_slice(format!("DATA {}\r\n", data.len()).as_bytes());
    out.extend_from_slice(data.as_bytes());
    out
}

/// Commands parsed from input that arrives in these pieces, for tests on arbitrary bytes.
pub fn understood<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let (mut input, mut all) = (Input::default(), Vec::new());
    for piece in pieces {
        input.add(piece);
        while let Some(command) = input.next() {
            all.push(format!("{command:?}"));
        }
    }
    all
}
