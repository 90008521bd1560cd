//! Parser: tokens to a tree, with recovery after mistakes.

use crate::ast::{Arrow, Chain, ClassExpr, Directive, Ident, Item, Statement};
use crate::diagnostic::Diagnostic;
use crate::lexer::{ERRORS_MAX, Lexeme, Lexer, Token};
use crate::source::{FileId, LineDirective, Span};
use std::collections::VecDeque;
use std::sync::Arc;

/// Result of parsing a text.
pub(crate) struct Tree {
    pub(crate) statements: Vec<Statement>,
    pub(crate) directives: Vec<LineDirective>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Names of elements whose declarations could not be parsed.
    pub(crate) unparsed: Vec<String>,
}

/// Parses a whole text.
pub(crate) fn parse_text(file: FileId, text: Arc<str>) -> Tree {
    let mut parser = Parser {
        lexer: Lexer::new(file, text),
        ahead: VecDeque::new(),
        open: Vec::new(),
        diagnostics: Vec::new(),
        last_token: Span::new(file, 0..0),
        unparsed: Vec::new(),
        listed: 0,
    };
    let statements = parser.statements();
    let mut diagnostics = parser.diagnostics;
    diagnostics.append(&mut parser.lexer.diagnostics);
    Tree {
        statements,
        directives: parser.lexer.directives,
        diagnostics,
        unparsed: parser.unparsed,
    }
}

/// The bracket that encloses a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Open {
    Brace,
    Group,
}

pub(crate) struct Parser {
    pub(crate) lexer: Lexer,
    ahead: VecDeque<Lexeme>,
    pub(crate) open: Vec<Open>,
    diagnostics: Vec<Diagnostic>,
    /// The token read last.
    pub(crate) last_token: Span,
    unparsed: Vec<String>,
    /// Number of ports that bracketed lists have named so far.
    pub(crate) listed: usize,
}

/// The rest of the statement cannot be parsed; its mistake is recorded.
pub(crate) struct Broken;

pub(crate) type Parsed<T> = Result<T, Broken>;

pub(crate) const KEYWORDS: [&str; 4] = ["elementclass", "define", "require", "provide"];

impl Parser {
    pub(crate) fn peek(&mut self) -> Lexeme {
        self.peek_at(0)
    }

    /// Looks further ahead, but never beyond a parenthesis, which may open a configuration string.
    pub(crate) fn peek_at(&mut self, index: usize) -> Lexeme {
        while self.ahead.len() <= index {
            let next = self.lexer.next();
            self.ahead.push_back(next);
        }
        self.ahead[index]
    }

    pub(crate) fn bump(&mut self) -> Lexeme {
        let next = self.peek();
        self.ahead.pop_front();
        self.last_token = next.span;
        next
    }

    pub(crate) fn eat(&mut self, token: Token) -> Option<Span> {
        (self.peek().token == token).then(|| self.bump().span)
    }

    pub(crate) fn text(&self, span: Span) -> &str {
        self.lexer.text(span)
    }

    pub(crate) fn behind_comma(&self) -> bool {
        self.text(self.last_token) == ","
    }

    /// The place right behind the last token.
    pub(crate) fn after_last_token(&self) -> Span {
        self.last_token.after()
    }

    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        let position = self.lexer.position();
        self.diagnostics.push(diagnostic.read_to(position));
    }

    /// Gives the last mistake Click's words, one text a line.
    pub(crate) fn set_click_wording(&mut self, words: impl IntoIterator<Item = String>) {
        if let Some(last) = self.diagnostics.last_mut() {
            last.click = Some(words.into_iter().map(|line| (None, line)).collect());
        }
    }

    /// The configuration string in parentheses that comes next, if there is one.
    pub(crate) fn config(&mut self) -> Option<Span> {
        let open = self.eat(Token::OpenParen)?;
        let config = self.lexer.config(open);
        self.last_token = self.lexer.read_to(config);
        Some(config)
    }

    pub(crate) fn at_keyword(&mut self) -> bool {
        let next = self.peek();
        next.token == Token::Ident && KEYWORDS.contains(&self.text(next.span))
    }

    /// Parses statements up to the end of the text or of the enclosing bracket, which is left unread.
    pub(crate) fn statements(&mut self) -> Vec<Statement> {
        let mut statements = Vec::new();
        loop {
            let next = self.peek();
            if self.diagnostics.len() + self.lexer.diagnostics.len() >= ERRORS_MAX {
                self.give_up();
                return statements;
            }
            match next.token {
                Token::End => return statements,
                Token::Semicolon => {
                    self.bump();
                    continue;
                }
                Token::CloseBrace | Token::Bars if self.open.contains(&Open::Brace) => {
                    return statements;
                }
                Token::CloseParen if self.open.contains(&Open::Group) => return statements,
                _ => {}
            }
            if let Err(Broken) = self.statement(&mut statements) {
                self.recover(next.span);
                self.remember_lost(next.span.to(self.last_token));
            }
        }
    }

    fn give_up(&mut self) {
        if self.peek().token == Token::End {
            return;
        }
        let place = self.peek().span;
        self.report(
            Diagnostic::error("too-many-errors", "too many mistakes, the rest is not read")
                .at(place),
        );
        while self.peek().token != Token::End {
            self.bump();
        }
    }

    /// Skips to the next place where a statement may start.
    fn recover(&mut self, from: Span) {
        let mut depth = 0usize;
        loop {
            let next = self.peek();
            let moved = next.span.start > from.start;
            match next.token {
                Token::End => return,
                Token::Semicolon if depth == 0 => {
                    self.bump();
                    return;
                }
                Token::Bad('#') => {
                    self.bump();
                    self.lexer.skip_line();
                    if depth == 0 {
                        return;
                    }
                    continue;
                }
                Token::OpenBrace => depth += 1,
                Token::CloseBrace if depth == 0 && self.open.contains(&Open::Brace) => return,
                Token::Bars if depth == 0 && self.open.contains(&Open::Brace) => return,
                Token::CloseParen if depth == 0 && self.open.contains(&Open::Group) => return,
                Token::CloseBrace => depth = depth.saturating_sub(1),
                Token::OpenParen => {
                    self.config();
                    continue;
                }
                Token::Ident if moved && depth == 0 && next.starts_line => {
                    let declares = self.peek_at(1).token == Token::Colons;
                    if declares || self.at_keyword() {
                        return;
                    }
                }
                _ => {}
            }
            self.bump();
        }
    }

    /// Records the names that the skipped text declares, so that their uses cause no further errors.
    fn remember_lost(&mut self, unread: Span) {
        let text: Arc<str> = self.text(unread).into();
        let mut lexer = Lexer::new(unread.file, text);
        let mut names = Vec::new();
        let mut last = Token::End;
        loop {
            let next = lexer.next();
            match next.token {
                Token::End => return,
                Token::Ident if last != Token::Colons => {
                    names.push(lexer.text(next.span).to_owned());
                }
                Token::Comma => {}
                Token::Colons => self.unparsed.append(&mut names),
                _ => names.clear(),
            }
            last = next.token;
        }
    }

    /// Parses a statement into `statements`. Of a chain that is broken, the part before the mistake is kept.
    fn statement(&mut self, statements: &mut Vec<Statement>) -> Parsed<()> {
        let next = self.peek();
        if self.at_keyword() {
            statements.extend(self.keyword_statement()?);
            return self.end_of_statement(true);
        }
        if !self.starts_item(next.token) && !is_arrow(next.token) {
            return Err(self.unexpected("a statement"));
        }
        let mut chain = Chain {
            first: Vec::new(),
            rest: Vec::new(),
            next: next.span,
            broken: false,
        };
        let mut parsed = self.chain(&mut chain);
        if parsed.is_ok() {
            parsed = self.end_of_statement(false);
        }
        chain.broken = parsed.is_err();
        if !chain.first.is_empty() {
            statements.push(Statement::Chain(chain));
        }
        parsed
    }

    /// Semicolons may be omitted, but within a line an omission is usually a mistake.
    fn end_of_statement(&mut self, self_contained: bool) -> Parsed<()> {
        let next = self.peek();
        match next.token {
            Token::Semicolon => {
                self.bump();
            }
            Token::End | Token::CloseBrace | Token::Bars | Token::CloseParen => {}
            Token::Colons => return Err(self.stray_colons(next.span)),
            Token::OpenParen if !self_contained => return Err(self.stray_parenthesis(next.span)),
            token if self.starts_item(token) => {
                // After `]` an error was reported already: a port without an arrow.
                let port = self.text(self.last_token) == "]";
                if !next.starts_line && !self_contained && !port {
                    let text = self.text(next.span).to_owned();
                    let place = self.after_last_token();
                    self.report(
                        Diagnostic::warning(
                            "missing-semicolon",
                            format!("a new statement starts at `{text}` on the same line"),
                        )
                        .at(place)
                        .help("put `;` here, or `->` if a connection is meant"),
                    );
                }
            }
            token if is_arrow(token) && self_contained => {}
            _ => return Err(self.unexpected("`;` or `->`")),
        }
        Ok(())
    }

    fn keyword_statement(&mut self) -> Parsed<Option<Statement>> {
        let keyword = self.bump();
        let word = self.text(keyword.span).to_owned();
        if self.peek().token == Token::Colons {
            self.report(
                Diagnostic::error("bad-name", format!("`{word}` is a keyword, not a name"))
                    .at(keyword.span)
                    .help("give the element another name"),
            );
            return Err(Broken);
        }
        if word == "elementclass" {
            return self.element_class().map(Some);
        }
        let Some(config) = self.config() else {
            let example = match word.as_str() {
                "define" => "define($NAME value)".to_owned(),
                _ => format!("{word}(package NAME)"),
            };
            let place = self.after_last_token();
            self.report(
                Diagnostic::error("syntax", format!("`{word}` needs arguments in parentheses"))
                    .at(place)
                    .click("expected `(`")
                    .help(format!("write it as `{example}`")),
            );
            return Err(Broken);
        };
        let mut last = self.after_last_token();
        let next = self.peek();
        // Click reads on to a semicolon before it looks at requirements.
        if word == "require" && next.token == Token::Semicolon {
            last = next.span;
        }
        let directive = Directive {
            config,
            last_token: last,
        };
        Ok(match word.as_str() {
            "define" => Some(Statement::Define(directive)),
            "require" => Some(Statement::Require(directive)),
            _ => None,
        })
    }

    fn element_class(&mut self) -> Parsed<Statement> {
        let next = self.peek();
        if next.token != Token::Ident || self.at_keyword() {
            let near = self.click_text(next);
            let broken = self.unexpected("the name of the new class");
            let mut words = vec!["expected element type name".to_owned()];
            if next.token != Token::OpenBrace {
                words.push(format!("syntax error near {near}"));
            }
            self.set_click_wording(words);
            return Err(broken);
        }
        let name = self.ident()?;
        let after = self.peek();
        if after.token == Token::Colons {
            let place = self.bump().span;
            self.report(
                Diagnostic::error("syntax", "`elementclass` takes no `::`")
                    .at(place)
                    .click("syntax error near `::`")
                    .help(format!("write `elementclass {} {{ ... }}`", name.name)),
            );
        }
        let class = self.class("a class or a compound element `{ ... }`")?;
        Ok(Statement::ElementClass { name, class })
    }

    /// Parses a name; no part of it may consist of digits only.
    pub(crate) fn ident(&mut self) -> Parsed<Ident> {
        let span = self.bump().span;
        let name = self.text(span).to_owned();
        let is_number = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if name.split('/').any(is_number) {
            self.report(
                Diagnostic::error("bad-name", format!("`{name}` is not a name"))
                    .at(span)
                    .click(format!("element name `{name}` has all-digit component"))
                    .help("a name, and each part of it between slashes, needs a letter or `_`"),
            );
            return Err(Broken);
        }
        Ok(Ident { name, span })
    }

    /// A class: a name or a compound element.
    pub(crate) fn class(&mut self, expected: &str) -> Parsed<ClassExpr> {
        let next = self.peek();
        match next.token {
            Token::Ident if !self.at_keyword() => Ok(ClassExpr::Named(self.ident()?)),
            Token::OpenBrace => Ok(ClassExpr::Compound(self.compound()?)),
            Token::OpenParen => {
                self.report(
                    Diagnostic::error("named-group", "a group in parentheses has no name")
                        .at(next.span)
                        .click("syntax error near `(`")
                        .help("use braces for a compound element, or leave out the name"),
                );
                Err(Broken)
            }
            Token::Variable => {
                let text = self.text(next.span).to_owned();
                self.report(
                    Diagnostic::error("variable-class", format!("`{text}` stands for a class"))
                        .at(next.span)
                        .click(format!("syntax error near `{}`", &text[1..]))
                        .help("variables stand in configuration strings only; write the class"),
                );
                Err(Broken)
            }
            _ => Err(self.unexpected(expected)),
        }
    }

    /// `a -> b => c`
    fn chain(&mut self, chain: &mut Chain) -> Parsed<()> {
        chain.first = self.items(true)?;
        loop {
            let next = self.peek();
            chain.next = next.span;
            if !is_arrow(next.token) {
                return Ok(());
            }
            self.bump();
            let arrow = Arrow {
                many: next.token == Token::DoubleArrow,
                span: next.span,
            };
            chain.rest.push((arrow, self.items(false)?));
        }
    }

    fn items(&mut self, first: bool) -> Parsed<Vec<Item>> {
        let mut items = vec![self.item(first)?];
        while self.eat(Token::Comma).is_some() {
            items.push(self.item(first)?);
        }
        Ok(items)
    }
}

pub(crate) fn is_arrow(token: Token) -> bool {
    matches!(token, Token::Arrow | Token::DoubleArrow)
}
