//! Converts trees to templates: finds the definition of each name.

use crate::ast::{ClassExpr, Compound, Definition, Ident, ItemKind, Statement};
use crate::diagnostic::Diagnostic;
use crate::source::{FileId, SourceMap, Span};
use crate::template::{
    ClassRef, ClassSet, INPUT, Link, Node, NodeId, NodeKind, OUTPUT, Program, Template, TemplateId,
};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Finds the text of a library, given its name.
pub(crate) type Loader<'l> = &'l mut (dyn FnMut(&str) -> Option<String> + 'l);

/// Maximum number of links, including those of port lists.
pub(crate) const LINKS_MAX: usize = 1 << 19;
/// Maximum number of missing ports that are named one by one.
const MISSING_MAX: u32 = 16;
/// Maximum number of definitions of a compound class, including those that it extends.
pub(crate) const DEFINITIONS_MAX: usize = 100;

const OUT_OF_ORDER: &str = "compound element parameters out of order";
const ORDER: &str = "(The correct order is `[positional], [keywords], [__REST__]`.)";

/// Kind of use of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClassUse {
    /// Class of an element without a name of its own.
    Element,
    /// Class behind `::`, or behind `elementclass NAME`.
    Class,
    /// Class that gets further definitions: `elementclass NAME { ... || ... }`.
    Extension,
}

/// State of processing a body.
pub(crate) struct Scope {
    pub(crate) template: TemplateId,
    /// Elements declared so far.
    pub(crate) names: HashMap<String, NodeId>,
    /// Elements that the body declares anywhere.
    pub(crate) declared: HashMap<String, Span>,
    classes: HashMap<String, ClassRef>,
    /// Number of elements without pseudo elements; it numbers anonymous elements.
    pub(crate) count: usize,
    /// For each class, the last number given to an anonymous element.
    pub(crate) numbers: HashMap<String, usize>,
    /// Place of each variable's definition.
    pub(crate) variables: HashMap<String, Span>,
    /// Nodes of `input` and `output`, innermost last.
    pub(crate) tunnels: Vec<(NodeId, NodeId)>,
    /// Errors about a tunnel's node, which Click reports at the end of its body.
    pub(crate) misuses: Vec<(NodeId, Diagnostic)>,
}

/// The compound element or group that has a pseudo element, in messages.
pub(crate) struct Owner<'t> {
    pub(crate) text: &'t str,
    /// Name of the element or group in Click's messages.
    pub(crate) title: &'t str,
    /// Place that Click names; the end of the body if it is `None`.
    pub(crate) click_at: Option<Span>,
}

fn unknown_class(class: &Ident, as_what: ClassUse) -> Diagnostic {
    let Ident { name, span } = class;
    let words = match as_what {
        ClassUse::Element => format!("undeclared element `{name}`"),
        ClassUse::Class => format!("unknown element class `{name}`"),
        ClassUse::Extension => format!("cannot extend unknown element class `{name}`"),
    };
    let error = Diagnostic::error("unknown-class", &*words).at(*span);
    match as_what {
        ClassUse::Element => error.click_at(*span, words),
        ClassUse::Class | ClassUse::Extension => error,
    }
}

impl Owner<'_> {
    fn with_click_wording(&self, error: Diagnostic, words: String) -> Diagnostic {
        match self.click_at {
            Some(place) => error.click_at(place, words),
            None => error.click(words),
        }
    }
}

pub(crate) struct Builder<'a, 'l> {
    pub(crate) map: &'a mut SourceMap,
    pub(crate) loader: Option<Loader<'l>>,
    pub(crate) libraries: HashSet<String>,
    /// Folder of the library that is being read, if it is not beside the file.
    pub(crate) folder: Option<String>,
    pub(crate) program: Program,
    pub(crate) scopes: Vec<Scope>,
    /// Names that were declared in statements which could not be parsed.
    pub(crate) unparsed: HashSet<String>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Classes without a definition in the file, with the place of their first use.
    pub(crate) base: HashMap<String, Span>,
    /// True for classes that exist, if unknown classes are mistakes of the language.
    is_class: Option<&'a dyn Fn(&str) -> bool>,
    /// End of the text that Click has read when it looks at the current part of a statement.
    pub(crate) read_to: Span,
    pub(crate) links: usize,
}

impl<'a, 'l> Builder<'a, 'l> {
    pub(crate) fn new(
        map: &'a mut SourceMap,
        loader: Option<Loader<'l>>,
        is_class: Option<&'a dyn Fn(&str) -> bool>,
    ) -> Builder<'a, 'l> {
        Builder {
            map,
            loader,
            libraries: HashSet::new(),
            folder: None,
            program: Program::default(),
            scopes: Vec::new(),
            unparsed: HashSet::new(),
            diagnostics: Vec::new(),
            base: HashMap::new(),
            is_class,
            read_to: Span::new(FileId::FIRST, 0..0),
            links: 0,
        }
    }

    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic.read_to(self.read_to));
    }

    /// The file itself.
    pub(crate) fn file(&mut self, file: FileId) {
        self.open(Template::default());
        self.read(file);
        self.scopes.pop();
    }

    fn open(&mut self, template: Template) -> TemplateId {
        let id = self.program.templates.len();
        let formals = template.formals.iter().rev();
        let variables = formals.map(|formal| (formal.variable.clone(), formal.span));
        let variables = variables.collect();
        self.program.templates.push(template);
        self.scopes.push(Scope {
            template: id,
            names: HashMap::new(),
            declared: HashMap::new(),
            classes: HashMap::new(),
            count: 0,
            numbers: HashMap::new(),
            variables,
            tunnels: Vec::new(),
            misuses: Vec::new(),
        });
        id
    }

    pub(crate) fn scope(&mut self) -> &mut Scope {
        self.scopes
            .last_mut()
            .expect("a body is read inside its scope")
    }

    pub(crate) fn template(&mut self) -> &mut Template {
        let id = self.scope().template;
        &mut self.program.templates[id]
    }

    pub(crate) fn statements(&mut self, statements: &[Statement]) {
        for statement in statements {
            match statement {
                Statement::Chain(chain) => self.chain(chain),
                Statement::ElementClass { name, class } => self.element_class(name, class),
                Statement::Define(config) => self.define(*config),
                Statement::Require(config) => self.require(*config),
            }
        }
    }

    /// Records the elements that a body declares, to distinguish a premature use from a class.
    pub(crate) fn declare_ahead(&mut self, statements: &[Statement]) {
        for statement in statements {
            let Statement::Chain(chain) = statement else {
                continue;
            };
            let items = chain
                .first
                .iter()
                .chain(chain.rest.iter().flat_map(|(_, items)| items));
            let alone = chain.rest.is_empty();
            let mut names = Vec::new();
            for item in items {
                match &item.what {
                    ItemKind::Name(name) if alone => names.push(name),
                    ItemKind::Declaration { name, .. } => {
                        names.push(name);
                        for name in names.drain(..) {
                            let declared = &mut self.scope().declared;
                            declared.entry(name.name.clone()).or_insert(name.span);
                        }
                    }
                    ItemKind::Group(statements) => self.declare_ahead(statements),
                    _ => {}
                }
            }
        }
    }

    fn element_class(&mut self, name: &Ident, class: &ClassExpr) {
        let class = match class {
            ClassExpr::Named(class) => self.class_named(class, ClassUse::Class),
            ClassExpr::Compound(compound) => self.compound(compound, Some(name)),
        };
        let element = self.scope().names.get(&name.name).copied();
        if let Some(node) = element {
            let first = self.template().nodes[node].span;
            self.report(
                Diagnostic::warning(
                    "class-as-name",
                    format!("`{}` is an element already", name.name),
                )
                .at(name.span)
                .note_at(first, "declared here")
                .help("give the class another name"),
            );
        }
        if let Some(class) = class {
            self.scope().classes.insert(name.name.clone(), class);
        }
    }

    /// A class by its name; `None` for a mistake.
    pub(crate) fn class_named(&mut self, ident: &Ident, as_what: ClassUse) -> Option<ClassRef> {
        let name = &ident.name;
        if let Some(class) = self.find_class(name) {
            return Some(class);
        }
        let read_to = match as_what {
            ClassUse::Class => ident.span,
            ClassUse::Element | ClassUse::Extension => self.read_to,
        };
        if let Some(&node) = self.scope().names.get(name) {
            let first = self.template().nodes[node].span;
            let error = Diagnostic::error(
                "element-as-class",
                format!("`{name}` is an element, not a class"),
            )
            .at(ident.span)
            .note_at(first, "declared here")
            .help("name the class; the element itself stands without `::` and parentheses");
            self.report(match as_what {
                ClassUse::Element => error
                    .click("configuration string ignored on element reference")
                    .read_to(ident.span),
                ClassUse::Class | ClassUse::Extension => error
                    .click(format!("unknown element class `{name}`"))
                    .read_to(read_to),
            });
            return None;
        }
        if !self.base.contains_key(name) {
            self.base.insert(name.clone(), ident.span);
            if self.is_class.is_some_and(|is_class| !is_class(name)) {
                self.report(unknown_class(ident, as_what).read_to(read_to));
            }
        }
        Some(ClassRef::Base(Rc::from(name.as_str())))
    }

    /// True if mistakes are reported as by Click, which keeps no names of broken statements.
    pub(crate) fn reads_as_click(&self) -> bool {
        self.is_class.is_some()
    }

    /// True for the name of a class that the file uses, or that exists.
    pub(crate) fn is_free_class(&self, name: &str) -> bool {
        self.base.contains_key(name) || self.is_class.is_some_and(|is_class| is_class(name))
    }

    pub(crate) fn find_class(&self, name: &str) -> Option<ClassRef> {
        let mut scopes = self.scopes.iter().rev();
        scopes.find_map(|scope| scope.classes.get(name).cloned())
    }

    pub(crate) fn compound(
        &mut self,
        compound: &Compound,
        name: Option<&Ident>,
    ) -> Option<ClassRef> {
        let definitions = compound.definitions.iter();
        let definitions: Vec<TemplateId> = definitions
            .map(|definition| self.definition(definition, name))
            .collect();
        self.read_to = compound.extends.unwrap_or(compound.span.after());
        let otherwise = match (compound.extends, name) {
            // Behind several definitions Click does not ask for the class.
            (Some(_), Some(name)) if definitions.len() > 1 && !self.is_free_class(&name.name) => {
                self.find_class(&name.name)
            }
            (Some(_), Some(name)) => self.class_named(name, ClassUse::Extension),
            (Some(span), None) => {
                self.report(
                    Diagnostic::error("nothing-to-extend", "`...` needs a class to extend")
                        .at(span)
                        .click("cannot extend unknown element class ``")
                        .help("it stands in `elementclass NAME { ... || ... }`; a compound element without a name \
                            extends nothing"),
                );
                None
            }
            (None, _) => None,
        };
        let extended = match otherwise {
            Some(ClassRef::Compound(set)) => self.program.classes[set].count,
            _ => 0,
        };
        let count = definitions.len() + extended;
        if count > DEFINITIONS_MAX && extended <= DEFINITIONS_MAX {
            let text = format!("this class has more than {DEFINITIONS_MAX} definitions");
            self.report(
                Diagnostic::error("too-large", text)
                    .at(compound.span.before())
                    .help("each use tries them one after the other; give some of them a class of their own"),
            );
        }
        self.program.classes.push(ClassSet {
            name: name.map_or(String::new(), |name| name.name.clone()),
            definitions,
            fallback_class: otherwise,
            count,
        });
        Some(ClassRef::Compound(self.program.classes.len() - 1))
    }

    fn definition(&mut self, definition: &Definition, name: Option<&Ident>) -> TemplateId {
        let parent = self.scope().template;
        self.check_formals(definition);
        let id = self.open(Template {
            parent: Some(parent),
            formals: definition.formals.clone(),
            span: Some(definition.span),
            ..Template::default()
        });
        let input = self.tunnel("input", definition.span);
        let output = self.tunnel("output", definition.span);
        debug_assert_eq!((input, output), (INPUT, OUTPUT));
        self.scope().tunnels.push((input, output));
        self.declare_ahead(&definition.body);
        self.statements(&definition.body);
        self.read_to = definition.next;
        let owner = Owner {
            text: "this compound element",
            title: name.map_or("<anonymous>", |name| &name.name),
            click_at: Some(definition.span),
        };
        let inputs = self.tunnel_ports(INPUT, true, 0, &owner);
        let outputs = self.tunnel_ports(OUTPUT, false, 0, &owner);
        self.template().inputs = inputs;
        self.template().outputs = outputs;
        self.scopes.pop();
        id
    }

    fn check_formals(&mut self, definition: &Definition) {
        let (mut variables, mut keywords) = (HashMap::new(), HashMap::new());
        let mut rest = false;
        for formal in &definition.formals {
            let keyword = formal.keyword.as_deref();
            let known = keyword.is_some_and(|word| keywords.contains_key(word));
            let comes_late = keyword.is_none() && !keywords.is_empty();
            let behind_rest = rest;
            rest |= formal.is_rest();
            let first = *variables.entry(&*formal.variable).or_insert(formal.span);
            let first_keyed = keyword.map(|word| *keywords.entry(word).or_insert(formal.span));
            let same = match known {
                true => first_keyed.map(|keyed: Span| keyed.min(first)),
                false => Some(first).filter(|first| *first != formal.span),
            };
            let error = if let Some(first) = same {
                let words = match formal.keyword.as_deref().filter(|_| known) {
                    Some(keyword) => {
                        format!("repeated keyword parameter `{keyword}` in compound element")
                    }
                    None => format!("parameter `${}` multiply defined", formal.variable),
                };
                Diagnostic::error("duplicate-parameter", "this parameter is there already")
                    .click(words)
                    .note_at(first, "the first one")
                    .help("give it another name")
            } else if comes_late {
                Diagnostic::error(
                    "parameter-order",
                    "a parameter without keyword comes too late",
                )
                .click(OUT_OF_ORDER)
                .click(ORDER)
                .help("put parameters without keyword first, then those with one, `__REST__` last")
            } else if behind_rest {
                Diagnostic::error(
                    "parameter-order",
                    "`__REST__` takes all that is left, so it must be last",
                )
                .click(OUT_OF_ORDER)
                .click(ORDER)
                .help("put this parameter before `__REST__`")
            } else {
                continue;
            };
            self.report(error.at(formal.span).read_to(formal.span));
        }
    }

    pub(crate) fn tunnel(&mut self, name: &str, span: Span) -> NodeId {
        self.template().nodes.push(Node {
            what: NodeKind::Tunnel,
            name: name.to_owned(),
            span,
            class_span: span,
            inputs: 0,
            outputs: 0,
        });
        self.template().nodes.len() - 1
    }

    /// Number of ports of a pseudo element; all up to the last must be used. Only links from number `since` on are
    /// counted: the inner ones.
    pub(crate) fn tunnel_ports(
        &mut self,
        node: NodeId,
        is_input: bool,
        since: usize,
        owner: &Owner,
    ) -> usize {
        let title = owner.title;
        let mut misuses = std::mem::take(&mut self.scope().misuses);
        let own = misuses.extract_if(.., |(misused, _)| *misused == node);
        for (at, (_, misuse)) in own.enumerate() {
            let (this, other) = if is_input {
                ("input", "output")
            } else {
                ("output", "input")
            };
            let words = format!("`{title}` pseudoelement `{this}` may only be used as {other}");
            self.report(match at {
                0 => owner.with_click_wording(misuse, words),
                _ => misuse.click_silent(),
            });
        }
        self.scope().misuses = misuses;
        let template = self.template();
        let mut used: Vec<(u32, Span)> = Vec::new();
        for link in &template.links[since..] {
            let end = if is_input { link.from } else { link.to };
            if end.0 == node {
                used.push((end.1, link.span));
            }
        }
        used.sort_unstable();
        let mut expected = 0;
        for (port, span) in used {
            if port > expected {
                let word = if is_input { "input" } else { "output" };
                let missing = match port - expected {
                    1 => format!("{word} {expected} is not"),
                    2 => format!("{word}s {expected} and {} are not", port - 1),
                    _ => format!("{word}s {expected} to {} are not", port - 1),
                };
                let error = Diagnostic::error(
                    "unused-port",
                    format!("{} uses its {word} {port}, but {missing} used", owner.text),
                )
                .at(span)
                .help(format!("number the ports of `{word}` from 0 without gaps"));
                let each = (expected..port).take(MISSING_MAX as usize);
                let error = each.fold(error, |error, port| {
                    owner.with_click_wording(error, format!("`{title}` {word} {port} missing"))
                });
                self.report(error);
            }
            expected = port.saturating_add(1).max(expected);
        }
        expected as usize
    }

    pub(crate) fn link(&mut self, from: (NodeId, u32), to: (NodeId, u32), span: Span) {
        self.links += 1;
        if self.links > LINKS_MAX {
            if self.links == LINKS_MAX + 1 {
                self.report(
                    Diagnostic::error("too-large", format!("more than {LINKS_MAX} connections"))
                        .at(span)
                        .help("are the port lists as long as they are meant to be?"),
                );
            }
            return;
        }
        let template = self.template();
        let source = &mut template.nodes[from.0];
        source.outputs = source.outputs.max(from.1 as usize + 1);
        let target = &mut template.nodes[to.0];
        target.inputs = target.inputs.max(to.1 as usize + 1);
        template.links.push(Link { from, to, span });
    }
}
