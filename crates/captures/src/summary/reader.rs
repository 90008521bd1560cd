//! Reads a dump line by line: `!` lines set fields and defaults, the others are packets.

use super::build::{Defaults, Flow};
use super::record::Record;
use super::{Field, binary, names};
use arguments::Names;
use arguments::units::FromArg;
use std::io::{BufRead, ErrorKind, Read};
use wire::proto;

/// Maximum length of a plausible line or record.
const MAX_LINE: u64 = 1 << 20;

/// Result of reading on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadResult {
    /// The record holds a packet.
    Packet,
    /// The dump has ended.
    End,
}

/// The state of a dump that is being read.
pub struct Reader<R> {
    file: R,
    /// Columns; `None` for one that is not known.
    fields: Vec<Option<Field>>,
    /// Values for fields that a line does not have.
    pub defaults: Defaults,
    /// True if fragment offsets are in units of 8 bytes (version 1.0).
    old_offsets: bool,
    is_binary: bool,
    line: Vec<u8>,
    /// Bytes and lines read.
    at: u64,
    lines: u64,
    warned: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads `file`, whose columns are `fields` until a `!data` line says else.
    pub fn new(file: R, fields: Vec<Field>) -> Reader<R> {
        Reader {
            file,
            fields: fields.into_iter().map(Some).collect(),
            defaults: Defaults {
                flow: Flow::default(),
                protocol: proto::TCP,
                aggregate: 0,
            },
            old_offsets: false,
            is_binary: false,
            line: Vec::new(),
            at: 0,
            lines: 0,
            warned: false,
        }
    }

    /// Bytes read.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Lines read, for messages.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Reads up to the next packet, into `record`. `complain` gets the mistakes in skipped lines, as sentences.
    pub fn next(&mut self, record: &mut Record, complain: &mut dyn FnMut(u64, &str)) -> ReadResult {
        loop {
            let meta = match self.fetch(complain) {
                Some(meta) => meta,
                None => return ReadResult::End,
            };
            let line = std::mem::take(&mut self.line);
            let found = if meta {
                self.take_line(&line, record, complain)
            } else {
                record.clear();
                binary::parse(&line, &self.fields, record);
                true
            };
            self.line = line;
            if found {
                return ReadResult::Packet;
            }
        }
    }

    /// Reads the next line or record into `line`; returns true if it is text. `None` at the end.
    fn fetch(&mut self, complain: &mut dyn FnMut(u64, &str)) -> Option<bool> {
        self.line.clear();
        self.lines += 1;
        let result = if self.is_binary {
            self.fetch_record()
        } else {
            let mut limited = (&mut self.file).take(MAX_LINE);
            limited
                .read_until(b'\n', &mut self.line)
                .map(|n| (n > 0, true))
        };
        match result {
            Ok((true, meta)) => {
                self.at += self.line.len() as u64;
                Some(meta)
            }
            Ok((false, _)) => None,
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => None,
            Err(e) => {
                complain(self.lines, &arguments::show::reason(&e));
                None
            }
        }
    }

    /// Reads a binary record without its length word.
    fn fetch_record(&mut self) -> std::io::Result<(bool, bool)> {
        let mut word = [0; 4];
        self.file.read_exact(&mut word)?;
        let word = u32::from_be_bytes(word);
        let len = u64::from(word & !binary::META);
        if !(4..=MAX_LINE).contains(&len) {
            return Err(std::io::Error::other("record too short or too long"));
        }
        self.at += 4;
        self.line.resize(len as usize - 4, 0);
        self.file.read_exact(&mut self.line)?;
        Ok((true, word & binary::META != 0))
    }

    /// Handles a line of text; true if it is a packet.
    fn take_line(
        &mut self,
        line: &[u8],
        record: &mut Record,
        complain: &mut dyn FnMut(u64, &str),
    ) -> bool {
        let line = line.trim_ascii();
        match line.first() {
            None | Some(b'#') => false,
            Some(b'!') => {
                self.directive(&String::from_utf8_lossy(line), complain);
                false
            }
            Some(_) => self.packet_line(line, record, complain),
        }
    }

    fn packet_line(
        &mut self,
        line: &[u8],
        record: &mut Record,
        complain: &mut dyn FnMut(u64, &str),
    ) -> bool {
        record.clear();
        let mut understood = 0;
        let mut words = words(line);
        for field in &self.fields {
            let Some(word) = words.next() else { break };
            understood += match field {
                _ if word == b"-" => 0,
                Some(field) => usize::from(record.set(*field, word, self.old_offsets).is_some()),
                None => 0,
            };
        }
        if understood == 0 && !self.warned {
            self.warned = true;
            let wrong = if self.fields.is_empty() {
                "no '!data' provided"
            } else {
                "packet parse error"
            };
            complain(self.lines, wrong);
        }
        understood > 0
    }

    fn directive(&mut self, line: &str, complain: &mut dyn FnMut(u64, &str)) {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let words: Vec<&str> = rest.split_whitespace().collect();
        match word {
            "!data" | "!contents" => {
                self.fields = columns(rest)
                    .into_iter()
                    .map(|name| {
                        let field = Field::find(&name);
                        if field.is_none() {
                            complain(
                                self.lines,
                                &format!("warning: unknown content type '{name}'"),
                            );
                        }
                        field
                    })
                    .collect();
            }
            "!proto" => match words.first().and_then(|word| names::protocol(word)) {
                Some(protocol) => self.defaults.protocol = protocol,
                None => complain(self.lines, "bad protocol in '!proto'"),
            },
            "!flowid" => match Flow::parse(&words) {
                Some((flow, protocol)) => {
                    self.defaults.flow = flow;
                    self.defaults.protocol = protocol.unwrap_or(self.defaults.protocol);
                }
                None => complain(self.lines, "bad flow ID in '!flowid'"),
            },
            "!aggregate" => match words.first().and_then(|word| word.parse().ok()) {
                Some(aggregate) => self.defaults.aggregate = aggregate,
                None => complain(self.lines, "bad aggregate in '!aggregate'"),
            },
            "!binary" => self.is_binary = true,
            "!IPSummaryDump" => {
                let version = words.first().and_then(|v| v.split_once('.'));
                self.old_offsets = version == Some(("1", "0"));
            }
            _ => {}
        }
    }
}

/// The names of a list of columns. Quotes hold a name with spaces together, or several names.
pub fn columns(list: &str) -> Vec<String> {
    let mut names = Vec::new();
    for word in lang::args::unquoted_words(list) {
        match Field::find(&word) {
            Some(_) => names.push(word),
            None => names.extend(word.split_whitespace().map(str::to_owned)),
        }
    }
    names
}

/// A list of columns as an argument, with its quotes.
pub struct Columns(pub String);

impl FromArg for Columns {
    const KIND: &'static str = "names of fields";
    const QUOTED: bool = true;

    fn from_arg(raw: &str, _: &Names) -> Result<Columns, String> {
        Ok(Columns(raw.to_owned()))
    }

    fn stand_in() -> Columns {
        Columns(String::new())
    }

    fn unparse(&self) -> String {
        self.0.clone()
    }
}

/// Words of a line; a quoted word extends to its closing quote.
fn words(mut line: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        line = line.trim_ascii_start();
        if line.is_empty() {
            return None;
        }
        let mut quoted = false;
        let mut escaped = false;
        let end = line.iter().position(|&byte| {
            if quoted {
                quoted = escaped || byte != b'"';
                escaped = !escaped && byte == b'\\';
                return false;
            }
            quoted = byte == b'"';
            byte.is_ascii_whitespace()
        });
        let (word, rest) = line.split_at(end.unwrap_or(line.len()));
        line = rest;
        Some(word)
    })
}
