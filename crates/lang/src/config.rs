//! A configuration string that knows the source position of each of its bytes.

use crate::source::Span;
use std::ops::Range;

/// A configuration string after substitution of variables, comments replaced by spaces.
///
/// Bytes copied from the file have their exact position; bytes that came from a variable have the position of the
/// variable's use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The string.
    pub text: String,
    /// Place of the whole string, or the place where it is missing.
    span: Span,
    pieces: Vec<Piece>,
    undefined: Vec<(Range<usize>, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    /// End of the piece in the text; it starts at the end of the previous one.
    end: usize,
    /// Place in a file.
    span: Span,
    /// Place of the value, for bytes that came from a variable.
    origin: Option<Span>,
}

impl Piece {
    /// True if the piece is verbatim: its length is unchanged, so parts of it have exact positions.
    fn is_exact(&self, start: usize) -> bool {
        self.origin.is_none() && (self.span.end - self.span.start) as usize == self.end - start
    }
}

impl Config {
    /// An empty configuration, written (or missing) at `span`.
    pub fn empty(span: Span) -> Config {
        Config {
            text: String::new(),
            span,
            pieces: Vec::new(),
            undefined: Vec::new(),
        }
    }

    /// A text at position `span`, verbatim if the lengths are equal.
    pub fn verbatim(text: impl Into<String>, span: Span) -> Config {
        let mut config = Config::empty(span);
        config.push(&text.into(), span, None);
        config
    }

    /// The place of the whole string.
    pub fn span(&self) -> Span {
        self.span
    }

    /// The place in a file of a range of bytes of [`Config::text`].
    pub fn span_of(&self, range: Range<usize>) -> Span {
        let last = range.end.max(range.start + 1) - 1;
        match (self.byte(range.start), self.byte(last)) {
            (Some(first), Some(last)) => {
                let place = first.to(last);
                if range.is_empty() {
                    place.before()
                } else {
                    place
                }
            }
            (Some(first), None) => first,
            (None, _) => match self.pieces.last() {
                Some(piece) if self.text.len() <= range.start => piece.span.after(),
                _ => self.span,
            },
        }
    }

    /// Position of the variable's value that was substituted at `range`; `None` if there was no variable.
    pub fn origin(&self, range: Range<usize>) -> Option<Span> {
        self.piece_at(range.start)
            .and_then(|(_, piece)| piece.origin)
    }

    /// Names written like variables but without a definition, with their ranges. Click leaves them in the text
    /// (scripts have variables of their own), so only the element can tell whether it is a mistake.
    pub fn undefined(&self) -> &[(Range<usize>, String)] {
        &self.undefined
    }

    fn piece_at(&self, at: usize) -> Option<(usize, &Piece)> {
        let index = self.pieces.partition_point(|piece| piece.end <= at);
        let start = match index {
            0 => 0,
            _ => self.pieces[index - 1].end,
        };
        Some((start, self.pieces.get(index)?))
    }

    fn byte(&self, at: usize) -> Option<Span> {
        let (start, piece) = self.piece_at(at)?;
        if !piece.is_exact(start) {
            return Some(piece.span);
        }
        let offset = piece.span.start as usize + (at - start);
        Some(Span::new(piece.span.file, offset..offset + 1))
    }

    pub(crate) fn push(&mut self, text: &str, span: Span, origin: Option<Span>) {
        if text.is_empty() {
            return;
        }
        self.text.push_str(text);
        self.pieces.push(Piece {
            end: self.text.len(),
            span,
            origin,
        });
    }

    pub(crate) fn push_undefined(&mut self, text: &str, span: Span, name: &str) {
        let start = self.text.len();
        self.push(text, span, None);
        self.undefined
            .push((start..self.text.len(), name.to_owned()));
    }

    /// A part of the string, with its positions.
    pub fn slice(&self, range: Range<usize>) -> Config {
        let text = self.text.get(range.clone()).unwrap_or("").to_owned();
        let mut part = Config {
            span: self.span_of(range.clone()),
            text,
            pieces: Vec::new(),
            undefined: Vec::new(),
        };
        if part.text.is_empty() {
            return part;
        }
        let first = self
            .pieces
            .partition_point(|piece| piece.end <= range.start);
        let mut start = if first == 0 {
            0
        } else {
            self.pieces[first - 1].end
        };
        for piece in &self.pieces[first..] {
            if start >= range.end {
                break;
            }
            let (from, to) = (start.max(range.start), piece.end.min(range.end));
            let span = if piece.is_exact(start) {
                let at = piece.span.start as usize;
                Span::new(piece.span.file, at + from - start..at + to - start)
            } else {
                piece.span
            };
            part.pieces.push(Piece {
                end: to - range.start,
                span,
                origin: piece.origin,
            });
            start = piece.end;
        }
        let first = self
            .undefined
            .partition_point(|(at, _)| at.start < range.start);
        let inside = self.undefined[first..].iter();
        for (at, name) in inside.take_while(|(at, _)| at.end <= range.end) {
            let moved = at.start - range.start..at.end - range.start;
            part.undefined.push((moved, name.clone()));
        }
        part
    }

    /// The string without white space at both ends.
    pub(crate) fn trimmed(self) -> Config {
        let text = self.text.as_str();
        let start = text.len() - text.trim_ascii_start().len();
        let end = text.trim_ascii_end().len().max(start);
        if start == 0 && end == text.len() {
            return self;
        }
        let span = self.span;
        let mut part = self.slice(start..end);
        if part.text.is_empty() {
            part.span = span;
        }
        part
    }

    /// Joins several strings by `, `.
    pub fn join(parts: &[Config], span: Span) -> Config {
        let mut all = Config::empty(span);
        for (i, part) in parts.iter().enumerate() {
            if i > 0 {
                all.push(", ", span, Some(span));
            }
            let base = all.text.len();
            all.text.push_str(&part.text);
            all.pieces.extend(part.pieces.iter().map(|piece| Piece {
                end: piece.end + base,
                ..piece.clone()
            }));
            let moved = |(at, name): &(Range<usize>, String)| {
                (at.start + base..at.end + base, name.clone())
            };
            all.undefined.extend(part.undefined.iter().map(moved));
        }
        all
    }
}
