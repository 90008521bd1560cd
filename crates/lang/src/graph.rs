//! The flattened graph: the result of this crate.

use crate::config::Config;
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use std::collections::BTreeSet;

/// A router as its file describes it: no compound elements, no variables, every name resolved.
#[derive(Clone, Debug, Default)]
pub struct Router {
    /// Elements in Click's order: those of the file first, then those of each compound element.
    pub elements: Vec<Element>,
    /// The connections, each once, in the order of the file.
    pub connections: Vec<Connection>,
    /// Requirements of the file.
    pub requirements: Vec<Requirement>,
    /// Names of the variables that a definition can give a value.
    pub variables: BTreeSet<String>,
    /// Compound elements that the file declares but does not connect.
    pub unconnected: Vec<Unconnected>,
    /// Unused ports of compound elements. Only `ashlar click` reports them.
    pub unused: Vec<Diagnostic>,
}

/// An unconnected compound element, with the inner ends of its ports for a later connection.
#[derive(Clone, Debug)]
pub struct Unconnected {
    /// Name of the compound element.
    pub name: String,
    /// Place of its declaration.
    pub span: Span,
    /// For each input, the inner ports to which it leads.
    pub inputs: Vec<Vec<Port>>,
    /// For each output, the inner ports that lead to it.
    pub outputs: Vec<Vec<Port>>,
}

impl Router {
    /// The index of the element of this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.elements.iter().position(|e| e.name == name)
    }
}

/// An element.
#[derive(Clone, Debug)]
pub struct Element {
    /// Name: `q`, `Queue@3`, `outer/inner`.
    pub name: String,
    /// Class, synonyms resolved; it may not exist.
    pub class: String,
    /// Configuration string.
    pub config: Config,
    /// Place of the declaration: `q :: Queue`, or the class alone if the element is anonymous.
    pub span: Span,
    /// The class in the declaration.
    pub class_span: Span,
}

/// A connection.
#[derive(Clone, Debug)]
pub struct Connection {
    /// An output port.
    pub from: Port,
    /// An input port.
    pub to: Port,
    /// Place of the arrow and of both its sides.
    pub span: Span,
}

/// A port of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port {
    /// Index into [`Router::elements`].
    pub element: usize,
    /// The port, from 0.
    pub port: usize,
}

/// An argument of `require`, which may be `package NAME`, `library FILE` or a bare package name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// `package` (also if omitted), `library`, or another word from the file.
    pub kind: String,
    /// Name of the requirement.
    pub name: String,
    /// Place of the argument.
    pub span: Span,
}
