//! A configuration and what becomes of it: text, definitions, diagnostics, plan.

use crate::cluster::{Description, Numbers, generate};
use crate::consequences;
use crate::file;
use crate::unreadable::{cannot_read, not_text};
use arguments::router_wide::RouterWide;
use arguments::text_file::{self, Copies};
use elements::route::RouteBound;
use engine::plan::Plan;
use lang::{Diagnostic, SourceMap};
use planner::{Options, Registry};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A configuration: its text, file and definitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// Name in messages: the path as typed, or `standard input`.
    pub name: String,
    /// The file, if it can be read again.
    pub path: Option<PathBuf>,
    /// The text, which all copies share: there may be many routers.
    pub text: Arc<str>,
    /// `NAME=value` of the command line.
    pub definitions: Vec<(String, String)>,
    /// The file describes a cluster, and the text is what this server of it runs.
    pub server: Option<String>,
    /// Numbers in frames between the cluster's servers.
    pub numbers: Option<Numbers>,
    /// Routes that each routing table may have; `None` = no bound.
    pub routes: Option<u32>,
}

impl Source {
    /// Reads a file, or standard input if the name is `-`. The error is a sentence.
    pub fn read(name: &str, definitions: Vec<(String, String)>) -> Result<Source, String> {
        if name != "-" {
            return Source::of_file(Path::new(name), text_file::typed, definitions);
        }
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut bytes)
            .map_err(|e| format!("cannot read standard input: {e}"))?;
        Source::of_bytes("standard input".to_owned(), None, bytes, definitions)
    }

    /// Reads a file that another one names. The error is a sentence.
    pub fn read_at(path: &Path, definitions: Vec<(String, String)>) -> Result<Source, String> {
        Source::of_file(path, text_file::named, definitions)
    }

    fn of_file(
        path: &Path,
        read: fn(&Path) -> std::io::Result<Vec<u8>>,
        definitions: Vec<(String, String)>,
    ) -> Result<Source, String> {
        let name = path.display().to_string();
        let bytes = read(path).map_err(|e| cannot_read(path, &e))?;
        // The path must hold when the router re-reads it from wherever it runs then.
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        Source::of_bytes(name, Some(path), bytes, definitions)
    }

    fn of_bytes(
        name: String,
        path: Option<PathBuf>,
        bytes: Vec<u8>,
        definitions: Vec<(String, String)>,
    ) -> Result<Source, String> {
        let text = String::from_utf8(bytes).map_err(|e| {
            let bad = e.utf8_error().valid_up_to();
            not_text(&name, e.as_bytes(), bad)
        })?;
        Ok(Source {
            name,
            path,
            text: text.into(),
            definitions,
            server: None,
            numbers: None,
            routes: None,
        })
    }

    /// Configuration of a server of a cluster, if this file describes it.
    ///
    /// # Errors
    /// The cluster has no such server; a sentence.
    pub fn of_server(&self, of: &Description, server: &str) -> Result<Source, String> {
        let number = of.number(server);
        let number = number.map_err(|why| format!("{}: {why}", self.name))?;
        let mut source = Source {
            name: format!("{} for {server}", self.name),
            text: generate::text(of, number).into(),
            server: Some(server.to_owned()),
            numbers: Some(Numbers::new(of, number)),
            ..self.clone()
        };
        source.define(&generate::secrets(of));
        Ok(source)
    }

    /// Files that were read for the configuration, its own file among them, which may have come with a request.
    pub(crate) fn with_text(&self, mut read: Copies) -> Copies {
        // The text of a server's configuration is made from the file.
        if let (Some(path), None) = (&self.path, &self.server) {
            let own = || self.text.as_bytes().to_vec();
            read.entry(text_file::name_in_copies(path))
                .or_insert_with(own);
        }
        read
    }

    /// The same file with its present content, with `changes` to its definitions.
    ///
    /// # Errors
    /// The configuration came from standard input, or its file cannot be read or has mistakes; a sentence.
    pub fn again(&self, changes: &[(String, String)]) -> Result<Source, String> {
        let Some(path) = &self.path else {
            return Err("the configuration came from standard input: name a file".to_owned());
        };
        let text = text_file::named_text(path).map_err(|e| cannot_read(path, &e))?;
        let mut again = Source {
            text: text.into(),
            ..self.clone()
        };
        if let Some(server) = &self.server {
            again.name = path.display().to_string();
            let parsed = file::parse_cluster(&again.name, &again.text);
            let Some(description) = parsed.description else {
                return Err(parsed.text());
            };
            again = again.of_server(&description, server)?;
        }
        again.define(changes);
        Ok(again)
    }

    /// True if both sources are the same file with the same values for its variables.
    pub fn is_like(&self, other: &Source) -> bool {
        let values = |source: &Source| -> BTreeSet<(String, String)> {
            source.definitions.iter().cloned().collect()
        };
        // A cluster's file gives its own.
        self.path == other.path && (self.server.is_some() || values(self) == values(other))
    }

    /// Adds definitions; later ones replace earlier ones of the same name.
    pub fn define(&mut self, changes: &[(String, String)]) {
        for (name, value) in changes {
            self.definitions.retain(|(n, _)| n != name);
            self.definitions.push((name.clone(), value.clone()));
        }
    }

    /// A short name for the router: the file without folder and extension.
    pub fn stem(&self) -> String {
        let stem = self.path.as_deref().and_then(Path::file_stem);
        stem.map_or_else(|| "router".to_owned(), |s| s.to_string_lossy().into_owned())
    }
}

/// A configuration, read and planned as far as its mistakes allow.
pub struct Compiled {
    /// All texts, for places in messages.
    pub map: SourceMap,
    /// The flattened graph.
    pub router: lang::Router,
    /// The plan, if there was no error.
    pub plan: Option<Arc<Plan>>,
    /// All mistakes, by place.
    pub diagnostics: Vec<Diagnostic>,
}

impl Compiled {
    /// The diagnostics as text for people.
    pub fn text(&self) -> String {
        lang::render_all(&self.diagnostics, &self.map)
    }

    /// The diagnostics as a JSON array.
    pub fn json(&self) -> String {
        lang::to_json(&self.diagnostics, &self.map)
    }

    /// Adds a mistake, or a warning, for each definition of a variable that no text mentions.
    pub fn check_definitions(&mut self, given: &[(String, String)], are_errors: bool) {
        let known = &self.router.variables;
        let unknown = given.iter().filter(|(name, _)| !known.contains(name));
        let wrong: Vec<Diagnostic> = unknown
            .map(|(name, _)| unknown_variable(name, known, are_errors))
            .collect();
        if wrong.iter().any(Diagnostic::is_error) {
            self.plan = None;
        }
        self.diagnostics.extend(wrong);
    }

    /// Without what only mistakes are told with, if there are none: there may be many routers.
    #[must_use]
    pub fn without_text(mut self) -> Compiled {
        if self.diagnostics.is_empty() {
            (self.router, self.map) = (lang::Router::default(), SourceMap::new());
        }
        self
    }

    /// Number of errors, warnings not counted.
    pub fn errors(&self) -> usize {
        self.diagnostics.iter().filter(|d| d.is_error()).count()
    }
}

/// Diagnostic for the definition of a variable that no text mentions.
pub(crate) fn unknown_variable(name: &str, known: &BTreeSet<String>, is_error: bool) -> Diagnostic {
    let make = match is_error {
        true => Diagnostic::error,
        false => Diagnostic::warning,
    };
    let text = format!("the configuration has no variable `{name}`, for which a value is given");
    let help = match arguments::near::nearest(name, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "leave the definition out: it has no variables".to_owned(),
        None => {
            let all: Vec<&str> = known.iter().map(String::as_str).collect();
            format!("it has {}", all.join(", "))
        }
    };
    make("unknown-variable", text).help(help)
}

/// Reads a configuration and plans it. Libraries that it requires are looked up beside its file. A router that runs
/// already ([`Options::previous`]) has the bounds of the configuration from then on.
pub fn compile(source: &Source, registry: &Registry, options: &Options) -> Compiled {
    let mut map = SourceMap::new();
    let file = map.add(source.name.clone(), &*source.text);
    let folder = source.path.as_deref().and_then(Path::parent);
    let mut library = |name: &str| text_file::named_text(&folder?.join(name)).ok();
    let (router, mut diagnostics) =
        lang::parse_with_libraries(&mut map, file, &source.definitions, &mut library);
    let prepare = |wide: &RouterWide| wide.get::<RouteBound>().set(source.routes);
    let options = Options {
        prepare: Some(&prepare),
        ..options.clone()
    };
    let (mut plan, more) = planner::make(&router, registry, &options);
    diagnostics.extend(more);
    if router.elements.is_empty() && diagnostics.is_empty() {
        let text = format!("{} has no elements", source.name);
        let help = "a router begins with one that receives: `FromDevice(eth0) -> ToDevice(eth1);`";
        diagnostics.push(Diagnostic::error("empty", text).help(help));
    }
    lang::sort(&mut diagnostics);
    consequences::leave_out(&mut diagnostics, &router, &map);
    if diagnostics.iter().any(Diagnostic::is_error) {
        plan = None;
    }
    Compiled {
        map,
        router,
        plan,
        diagnostics,
    }
}

/// Splits `NAME=value`; `None` if the word is no definition.
pub fn definition(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let name = name.strip_prefix('$').unwrap_or(name);
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let good = !name.is_empty() && name.chars().all(fits);
    good.then(|| (name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_has_a_name_an_equals_sign_and_any_value() {
        assert_eq!(definition("A=b=c"), Some(("A".into(), "b=c".into())));
        assert_eq!(definition("$A="), Some(("A".into(), String::new())));
        assert_eq!(definition("./a=b.click"), None);
        assert_eq!(definition("=x"), None);
        assert_eq!(definition("router.click"), None);
    }

    #[test]
    fn later_definitions_replace_earlier_ones() {
        let mut source = Source {
            definitions: vec![("A".into(), "1".into()), ("B".into(), "2".into())],
            ..Source::default()
        };
        source.define(&[("A".into(), "3".into())]);
        assert_eq!(
            source.definitions,
            [("B".into(), "2".into()), ("A".into(), "3".into())]
        );
    }
}
