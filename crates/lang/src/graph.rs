//! The flattened graph: what the language is for.

use crate::config::Config;
use crate::source::Span;
use std::collections::BTreeSet;

/// A router as its file describes it: no compound elements, no variables, every name resolved.
#[derive(Clone, Debug, Default)]
pub struct Router {
    /// The elements, in Click's order: those of the file first, then those of compound elements.
    pub elements: Vec<Element>,
    /// The connections, each once, in the order of the file.
    pub connections: Vec<Connection>,
    /// What the file requires.
    pub requirements: Vec<Requirement>,
    /// Names of the variables that a definition can give a value.
    pub variables: BTreeSet<String>,
    /// Compound elements that the file declares and connects to nothing.
    pub loose: Vec<Loose>,
}

/// A compound element without connections: where its ports lead inside, for who connects it later.
#[derive(Clone, Debug)]
pub struct Loose {
    /// Its name.
    pub name: String,
    /// Its declaration.
    pub span: Span,
    /// What each input leads to.
    pub inputs: Vec<Vec<Port>>,
    /// What leads to each output.
    pub outputs: Vec<Vec<Port>>,
}

impl Router {
    /// The index of the element of this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.elements.iter().position(|e| e.name == name)
    }
}

/// One element.
#[derive(Clone, Debug)]
pub struct Element {
    /// Its name: `q`, `Queue@3`, `outer/inner`.
    pub name: String,
    /// Its class, synonyms resolved. Nobody has checked that it exists.
    pub class: String,
    /// Its configuration string.
    pub config: Config,
    /// Its declaration: `q :: Queue`, or the class alone if it is anonymous.
    pub span: Span,
    /// The class in the declaration.
    pub class_span: Span,
}

/// One connection.
#[derive(Clone, Debug)]
pub struct Connection {
    /// An output port.
    pub from: Port,
    /// An input port.
    pub to: Port,
    /// The arrow and what it joins.
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
    /// `package` (also where the kind is left out), `library`, or what else the file says.
    pub kind: String,
    /// What is required.
    pub name: String,
    /// The argument.
    pub span: Span,
}
