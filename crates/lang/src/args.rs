//! Configuration strings: arguments, words, quotes.
//!
//! The rules are those of Click's manual, click(5), "Configuration strings". No function here fails: quotes and
//! escapes that are still open at the end of the text end there.

use std::borrow::Cow;
use std::ops::Range;

/// Splits a configuration string at its commas.
///
/// Commas in quotes and comments do not count, as in Click; parentheses and brackets are ordinary
/// characters. White space and comments are trimmed from both ends of each argument. A last argument
/// that is empty is left out, so `1, 2,` has two arguments and the empty string none.
pub fn split(text: &str) -> Vec<Range<usize>> {
    let mut arguments = Vec::new();
    let mut current = Trim::default();
    for (range, kind) in Pieces::new(text) {
        if kind == Kind::Comma {
            arguments.push(current.take(range.start));
        } else {
            current.add(range, kind);
        }
    }
    let last = current.take(text.len());
    if !last.is_empty() {
        arguments.push(last);
    }
    arguments
}

/// Splits an argument at white space and comments outside quotes.
pub fn words(text: &str) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    let mut current = Trim::default();
    for (range, kind) in Pieces::new(text) {
        if matches!(kind, Kind::Space | Kind::Comment) {
            let word = current.take(range.start);
            if !word.is_empty() {
                words.push(word);
            }
        } else {
            current.add(range, kind);
        }
    }
    let last = current.take(text.len());
    if !last.is_empty() {
        words.push(last);
    }
    words
}

/// The texts of [`words`].
pub fn each_word(text: &str) -> impl Iterator<Item = &str> {
    words(text).into_iter().map(|word| &text[word])
}

/// The texts of [`words`], without quotes.
pub fn unquoted_words(text: &str) -> Vec<String> {
    let unquoted = each_word(text).map(|word| unquote(word).into_owned());
    unquoted.collect()
}

/// The keyword at the start of an argument and its value: `ACTIVE true` gives `("ACTIVE", "true")`.
///
/// A keyword is a word of capital letters, digits and underscores that starts with a letter or an
/// underscore, and white space follows it. A keyword alone is an ordinary value.
pub fn keyword(argument: &str) -> Option<(&str, &str)> {
    let end = argument
        .find(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'))
        .filter(|&end| end > 0)?;
    if argument.as_bytes()[0].is_ascii_digit() {
        return None;
    }
    let rest = &argument[end..];
    let space = matches!(
        Pieces::new(rest).next(),
        Some((_, Kind::Space | Kind::Comment))
    );
    let first = words(rest).first()?.start;
    space.then(|| (&argument[..end], rest[first..].trim_ascii_end()))
}

/// Removes quotes and replaces escapes; bytes that are not UTF-8 afterwards become U+FFFD. See [`unquote_bytes`].
pub fn unquote(text: &str) -> Cow<'_, str> {
    match unquote_bytes(text) {
        Cow::Borrowed(_) => Cow::Borrowed(text),
        Cow::Owned(bytes) => Cow::Owned(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        }),
    }
}

/// Removes quotes and replaces escapes.
///
/// Quoted parts may stand anywhere: `a"b"'c'` is `abc`. Single quotes keep everything as it is. In
/// double quotes `\a \b \f \n \r \t \v \\ \"`, `\` with one to three octal digits and `\x` with hex
/// digits (the last two count) are C's; `\<48 65>` are bytes in hex; `\` at the end of a line joins two
/// lines; before anything else `\` is removed. `\<48 65>` works outside quotes as well.
pub fn unquote_bytes(text: &str) -> Cow<'_, [u8]> {
    let bytes = text.as_bytes();
    if !bytes.iter().any(|b| matches!(b, b'"' | b'\'' | b'\\')) {
        return Cow::Borrowed(bytes);
    }
    let (mut out, mut at, mut quote) = (Vec::with_capacity(bytes.len()), 0, None);
    while at < bytes.len() {
        let byte = bytes[at];
        match (byte, quote) {
            (b'"' | b'\'', None) => quote = Some(byte),
            (_, Some(open)) if byte == open => quote = None,
            (b'\\', Some(b'"')) => {
                at = escape(bytes, at + 1, &mut out);
                continue;
            }
            (b'\\', None) if bytes.get(at + 1) == Some(&b'<') => {
                at = data(bytes, at + 2, &mut out);
                continue;
            }
            _ => out.push(byte),
        }
        at += 1;
    }
    Cow::Owned(out)
}

/// Decodes an escape after its backslash, at `at`; returns the index after it.
fn escape(bytes: &[u8], at: usize, out: &mut Vec<u8>) -> usize {
    let Some(&byte) = bytes.get(at) else {
        out.push(b'\\');
        return at;
    };
    let simple = match byte {
        b'a' => 7,
        b'b' => 8,
        b't' => 9,
        b'n' => 10,
        b'v' => 11,
        b'f' => 12,
        b'r' => 13,
        b'<' => return data(bytes, at + 1, out),
        b'\n' => return at + 1,
        b'\r' => return at + 1 + usize::from(bytes.get(at + 1) == Some(&b'\n')),
        b'0'..=b'7' => {
            let (value, len) = number(&bytes[at..bytes.len().min(at + 3)], 8);
            out.push(value);
            return at + len;
        }
        b'x' => {
            let (value, len) = number(&bytes[at + 1..], 16);
            out.push(if len == 0 { b'x' } else { value });
            return at + 1 + len;
        }
        other => other,
    };
    out.push(simple);
    at + 1
}

/// Parses the leading digits of a number. Returns the value modulo 256, and the number of digits.
fn number(bytes: &[u8], radix: u32) -> (u8, usize) {
    let digits = bytes
        .iter()
        .map_while(|&b| char::from(b).to_digit(radix))
        .map(|digit| digit as u8);
    digits.fold((0u8, 0), |(value, len), digit| {
        (value.wrapping_mul(radix as u8).wrapping_add(digit), len + 1)
    })
}

/// Decodes the bytes of `\<...>` after the `<`, at `at`; returns the index after it.
fn data(bytes: &[u8], mut at: usize, out: &mut Vec<u8>) -> usize {
    let mut high = None;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match (char::from(byte).to_digit(16), high) {
            (Some(digit), None) => high = Some(digit as u8),
            (Some(digit), Some(first)) => {
                out.push(first << 4 | digit as u8);
                high = None;
            }
            (None, _) if byte == b'>' => break,
            (None, _) if bytes[at - 1..].starts_with(b"/*") => at = block_comment(bytes, at - 1),
            (None, _) if bytes[at - 1..].starts_with(b"//") => at = line_comment(bytes, at - 1),
            (None, _) if is_space(byte) => {}
            (None, _) => {
                at -= 1;
                break;
            }
        }
    }
    out.extend(high);
    at
}

/// A word or an argument that [`unquote`] turns back into `text`; quotes only where they are needed.
pub fn quote(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_graphic() && !b"\"'\\,()$/#".contains(&b);
    let safe_slash = !text.contains("//") && !text.contains("/*") && !text.ends_with('/');
    if !text.is_empty() && text.bytes().all(|b| plain(b) || b == b'/' && safe_slash) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' | '$' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_ascii_control() => out.push_str(&format!("\\<{:02X}>", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Arguments joined into a configuration string.
pub fn join<S: AsRef<str>>(arguments: impl IntoIterator<Item = S>) -> String {
    let mut out = String::new();
    for (i, argument) in arguments.into_iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        out.push_str(argument.as_ref());
    }
    out
}

/// Kind of a piece of a configuration string.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Text,
    Single,
    Double,
    Data,
    Comment,
    Space,
    Comma,
}

/// The pieces of a configuration string, without gaps: quotes with their marks, comments, runs of
/// spaces, commas, `\<..>`; everything else in pieces of one character.
pub(crate) struct Pieces<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Pieces<'a> {
    pub(crate) fn new(text: &'a str) -> Pieces<'a> {
        Pieces { text, at: 0 }
    }

    /// Moves to a character boundary.
    pub(crate) fn seek(&mut self, at: usize) {
        self.at = at;
    }
}

impl Iterator for Pieces<'_> {
    type Item = (Range<usize>, Kind);

    fn next(&mut self) -> Option<(Range<usize>, Kind)> {
        let (start, bytes) = (self.at, self.text.as_bytes());
        let first = *bytes.get(start)?;
        let rest = &bytes[start..];
        let (end, kind) = match first {
            b',' => (start + 1, Kind::Comma),
            b'\'' => (quoted(bytes, start), Kind::Single),
            b'"' => (quoted(bytes, start), Kind::Double),
            b'\\' if rest.starts_with(b"\\<") => (data_end(bytes, start), Kind::Data),
            b'/' if rest.starts_with(b"//") => (line_comment(bytes, start), Kind::Comment),
            b'/' if rest.starts_with(b"/*") => (block_comment(bytes, start), Kind::Comment),
            _ if is_space(first) => {
                let len = rest.iter().take_while(|&&b| is_space(b)).count();
                (start + len, Kind::Space)
            }
            _ => {
                let c = self.text[start..].chars().next()?;
                (start + c.len_utf8(), Kind::Text)
            }
        };
        self.at = end;
        Some((start..end, kind))
    }
}

/// C's white space.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Index after the quote that closes the one at `start`, or the end of the text.
pub(crate) fn quoted(bytes: &[u8], start: usize) -> usize {
    let (quote, mut at) = (bytes[start], start + 1);
    while at < bytes.len() && bytes[at] != quote {
        if bytes[at] == b'\\' && quote == b'"' {
            at += 1;
        }
        at += 1;
    }
    // A backslash may precede a character of several bytes, and a quote has one byte: the index is a character
    // boundary.
    (at + 1).min(bytes.len())
}

/// Index after the `\<...>` that starts at `start`.
fn data_end(bytes: &[u8], start: usize) -> usize {
    data(bytes, start + 2, &mut Vec::new())
}

/// The end of the line with a `//` comment; the line feed is not part of it.
pub(crate) fn line_comment(bytes: &[u8], start: usize) -> usize {
    let rest = &bytes[start..];
    let len = rest.iter().position(|&b| b == b'\n' || b == b'\r');
    start + len.unwrap_or(rest.len())
}

/// Index after a `/* */` comment, or the end of the text.
pub(crate) fn block_comment(bytes: &[u8], start: usize) -> usize {
    let from = start + 2;
    let rest = bytes.get(from..).unwrap_or(&[]);
    let len = rest.windows(2).position(|pair| pair == b"*/");
    len.map_or(bytes.len(), |len| from + len + 2)
}

/// Collects pieces into one range without white space and comments at its ends.
#[derive(Default)]
struct Trim {
    range: Option<Range<usize>>,
}

impl Trim {
    fn add(&mut self, piece: Range<usize>, kind: Kind) {
        if !matches!(kind, Kind::Space | Kind::Comment) {
            let start = self.range.as_ref().map_or(piece.start, |r| r.start);
            self.range = Some(start..piece.end);
        }
    }

    fn take(&mut self, at: usize) -> Range<usize> {
        self.range.take().unwrap_or(at..at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str, ranges: Vec<Range<usize>>) -> Vec<&str> {
        ranges.into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn arguments_are_split_at_commas_outside_quotes_and_comments() {
        let text = " a , \"x, y\" 'p,q' /* , */,// ,\n b c,(1,2), ";
        let split = parts(text, split(text));
        assert_eq!(split, ["a", "\"x, y\" 'p,q'", "b c", "(1", "2)"]);
    }

    #[test]
    fn only_the_last_argument_is_dropped_when_it_is_empty() {
        assert!(split("  /* nothing */ ").is_empty());
        assert_eq!(parts("1,", split("1,")), ["1"]);
        assert_eq!(parts(",1", split(",1")), ["", "1"]);
        assert_eq!(parts(",,", split(",,")), ["", ""]);
    }

    #[test]
    fn words_are_split_at_space_outside_quotes() {
        let text = "a  \"b c\"'d e' /*x*/ f";
        assert_eq!(parts(text, words(text)), ["a", "\"b c\"'d e'", "f"]);
    }

    #[test]
    fn a_keyword_needs_capitals_and_a_value() {
        assert_eq!(keyword("ACTIVE true"), Some(("ACTIVE", "true")));
        assert_eq!(keyword("N_2  a b "), Some(("N_2", "a b")));
        for text in [
            "ACTIVE",
            "Active true",
            "2A b",
            "",
            "true",
            "A(b) c",
            "A\u{e9} b",
        ] {
            assert_eq!(keyword(text), None, "{text}");
        }
    }

    #[test]
    fn escapes_are_those_of_the_manual() {
        assert_eq!(unquote(r#"a"b\n\t\"\\\$"'c\n'"#), "ab\n\t\"\\$c\\n");
        assert_eq!(
            unquote(
                r#""\101\x4142\
z\q""#
            ),
            "ABzq"
        );
        assert_eq!(unquote_bytes(r"\<48 4 5 /*x*/ ff>!"), &b"HE\xff!"[..]);
        assert_eq!(unquote_bytes("\"\\<48\"!"), &b"H!"[..]);
        assert!(matches!(unquote("plain"), Cow::Borrowed("plain")));
        assert_eq!(unquote("\"open\\"), "open\\");
    }

    #[test]
    fn quoted_text_is_one_word_and_unquotes_to_itself() {
        for text in [
            "",
            "plain",
            "a b",
            "a,b",
            "it's",
            "\"",
            "a\\b",
            "$x",
            "\u{7}\n",
            "//",
            "é ü",
            "10.0.0.0/8",
        ] {
            let quoted = quote(text);
            assert_eq!(unquote(&quoted), text);
            assert_eq!(
                (split(&quoted).len(), words(&quoted).len()),
                (1, 1),
                "{quoted}"
            );
        }
        assert_eq!(quote("10.0.0.0/8"), "10.0.0.0/8");
    }
}
