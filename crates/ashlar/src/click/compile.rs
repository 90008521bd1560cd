//! Compiles a configuration's text to a plan for Click's driver, with errors in Click's wording.

use super::options::Listen;
use control::text_file;
use engine::plan::Plan;
use engine::port::PortDirectory;
use lang::{Config, Diagnostic, SourceMap, Span};
use planner::{Options, Registry};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// State that survives a change of the configuration.
pub(super) struct Compiler {
    pub(super) registry: Registry,
    pub(super) ports: Arc<dyn PortDirectory>,
    pub(super) definitions: Vec<(String, String)>,
    pub(super) sockets: Vec<Listen>,
    /// Folders of libraries.
    pub(super) clickpath: Vec<PathBuf>,
    pub(super) warnings: bool,
}

/// Package name: configurations that require it are stored with compound elements expanded.
const COMPACT_CONFIG: &str = "compact_config";

/// A configuration that can run.
pub(super) struct Compiled {
    pub(super) plan: Arc<Plan>,
    /// Text as given, or with compound elements expanded if it requires [`COMPACT_CONFIG`].
    pub(super) text: String,
    /// Graph of the text, with compound elements expanded.
    pub(super) router: lang::Router,
    /// Requirements: kind and name of each, one a line.
    pub(super) requirements: String,
    /// Further messages.
    pub(super) messages: String,
}

/// A configuration's text and its name in messages.
pub(super) struct Text<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a str,
}

impl Compiler {
    /// Parses, plans and initializes a configuration; `running` is the one that it will replace. The error is Click's
    /// text.
    pub(super) fn compile(
        &self,
        source: &Text,
        running: Option<&Plan>,
    ) -> Result<Compiled, String> {
        let mut map = SourceMap::new();
        let file = map.add(source.name, source.text);
        let folder = Path::new(source.name).parent().unwrap_or(Path::new(""));
        let mut library = |name: &str| {
            let folders = std::iter::once(folder).chain(self.clickpath.iter().map(|p| &**p));
            folders
                .filter_map(|f| text_file::named_text(&f.join(name)).ok())
                .next()
        };
        let (mut router, language) =
            lang::parse_as_click(&mut map, file, &self.definitions, &mut library, &|name| {
                self.registry.get(name).is_some()
            });
        // Click checks connections in this order.
        router.connections.sort_by_key(|c| (c.to, c.from));
        self.add_sockets(&mut router, &mut map, running.is_some());
        let options = Options {
            as_click: true,
            previous: running,
            names: super::interfaces::names(&router, &*self.ports),
            ..Options::new(1, &*self.ports)
        };
        let (plan, planned) = planner::compile(&router, &self.registry, &options);
        let wrong = in_click_order(&language, &planned, &router, &map);
        if !wrong.is_empty() {
            return Err(lang::render_click(&wrong, &map));
        }
        // Warnings concern elements; Click has none about the language.
        let spoken = planned.iter().filter(|d| match d.is_error() {
            true => true,
            false => self.warnings && d.subject.is_some(),
        });
        let said = first_phase(spoken.cloned().collect());
        let mut text = lang::render_click(&said, &map);
        let Some(plan) = plan else {
            text += "Router could not be initialized!\n";
            return Err(text);
        };
        let failed: Vec<Diagnostic> = failures(&plan, running);
        if !failed.is_empty() {
            text += &lang::render_click(&failed, &map);
            text += "Router could not be initialized!\n";
            return Err(text);
        }
        let is_compact = |r: &lang::Requirement| r.name == COMPACT_CONFIG;
        // Kind and name have a line each, as in Click.
        let lines = router.requirements.iter().map(|r| match is_compact(r) {
            true => format!("{COMPACT_CONFIG}\n\n"),
            false => format!("{}\n{}\n", r.kind, r.name),
        });
        let requirements = lines.collect();
        let compact = router.requirements.iter().any(is_compact);
        Ok(Compiled {
            plan,
            text: match compact {
                true => lang::print(&router),
                false => source.text.to_owned(),
            },
            requirements,
            router,
            messages: text,
        })
    }

    /// The running plan with another configuration string for one element, and its messages.
    pub(super) fn reconfigure(
        &self,
        router: &lang::Router,
        (element, text): (&str, &str),
        running: &Plan,
    ) -> Result<(Arc<Plan>, lang::Router), String> {
        let arguments = lang::args::split(text).into_iter();
        let arguments: Vec<&str> = arguments.map(|range| &text[range]).collect();
        let mut router = router.clone();
        let Some(at) = router.find(element) else {
            return Err(format!("no element named '{element}'"));
        };
        let span = router.elements[at].config.span();
        router.elements[at].config = Config::verbatim(arguments.join(", "), span);
        let options = Options {
            as_click: true,
            previous: Some(running),
            names: super::interfaces::names(&router, &*self.ports),
            ..Options::new(1, &*self.ports)
        };
        let plan = planner::reconfigure(&router, element, &self.registry, &options);
        let plan = plan.map_err(|wrong| {
            let words = wrong.iter().map(|d| lang::click_quotes(&d.message));
            words.collect::<Vec<_>>().join("\n")
        })?;
        let failed = plan.initialize(Some(running)).into_iter();
        let failed: Vec<String> = failed.map(|(_, why)| why).collect();
        match failed.is_empty() {
            true => Ok((plan, router)),
            false => Err(failed.join("\n")),
        }
    }

    /// Adds the control sockets of the command line, as elements with Click's names. After a hot swap the sockets are
    /// bound already: the new elements take them over.
    fn add_sockets(&self, router: &mut lang::Router, map: &mut SourceMap, again: bool) {
        for (i, listen) in self.sockets.iter().enumerate() {
            let mut text = match listen {
                Listen::Tcp(port) => format!("TCP, {port}"),
                Listen::Unix(file) => format!("UNIX, {}", lang::args::quote(file)),
            };
            if again {
                text += ", RETRIES 1, RETRY_WARNINGS false";
            }
            let number = if i == 0 {
                String::new()
            } else {
                format!("@{i}")
            };
            let place = Span::new(map.add("click", text.clone()), 0..text.len());
            router.elements.push(lang::Element {
                name: format!("click_driver@@ControlSocket{number}"),
                class: "ControlSocket".to_owned(),
                config: Config::verbatim(text, place),
                span: place,
                class_span: place,
            });
        }
    }
}

/// Mistakes of the language as Click finds them: while it reads the text, then while it opens compound elements.
fn in_click_order(
    language: &[Diagnostic],
    planned: &[Diagnostic],
    router: &lang::Router,
    map: &SourceMap,
) -> Vec<Diagnostic> {
    let packages = planned.iter().filter(|d| d.code == "no-package").cloned();
    let packages = packages.map(|d| match d.span {
        Some(span) => d.read_to(span),
        None => d,
    });
    let errors = language.iter().filter(|d| d.is_error()).cloned();
    let mut wrong: Vec<Diagnostic> = packages.chain(errors).collect();
    lang::sort_as_read(&mut wrong, map);
    wrong.extend(router.unused.iter().cloned());
    wrong
}

/// Messages of the first phase that has any: ports that an element does not have, conflicts of push and pull,
/// ports that are unused or used twice, at last the elements' own mistakes. Click stops after a phase with mistakes.
fn first_phase(diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let phase = |d: &Diagnostic| match d.code {
        "ports" if d.message.contains(" has no ") => 0,
        "push-pull" => 1,
        "processing" if !d.message.starts_with("illegal reuse") => 1,
        "processing" => 2,
        "ports" if d.message.contains(" input ") => 3,
        "ports" => 4,
        _ => 5,
    };
    let first = diagnostics.iter().filter(|d| d.is_error()).map(phase).min();
    let last = match first {
        Some(2..=4) => 4,
        Some(first) => first,
        None => 5,
    };
    let mut diagnostics: Vec<Diagnostic> = diagnostics
        .into_iter()
        .filter(|d| phase(d) <= last)
        .collect();
    diagnostics.sort_by_key(phase);
    for mistake in diagnostics.iter_mut().filter(|d| d.code == "push-pull") {
        // Click does not report the connection's position.
        (mistake.subject, mistake.span) = (None, None);
    }
    diagnostics
}

/// Initializes the new elements of a plan; returns the failures.
fn failures(plan: &Plan, running: Option<&Plan>) -> Vec<Diagnostic> {
    let failed = plan.initialize(running).into_iter();
    failed
        .map(|(i, why)| {
            let element = &plan.elements[i];
            let title = format!("{} :: {}", element.name, element.class.name);
            Diagnostic::error("initialize", why).at(element.span).about(
                title,
                element.span,
                Some("initializing"),
            )
        })
        .collect()
}
