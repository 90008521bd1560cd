//! Elements and their names: declared, anonymous, or referenced by a bare name.

use crate::ast::{ClassExpr, Ident};
use crate::diagnostic::Diagnostic;
use crate::name_resolution::{Builder, ClassUse};
use crate::source::Span;
use crate::template::{ClassRef, Node, NodeId, NodeKind};

/// A list of items in a chain.
#[derive(Clone, Copy)]
pub(crate) struct List {
    /// The token after the list.
    pub(crate) next: Span,
    /// Number of nodes before the list.
    pub(crate) nodes: NodeId,
}

impl Builder<'_, '_> {
    /// Declares a new element. The name is checked, and not used if it is invalid.
    pub(crate) fn declare(
        &mut self,
        name: &Ident,
        class: &ClassExpr,
        config: Option<Span>,
        list: List,
    ) -> NodeId {
        let (resolved, class_span) = self.class(class, ClassUse::Class);
        self.read_to = list.next;
        let what = match resolved {
            Some(class) => NodeKind::Element { class, config },
            None => NodeKind::Broken,
        };
        let span = name.span.to(match class {
            ClassExpr::Named(_) => class_span,
            ClassExpr::Compound(_) => class_span.before(),
        });
        let text = &name.name;
        let known = self.scope().names.get(text).copied();
        if let Some(node) = known {
            let first = &mut self.template().nodes[node];
            if matches!(first.what, NodeKind::Broken) && first.span == name.span {
                // An earlier use has created a node for this declaration.
                (first.what, first.span, first.class_span) = (what, span, class_span);
                return node;
            }
            let first = first.span;
            let mut error =
                Diagnostic::error("redeclared", format!("redeclaration of element `{text}`"));
            if let Some(config) = config.filter(|_| node < list.nodes) {
                let ignored = "configuration string ignored on element reference";
                error = error
                    .read_to(config.before())
                    .click_at(config.before(), ignored);
            }
            self.report(
                error
                    .at(name.span)
                    .note_at(first, "declared here first")
                    .help("give one of them another name")
                    .click_at(name.span, format!("redeclaration of element `{text}`"))
                    .click_at(first, format!("element `{text}` previously declared here")),
            );
            return node;
        }
        let pseudo = matches!(text.as_str(), "input" | "output");
        if pseudo && !self.scope().tunnels.is_empty() {
            self.report(
                Diagnostic::error(
                    "pseudo-element",
                    format!("`{text}` cannot be declared here"),
                )
                .at(name.span)
                .click_at(name.span, format!("redeclaration of element `{text}`"))
                .help(format!(
                    "inside braces or a group `{text}` means its own ports; choose another name"
                )),
            );
            return self.node(text.clone(), NodeKind::Broken, name.span, class_span);
        }
        self.check_class_name(name);
        let node = self.node(text.clone(), what, span, class_span);
        self.scope().names.insert(text.clone(), node);
        self.scope().count += 1;
        node
    }

    /// Reports an element with the name of a class.
    fn check_class_name(&mut self, name: &Ident) {
        let text = &name.name;
        if self.find_class(text).is_some() || self.is_free_class(text) {
            let mut error =
                Diagnostic::error("class-as-name", format!("`{text}` is the name of a class"))
                    .at(name.span)
                    .click_at(name.span, format!("class `{text}` used as element name"))
                    .help("give the element another name");
            if let Some(&first) = self.base.get(text) {
                error = error.note_at(first, "used as a class here");
            }
            self.report(error);
        }
    }

    fn class(&mut self, class: &ClassExpr, as_what: ClassUse) -> (Option<ClassRef>, Span) {
        match class {
            ClassExpr::Named(name) => (self.class_named(name, as_what), name.span),
            ClassExpr::Compound(compound) => (self.compound(compound, None), compound.span),
        }
    }

    fn node(&mut self, name: String, what: NodeKind, span: Span, class_span: Span) -> NodeId {
        self.template().nodes.push(Node {
            what,
            name,
            span,
            class_span,
            inputs: 0,
            outputs: 0,
        });
        self.template().nodes.len() - 1
    }

    /// Makes an element without a name: `Class@number`.
    pub(crate) fn anonymous(
        &mut self,
        class: &ClassExpr,
        config: Option<Span>,
        next: Span,
    ) -> NodeId {
        self.read_to = next;
        let (resolved, span) = self.class(class, ClassUse::Element);
        self.read_to = next;
        let prefix = match class {
            ClassExpr::Named(name) => name.name.clone(),
            ClassExpr::Compound(_) => String::new(),
        };
        let what = match resolved {
            Some(class) => NodeKind::Element { class, config },
            None => NodeKind::Broken,
        };
        let scope = self.scope();
        scope.count += 1;
        // The search continues after the last number found: all earlier ones are taken.
        let last = scope.numbers.entry(prefix.clone()).or_default();
        let mut number = scope.count.max(*last + 1);
        let mut name = format!("{prefix}@{number}");
        while scope.names.contains_key(&name) || scope.declared.contains_key(&name) {
            number += 1;
            name = format!("{prefix}@{number}");
        }
        *last = number;
        let node = self.node(name.clone(), what, span, span);
        self.scope().names.insert(name, node);
        node
    }

    /// The element to which a bare name refers: a declared one, `input` or `output`, or a new one of that class.
    pub(crate) fn named(&mut self, ident: &Ident, next: Span) -> NodeId {
        self.read_to = next;
        let name = ident.name.as_str();
        if let Some(&node) = self.scope().names.get(name) {
            return node;
        }
        if matches!(name, "input" | "output") {
            if let Some(&(input, output)) = self.scope().tunnels.last() {
                return if name == "input" { input } else { output };
            }
            if self.find_class(name).is_none() {
                self.report(
                    Diagnostic::error("pseudo-element", format!("`{name}` means nothing here"))
                        .at(ident.span)
                        .click_at(ident.span, format!("undeclared element `{name}`"))
                        .help(
                            "`input` and `output` are the ports of a compound element `{ ... }` or \
                             a group `( ... )`",
                        ),
                );
                return self.node(name.to_owned(), NodeKind::Broken, ident.span, ident.span);
            }
        }
        if let Some(&declared) = self.scope().declared.get(name) {
            self.report(
                Diagnostic::error(
                    "used-before-declared",
                    format!("`{name}` is used before it is declared"),
                )
                .at(ident.span)
                .note_at(declared, "declared here")
                .click_at(ident.span, format!("undeclared element `{name}`"))
                .help("move the declaration up, or declare it where it is used first"),
            );
            let node = self.node(name.to_owned(), NodeKind::Broken, declared, declared);
            self.scope().names.insert(name.to_owned(), node);
            self.scope().count += 1;
            return node;
        }
        let broken = self.find_class(name).is_none() && self.is_out_of_reach(ident);
        if broken {
            let node = self.node(name.to_owned(), NodeKind::Broken, ident.span, ident.span);
            self.scope().names.insert(name.to_owned(), node);
            return node;
        }
        self.anonymous(&ClassExpr::Named(ident.clone()), None, next)
    }

    /// True if the name is that of an element outside the compound element, or of one whose declaration could not be
    /// parsed.
    fn is_out_of_reach(&mut self, ident: &Ident) -> bool {
        let name = ident.name.as_str();
        if !self.reads_as_click() && self.unparsed.contains(name) {
            return true;
        }
        let outer = self.scopes.iter().rev().skip(1);
        let found = outer.filter_map(|scope| Some((scope.template, *scope.names.get(name)?)));
        let nodes = found.map(|(template, node)| &self.program.templates[template].nodes[node]);
        // An element that is declared later does not hide a class yet.
        let mut known = nodes.filter(|node| !matches!(node.what, NodeKind::Broken));
        let Some(span) = known.next().map(|node| node.span) else {
            return false;
        };
        self.report(
            Diagnostic::error("out-of-scope", format!("`{name}` cannot be reached from inside these braces"))
                .at(ident.span)
                .click_at(ident.span, format!("undeclared element `{name}`"))
                .note_at(span, "declared here, outside")
                .help("connect it outside, to a port that leads in through `input` or out through `output`"),
        );
        true
    }
}
