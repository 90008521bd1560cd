//! Compiling of all routers of a file, before any of them runs.

use super::gate::{self, Isolated};
use super::{Compiled, compile, unknown_variable};
use crate::description::file::{File, Parsed, Section, twice_used};
use crate::host::namespace::{Owned, path_of};
use engine::plan::Plan;
use engine::port::PortDirectory;
use lang::Diagnostic;
use planner::{Options, Registry};
use ports::Directory;
use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;

/// A router of the file, with its plan.
pub struct Planned {
    /// Section of the file that describes the router.
    pub section: Section,
    /// Ports of the router.
    pub ports: Arc<Directory>,
    /// Compiled graph of the router, as far as its errors allow; for an isolated router, the graph of its gate.
    pub compiled: Compiled,
    /// Isolated router behind the gate, and its own compiled graph.
    pub isolated: Option<(Isolated, Compiled)>,
}

impl Planned {
    /// All compiled graphs of the router.
    fn graphs(&self) -> impl Iterator<Item = &Compiled> {
        let own = self.isolated.as_ref().map(|(_, own)| own);
        own.into_iter().chain([&self.compiled])
    }
}

/// Ports of a router that is to be compiled, and its running plan if there is one.
pub struct Base {
    /// Ports of the router.
    pub ports: Arc<Directory>,
    /// Plan whose state and tables the new plan takes over: see [`Options::previous`].
    pub previous: Option<Arc<Plan>>,
    /// Plan that the new plan replaces: see [`Options::replaces`].
    pub replaces: Option<Arc<Plan>>,
}

impl Base {
    /// Base of a router that does not run.
    pub fn new(ports: Arc<Directory>) -> Base {
        Base {
            ports,
            previous: None,
            replaces: None,
        }
    }
}

/// Compiles all routers of a file for `workers` workers, each once; an isolated router also has a gate, which is
/// compiled, too. Errors of `base`, and ports used by two routers, are reported as errors in the file.
pub fn compile_all(
    parsed: &mut Parsed,
    registry: &Registry,
    (workers, devices_must_exist): (usize, bool),
    file: &File,
    base: &dyn Fn(&Section) -> Result<Base, String>,
) -> Vec<Planned> {
    let mut compiler = Compiler {
        registry,
        workers,
        devices_must_exist,
        file,
        mistakes: Vec::new(),
        variables: BTreeSet::new(),
    };
    let mut all = Vec::new();
    for section in &parsed.routers {
        let mut section = section.clone();
        let own = section.source.definitions.clone();
        section.source.define(&file.source.definitions);
        section.netns = section.netns_in(file.netns.as_deref());
        match base(&section) {
            Ok(base) => all.push(compiler.section(section, &own, base)),
            Err(why) => {
                let help = "the router's TAP interfaces and routing daemons are in its namespace";
                let mistake = Diagnostic::error("router-netns", why);
                compiler.mistakes.push(mistake.at(section.place).help(help));
            }
        }
    }
    let Compiler {
        mut mistakes,
        variables,
        ..
    } = compiler;
    if !all.is_empty() {
        // A definition on the command line applies to all graphs, and need not be used in each of them.
        let given = file.source.definitions.iter().map(|(name, _)| name);
        let unknown = given.filter(|name| !variables.contains(*name));
        mistakes.extend(unknown.map(|name| unknown_variable(name, &variables, true)));
    }
    let plans = all.iter().filter_map(|planned| {
        let plan = planned.compiled.plan.as_deref()?;
        Some((&planned.section, plan, &*planned.ports))
    });
    mistakes.extend(twice_used(&plans.collect::<Vec<_>>()));
    parsed.add(mistakes);
    all
}

/// Compiler of the routers of a file, one after the other.
struct Compiler<'a> {
    registry: &'a Registry,
    workers: usize,
    devices_must_exist: bool,
    file: &'a File,
    mistakes: Vec<Diagnostic>,
    /// Variables used by the graphs so far.
    variables: BTreeSet<String>,
}

impl Compiler<'_> {
    /// Compiles a router. `own` contains the definitions of its section.
    fn section(&mut self, mut section: Section, own: &[(String, String)], base: Base) -> Planned {
        let process = section.isolation.as_ref();
        let outside = gate::Outside(&base.ports);
        let options = match process {
            // The plan that runs here is that of the gate.
            Some(process) => self.options(process.workers.into(), &outside),
            None => self.options_on(&base),
        };
        let mut compiled = compile(&section.source, self.registry, &options);
        compiled.check_definitions(own, true);
        self.variables
            .extend(compiled.router.variables.iter().cloned());
        let isolated = self.isolate(&mut section, &mut compiled, &base);
        Planned {
            section,
            ports: base.ports,
            compiled: compiled.without_text(),
            isolated,
        }
    }

    fn options<'a>(&self, workers: usize, ports: &'a dyn PortDirectory) -> Options<'a> {
        Options {
            devices_must_exist: self.devices_must_exist,
            ..Options::new(workers, ports)
        }
    }

    /// Options for a graph that runs in this process.
    fn options_on<'a>(&self, base: &'a Base) -> Options<'a> {
        Options {
            previous: base.previous.as_deref(),
            replaces: base.replaces.as_deref(),
            ..self.options(self.workers, &*base.ports)
        }
    }

    /// Replaces the section and the compiled graph of an isolated router by those of its gate. Returns the router
    /// itself.
    fn isolate(
        &mut self,
        section: &mut Section,
        compiled: &mut Compiled,
        base: &Base,
    ) -> Option<(Isolated, Compiled)> {
        let user = match section.isolation.as_ref()?.user() {
            Ok(user) => user,
            // The file may be checked on a machine without these devices.
            Err(why) if !self.devices_must_exist => {
                self.record_error(section, Diagnostic::warning("router-user", why));
                return None;
            }
            Err(why) => {
                self.record_error(section, Diagnostic::error("router-user", why));
                return None;
            }
        };
        let plan = compiled.plan.as_ref()?;
        if let Some(netns) = &section.netns
            && self.devices_must_exist
            && let Err(why) = Owned::open(&path_of(netns), &user)
        {
            self.record_error(section, Diagnostic::error("router-netns", why));
        }
        for why in gate::cards_of_others(plan, &user, &base.ports) {
            let mistake = match self.devices_must_exist {
                true => Diagnostic::error("router-card", why),
                false => Diagnostic::warning("router-card", why),
            };
            self.record_error(section, mistake);
        }
        // Definitions on the command line apply to all graphs.
        let known = &compiled.router.variables;
        let definitions = &mut section.source.definitions;
        definitions.retain(|(name, _)| known.contains(name));
        match gate::plan(section, user, plan, (&base.ports, &self.file.folder)) {
            Ok((of, gate)) => {
                let gate_graph = compile(&gate, self.registry, &self.options_on(base));
                let own = mem::replace(compiled, gate_graph);
                section.source = gate;
                Some((of, own.without_text()))
            }
            Err(why) => {
                self.record_error(section, Diagnostic::error("router-isolation", why));
                None
            }
        }
    }

    /// Records an error about an isolated router.
    fn record_error(&mut self, section: &Section, mistake: Diagnostic) {
        let help = "docs/routers.md, \"Isolated routers\", lists the requirements of such a router";
        self.mistakes.push(mistake.at(section.place).help(help));
    }
}

/// Text form of the diagnostics of a file and its graphs.
pub fn text_of_all(parsed: &Parsed, all: &[Planned]) -> String {
    let graphs = all.iter().flat_map(Planned::graphs).map(Compiled::text);
    std::iter::once(parsed.text()).chain(graphs).collect()
}

/// Diagnostics of a file and its graphs as a JSON array.
pub fn json_of_all(parsed: &Parsed, all: &[Planned]) -> serde_json::Value {
    let own = lang::to_json(&parsed.diagnostics, &parsed.map);
    let graphs = all.iter().flat_map(Planned::graphs).map(Compiled::json);
    let lists = std::iter::once(own).chain(graphs);
    let each = lists.flat_map(|list| {
        let list = serde_json::from_str::<Vec<serde_json::Value>>(&list);
        list.unwrap_or_default()
    });
    serde_json::Value::Array(each.collect())
}

/// Number of errors in a file and its graphs.
pub fn errors_of_all(parsed: &Parsed, all: &[Planned]) -> usize {
    let graphs = all.iter().flat_map(Planned::graphs).map(Compiled::errors);
    parsed.errors() + graphs.sum::<usize>()
}
