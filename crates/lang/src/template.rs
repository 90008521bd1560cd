//! Templates: the meaning of statements independent of their use, as elements, links and definitions.
//!
//! The file and each definition of a compound element become a [`Template`]. Names and classes are resolved in it.
//! Variables are not, because each use of a compound element gives them other values.

use crate::ast::Formal;
use crate::graph::Requirement;
use crate::source::Span;
use std::rc::Rc;

/// Index of a template.
pub(crate) type TemplateId = usize;
/// Index of a node in its template.
pub(crate) type NodeId = usize;

/// Node of `input`, in a template of a compound element.
pub(crate) const INPUT: NodeId = 0;
/// Node of `output`.
pub(crate) const OUTPUT: NodeId = 1;

#[derive(Debug, Default)]
pub(crate) struct Template {
    /// The enclosing template.
    pub(crate) parent: Option<TemplateId>,
    pub(crate) formals: Vec<Formal>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) links: Vec<Link>,
    pub(crate) defines: Vec<Define>,
    /// Number of inputs: ports of `input`.
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) span: Option<Span>,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) what: NodeKind,
    pub(crate) name: String,
    /// Place of the declaration.
    pub(crate) span: Span,
    pub(crate) class_span: Span,
    /// Number of ports used from outside: one more than the largest index.
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
}

#[derive(Debug, Clone)]
pub(crate) enum NodeKind {
    Element {
        class: ClassRef,
        config: Option<Span>,
    },
    /// `input` or `output` of a compound element or a group: links pass through it, port by port.
    Tunnel,
    /// An element with a faulty declaration; it and its links are left out.
    Broken,
}

#[derive(Clone, Debug)]
pub(crate) enum ClassRef {
    Base(Rc<str>),
    /// Index of a [`ClassSet`].
    Compound(usize),
}

/// Definitions of a compound class; each use takes the first one that fits.
#[derive(Debug)]
pub(crate) struct ClassSet {
    /// Name of the class; empty if it is anonymous.
    pub(crate) name: String,
    pub(crate) definitions: Vec<TemplateId>,
    /// Class that `...` refers to.
    pub(crate) fallback_class: Option<ClassRef>,
    /// Number of definitions, including those of `...`.
    pub(crate) count: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) from: (NodeId, u32),
    pub(crate) to: (NodeId, u32),
    pub(crate) span: Span,
}

/// `define($name value)`
#[derive(Clone, Debug)]
pub(crate) struct Define {
    pub(crate) name: String,
    pub(crate) value: Span,
}

/// A file, resolved as far as possible without the values of variables.
#[derive(Debug, Default)]
pub(crate) struct Program {
    /// Templates; the first is the file's own.
    pub(crate) templates: Vec<Template>,
    pub(crate) classes: Vec<ClassSet>,
    pub(crate) requirements: Vec<Requirement>,
}
