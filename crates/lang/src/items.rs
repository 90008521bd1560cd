//! Parser for the items between arrows, and error texts for unexpected tokens.

use crate::ast::{ClassExpr, Item, ItemKind, Ports};
use crate::diagnostic::Diagnostic;
use crate::lexer::{Lexeme, Token};
use crate::parser::{Broken, KEYWORDS, Parsed, Parser, is_arrow};
use crate::source::Span;

/// The largest port number. Click has no limit, but a larger number is surely a mistake.
pub(crate) const PORT_MAX: u32 = 65_535;
/// Maximum number of ports that all lists of a text name.
const LISTED_MAX: usize = 1 << 20;

impl Parser {
    pub(crate) fn starts_item(&self, token: Token) -> bool {
        matches!(
            token,
            Token::Ident | Token::OpenBrace | Token::OpenParen | Token::OpenBracket
        )
    }

    /// `[1] element [2]`. `first` says that no arrow stands before it.
    pub(crate) fn item(&mut self, first: bool) -> Parsed<Item> {
        let listed = self.behind_comma();
        let mut inputs = self.ports()?;
        let next = self.peek();
        let what = match next.token {
            Token::Ident if !self.at_keyword() => self.named()?,
            Token::OpenBrace => {
                let class = ClassExpr::Compound(self.compound()?);
                let config = self.config();
                ItemKind::Anonymous { class, config }
            }
            Token::OpenParen => self.group()?,
            _ if (inputs.is_some() || !listed) && self.may_be_implicit(first, next) => {
                ItemKind::Implicit(self.click_text(next))
            }
            _ => {
                if listed {
                    let text = format!(
                        "expected an element after the comma, found {}",
                        self.describe(next)
                    );
                    let help = "remove the comma, or put an element behind it";
                    self.report(Diagnostic::error("syntax", text).at(next.span).help(help));
                    return Err(Broken);
                }
                return Err(self.unexpected("an element"));
            }
        };
        let mut span = next.span.to(self.after_last_token());
        let mut outputs = None;
        if matches!(what, ItemKind::Implicit(_)) {
            span = inputs.as_ref().map_or(next.span.before(), |p| p.span);
            if first {
                // In `[0] -> x` the port belongs to an omitted `input`.
                outputs = inputs.take();
            }
        } else {
            outputs = self.ports()?;
        }
        Ok(Item {
            inputs,
            what,
            outputs,
            span,
        })
    }

    /// True if an element may be omitted: at the start of a chain before its arrow, or at its end.
    fn may_be_implicit(&mut self, first: bool, next: Lexeme) -> bool {
        if first {
            return is_arrow(next.token);
        }
        let ends = matches!(
            next.token,
            Token::Semicolon | Token::End | Token::CloseBrace | Token::CloseParen | Token::Bars
        );
        ends || (self.at_keyword() && next.starts_line)
    }

    fn named(&mut self) -> Parsed<ItemKind> {
        let name = self.ident()?;
        if self.eat(Token::Colons).is_some() {
            let class = match self.class("a class after `::`") {
                Ok(class) => class,
                Err(broken) => {
                    self.set_click_wording([
                        "missing element type in declaration".to_owned(),
                        format!("unknown element class `{}`", name.name),
                    ]);
                    return Err(broken);
                }
            };
            let config = self.config();
            return Ok(ItemKind::Declaration {
                name,
                class,
                config,
            });
        }
        Ok(match self.config() {
            Some(config) => ItemKind::Anonymous {
                class: ClassExpr::Named(name),
                config: Some(config),
            },
            None => ItemKind::Name(name),
        })
    }

    /// `[0, 2-4]`
    fn ports(&mut self) -> Parsed<Option<Ports>> {
        let Some(open) = self.eat(Token::OpenBracket) else {
            return Ok(None);
        };
        let mut ports = Vec::new();
        while self.peek().token != Token::CloseBracket {
            let (first, span) = self.port()?;
            let mut last = first;
            if self.eat(Token::Minus).is_some() {
                let (end, end_span) = self.port()?;
                last = end;
                if end < first {
                    self.report(
                        Diagnostic::error("bad-port", format!("`{first}-{end}` runs backwards"))
                            .at(span.to(end_span))
                            .help(format!("write `{end}-{first}`")),
                    );
                }
            }
            self.listed += (first..=last).count();
            if self.listed > LISTED_MAX {
                let text = format!("the lists of ports up to here name more than {LISTED_MAX}");
                self.report(
                    Diagnostic::error("too-large", text)
                        .at(span)
                        .help("are the lists as long as they are meant to be?"),
                );
                return Err(Broken);
            }
            ports.extend(first..=last);
            if ports.len() > PORT_MAX as usize + 1 {
                self.report(
                    Diagnostic::error("bad-port", "this list has too many ports")
                        .at(span)
                        .help("list each port once"),
                );
                return Err(Broken);
            }
            if self.eat(Token::Comma).is_none() {
                break;
            }
        }
        if self.eat(Token::CloseBracket).is_none() {
            let found = self.peek();
            let text = format!("expected `]`, found {}", self.describe(found));
            self.report(
                Diagnostic::error("unclosed-bracket", text)
                    .at(found.span)
                    .click("syntax error: expected `,`")
                    .note_at(open, "to close this"),
            );
            return Err(Broken);
        }
        let span = open.to(self.after_last_token());
        Ok(Some(Ports { ports, span }))
    }

    fn port(&mut self) -> Parsed<(u32, Span)> {
        let next = self.peek();
        if next.token != Token::Ident || self.at_keyword() {
            let text = format!("expected a port number, found {}", self.describe(next));
            let help = "write `[0]`, `[0,2]`, `[0-2]` or `[]`";
            let error = Diagnostic::error("bad-port", text).at(next.span).help(help);
            self.report(error.click("syntax error: expected port number"));
            return Err(Broken);
        }
        self.bump();
        let text = self.text(next.span).to_owned();
        let number = integer(&text);
        if let Some(port) = number.filter(|&port| port <= u64::from(PORT_MAX)) {
            return Ok((port as u32, next.span));
        }
        let is_decimal = !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit());
        let is_number = number.is_some() || is_decimal;
        let message = match is_number {
            true => format!("port {text} is too large"),
            false => format!("`{text}` is not a port number"),
        };
        self.report(
            Diagnostic::error("bad-port", message)
                .at(next.span)
                .click("syntax error: port number should be integer")
                .help(format!("ports are numbers from 0 to {PORT_MAX}")),
        );
        Err(Broken)
    }

    pub(crate) fn stray_colons(&mut self, span: Span) -> Broken {
        self.report(
            Diagnostic::error("syntax", "`::` must follow the name that it declares")
                .at(span)
                .click("syntax error near `::`")
                .help("write `name :: Class(configuration)`, ports before or behind all of it"),
        );
        Broken
    }

    /// Reports a parenthesis behind an element: a second configuration string, or a group without an arrow.
    pub(crate) fn stray_parenthesis(&mut self, span: Span) -> Broken {
        self.report(
            Diagnostic::error("syntax", "an element has one configuration string")
                .at(span)
                .click("syntax error near `(`")
                .help(
                    "separate arguments by commas inside one pair of parentheses; put `;` before a \
                     group that starts a statement",
                ),
        );
        Broken
    }

    /// Reports a next token other than the `expected` one.
    pub(crate) fn unexpected(&mut self, expected: &str) -> Broken {
        let next = self.peek();
        let found = self.describe(next);
        let mut span = next.span;
        let near = self.click_text(next);
        let mut error = Diagnostic::error("syntax", format!("expected {expected}, found {found}"))
            .click(format!("syntax error near {near}"));
        if next.token == Token::End {
            span = self.after_last_token();
        }
        if let Some(help) = self.advice(next) {
            error = error.help(help);
        }
        self.report(error.at(span));
        Broken
    }

    /// A token in Click's messages.
    pub(crate) fn click_text(&self, found: Lexeme) -> String {
        match found.token {
            Token::Ident => format!("`{}`", self.text(found.span)),
            Token::End => "``".to_owned(),
            Token::Variable => self.describe(found).replace('$', ""),
            _ => self.describe(found),
        }
    }

    pub(crate) fn describe(&self, found: Lexeme) -> String {
        let text = self.text(found.span);
        match found.token {
            Token::End => "the end of the text".to_owned(),
            Token::Ident if KEYWORDS.contains(&text) => format!("the keyword `{text}`"),
            Token::Bad(c) if c.is_control() => format!("the character U+{:04X}", c as u32),
            _ => format!("`{text}`"),
        }
    }

    /// Advice for characters that are not part of the language but often used.
    fn advice(&mut self, found: Lexeme) -> Option<String> {
        let touches = found.span.start == self.after_last_token().start && found.span.start > 0;
        let text = match found.token {
            Token::Minus | Token::Bad('.') if touches => {
                "names have letters, digits, `_`, `@` and `/`; nothing else may stand in them"
            }
            Token::Minus | Token::Bad('>' | '=' | '<' | '→' | '–' | '—') => {
                "connections are written `a -> b` or `a => b`, from left to right"
            }
            Token::Arrow | Token::DoubleArrow => {
                "an element must stand between two arrows; is one missing?"
            }
            Token::Bad(':') => "declarations are written with two colons: `name :: Class`",
            Token::Bad('#') => "comments start with `//`; `#` counts at the start of a line only",
            Token::Bad('\'' | '"' | '“' | '”' | '‘' | '’') => {
                "quotes stand in configuration strings, in parentheses"
            }
            Token::Bad('\u{feff}') => "save the file without a byte order mark",
            Token::Bad(_) => "remove it, or put it into a configuration string in parentheses",
            Token::CloseBrace | Token::CloseParen | Token::CloseBracket => {
                "nothing is open that it could close; remove it, or open it before"
            }
            Token::Bar => {
                "`|` stands behind the parameters at the start of a compound element only"
            }
            Token::Bars | Token::Ellipsis => {
                "it separates the definitions in a compound element, in braces"
            }
            Token::Colons => "the name that is declared stands before `::`",
            Token::Variable => "variables stand in configuration strings, in parentheses",
            Token::Comma => "a comma stands between elements; is one missing?",
            Token::Ident if self.at_keyword() => {
                let word = self.text(found.span);
                return Some(format!(
                    "`{word}` is a keyword; put `;` before it or rename it"
                ));
            }
            _ => return None,
        };
        Some(text.to_owned())
    }
}

/// A whole number as Click reads it: decimal, `0x` hexadecimal, or octal after a `0`.
fn integer(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let (digits, base) = match lower.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None if lower.len() > 1 && lower.starts_with('0') => (&lower[1..], 8),
        None => (&*lower, 10),
    };
    let all_digits = digits.bytes().all(|b| b.is_ascii_alphanumeric());
    u64::from_str_radix(digits, base)
        .ok()
        .filter(|_| all_digits)
}
