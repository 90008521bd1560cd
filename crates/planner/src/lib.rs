//! Compiles parsed text to a plan: finds classes, parses configurations, resolves push and pull, proves needs, and
//! places every element on workers. The planner is pure: it opens no device and no file descriptor.
//!
//! A plan that [`compile`] returns without errors can be built and run; building cannot fail.

mod anonymous;
mod dataflow;
mod fuse;
mod memory;
mod mtu;
mod names;
mod notify;
mod owner;
mod placement;
mod ports;
mod processing;
mod queues;
mod work_list;

use arguments::near::nearest;
use arguments::router_wide::RouterWide;
use arguments::text_file::Seen;
use arguments::{Args, Names, RouterView};
use dataflow::DataFlow;
use engine::element::{AnyConfig, Attached, Class};
use engine::fused::FusedLoop;
use engine::graph::call;
use engine::handler::Use;
use engine::plan::{NamedElements, Pass, Plan, PlanEdges, PlanElement};
use engine::port::PortDirectory;
use lang::{Diagnostic, Router};
use std::collections::HashMap;
use std::sync::Arc;

pub use mtu::{LimitsLength, TooLong, too_long};
pub use names::{GivesNames, readdressed};

/// Rewrites a router's text before planning, for example to expand abbreviations. Returns the mistakes that it found.
pub type Rewrite = fn(&mut Router, &Options) -> Vec<Diagnostic>;

/// The element classes of a program. Copies share them.
#[derive(Clone, Default)]
pub struct Registry {
    classes: Arc<HashMap<&'static str, &'static Class>>,
    rewrites: Vec<Rewrite>,
    loops: &'static [FusedLoop],
    packages: &'static [&'static str],
}

impl Registry {
    /// The classes of several lists; a later class replaces an earlier one with the same name.
    pub fn new(lists: &[&'static [Class]]) -> Registry {
        Registry::default().with_classes(lists)
    }

    /// Adds classes; each replaces an earlier one with the same name.
    pub fn with_classes(mut self, lists: &[&'static [Class]]) -> Registry {
        let added = lists.iter().flat_map(|l| l.iter());
        Arc::make_mut(&mut self.classes).extend(added.map(|c| (c.name, c)));
        self
    }

    /// Enables optimisation: elements connected as one of these fused loops run as that loop, and annotations that no
    /// element reads are not initialised. Without fused loops the plan follows the text literally.
    pub fn with_fused_loops(mut self, loops: &'static [FusedLoop]) -> Registry {
        self.loops = loops;
        self
    }

    fn optimizes(&self) -> bool {
        !self.loops.is_empty()
    }

    /// Adds packages that configurations may require by `require(...)`, in addition to class names.
    pub fn with_packages(mut self, packages: &'static [&'static str]) -> Registry {
        self.packages = packages;
        self
    }

    /// Adds a rewriting step that runs before planning.
    pub fn with_rewrite(mut self, rewrite: Rewrite) -> Registry {
        self.rewrites.push(rewrite);
        self
    }

    /// A class by name.
    pub fn get(&self, name: &str) -> Option<&'static Class> {
        self.classes.get(name).copied()
    }

    /// True if this program provides a package that a configuration requires.
    pub fn provides(&self, package: &str) -> bool {
        self.packages.contains(&package) || self.classes.contains_key(package)
    }

    /// All classes, by name.
    pub fn classes(&self) -> Vec<&'static Class> {
        let mut all: Vec<_> = self.classes.values().copied().collect();
        all.sort_by_key(|c| c.name);
        all
    }
}

/// Options of planning.
#[derive(Clone)]
pub struct Options<'a> {
    /// Number of workers.
    pub workers: usize,
    /// Directory of devices.
    pub ports: &'a dyn PortDirectory,
    /// True if a missing device is an error (to run the plan); false if it is a warning (to check it).
    pub devices_must_exist: bool,
    /// True if inputs may stay unconnected, because packets are injected there (`Graph::inject`).
    pub open_inputs: bool,
    /// True if everything runs on one worker in Click's manner. Elements may then request any worker without effect,
    /// and the needs of elements are not proved, because Click's users check them themselves.
    pub as_click: bool,
    /// Default names for addresses; names of the configuration take precedence.
    pub names: Names,
    /// Function that sets the [values of the plan](RouterWide::of_plan) before elements are configured.
    pub prepare: Option<&'a dyn Fn(&RouterWide)>,
    /// The running plan: unchanged configurations are kept, and so are their tables.
    pub previous: Option<&'a Plan>,
    /// The plan to be replaced: anonymous elements keep the names that they have there.
    pub replaces: Option<&'a Plan>,
}

impl<'a> Options<'a> {
    /// Options for a router that will run and replaces none.
    pub fn new(workers: usize, ports: &'a dyn PortDirectory) -> Options<'a> {
        Options {
            workers,
            ports,
            devices_must_exist: true,
            open_inputs: false,
            as_click: false,
            names: Names::default(),
            prepare: None,
            previous: None,
            replaces: None,
        }
    }
}

/// Maximum number of unknown words for which a suggestion is searched: each search takes time linear in the number of
/// names.
const SUGGESTIONS_MAX: usize = 100;
/// Maximum number of changed address names that a reload compares with the text of each element; beyond it, all
/// elements are configured anew.
const CHANGED_MAX: usize = 100;

/// Compiles a router to a plan. Returns `None` if there is an error among the diagnostics; all mistakes are reported.
pub fn compile(
    router: &Router,
    registry: &Registry,
    options: &Options,
) -> (Option<Arc<Plan>>, Vec<Diagnostic>) {
    let mut router = router.clone();
    if let Some(running) = options.replaces {
        anonymous::keep_names(&mut router, running);
    }
    let rewrites = registry.rewrites.iter();
    let wrong = rewrites.flat_map(|rewrite| rewrite(&mut router, options));
    let wrong: Vec<Diagnostic> = wrong.collect();
    let (mut plan, mut errors, crossings) = make_once(&router, registry, options);
    if !crossings.is_empty() {
        owner::insert_queues(&mut router, &crossings);
        (plan, errors, _) = make_once(&router, registry, options);
    }
    if wrong.iter().any(Diagnostic::is_error) {
        plan = None;
    }
    errors.extend(wrong);
    (plan, errors)
}

/// Returns the running plan ([`Options::previous`]) with one element's new configuration, taken from `router`; the
/// rest stays the same.
///
/// # Errors
/// The configuration has mistakes; all of them are returned.
pub fn reconfigure(
    router: &Router,
    element: &str,
    registry: &Registry,
    options: &Options,
) -> Result<Arc<Plan>, Vec<Diagnostic>> {
    let (plan, mut said) = compile(router, registry, options);
    let before = options.previous;
    let mut made = plan.and_then(|plan| Arc::try_unwrap(plan).ok());
    if let (Some(plan), Some(before)) = (&mut made, before) {
        let same = plan.elements.len() == before.elements.len();
        for (new, old) in plan.elements.iter_mut().zip(&before.elements) {
            if new.name != element {
                new.config = Arc::clone(&old.config);
                new.files.clone_from(&old.files);
            }
        }
        if !same {
            let text =
                format!("`{element}` needs other elements beside it with this configuration");
            said.push(
                Diagnostic::error("reconfigure", text).help("reload all of the configuration"),
            );
        }
    }
    said.retain(Diagnostic::is_error);
    match made {
        Some(plan) if said.is_empty() => Ok(Arc::new(plan)),
        _ => Err(said),
    }
}

/// Result of planning: the plan, the diagnostics, and elements that still need a queue for packets from other
/// workers.
type PlanningResult = (Option<Arc<Plan>>, Vec<Diagnostic>, Vec<(usize, usize)>);

fn make_once(router: &Router, registry: &Registry, options: &Options) -> PlanningResult {
    let mut errors = Vec::new();
    let wanted = router.requirements.iter().filter(|r| r.kind == "package");
    errors.extend(wanted.filter(|r| !registry.provides(&r.name)).map(missing));
    let classes = resolve(router, registry, &mut errors);
    let (names, addressed) = names::of(router, registry, options);
    let previous = options.previous;
    let router_wide =
        previous.map_or_else(RouterWide::default, |plan| plan.router_wide.for_next_plan());
    if let Some(prepare) = options.prepare {
        prepare(&router_wide);
    }
    let (configs, calls) = configure(
        router,
        &classes,
        (&names, &router_wide),
        (options.as_click, previous),
        &mut errors,
    );
    let counts = ports::count(router, &classes, &configs, options, &mut errors);
    if errors.iter().any(Diagnostic::is_error) && classes.iter().any(Option::is_none) {
        return (None, errors, Vec::new());
    }
    let known: Vec<&'static Class> = classes.iter().copied().flatten().collect();
    if known.len() != router.elements.len() {
        return (None, errors, Vec::new());
    }
    let flows = processing::resolve(router, &known, &counts, &mut errors);
    let edges = PlanEdges::new(known.len(), flows.edges(router));
    let (order, rank) = processing::order(known.len(), &edges);
    let elements = router
        .elements
        .iter()
        .zip(configs)
        .enumerate()
        .map(|(i, (element, config))| PlanElement {
            name: element.name.clone(),
            class: known[i],
            text: element.config.text.clone(),
            config: config.config,
            named_elements: config.named_elements,
            files: config.files,
            span: element.span,
            inputs: flows.inputs[i].clone(),
            outputs: flows.outputs[i].clone(),
            runs: known[i].runs,
            workers: Vec::new(),
            task_worker: 0,
            pushers: Vec::new(),
            pullers: Vec::new(),
            bare: false,
            facts_change: true,
            annotated: Vec::new(),
            super_frames: false,
            split: None,
            attached: Attached::default(),
            queues: Vec::new(),
            signals: Vec::new(),
            room_signals: Vec::new(),
            listeners: Vec::new(),
            fillers: Vec::new(),
        });
    let mut plan = Plan {
        elements: elements.collect(),
        edges,
        workers: match options.as_click {
            true => 1,
            false => options.workers.max(1),
        },
        as_click: options.as_click,
        devices: Vec::new(),
        order,
        rank,
        loops: Vec::new(),
        names,
        addressed,
        router_wide,
        by_name: router
            .elements
            .iter()
            .enumerate()
            .map(|(i, e)| (e.name.clone(), i))
            .collect(),
    };
    let optimizes = registry.optimizes() && !errors.iter().any(Diagnostic::is_error);
    let flow = DataFlow::new(&plan, optimizes.then_some(options.ports));
    if !options.as_click {
        flow.prove(&plan, router, &mut errors);
    }
    if errors.iter().any(Diagnostic::is_error) {
        return (None, errors, Vec::new());
    }
    if optimizes {
        flow.mark(&mut plan);
    }
    placement::place(&mut plan, router, options, &mut errors);
    run_passes(&mut plan);
    check_calls(&plan, router, &calls, &mut errors);
    memory::check(&plan, router, previous, &mut errors);
    if !options.as_click {
        mtu::check(&plan, options.ports, &mut errors);
    }
    notify::connect(&mut plan);
    plan.loops = fuse::find(registry.loops, &plan.elements, &plan.edges, &plan.rank);
    let fine = !errors.iter().any(Diagnostic::is_error);
    let crossings = owner::crossings(&plan);
    (fine.then(|| Arc::new(plan)), errors, crossings)
}

/// Runs the passes that the plan's classes list, each once.
fn run_passes(plan: &mut Plan) {
    let mut passes: Vec<&'static Pass> = Vec::new();
    for pass in plan.elements.iter().filter_map(|e| e.class.extension()) {
        if !passes.iter().any(|known| std::ptr::eq(*known, pass)) {
            passes.push(pass);
        }
    }
    passes.iter().for_each(|pass| (pass.0)(plan));
}

/// Checks that the handlers exist that elements will write. Handlers of the router as a whole are not known here.
fn check_calls(plan: &Plan, router: &Router, calls: &[Calls], errors: &mut Vec<Diagnostic>) {
    let each = calls
        .iter()
        .flat_map(|(at, calls)| calls.iter().map(move |call| (*at, call)));
    let mut suggestions = SUGGESTIONS_MAX;
    for (at, call) in each {
        if suggestions == 0 {
            return;
        }
        let element = &router.elements[at];
        let Err(wrong) = call::find(plan, &element.name, call, Use::Write) else {
            continue;
        };
        let help = wrong.to_string();
        let message = call::not_found(plan, &element.name, call, Use::Write, wrong);
        let wrong = Diagnostic::error("handler-call", message).at(element.span);
        let wrong = wrong.about(title(element), element.span, Some("initializing"));
        errors.push(wrong.help(help));
        suggestions -= 1;
    }
}

/// Name of an element in error messages: `ttl :: DecIPTTL`.
fn title(element: &lang::Element) -> String {
    format!("{} :: {}", element.name, element.class)
}

fn missing(package: &lang::Requirement) -> Diagnostic {
    let name = &package.name;
    let message = format!("package `{name}` is not available");
    Diagnostic::error("no-package", message)
        .at(package.span)
        .click(format!("requirement '{name}' not available"))
        .help("all that Ashlar has is built in: leave the requirement out if its classes are there (`ashlar doc`)")
}

fn resolve(
    router: &Router,
    registry: &Registry,
    errors: &mut Vec<Diagnostic>,
) -> Vec<Option<&'static Class>> {
    let names: Vec<&str> = registry.classes().iter().map(|c| c.name).collect();
    // Each unknown name is searched for once, and only the first `SUGGESTIONS_MAX` names get a suggestion.
    let mut known: HashMap<String, Option<&str>> = HashMap::new();
    let mut near = |class: &str| {
        if !known.contains_key(class) && known.len() < SUGGESTIONS_MAX {
            let found = nearest(class, names.iter().copied());
            known.insert(class.to_owned(), found);
        }
        known.get(class).copied().flatten()
    };
    let find = |element: &lang::Element| {
        let class = registry.get(&element.class);
        if class.is_none() {
            let wrong = Diagnostic::error(
                "unknown-class",
                match anonymous(element) {
                    true => format!(
                        "undeclared element `{}` (first use this block)",
                        element.class
                    ),
                    false => format!("unknown element class `{}`", element.class),
                },
            );
            let help = match near(&element.class) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`ashlar doc` lists the classes; elementclass defines one".to_owned(),
            };
            errors.push(wrong.at(element.class_span).help(help));
        }
        class
    };
    router.elements.iter().map(find).collect()
}

/// True if a word was taken for a class because no element of that name is declared.
fn anonymous(element: &lang::Element) -> bool {
    let own = element.name.rsplit('/').next().unwrap_or_default();
    let number = own.strip_prefix(element.class.as_str());
    element.config.text.is_empty() && number.is_some_and(|n| n.starts_with('@'))
}

/// Result of configuring an element.
struct Configured {
    config: AnyConfig,
    named_elements: NamedElements,
    files: Vec<Seen>,
}

/// Number of an element, and the handlers that it will write.
type Calls = (usize, Vec<String>);

fn configure(
    router: &Router,
    classes: &[Option<&'static Class>],
    (names, router_wide): (&Names, &RouterWide),
    (as_click, previous): (bool, Option<&Plan>),
    errors: &mut Vec<Diagnostic>,
) -> (Vec<Configured>, Vec<Calls>) {
    let mut calls = Vec::new();
    let around = RouterView::new(router);
    let changed = previous.map_or_else(Vec::new, |plan| names.changed_since(&plan.names));
    // A changed name can only affect texts that mention it.
    let few = changed.len() <= CHANGED_MAX;
    let same_names = |text: &str| few && !changed.iter().any(|name| text.contains(name));
    let mut keywords: HashMap<&str, Vec<&'static str>> = HashMap::new();
    let mut connected = vec![(0, 0); router.elements.len()];
    for lang::Connection { from, to, .. } in &router.connections {
        let inputs = &mut connected[to.element].0;
        *inputs = (to.port + 1).max(*inputs);
        let outputs = &mut connected[from.element].1;
        *outputs = (from.port + 1).max(*outputs);
    }
    let mut parse = |at: usize, class: &'static Class| -> Configured {
        let element = &router.elements[at];
        let before = previous.and_then(|plan| {
            let old = &plan.elements[plan.find(&element.name)?];
            (old.class.name == class.name).then_some(old)
        });
        let same = |old: &&PlanElement| {
            let text = old.text == element.config.text && old.named_elements.is_none();
            text && !old.files.iter().any(Seen::has_changed)
        };
        if let Some(old) = before.filter(|old| same(old) && same_names(&old.text)) {
            return Configured {
                config: Arc::clone(&old.config),
                named_elements: None,
                files: old.files.clone(),
            };
        }
        let known = keywords
            .entry(class.name)
            .or_insert_with(|| class.arguments().iter().map(|a| a.name).collect());
        let mut args = Args::new(
            (title(element), element.span),
            &element.config,
            names,
            router_wide,
            known.clone(),
        );
        args.connected = connected[at];
        args.as_click = as_click;
        args.set_around(&around, at);
        let mut config = (class.configure)(&mut args);
        let (named_elements, files) = (args.named_elements(), args.files());
        calls.push((at, std::mem::take(&mut args.calls)));
        let wrong = args.finish();
        if !wrong.iter().any(Diagnostic::is_error)
            && let Some(old) = before
        {
            config.inherit(&old.config);
        }
        errors.extend(wrong);
        Configured {
            config: config.share(),
            named_elements,
            files,
        }
    };
    let each = classes.iter().enumerate();
    let configs = each.map(|(at, class)| match class {
        Some(class) => parse(at, class),
        None => Configured {
            config: Arc::new(()),
            named_elements: None,
            files: Vec::new(),
        },
    });
    let configs = configs.collect();
    (configs, calls)
}
