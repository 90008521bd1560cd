//! Syntax tree of a text, before names are resolved.

use crate::source::Span;

/// A name and its place.
#[derive(Clone, Debug)]
pub(crate) struct Ident {
    pub(crate) name: String,
    pub(crate) span: Span,
}

/// A statement.
#[derive(Clone, Debug)]
pub(crate) enum Statement {
    Chain(Chain),
    ElementClass { name: Ident, class: ClassExpr },
    Define(Directive),
    Require(Directive),
}

/// `define(...)` or `require(...)`
#[derive(Clone, Copy, Debug)]
pub(crate) struct Directive {
    /// The configuration string, without its parentheses.
    pub(crate) config: Span,
    /// The last token of the statement.
    pub(crate) last_token: Span,
}

/// `a, b -> c => d`; a declaration is a chain without arrows.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    pub(crate) first: Vec<Item>,
    pub(crate) rest: Vec<(Arrow, Vec<Item>)>,
    /// The token behind the last item.
    pub(crate) next: Span,
    /// True if the chain goes on with something that could not be parsed.
    pub(crate) broken: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrow {
    /// `=>`
    pub(crate) many: bool,
    pub(crate) span: Span,
}

/// `[1] element [2]`
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) inputs: Option<Ports>,
    pub(crate) what: ItemKind,
    pub(crate) outputs: Option<Ports>,
    /// Place of the item without its ports.
    pub(crate) span: Span,
}

/// A list of ports such as `[0, 2-4]`; empty for `[]`.
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    pub(crate) ports: Vec<u32>,
    pub(crate) span: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum ItemKind {
    /// An element declared elsewhere, or an anonymous one of this class.
    Name(Ident),
    Declaration {
        name: Ident,
        class: ClassExpr,
        config: Option<Span>,
    },
    Anonymous {
        class: ClassExpr,
        config: Option<Span>,
    },
    Group(Vec<Statement>),
    /// `input` at the start or `output` at the end of a chain, if it is omitted. Holds the next token, for error
    /// messages.
    Implicit(String),
}

#[derive(Clone, Debug)]
pub(crate) enum ClassExpr {
    Named(Ident),
    Compound(Compound),
}

/// `{ $a | ... || ... || ... }`
#[derive(Clone, Debug)]
pub(crate) struct Compound {
    pub(crate) definitions: Vec<Definition>,
    /// `|| ...` at the end: the class keeps its earlier definitions.
    pub(crate) extends: Option<Span>,
    pub(crate) span: Span,
}

#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) formals: Vec<Formal>,
    pub(crate) body: Vec<Statement>,
    pub(crate) span: Span,
    /// The token behind the body: `}` or `||`.
    pub(crate) next: Span,
}

/// `$a`, `KEYWORD $a` or `__REST__ $a`
#[derive(Clone, Debug)]
pub(crate) struct Formal {
    pub(crate) keyword: Option<String>,
    /// Name of the variable, without the dollar sign.
    pub(crate) variable: String,
    pub(crate) span: Span,
}

/// Keyword of a parameter that takes all remaining arguments.
pub(crate) const REST: &str = "__REST__";

impl Formal {
    pub(crate) fn is_rest(&self) -> bool {
        self.keyword.as_deref() == Some(REST)
    }
}
