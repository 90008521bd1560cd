//! The Click language: text to a flattened, checked graph, with source positions.
//!
//! Layers, each of which uses only earlier ones:
//!
//! 1. `source`, `diagnostic`: texts, positions in them, and mistakes as values. All later layers carry positions, so
//!    a mistake that an element finds much later still points into the file.
//! 2. `lexer`, `parser` (with `bodies` and `items`), `ast`: text to a syntax tree. Parsing never fails: after a
//!    mistake it continues at the next statement, so all mistakes of a file are reported at once.
//! 3. `scope`, `names`, `chain`, `directives`, `template`: tree to templates, one for the file and one for each
//!    definition of a compound element. Names, classes and ports are resolved and checked here, once each, however
//!    often a compound element is used.
//! 4. `vars`, `formals`, `expand`, `tunnel`: templates to the graph. Compound elements are opened depth first, in
//!    Click's order; variables are replaced; connections through ports of compound elements are joined. Sizes that
//!    could grow exponentially are limited.
//! 5. `graph`, `print`, `secret`: the result, its canonical text, and that text without keys. `args` and `config`
//!    parse configuration strings.
//!
//! The crate does no IO and knows no element: the engine checks that a class exists, how many ports it has, and what
//! its configuration means. The language is that of Click's manual, click(5).

pub mod args;
mod ast;
mod brackets;
mod chain;
mod config;
mod diagnostic;
mod directives;
mod expand;
mod graph;
mod items;
mod lexer;
mod name_resolution;
mod names;
mod parameters;
mod parser;
mod print;
mod secret;
mod source;
mod template;
#[cfg(test)]
mod tests;
mod tunnel;
mod variables;

pub use config::Config;
pub use diagnostic::{
    Diagnostic, Severity, Subject, click_quotes, count, render, render_all, render_click, sort,
    sort_as_read, to_json,
};
pub use graph::{Connection, Element, Port, Requirement, Router, Unconnected};
pub use print::print;
pub use secret::masked;
pub use source::{FileId, Location, SourceMap, Span, TEXT_BYTES_MAX};

/// Parses a configuration. Returns the graph as far as it can be understood, and all mistakes, sorted by position.
///
/// `definitions` are names (with or without dollar) and values from the command line; they precede those of the file.
/// Libraries that the file requires stay in [`Router::requirements`].
pub fn parse(
    map: &mut SourceMap,
    file: FileId,
    definitions: &[(String, String)],
) -> (Router, Vec<Diagnostic>) {
    let (router, mut diagnostics) = read(map, file, definitions, None, None);
    sort(&mut diagnostics);
    (router, diagnostics)
}

/// Like [`parse`]; `library` finds the text of each library by the name that the file requires.
pub fn parse_with_libraries(
    map: &mut SourceMap,
    file: FileId,
    definitions: &[(String, String)],
    library: &mut dyn FnMut(&str) -> Option<String>,
) -> (Router, Vec<Diagnostic>) {
    let (router, mut diagnostics) = read(map, file, definitions, Some(library), None);
    sort(&mut diagnostics);
    (router, diagnostics)
}

/// Like [`parse_with_libraries`], with the mistakes in the order in which Click finds them. `is_class` is true for
/// classes that exist; unknown ones are mistakes also in compound elements that nobody uses.
pub fn parse_as_click(
    map: &mut SourceMap,
    file: FileId,
    definitions: &[(String, String)],
    library: &mut dyn FnMut(&str) -> Option<String>,
    is_class: &dyn Fn(&str) -> bool,
) -> (Router, Vec<Diagnostic>) {
    let (router, mut diagnostics) = read(map, file, definitions, Some(library), Some(is_class));
    sort_as_read(&mut diagnostics, map);
    (router, diagnostics)
}

fn read(
    map: &mut SourceMap,
    file: FileId,
    definitions: &[(String, String)],
    loader: Option<name_resolution::Loader<'_>>,
    is_class: Option<&dyn Fn(&str) -> bool>,
) -> (Router, Vec<Diagnostic>) {
    let mut builder = name_resolution::Builder::new(map, loader, is_class);
    builder.file(file);
    let (program, mut diagnostics) = (builder.program, builder.diagnostics);
    let definitions = command_line(map, definitions, &mut diagnostics);
    let errors = diagnostics.iter().filter(|d| d.is_error());
    let errors: Vec<Span> = errors.filter_map(|d| d.span).collect();
    let variables = variables::Variables::new(map);
    let (mut router, more) = expand::expand(&program, variables, &definitions, &errors);
    router.variables = variables::variables(map, &program);
    diagnostics.extend(more);
    (router, diagnostics)
}

/// Makes a text of the command line's definitions, so that their values have places.
fn command_line(
    map: &mut SourceMap,
    definitions: &[(String, String)],
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<(String, Span)> {
    if definitions.is_empty() {
        return Vec::new();
    }
    let (mut text, mut values) = (String::new(), Vec::new());
    for (name, value) in definitions {
        let name = name.strip_prefix('$').unwrap_or(name);
        let start = text.len();
        text.push_str(name);
        text.push('=');
        let from = text.len();
        text.push_str(value);
        values.push((name.to_owned(), start..from - 1, from..text.len()));
        text.push('\n');
    }
    let file = map.add("command line", text);
    let mut known = Vec::new();
    for (name, at, value) in values {
        let value = Span::new(file, value);
        if directives::is_variable(&name) {
            known.push((name, value));
        } else {
            diagnostics.push(
                Diagnostic::error("bad-definition", format!("`{name}` is not a variable"))
                    .at(Span::new(file, at))
                    .help("names of variables have letters, digits and `_`"),
            );
        }
    }
    known
}
