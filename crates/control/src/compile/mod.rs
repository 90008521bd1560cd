//! Compiling: from a description to plans. Nothing that runs is changed, and nothing is opened but the files that a
//! configuration names.

pub mod describe;
mod duplicate_errors;
mod file_routers;
pub(crate) mod gate;

pub use file_routers::{Base, Planned, compile_all, errors_of_all, json_of_all, text_of_all};

use crate::description::source::Source;
use arguments::router_wide::RouterWide;
use arguments::text_file;
use engine::plan::Plan;
use forwarding::RouteBound;
use lang::{Diagnostic, SourceMap};
use planner::{Options, Registry};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// A configuration, read and planned as far as its mistakes allow.
pub struct Compiled {
    /// All source texts, for positions in messages.
    pub map: SourceMap,
    /// The flattened graph.
    pub router: lang::Router,
    /// The plan, if there was no error.
    pub plan: Option<Arc<Plan>>,
    /// All errors and warnings, by position.
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
    pub fn check_definitions(&mut self, definitions: &[(String, String)], are_errors: bool) {
        let known = &self.router.variables;
        let unknown = definitions.iter().filter(|(name, _)| !known.contains(name));
        let wrong: Vec<Diagnostic> = unknown
            .map(|(name, _)| unknown_variable(name, known, are_errors))
            .collect();
        if wrong.iter().any(Diagnostic::is_error) {
            self.plan = None;
        }
        self.diagnostics.extend(wrong);
    }

    /// Drops the graph and the texts, to which only diagnostics refer, if there are no diagnostics: there may be many
    /// routers.
    #[must_use]
    fn without_text(mut self) -> Compiled {
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

/// Compiles a configuration. Libraries that it requires are looked up beside its file.
pub fn compile(source: &Source, registry: &Registry, options: &Options) -> Compiled {
    let mut map = SourceMap::new();
    let file = map.add(source.name.clone(), &*source.text);
    let folder = source.path.as_deref().and_then(Path::parent);
    let mut library = |name: &str| text_file::named_text(&folder?.join(name)).ok();
    let (router, mut diagnostics) =
        lang::parse_with_libraries(&mut map, file, &source.definitions, &mut library);
    let prepare = |wide: &RouterWide| wide.of_plan::<RouteBound>().set(source.routes);
    let options = Options {
        prepare: Some(&prepare),
        ..options.clone()
    };
    let (mut plan, more) = planner::compile(&router, registry, &options);
    diagnostics.extend(more);
    if router.elements.is_empty() && diagnostics.is_empty() {
        let text = format!("{} has no elements", source.name);
        let help = "a router begins with one that receives: `FromDevice(eth0) -> ToDevice(eth1);`";
        diagnostics.push(Diagnostic::error("empty", text).help(help));
    }
    lang::sort(&mut diagnostics);
    duplicate_errors::leave_out(&mut diagnostics, &router, &map);
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
