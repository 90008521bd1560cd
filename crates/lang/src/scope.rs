//! Converts trees to templates: finds the definition of each name.

use crate::ast::{ClassExpr, Compound, Definition, Ident, Statement, What};
use crate::diagnostic::Diagnostic;
use crate::graph::ClassUse;
use crate::source::{SourceMap, Span};
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

/// State of processing a body.
pub(crate) struct Scope {
    pub(crate) template: TemplateId,
    /// Elements declared so far.
    pub(crate) names: HashMap<String, NodeId>,
    /// Elements that the body declares anywhere.
    pub(crate) declared: HashMap<String, Span>,
    classes: HashMap<String, ClassRef>,
    /// Name of the class whose definition this is.
    pub(crate) class: Option<String>,
    /// Number of elements without pseudo elements; it numbers anonymous elements.
    pub(crate) count: usize,
    /// For each class, the last number given to an anonymous element.
    pub(crate) numbers: HashMap<String, usize>,
    /// Place of each variable's definition.
    pub(crate) variables: HashMap<String, Span>,
    /// Nodes of `input` and `output`, innermost last.
    pub(crate) tunnels: Vec<(NodeId, NodeId)>,
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
    pub(crate) lost: HashSet<String>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Classes without a definition in the file, with position and kind of their first use.
    pub(crate) base: HashMap<String, (Span, ClassUse)>,
    pub(crate) links: usize,
}

impl<'a, 'l> Builder<'a, 'l> {
    pub(crate) fn new(map: &'a mut SourceMap, loader: Option<Loader<'l>>) -> Builder<'a, 'l> {
        Builder {
            map,
            loader,
            libraries: HashSet::new(),
            folder: None,
            program: Program::default(),
            scopes: Vec::new(),
            lost: HashSet::new(),
            diagnostics: Vec::new(),
            base: HashMap::new(),
            links: 0,
        }
    }

    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// The file itself.
    pub(crate) fn file(&mut self, statements: &[Statement]) {
        self.open(Template::default());
        self.declare_ahead(statements);
        self.statements(statements);
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
            class: None,
            count: 0,
            numbers: HashMap::new(),
            variables,
            tunnels: Vec::new(),
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
                    What::Name(name) if alone => names.push(name),
                    What::Declaration { name, .. } => {
                        names.push(name);
                        for name in names.drain(..) {
                            let declared = &mut self.scope().declared;
                            declared.entry(name.name.clone()).or_insert(name.span);
                        }
                    }
                    What::Group(statements) => self.declare_ahead(statements),
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
                ClassUse::Element => {
                    error.click("configuration string ignored on element reference")
                }
                ClassUse::Class | ClassUse::Extension => {
                    error.click(format!("unknown element class `{name}`"))
                }
            });
            return None;
        }
        self.base
            .entry(name.clone())
            .or_insert((ident.span, as_what));
        Some(ClassRef::Base(Rc::from(name.as_str())))
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
        let otherwise = match (compound.extends, name) {
            (Some(_), Some(name)) => self.class_named(name, ClassUse::Extension),
            (Some(span), None) => {
                self.report(
                    Diagnostic::error("nothing-to-extend", "`...` needs a class to extend")
                        .at(span)
                        .help("it stands in `elementclass NAME { ... || ... }`; a compound element without a name \
                            extends nothing"),
                );
                None
            }
            (None, _) => None,
        };
        let definitions = compound.definitions.iter();
        let definitions: Vec<TemplateId> = definitions
            .map(|definition| self.definition(definition, name))
            .collect();
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
            otherwise,
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
        self.scope().class = name.map(|name| name.name.clone());
        self.scope().tunnels.push((input, output));
        self.declare_ahead(&definition.body);
        self.statements(&definition.body);
        let inputs = self.tunnel_ports(INPUT, true, 0, "this compound element");
        let outputs = self.tunnel_ports(OUTPUT, false, 0, "this compound element");
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
            self.report(error.at(formal.span));
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
        owner: &str,
    ) -> usize {
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
                    format!("{owner} uses its {word} {port}, but {missing} used"),
                )
                .at(span)
                .help(format!("number the ports of `{word}` from 0 without gaps"));
                let title = self.title(owner);
                let each = (expected..port).take(MISSING_MAX as usize);
                let error = each.fold(error, |error, port| {
                    error.click(format!("`{title}` {word} {port} missing"))
                });
                self.report(error);
            }
            expected = port.saturating_add(1).max(expected);
        }
        expected as usize
    }

    /// Click's title of the class that is being defined, or of a group.
    pub(crate) fn title(&mut self, owner: &str) -> String {
        match (owner, &self.scope().class) {
            ("this group", _) => "<anonymous group>".to_owned(),
            (_, None) => "<anonymous>".to_owned(),
            (_, Some(name)) => name.clone(),
        }
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
