//! Text to tokens.
//!
//! Configuration strings do not follow the rules of the rest of the language. So the parser requests one where it
//! knows that a parenthesis opens one.

use crate::args::{Kind, Pieces, block_comment, is_space, line_comment};
use crate::diagnostic::Diagnostic;
use crate::source::{FileId, LineDirective, Span};
use std::ops::Range;
use std::sync::Arc;

/// Number of reported syntax errors after which the rest of a file is skipped.
pub(crate) const ERRORS_MAX: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Ident,
    /// `$name`
    Variable,
    Arrow,
    DoubleArrow,
    Colons,
    Semicolon,
    Comma,
    OpenParen,
    CloseParen,
    OpenBracket,
    CloseBracket,
    OpenBrace,
    CloseBrace,
    Bar,
    Bars,
    Ellipsis,
    Minus,
    /// A character that cannot start a token.
    Bad(char),
    End,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Lexeme {
    pub(crate) token: Token,
    pub(crate) span: Span,
    /// True if the token is the first of its line.
    pub(crate) starts_line: bool,
}

pub(crate) struct Lexer {
    file: FileId,
    text: Arc<str>,
    at: usize,
    pub(crate) directives: Vec<LineDirective>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

pub(crate) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'@'
}

/// Length of `name` in `$name`, at the start of `text` after the dollar.
pub(crate) fn variable_len(text: &[u8]) -> usize {
    let is_part = |b: &&u8| b.is_ascii_alphanumeric() || **b == b'_';
    text.iter().take_while(is_part).count()
}

impl Lexer {
    pub(crate) fn new(file: FileId, text: Arc<str>) -> Lexer {
        Lexer {
            file,
            text,
            at: 0,
            directives: Vec::new(),
            diagnostics: Vec::new(),
        }
    }

    pub(crate) fn text(&self, span: Span) -> &str {
        self.text.get(span.range()).unwrap_or("")
    }

    fn span(&self, range: Range<usize>) -> Span {
        Span::new(self.file, range)
    }

    /// The next token.
    pub(crate) fn next(&mut self) -> Lexeme {
        let starts_line = self.skip_space();
        let text = self.text.clone();
        let rest = &text.as_bytes()[self.at..];
        let (token, len) = match rest {
            [] => (Token::End, 0),
            [b'-', b'>', ..] => (Token::Arrow, 2),
            [b'=', b'>', ..] => (Token::DoubleArrow, 2),
            [b':', b':', ..] => (Token::Colons, 2),
            [b'|', b'|', ..] => (Token::Bars, 2),
            [b'.', b'.', b'.', ..] => (Token::Ellipsis, 3),
            [b'-', ..] => (Token::Minus, 1),
            [b';', ..] => (Token::Semicolon, 1),
            [b',', ..] => (Token::Comma, 1),
            [b'(', ..] => (Token::OpenParen, 1),
            [b')', ..] => (Token::CloseParen, 1),
            [b'[', ..] => (Token::OpenBracket, 1),
            [b']', ..] => (Token::CloseBracket, 1),
            [b'{', ..] => (Token::OpenBrace, 1),
            [b'}', ..] => (Token::CloseBrace, 1),
            [b'|', ..] => (Token::Bar, 1),
            [b'$', name @ ..] if variable_len(name) > 0 => {
                (Token::Variable, variable_len(name) + 1)
            }
            [first, ..] if is_name_byte(*first) => (Token::Ident, name_len(rest)),
            _ => {
                let c = text[self.at..].chars().next().unwrap_or(' ');
                (Token::Bad(c), c.len_utf8())
            }
        };
        let start = self.at;
        self.at += len;
        Lexeme {
            token,
            span: self.span(start..self.at),
            starts_line,
        }
    }

    /// Skips white space, comments and line directives; true at the first token of a line.
    fn skip_space(&mut self) -> bool {
        let text = self.text.clone();
        let bytes = text.as_bytes();
        let mut starts_line = self.at == 0;
        while let Some(&byte) = bytes.get(self.at) {
            let rest = &bytes[self.at..];
            if is_space(byte) {
                starts_line |= byte == b'\n';
                self.at += 1;
            } else if byte == b'#' && (self.at == 0 || matches!(bytes[self.at - 1], b'\n' | b'\r'))
            {
                self.directive();
            } else if rest.starts_with(b"//") {
                self.at = line_comment(bytes, self.at);
            } else if rest.starts_with(b"/*") {
                let end = block_comment(bytes, self.at);
                if !bytes[..end].ends_with(b"*/") || end < self.at + 4 {
                    let open = self.span(self.at..self.at + 2);
                    self.diagnostics.push(
                        Diagnostic::error("unclosed-comment", "this comment is never closed")
                            .at(open)
                            .read_to(open)
                            .help("put `*/` where it ends"),
                    );
                }
                self.at = end;
            } else {
                break;
            }
        }
        starts_line
    }

    /// Skips a line that starts with `#`; remembers `# 100 "file"` and `#line 100 "file"`.
    fn directive(&mut self) {
        let text = self.text.clone();
        let end = line_comment(text.as_bytes(), self.at);
        let whole = self.span(self.at..end);
        let line = text[self.at..end].trim_start_matches('#').trim();
        self.at = end;
        let line = line.strip_prefix("line").unwrap_or(line).trim_start();
        let digits = line.bytes().take_while(u8::is_ascii_digit).count();
        let Ok(number) = line[..digits].parse() else {
            self.diagnostics.push(
                Diagnostic::error("directive", "this line is no line directive")
                    .at(whole)
                    .click("unknown preprocessor directive")
                    .read_to(whole.before())
                    .help("comments start with `//`; of the preprocessor there is only `# 100 \"file\"`"),
            );
            return;
        };
        let name = line[digits..].trim();
        let name = name.strip_prefix('"').and_then(|n| n.split('"').next());
        let bytes = text.as_bytes();
        let offset = match bytes.get(end..) {
            Some([b'\r', b'\n', ..]) => end + 2,
            Some([_, ..]) => end + 1,
            _ => end,
        };
        self.directives.push(LineDirective {
            offset,
            line: number,
            name: name.filter(|n| !n.is_empty()).map(Arc::from),
        });
    }

    /// The place behind the token that was read last.
    pub(crate) fn position(&self) -> Span {
        self.span(self.at..self.at)
    }

    /// Extends a position to the end of the text read so far.
    pub(crate) fn read_to(&self, span: Span) -> Span {
        self.span(span.start as usize..self.at)
    }

    /// Moves to the end of the line.
    pub(crate) fn skip_line(&mut self) {
        let text = self.text.clone();
        self.at = line_comment(text.as_bytes(), self.at);
    }

    /// Place of the configuration string after the parenthesis `open`; moves to its end.
    pub(crate) fn config(&mut self, open: Span) -> Span {
        let text = self.text.clone();
        let start = open.end as usize;
        self.at = start;
        let mut depth = 1usize;
        let mut suspect = None;
        let mut pieces = Pieces::new(&text);
        pieces.seek(start);
        while let Some((range, kind)) = pieces.next() {
            self.at = range.end;
            match kind {
                Kind::Text => match text.as_bytes()[range.start] {
                    b'(' => depth += 1,
                    b')' => depth -= 1,
                    b'#' if matches!(text.as_bytes()[range.start - 1], b'\n' | b'\r') => {
                        self.at = range.start;
                        self.directive();
                        pieces.seek(self.at);
                    }
                    _ => {}
                },
                Kind::Single | Kind::Double => {
                    let quoted = &text[range.clone()];
                    let closed = range.len() > 1 && quoted.ends_with(&quoted[..1]);
                    if suspect.is_none() && (quoted.contains('\n') || !closed) {
                        suspect = Some(self.span(range.start..range.start + 1));
                    }
                }
                _ => {}
            }
            if depth == 0 {
                return self.span(start..range.start);
            }
        }
        self.unclosed(open, suspect)
    }

    /// Reports an unterminated configuration string, and guesses its end.
    fn unclosed(&mut self, open: Span, suspect: Option<Span>) -> Span {
        let text = self.text.clone();
        let start = open.end as usize;
        let rest = &text.as_bytes()[start..];
        let is_end = |&at: &usize| {
            if rest[at] != b';' {
                return false;
            }
            let behind = rest[at + 1..].iter().find(|&&b| b != b' ' && b != b'\t');
            behind.is_none_or(|&b| b == b'\n' || b == b'\r' || b == b'/')
        };
        let line = line_comment(text.as_bytes(), start) - start;
        let mut len = (0..rest.len()).find(is_end).unwrap_or(line);
        if self.diagnostics.len() + 1 >= ERRORS_MAX {
            // Each error costs a search of the whole text.
            len = rest.len();
        }
        self.at = start + len;
        let end = self.span(text.len()..text.len());
        let mut error = match suspect {
            Some(quote) => Diagnostic::error("unclosed-quote", "this quote may never be closed")
                .at(quote)
                .note_at(open, "so this parenthesis has no end")
                .help("close the quote on its line, or escape it if it is part of the text"),
            None => Diagnostic::error("unclosed-parenthesis", "this parenthesis is never closed")
                .at(open)
                .help("put `)` at the end of the configuration string"),
        };
        if len < rest.len() {
            let guess = self.span(self.at..self.at);
            error = error.note_at(guess, "read on as if it ended here");
        }
        // Click reads on to the end of the text, but finds nothing else on its way.
        let error = error.click_at(end, "expected `)`").read_to(open);
        self.diagnostics.push(error);
        self.span(start..start + len)
    }
}

/// Length of a name: letters, digits, `_`, `@` and single slashes inside; a comment ends a name.
fn name_len(bytes: &[u8]) -> usize {
    let mut len = 0;
    while let Some(&byte) = bytes.get(len) {
        let inner_slash = byte == b'/' && bytes.get(len + 1).is_some_and(|&b| is_name_byte(b));
        if !is_name_byte(byte) && !inner_slash {
            break;
        }
        len += 1;
    }
    len
}
