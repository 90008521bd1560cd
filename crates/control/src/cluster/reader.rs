//! A TOML text, field by field: every mistake is noted with its place, and reading goes on.

use arguments::units::{self, FromArg};
use lang::{Diagnostic, FileId, Span};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Collects mistakes.
pub(super) struct Reader {
    file: FileId,
    pub(super) mistakes: Vec<Diagnostic>,
}

/// A text with its place.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) span: Span,
}

impl Reader {
    pub(super) fn new(file: FileId) -> Reader {
        Reader {
            file,
            mistakes: Vec::new(),
        }
    }

    pub(super) fn span(&self, range: Range<usize>) -> Span {
        Span::new(self.file, range)
    }

    /// Notes a mistake: what is wrong, and what to do.
    pub(super) fn wrong(&mut self, code: &'static str, span: Span, what: String, help: &str) {
        let mistake = Diagnostic::error(code, what).at(span).help(help);
        self.mistakes.push(mistake);
    }

    /// The whole text as a table; mistakes of its form are noted.
    pub(super) fn document<'a>(&mut self, text: &'a str) -> DeTable<'a> {
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            let span = self.span(error.span().unwrap_or(0..0));
            self.wrong(
                "cluster-syntax",
                span,
                error.message().trim().replace('\n', "; "),
                "the file is TOML: see https://toml.io and conf/cluster.toml",
            );
        }
        table.into_inner()
    }
}

/// The fields of one table.
pub(super) struct Fields<'a> {
    /// What the table is called in messages: `[[server]]`.
    what: &'static str,
    pub(super) span: Span,
    table: &'a DeTable<'a>,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(what: &'static str, span: Span, table: &'a DeTable<'a>) -> Fields<'a> {
        Fields {
            what,
            span,
            table,
            known: Vec::new(),
        }
    }

    fn get(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.known.push(key);
        self.table.get(key)
    }

    /// Whether something is written for `key`.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// The table `key`.
    pub(super) fn table(
        &mut self,
        reader: &mut Reader,
        key: &'static str,
        what: &'static str,
    ) -> Option<Fields<'a>> {
        let value = self.get(key)?;
        let span = reader.span(value.span());
        match value.get_ref() {
            DeValue::Table(table) => Some(Fields::new(what, span, table)),
            _ => {
                let wrong = format!("`{key}` must be a table");
                reader.wrong("cluster-value", span, wrong, &format!("write {what}"));
                None
            }
        }
    }

    /// The tables of the array `key`.
    pub(super) fn tables(
        &mut self,
        reader: &mut Reader,
        key: &'static str,
        what: &'static str,
    ) -> Vec<Fields<'a>> {
        let Some(value) = self.get(key) else {
            return Vec::new();
        };
        let DeValue::Array(array) = value.get_ref() else {
            let span = reader.span(value.span());
            let wrong = format!("`{key}` must be a list of tables");
            reader.wrong("cluster-value", span, wrong, &format!("write {what}"));
            return Vec::new();
        };
        let mut found = Vec::new();
        for item in array.iter() {
            let span = reader.span(item.span());
            match item.get_ref() {
                DeValue::Table(table) => found.push(Fields::new(what, span, table)),
                _ => {
                    let wrong = format!("`{key}` must hold tables");
                    reader.wrong("cluster-value", span, wrong, &format!("write {what}"));
                }
            }
        }
        found
    }

    /// A text.
    pub(super) fn word(&mut self, reader: &mut Reader, key: &'static str) -> Option<Word> {
        let value = self.get(key)?;
        word(reader, key, value)
    }

    /// A text that must be there.
    pub(super) fn needed(
        &mut self,
        reader: &mut Reader,
        key: &'static str,
        help: &str,
    ) -> Option<Word> {
        let found = self.word(reader, key);
        if !self.has(key) {
            let wrong = format!("{} has no `{key}`", self.what);
            reader.wrong("cluster-missing", self.span, wrong, help);
        }
        found.filter(|word| !word.text.is_empty() || self.empty(reader, key, word, help))
    }

    fn empty(&self, reader: &mut Reader, key: &str, word: &Word, help: &str) -> bool {
        let wrong = format!("`{key}` is empty");
        reader.wrong("cluster-value", word.span, wrong, help);
        false
    }

    /// A list of texts.
    pub(super) fn words(&mut self, reader: &mut Reader, key: &'static str) -> Vec<Word> {
        let Some(value) = self.get(key) else {
            return Vec::new();
        };
        match value.get_ref() {
            DeValue::Array(items) => items
                .iter()
                .filter_map(|item| word(reader, key, item))
                .collect(),
            _ => {
                let span = reader.span(value.span());
                let wrong = format!("`{key}` must be a list");
                let help = format!("write {key} = [\"...\", \"...\"]");
                reader.wrong("cluster-value", span, wrong, &help);
                Vec::new()
            }
        }
    }

    /// A value as elements take it: a rate, a time, a number.
    pub(super) fn value<T: FromArg>(
        &mut self,
        reader: &mut Reader,
        key: &'static str,
    ) -> Option<(T, Span)> {
        let value = self.get(key)?;
        let text = match value.get_ref() {
            DeValue::Integer(number) => Word {
                text: number.as_str().to_owned(),
                span: reader.span(value.span()),
            },
            _ => word(reader, key, value)?,
        };
        match units::parse(&text.text) {
            Ok(parsed) => Some((parsed, text.span)),
            Err(wrong) => {
                let wrong = wrong.replacen("the value", &format!("`{key}`"), 1);
                let help = format!("write {}", T::KIND);
                reader.wrong("cluster-value", text.span, wrong, &help);
                None
            }
        }
    }

    /// Notes the fields that nobody asked for.
    pub(super) fn end(self, reader: &mut Reader) {
        for key in self.table.keys() {
            let name: &str = key.get_ref();
            if self.known.contains(&name) {
                continue;
            }
            let near = arguments::near::nearest(name, self.known.iter().copied());
            let help = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("it has {}", self.known.join(", ")),
            };
            let span = reader.span(key.span());
            let wrong = format!("{} has no field `{name}`", self.what);
            reader.wrong("cluster-unknown", span, wrong, &help);
        }
    }
}

fn word(reader: &mut Reader, key: &str, value: &Spanned<DeValue<'_>>) -> Option<Word> {
    let span = reader.span(value.span());
    match value.get_ref() {
        DeValue::String(text) => Some(Word {
            text: text.to_string(),
            span,
        }),
        other => {
            let wrong = format!("`{key}` must be a text, not {}", other.type_str());
            reader.wrong("cluster-value", span, wrong, "put it in quotation marks");
            None
        }
    }
}
