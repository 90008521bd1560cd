//! `define` and `require`.

use crate::args;
use crate::ast::Directive;
use crate::diagnostic::Diagnostic;
use crate::graph::Requirement;
use crate::name_resolution::Builder;
use crate::parser::parse_text;
use crate::source::{FileId, Span};
use crate::template::Define;
use std::ops::Range;

impl Builder<'_, '_> {
    /// Parses a text and converts its statements. Its syntax errors follow the mistakes of the statements.
    pub(crate) fn read(&mut self, file: FileId) {
        let tree = parse_text(file, self.map.shared_text(file));
        self.map.set_directives(file, tree.directives);
        self.unparsed.extend(tree.unparsed);
        self.declare_ahead(&tree.statements);
        self.statements(&tree.statements);
        self.diagnostics.extend(tree.diagnostics);
    }

    /// The arguments of a configuration string, each with its place.
    fn arguments(&self, config: Span) -> Vec<(String, Span)> {
        let text = self.map.slice(config);
        let argument =
            |range: Range<usize>| (text[range.clone()].to_owned(), subspan(config, range));
        args::split(text).into_iter().map(argument).collect()
    }

    /// `define($a 1, $b 2)`
    pub(crate) fn define(
        &mut self,
        Directive {
            config,
            last_token: last,
        }: Directive,
    ) {
        self.read_to = last;
        for (text, span) in self.arguments(config) {
            let words = args::words(&text);
            if words.is_empty() {
                continue;
            }
            let first = words.first().map_or("", |word| &text[word.clone()]);
            let Some(name) = first.strip_prefix('$').filter(|name| is_variable(name)) else {
                self.report(
                    Diagnostic::error("bad-definition", format!("`{first}` is not a variable"))
                        .click("bad `define` declaration: not a variable")
                        .at(words
                            .first()
                            .map_or(config, |word| subspan(span, word.clone())))
                        .help("write `define($NAME value, $OTHER value)`"),
                );
                continue;
            };
            let value = words.get(1).map_or(text.len(), |word| word.start);
            let name_span = subspan(span, words[0].clone());
            let define = Define {
                name: name.to_owned(),
                value: subspan(span, value..text.len()),
            };
            let first = self.scope().variables.get(name).copied();
            match first {
                None => {
                    let variables = &mut self.scope().variables;
                    variables.insert(name.to_owned(), name_span);
                    self.template().defines.push(define);
                }
                Some(first) => self.report(
                    Diagnostic::error("redefined", format!("`${name}` is defined twice"))
                        .at(name_span)
                        .click(format!("parameter `${name}` multiply defined"))
                        .note_at(first, "defined here first")
                        .help(
                            "a variable has one value in its scope; give one of them another name",
                        ),
                ),
            }
        }
    }

    /// `require(package a, library b.click)`
    pub(crate) fn require(
        &mut self,
        Directive {
            config,
            last_token: last,
        }: Directive,
    ) {
        for (text, span) in self.arguments(config) {
            self.read_to = last;
            let words = args::words(&text);
            let mut each = words.iter().map(|word| &text[word.clone()]);
            let (kind, name) = match (each.next(), each.next(), each.next()) {
                (None, ..) => continue,
                (Some(name), None, _) => ("package", Some(name)),
                (Some(kind), name, None) => (kind, name),
                (Some(kind), ..) => (kind, None),
            };
            let kind = args::unquote(kind);
            let name = name.map(|name| args::unquote(name).into_owned());
            let is_kind = |word: &str| matches!(word, "package" | "library");
            let alone = words.len() == 1 && name.as_deref().is_some_and(is_kind);
            let Some(name) = name.filter(|_| is_kind(&kind) && !alone) else {
                self.report(
                    Diagnostic::error("syntax", format!("`{text}` is no requirement"))
                        .at(span)
                        .click("syntax error at requirement")
                        .help("write `require(package NAME, library FILE)`"),
                );
                continue;
            };
            if kind == "library" && self.scopes.len() > 1 {
                self.report(
                    Diagnostic::error(
                        "library-place",
                        "a library cannot be required inside braces",
                    )
                    .at(span)
                    .click("`require library` must be used at file scope")
                    .help("move the `require` statement out"),
                );
            } else if kind == "library" && self.loader.is_some() {
                self.library(&name, span, last);
            } else {
                let requirement = Requirement {
                    kind: kind.into_owned(),
                    name,
                    span,
                };
                self.program.requirements.push(requirement);
            }
        }
    }

    /// Reads a library's statements here, the first time it is required.
    fn library(&mut self, name: &str, span: Span, last: Span) {
        // A library's own libraries may lie beside it.
        let beside = self.folder.as_ref().filter(|_| !name.starts_with('/'));
        let beside = beside.map(|folder| format!("{folder}/{name}"));
        for name in beside.into_iter().chain([name.to_owned()]) {
            if self.libraries.contains(&name) {
                return;
            }
            if let Some(text) = self.loader.as_mut().and_then(|load| load(&name)) {
                return self.read_library(name, text, last);
            }
        }
        self.libraries.insert(name.to_owned());
        self.report(
            Diagnostic::error("no-library", format!("library `{name}` is not found"))
                .at(span)
                .click(format!("library `{name}` not found in CLICKPATH/conf"))
                .help("libraries are looked for beside the file and in CLICKPATH"),
        );
    }

    fn read_library(&mut self, name: String, text: String, required: Span) {
        let file = self.map.add(&name, text);
        self.map.set_required_at(file, required.after());
        let folder = name.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        let outer = std::mem::replace(&mut self.folder, folder);
        self.libraries.insert(name);
        self.read(file);
        self.folder = outer;
    }
}

fn subspan(whole: Span, range: Range<usize>) -> Span {
    let start = whole.start as usize;
    Span::new(whole.file, start + range.start..start + range.end)
}

/// True for the name of a variable, without its dollar.
pub(crate) fn is_variable(name: &str) -> bool {
    let is_part = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    !name.is_empty() && name.bytes().all(is_part)
}
