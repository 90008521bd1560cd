//! Common part of IP and TCP options: writing and reading lists of them.
//!
//! Options are separated by semicolons. `.` stands for none, `?` for a malformed list.

use std::io::Write as _;

/// End of the list, in both protocols.
pub(super) const EOL: u8 = 0;
/// Padding, in both protocols.
pub(super) const NOP: u8 = 1;

/// An option of a list: its type, and the data behind the length byte.
pub(super) struct Opt<'a> {
    pub(super) kind: u8,
    pub(super) data: &'a [u8],
}

/// Walks options; `Err` at a length that does not fit, where the walk ends. NOPs are left out.
pub(super) fn walk(mut bytes: &[u8]) -> impl Iterator<Item = Result<Opt<'_>, ()>> {
    std::iter::from_fn(move || {
        while let Some((&NOP, rest)) = bytes.split_first() {
            bytes = rest;
        }
        let (&kind, rest) = bytes.split_first().filter(|(kind, _)| **kind != EOL)?;
        let len = rest.first().map_or(0, |len| usize::from(*len));
        let option = bytes.get(2..len).map(|data| Opt { kind, data });
        bytes = if option.is_some() { &bytes[len..] } else { &[] };
        Some(option.ok_or(()))
    })
}

/// Writes options that `one` knows how to write; `one` gives false to leave an option out and `None`
/// for a fault, which turns the whole list into `?`.
pub(super) fn push(
    bytes: &[u8],
    out: &mut Vec<u8>,
    mut one: impl FnMut(&Opt<'_>, &mut Vec<u8>) -> Option<bool>,
) {
    let from = out.len();
    for option in walk(bytes) {
        let before = out.len();
        if before > from {
            out.push(b';');
        }
        match option.ok().and_then(|option| one(&option, out)) {
            Some(true) => {}
            Some(false) => out.truncate(before),
            None => {
                out.truncate(from);
                out.push(b'?');
                return;
            }
        }
    }
    if out.len() == from {
        out.push(b'.');
    }
}

/// Writes an option as number and bytes: `99=0:5:10`.
pub(super) fn push_plain(option: &Opt<'_>, out: &mut Vec<u8>) {
    // Writing to a vector cannot fail, here and below.
    let _ = write!(out, "{}", option.kind);
    for (i, byte) in option.data.iter().enumerate() {
        let _ = write!(out, "{}{byte}", if i == 0 { '=' } else { ':' });
    }
}

/// Reads a list of options; `one` appends the bytes of one. Padded with EOL to 4 bytes.
pub(super) fn parse(
    text: &str,
    mut one: impl FnMut(&str, &mut Vec<u8>) -> Option<()>,
) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    if text != "." {
        for word in text.split(';').filter(|w| !w.is_empty()) {
            match word {
                "eol" => bytes.push(EOL),
                "nop" => bytes.push(NOP),
                _ => one(word, &mut bytes)?,
            }
        }
    }
    bytes.resize(bytes.len().next_multiple_of(4), EOL);
    (bytes.len() <= 40).then_some(bytes)
}

/// Reads `98` or `99=0:5:10`.
pub(super) fn parse_plain(word: &str, bytes: &mut Vec<u8>) -> Option<()> {
    let (kind, data) = word.split_once('=').unwrap_or((word, ""));
    let values: Option<Vec<u8>> = data
        .split(':')
        .filter(|w| !w.is_empty())
        .map(|w| w.parse().ok())
        .collect();
    append(bytes, kind.parse().ok()?, &values?)
}

/// Appends an option with its length byte.
pub(super) fn append(bytes: &mut Vec<u8>, kind: u8, data: &[u8]) -> Option<()> {
    bytes.extend([kind, u8::try_from(data.len() + 2).ok()?]);
    bytes.extend(data);
    Some(())
}

/// The number behind a word's name: `mss1400`.
pub(super) fn number<T: std::str::FromStr>(word: &str, name: &str) -> Option<T> {
    word.strip_prefix(name)?.parse().ok()
}

pub(super) fn word32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |n, b| n << 8 | u32::from(*b))
}
