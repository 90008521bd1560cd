//! Reader of a TOML text, field by field: every error is recorded with its position, and reading continues.

use arguments::units::{self, FromArg};
use lang::{Diagnostic, FileId, Span};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Collector of the errors in a file.
pub(crate) struct Reader {
    file: FileId,
    /// Offsets of line feeds.
    breaks: Vec<usize>,
    pub(crate) mistakes: Vec<Diagnostic>,
}

/// Text with its position in the file.
#[derive(Clone, Debug)]
pub(crate) struct Word {
    pub(crate) text: String,
    pub(crate) span: Span,
}

impl Reader {
    pub(crate) fn new(file: FileId) -> Reader {
        Reader {
            file,
            breaks: Vec::new(),
            mistakes: Vec::new(),
        }
    }

    pub(crate) fn span(&self, range: Range<usize>) -> Span {
        Span::new(self.file, range)
    }

    /// Number of the first line of a text that may have several lines, from 1. The opening quotation marks may be on a
    /// line of their own.
    pub(crate) fn first_line(&self, word: &Word) -> usize {
        let end = word.span.end as usize;
        let last = self.breaks.partition_point(|&at| at < end);
        last + 1 - word.text.matches('\n').count().min(last)
    }

    /// Records an error with its help text.
    pub(crate) fn wrong(&mut self, code: &'static str, span: Span, what: String, help: &str) {
        let mistake = Diagnostic::error(code, what).at(span).help(help);
        self.mistakes.push(mistake);
    }

    /// Parses the whole text as a TOML table. Syntax errors are recorded.
    pub(crate) fn document<'a>(&mut self, text: &'a str) -> DeTable<'a> {
        self.breaks = text.match_indices('\n').map(|(at, _)| at).collect();
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            let span = self.span(error.span().unwrap_or(0..0));
            self.wrong(
                "file-syntax",
                span,
                error.message().trim().replace('\n', "; "),
                "the file is TOML: see https://toml.io, conf/routers.toml and conf/cluster.toml",
            );
        }
        table.into_inner()
    }
}

/// Fields of one table.
pub(crate) struct Fields<'a> {
    /// Name of the table in messages: `[[server]]`.
    what: &'static str,
    pub(crate) span: Span,
    table: &'a DeTable<'a>,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(what: &'static str, span: Span, table: &'a DeTable<'a>) -> Fields<'a> {
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

    /// Marks `key` as known, without reading its value.
    pub(crate) fn skip(&mut self, key: &'static str) {
        self.known.push(key);
    }

    /// True if the table has a field `key`.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Table in the field `key`.
    pub(crate) fn table(
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
                reader.wrong("file-value", span, wrong, &format!("write {what}"));
                None
            }
        }
    }

    /// Tables in the array `key`.
    pub(crate) fn tables(
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
            reader.wrong("file-value", span, wrong, &format!("write {what}"));
            return Vec::new();
        };
        let mut found = Vec::new();
        for item in array.iter() {
            let span = reader.span(item.span());
            match item.get_ref() {
                DeValue::Table(table) => found.push(Fields::new(what, span, table)),
                _ => {
                    let wrong = format!("`{key}` must hold tables");
                    reader.wrong("file-value", span, wrong, &format!("write {what}"));
                }
            }
        }
        found
    }

    /// Table in the field `key`, or the tables of an array.
    pub(crate) fn table_or_tables(
        &mut self,
        reader: &mut Reader,
        key: &'static str,
        what: &'static str,
    ) -> Vec<Fields<'a>> {
        match self.table.get(key).map(Spanned::get_ref) {
            Some(DeValue::Table(_)) => self.table(reader, key, what).into_iter().collect(),
            _ => self.tables(reader, key, what),
        }
    }

    /// Text in the field `key`, or a whole number as written.
    pub(crate) fn word_or_number(
        &mut self,
        reader: &mut Reader,
        key: &'static str,
    ) -> Option<Word> {
        let value = self.get(key)?;
        word_or_number(reader, key, value)
    }

    /// List of texts and whole numbers in the field `key`.
    pub(crate) fn words_or_numbers(&mut self, reader: &mut Reader, key: &'static str) -> Vec<Word> {
        match self.get(key).map(Spanned::get_ref) {
            Some(DeValue::Array(items)) => items
                .iter()
                .filter_map(|item| word_or_number(reader, key, item))
                .collect(),
            _ => self.words(reader, key),
        }
    }

    /// Text in the field `key`.
    pub(crate) fn word(&mut self, reader: &mut Reader, key: &'static str) -> Option<Word> {
        let value = self.get(key)?;
        word(reader, key, value)
    }

    /// Text in the required field `key`; if the field is missing, an error is recorded.
    pub(crate) fn needed(
        &mut self,
        reader: &mut Reader,
        key: &'static str,
        help: &str,
    ) -> Option<Word> {
        let found = self.word(reader, key);
        if !self.has(key) {
            let wrong = format!("{} has no `{key}`", self.what);
            reader.wrong("file-missing", self.span, wrong, help);
        }
        found.filter(|word| !word.text.is_empty() || self.empty(reader, key, word, help))
    }

    fn empty(&self, reader: &mut Reader, key: &str, word: &Word, help: &str) -> bool {
        let wrong = format!("`{key}` is empty");
        reader.wrong("file-value", word.span, wrong, help);
        false
    }

    /// List of texts in the field `key`.
    pub(crate) fn words(&mut self, reader: &mut Reader, key: &'static str) -> Vec<Word> {
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
                reader.wrong("file-value", span, wrong, &help);
                Vec::new()
            }
        }
    }

    /// Text or list of texts in the field `key`.
    pub(crate) fn word_or_words(&mut self, reader: &mut Reader, key: &'static str) -> Vec<Word> {
        match self.get(key).map(Spanned::get_ref) {
            Some(DeValue::Array(_)) => self.words(reader, key),
            _ => self.word(reader, key).into_iter().collect(),
        }
    }

    /// Entries of the table in the field `key`, with arbitrary names. Values are texts or whole numbers.
    pub(crate) fn pairs(&mut self, reader: &mut Reader, key: &'static str) -> Vec<(Word, Word)> {
        let help = format!("write {key} = {{ NAME = \"value\" }}");
        let Some(value) = self.get(key) else {
            return Vec::new();
        };
        let DeValue::Table(table) = value.get_ref() else {
            let span = reader.span(value.span());
            let wrong = format!("`{key}` must be a table");
            reader.wrong("file-value", span, wrong, &help);
            return Vec::new();
        };
        let mut pairs = Vec::new();
        for (name, value) in table.iter() {
            let name = Word {
                text: name.get_ref().to_string(),
                span: reader.span(name.span()),
            };
            let value = word_or_number(reader, &name.text, value);
            pairs.extend(value.map(|value| (name, value)));
        }
        pairs
    }

    /// Value in the field `key`, in the syntax of element arguments: a rate, a time, a number.
    pub(crate) fn value<T: FromArg>(
        &mut self,
        reader: &mut Reader,
        key: &'static str,
    ) -> Option<(T, Span)> {
        let value = self.get(key)?;
        let text = match value.get_ref() {
            DeValue::Integer(_) => word_or_number(reader, key, value)?,
            DeValue::Boolean(is_so) => Word {
                text: is_so.to_string(),
                span: reader.span(value.span()),
            },
            _ => word(reader, key, value)?,
        };
        match units::parse(&text.text) {
            Ok(parsed) => Some((parsed, text.span)),
            Err(wrong) => {
                let wrong = wrong.replacen("the value", &format!("`{key}`"), 1);
                let help = format!("write {}", T::KIND);
                reader.wrong("file-value", text.span, wrong, &help);
                None
            }
        }
    }

    /// Records an error for each unknown field.
    pub(crate) fn end(self, reader: &mut Reader) {
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
            reader.wrong("file-unknown", span, wrong, &help);
        }
    }
}

fn word_or_number(reader: &mut Reader, key: &str, value: &Spanned<DeValue<'_>>) -> Option<Word> {
    match value.get_ref() {
        DeValue::Integer(number) => {
            let text = number.as_str().to_owned();
            let other_base = (number.radix() != 10)
                .then(|| i64::from_str_radix(&text, number.radix()).ok())
                .flatten();
            Some(Word {
                text: other_base.map_or(text, |number| number.to_string()),
                span: reader.span(value.span()),
            })
        }
        _ => word(reader, key, value),
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
            reader.wrong("file-value", span, wrong, "put it in quotation marks");
            None
        }
    }
}
