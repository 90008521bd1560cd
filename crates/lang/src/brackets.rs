//! Parser for the contents of brackets: compound elements and groups.

use crate::ast::{Compound, Definition, Formal, ItemKind};
use crate::diagnostic::Diagnostic;
use crate::lexer::Token;
use crate::parser::{Broken, Open, Parsed, Parser};
use crate::source::Span;

/// Maximum nesting of braces and groups.
const NESTING_MAX: usize = 100;

impl Parser {
    fn enter(&mut self, open: Open, span: Span) -> Parsed<()> {
        if self.open.len() >= NESTING_MAX {
            let text = format!("brackets are nested more than {NESTING_MAX} deep");
            self.report(
                Diagnostic::error("too-deep", text)
                    .at(span)
                    .help("give the inner parts names with `elementclass`"),
            );
            self.skip_bracket(open);
            return Err(Broken);
        }
        self.open.push(open);
        Ok(())
    }

    /// Skips the rest of an open bracket.
    fn skip_bracket(&mut self, open: Open) {
        let (left, right) = match open {
            Open::Brace => (Token::OpenBrace, Token::CloseBrace),
            Open::Group => (Token::OpenParen, Token::CloseParen),
        };
        let mut depth = 1;
        while depth > 0 {
            match self.bump().token {
                Token::End => return,
                token if token == left => depth += 1,
                token if token == right => depth -= 1,
                _ => {}
            }
        }
    }

    pub(crate) fn compound(&mut self) -> Parsed<Compound> {
        let open = self.bump().span;
        self.enter(Open::Brace, open)?;
        let (mut definitions, mut extends) = (Vec::new(), None);
        loop {
            if let Some(span) = self.eat(Token::Ellipsis) {
                extends = Some(span);
                let next = self.peek();
                if definitions.is_empty() || next.token != Token::CloseBrace {
                    let text = "`...` should occur last, after one or more compounds";
                    self.report(Diagnostic::error("syntax", text).at(span).help(
                        "write `elementclass NAME { ... || ... }` with a definition in front",
                    ));
                }
            } else {
                definitions.push(self.definition());
            }
            if self.eat(Token::Bars).is_none() {
                break;
            }
        }
        self.open.pop();
        self.close(Token::CloseBrace, "}", open);
        Ok(Compound {
            definitions,
            extends,
            span: open.to(self.last_token),
        })
    }

    fn close(&mut self, token: Token, text: &str, open: Span) {
        let next = self.peek();
        if next.token == token {
            self.bump();
            return;
        }
        let error = if next.token == Token::End {
            Diagnostic::error(
                "unclosed-bracket",
                format!("this is never closed by `{text}`"),
            )
            .at(open)
            .click_at(next.span, format!("expected `{text}`"))
            .help(format!("put `{text}` where it ends"))
        } else {
            let found = self.describe(next);
            Diagnostic::error(
                "unclosed-bracket",
                format!("expected `{text}`, found {found}"),
            )
            .at(next.span)
            .click(format!("expected `{text}`"))
            .note_at(open, "to close this")
        };
        self.report(error);
    }

    fn definition(&mut self) -> Definition {
        let start = self.peek().span;
        let formals = self.formals();
        let body = self.statements();
        let span = start.to(self.last_token);
        Definition {
            formals,
            body,
            span,
            next: self.peek().span,
        }
    }

    fn formals(&mut self) -> Vec<Formal> {
        let first = self.peek().token;
        let keyword = first == Token::Ident && self.peek_at(1).token == Token::Variable;
        if self.eat(Token::Bar).is_some() || (first != Token::Variable && !keyword) {
            return Vec::new();
        }
        let mut formals: Vec<Formal> = Vec::new();
        loop {
            let start = self.peek().span;
            let keyword = self
                .eat(Token::Ident)
                .map(|span| self.text(span).to_owned());
            let Some(variable) = self.eat(Token::Variable) else {
                let _ = self.unexpected("a parameter such as `$a`");
                self.set_click_wording(["expected variable".to_owned()]);
                break;
            };
            formals.push(Formal {
                keyword,
                variable: self.text(variable)[1..].to_owned(),
                span: start.to(variable),
            });
            if self.eat(Token::Comma).is_none() || self.peek().token == Token::Bar {
                break;
            }
        }
        if self.eat(Token::Bar).is_none() {
            let _ = self.unexpected("`|` after the parameters");
            self.set_click_wording(["expected `,` or `|`".to_owned()]);
        }
        formals
    }

    /// `( statements )` as an element.
    pub(crate) fn group(&mut self) -> Parsed<ItemKind> {
        let open = self.bump().span;
        self.enter(Open::Group, open)?;
        let statements = self.statements();
        self.open.pop();
        self.close(Token::CloseParen, ")", open);
        Ok(ItemKind::Group(statements))
    }
}
