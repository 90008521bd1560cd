//! Expands templates to the graph: opens compound elements and substitutes variables.

use crate::config::Config;
use crate::diagnostic::{Diagnostic, count_in_words};
use crate::graph::{Element, Router};
use crate::name_resolution::DEFINITIONS_MAX;
use crate::parameters;
use crate::source::Span;
use crate::template::{
    ClassRef, INPUT, Node, NodeId, NodeKind, OUTPUT, Program, Template, TemplateId,
};
use crate::tunnel::{End, TooMany, Wire, Wires};
use crate::variables::{FrameId, Variables};
use std::collections::HashMap;
use std::rc::Rc;

/// Maximum number of elements, compound ones included. Without a limit, a few bytes of nested compound elements could
/// make any number.
const ELEMENTS_MAX: usize = 1 << 17;
/// Maximum number of connections before those through compound elements are joined.
const WIRES_MAX: usize = 1 << 19;
/// Maximum nesting of compound elements.
const DEPTH_MAX: usize = 200;
/// Maximum length of all names of elements together, in bytes.
const NAME_BYTES_MAX: usize = 16 << 20;
/// Number of mistakes after which compound elements are no longer checked against their uses.
const ERRORS_MAX: usize = 1000;

/// A compound element that still has to be opened.
struct Pending<'a> {
    node: &'a Node,
    template: TemplateId,
    /// Frame in which its configuration is evaluated.
    frame: FrameId,
    class: &'a ClassRef,
    config: Config,
    /// Definition that fits, never `Choice::Base`; or the mistake, if it is not reported yet.
    choice: Result<Choice, Option<Box<Diagnostic>>>,
    name: String,
    /// Number of enclosing compound elements.
    depth: usize,
    /// Number of the element's node in its template, and numbers of its tunnels in the whole graph.
    id: NodeId,
    tunnels: (usize, usize),
}

struct Expander<'a> {
    program: &'a Program,
    variables: Variables<'a>,
    router: Router,
    wires: Vec<Wire>,
    tunnels: usize,
    opened: usize,
    /// Names, places and tunnels of compound elements without connections.
    unconnected: Vec<(String, Span, (usize, usize))>,
    name_bytes: usize,
    /// Compound elements that are not opened yet, the next one last.
    pending: Vec<Pending<'a>>,
    diagnostics: Vec<Diagnostic>,
    unused: Vec<Diagnostic>,
    full: bool,
    /// Positions of earlier mistakes. Elements near one may lack ports because of it.
    errors: &'a [Span],
}

/// Expands the file's template and all templates in it. `definitions` are those of the command line.
pub(crate) fn expand<'a>(
    program: &'a Program,
    variables: Variables<'a>,
    definitions: &[(String, Span)],
    errors: &'a [Span],
) -> (Router, Vec<Diagnostic>) {
    let mut expander = Expander {
        program,
        variables,
        router: Router::default(),
        wires: Vec::new(),
        tunnels: 0,
        opened: 0,
        unconnected: Vec::new(),
        name_bytes: 0,
        pending: Vec::new(),
        diagnostics: Vec::new(),
        unused: Vec::new(),
        full: false,
        errors,
    };
    expander.run(definitions);
    expander.check_names();
    let mut diagnostics = expander.diagnostics;
    diagnostics.append(&mut expander.variables.diagnostics);
    let requirements = program.requirements.clone();
    let all = Wires::new(&expander.wires);
    let loose = expander.unconnected.into_iter();
    let connect = || {
        let connections = all.connect()?;
        let loose = loose.map(|(name, span, tunnels)| all.inner_ends(name, span, tunnels));
        Ok((connections, loose.collect::<Result<_, TooMany>>()?))
    };
    let connected = match expander.full {
        true => Err(None),
        false => connect().map_err(|many: TooMany| Some(many.into())),
    };
    let mut router = Router {
        requirements,
        unused: expander.unused,
        ..Router::default()
    };
    match connected {
        Ok((connections, loose)) => {
            router.elements = expander.router.elements;
            (router.connections, router.unconnected) = (connections, loose);
        }
        // If a part is missing, further mistakes of such a large text are not reported.
        Err(complaint) => diagnostics.extend(complaint),
    }
    (router, diagnostics)
}

impl<'a> Expander<'a> {
    fn run(&mut self, definitions: &[(String, Span)]) {
        let Some(file) = self.program.templates.first() else {
            return;
        };
        let frame = self.variables.frame(0, None, &file.defines);
        for (name, value) in definitions {
            self.variables.set_written(frame, name, *value);
        }
        self.instantiate(0, frame, "", 0, (0, 0));
        // Depth first, as Click numbers elements; but the elements of a body are numbered together.
        while let Some(pending) = self.pending.pop() {
            self.open(pending);
        }
    }

    /// Reports elements whose names are the same because one of them was given a name with slashes.
    fn check_names(&mut self) {
        let mut nodes = self.program.templates.iter().flat_map(|t| &t.nodes);
        if !nodes.any(|node| node.name.contains('/')) {
            return;
        }
        let mut places: HashMap<&str, Span> = HashMap::new();
        for element in &self.router.elements {
            let Some(first) = places.insert(&element.name, element.span) else {
                continue;
            };
            let text = format!("redeclaration of element `{}`", element.name);
            self.diagnostics.push(
                Diagnostic::error("redeclared", text.clone())
                    .at(element.span)
                    .note_at(first, "an element has this name already")
                    .help("give one of them another name")
                    .click(text)
                    .click_at(
                        first,
                        format!("`{}` previously declared here", element.name),
                    ),
            );
        }
    }

    /// True if there is room for one more element.
    fn has_room(&mut self, name: &str, span: Span) -> bool {
        self.opened += 1;
        self.name_bytes += name.len();
        if self.opened > ELEMENTS_MAX {
            self.too_large(format!("{ELEMENTS_MAX} elements"), span);
        } else if self.name_bytes > NAME_BYTES_MAX {
            self.too_large(format!("{NAME_BYTES_MAX} bytes of elements' names"), span);
        } else if self.variables.full {
            // The limit has already been reported where the configuration string is too long.
            self.give_up();
        }
        !self.full
    }

    fn wire(&mut self, wire: Wire) {
        if self.wires.len() >= WIRES_MAX {
            self.too_large(format!("{WIRES_MAX} connections"), wire.span);
        } else {
            self.wires.push(wire);
        }
    }

    fn too_large(&mut self, limit: String, span: Span) {
        if !self.full {
            self.diagnostics.push(
                Diagnostic::error("too-large", format!("the router has more than {limit}"))
                    .at(span)
                    .help("compound elements multiply what is inside them; use fewer of them in each other"),
            );
        }
        self.give_up();
    }

    fn give_up(&mut self) {
        self.full = true;
        self.pending.clear();
    }

    fn tunnel(&mut self) -> usize {
        self.tunnels += 1;
        self.tunnels
    }

    /// Makes the nodes and links for one use of a template.
    fn instantiate(
        &mut self,
        id: TemplateId,
        frame: FrameId,
        prefix: &str,
        depth: usize,
        own: (usize, usize),
    ) {
        let template = &self.program.templates[id];
        let opened_later = self.pending.len();
        let compound = template.parent.is_some();
        let mut ends = Vec::with_capacity(template.nodes.len());
        for (number, node) in template.nodes.iter().enumerate() {
            let (enter, leave) = match &node.what {
                NodeKind::Tunnel if compound && number == INPUT => {
                    (End::Nowhere, End::Tunnel(own.0))
                }
                NodeKind::Tunnel if compound && number == OUTPUT => {
                    (End::Tunnel(own.1), End::Nowhere)
                }
                NodeKind::Tunnel => {
                    let end = End::Tunnel(self.tunnel());
                    (end, end)
                }
                NodeKind::Broken => (End::Nowhere, End::Nowhere),
                NodeKind::Element { class, config } => {
                    let name = format!("{prefix}{}", node.name);
                    if !self.has_room(&name, node.span) {
                        return;
                    }
                    match class {
                        ClassRef::Base(class) => {
                            let config = self.config(frame, *config, node);
                            let end = self.element(name, class, config, node);
                            (end, end)
                        }
                        ClassRef::Compound(_) => {
                            let config = self.config(frame, *config, node);
                            let mut pending = Pending {
                                node,
                                template: id,
                                class,
                                config,
                                choice: Err(None),
                                frame,
                                name,
                                depth,
                                id: number,
                                tunnels: (0, 0),
                            };
                            let arguments = parameters::arguments(&pending.config);
                            match self.choose(&pending, &arguments) {
                                Ok(Choice::Base(class)) => {
                                    let Pending { name, config, .. } = pending;
                                    let end = self.element(name, &class, config, node);
                                    (end, end)
                                }
                                choice => {
                                    let tunnels = (self.tunnel(), self.tunnel());
                                    (pending.choice, pending.tunnels) = (choice, tunnels);
                                    self.pending.push(pending);
                                    (End::Tunnel(tunnels.0), End::Tunnel(tunnels.1))
                                }
                            }
                        }
                    }
                }
            };
            ends.push((enter, leave));
        }
        if let Some(inner) = self.pending.get_mut(opened_later..) {
            inner.reverse();
        }
        self.wire_up(template, &ends);
    }

    /// Makes the links for one use of a template; `ends` has each node's entry and exit.
    fn wire_up(&mut self, template: &Template, ends: &[(End, End)]) {
        for link in &template.links {
            let (from, to) = (ends[link.from.0].1, ends[link.to.0].0);
            if self.full {
                return;
            }
            if from != End::Nowhere && to != End::Nowhere {
                self.wire(Wire {
                    from: (from, link.from.1),
                    to: (to, link.to.1),
                    span: link.span,
                });
            }
        }
    }

    fn config(&mut self, frame: FrameId, config: Option<Span>, node: &Node) -> Config {
        match config {
            Some(raw) => self.variables.expand(frame, raw),
            None => Config::empty(node.class_span.after()),
        }
    }

    fn element(&mut self, name: String, class: &str, config: Config, node: &Node) -> End {
        self.router.elements.push(Element {
            name,
            class: class.to_owned(),
            config,
            span: node.span,
            class_span: node.class_span,
        });
        End::Element(self.router.elements.len() - 1)
    }

    fn open(&mut self, mut pending: Pending<'a>) {
        let node = pending.node;
        if pending.depth >= DEPTH_MAX {
            let text = format!("compound elements stand in each other more than {DEPTH_MAX} deep");
            self.diagnostics.push(
                Diagnostic::error("too-deep", text)
                    .at(node.span)
                    .help("use fewer compound elements inside compound elements"),
            );
            return;
        }
        match std::mem::replace(&mut pending.choice, Err(None)) {
            Ok(Choice::Template(id, values)) => {
                let template = &self.program.templates[id];
                self.check_ports(&pending, template);
                self.note_unused(&pending, template);
                if (node.inputs, node.outputs) == (0, 0) && template.inputs > 0 {
                    let name = pending.name.clone();
                    self.unconnected.push((name, node.span, pending.tunnels));
                }
                let parent = template.parent.unwrap_or(0);
                let parent = self.variables.frame_of(pending.frame, parent);
                let frame = self.variables.frame(id, parent, &template.defines);
                for (name, value) in values {
                    self.variables.set(frame, &name, value);
                }
                let prefix = format!("{}/", pending.name);
                self.instantiate(id, frame, &prefix, pending.depth + 1, pending.tunnels);
            }
            Ok(Choice::Base(_)) => {}
            Err(mistake) => self.diagnostics.extend(mistake.map(|mistake| *mistake)),
        }
    }

    /// The definition that fits a use of a class; the mistake if none fits.
    fn choose(
        &mut self,
        pending: &Pending<'a>,
        arguments: &[Config],
    ) -> Result<Choice, Option<Box<Diagnostic>>> {
        let mut class = pending.class;
        let (mut tried, mut misfits) = (Vec::new(), Vec::new());
        let mut loose = None;
        while let ClassRef::Compound(set) = class {
            let set = &self.program.classes[*set];
            for &id in &set.definitions {
                if tried.len() == DEFINITIONS_MAX {
                    return loose.ok_or(None); // the surplus was reported
                }
                let template = &self.program.templates[id];
                tried.push(template);
                match parameters::bind(&template.formals, arguments) {
                    Err(misfit) => misfits.push((template, misfit)),
                    Ok(values) => {
                        let node = pending.node;
                        if (template.inputs, template.outputs) == (node.inputs, node.outputs) {
                            return Ok(Choice::Template(id, values));
                        }
                        loose.get_or_insert(Choice::Template(id, values));
                    }
                }
            }
            match &set.fallback_class {
                Some(next) => class = next,
                None if loose.is_some() && tried.len() == 1 => return loose.ok_or(None),
                None => {
                    let node = pending.node;
                    let error = match loose {
                        None => parameters::report_mismatch(node, &set.name, arguments, &misfits),
                        Some(_) => no_ports(node, &set.name),
                    };
                    if self.diagnostics.len() >= ERRORS_MAX {
                        return Err(None);
                    }
                    let many = arguments.len();
                    let error = parameters::no_match(
                        error,
                        node,
                        &set.name,
                        many,
                        &tried,
                        self.variables.end_of(node.class_span.file),
                    );
                    return Err(Some(Box::new(error)));
                }
            }
        }
        match class {
            ClassRef::Base(base) if loose.is_none() => Ok(Choice::Base(base.clone())),
            _ => loose.ok_or(None),
        }
    }

    /// Notes ports of a compound element that nothing outside is connected to.
    fn note_unused(&mut self, pending: &Pending<'a>, inner: &Template) {
        let node = pending.node;
        let all = node.inputs >= inner.inputs && node.outputs >= inner.outputs;
        if all || self.unused.len() >= ERRORS_MAX {
            return;
        }
        for (side, used, has) in [
            ("input", node.inputs, inner.inputs),
            ("output", node.outputs, inner.outputs),
        ] {
            for port in used..has {
                let text = format!("`{}` {side} {port} unused", pending.name);
                let error = Diagnostic::error("unused-port", text);
                // The place of an anonymous element is the end of its class.
                let place = match node.span == node.class_span {
                    true => node.class_span.after(),
                    false => node.span,
                };
                self.unused.push(error.at(place));
            }
        }
    }

    /// Checks that ports used from outside are connected inside.
    fn check_ports(&mut self, pending: &Pending<'a>, inner: &Template) {
        let outer = &self.program.templates[pending.template];
        let node = pending.node;
        let inside = |error: &Span| {
            inner.span.is_some_and(|around| {
                around.file == error.file
                    && around.start <= error.start
                    && error.end <= around.end + 1
            })
        };
        let fits = node.inputs <= inner.inputs && node.outputs <= inner.outputs;
        if fits || self.diagnostics.len() >= ERRORS_MAX || self.errors.iter().any(inside) {
            return;
        }
        let name = match node.name.starts_with('@') {
            true => "this compound element".to_owned(),
            false => format!("`{}`", node.name),
        };
        let sides = [
            ("input", node.inputs, inner.inputs),
            ("output", node.outputs, inner.outputs),
        ];
        for (side, used, has) in sides {
            if used <= has {
                continue;
            }
            let is_use = |link: &&crate::template::Link| {
                let end = if side == "input" { link.to } else { link.from };
                end.0 == pending.id && end.1 as usize >= has
            };
            let place = outer
                .links
                .iter()
                .find(is_use)
                .map_or(node.span, |link| link.span);
            let mut error = Diagnostic::error(
                "compound-port",
                format!("{name} has no {side} {}", used - 1),
            )
            .at(place)
            .click_at(
                node.class_span,
                format!("`{}` has no {side} {}", pending.name, used - 1),
            )
            .help(format!(
                "connect `{side}` inside the compound element, or use a port that it has"
            ));
            if let Some(span) = inner.span {
                let text = format!("the compound element has {}", count_in_words(has, side));
                error = error.note_at(span.before(), text);
            }
            self.diagnostics.push(error);
        }
    }
}

/// Error for the case that several definitions take the arguments, but none has the ports.
fn no_ports(node: &Node, class: &str) -> Diagnostic {
    let class = match class {
        "" => "this compound element".to_owned(),
        class => format!("`{class}`"),
    };
    let used = parameters::ports(node.inputs, node.outputs);
    let text = format!("no definition of {class} takes these arguments and has {used}");
    Diagnostic::error("compound-port", text)
        .at(node.span)
        .help("all ports of the definition that is meant must be connected, and no others")
}

enum Choice {
    Base(Rc<str>),
    Template(TemplateId, Vec<(String, Config)>),
}
