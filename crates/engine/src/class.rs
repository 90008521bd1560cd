//! Element classes as the rest of the program sees them: their types are erased.

use crate::cx::Cx;
use crate::element::{Copies, Did, Element, Init, Ports, Runs};
use crate::extension::{Extensions, config_of};
use crate::facts::Facts;
use crate::handler::{Handler, HandlerInfo, Job};
use crate::packet::Batch;
use arguments::commons::Commons;
use arguments::{ArgInfo, Args, Names};
use lang::{Config, Span};
use std::any::{Any, TypeId};
use std::sync::Arc;

/// A configuration whose class is not known here.
pub type AnyConfig = Arc<dyn Any + Send + Sync>;

/// An element class as the rest of the program sees it.
pub struct Class {
    /// The class name.
    pub name: &'static str,
    /// Source of the file that defines it; see [`Class::manual`].
    pub source: &'static str,
    /// Ports.
    pub ports: Ports,
    /// See [`Element::NEEDS`].
    pub needs: &'static [Facts],
    /// See [`Element::GIVES`].
    pub gives: &'static [Facts],
    /// See [`Element::SPOILS`].
    pub spoils: Facts,
    /// See [`Element::DROPS`].
    pub drops: &'static [&'static str],
    /// See [`Element::COPIES`].
    pub copies: Copies,
    /// See [`Element::READS_ANNOTATIONS`].
    pub reads_annotations: bool,
    /// See [`Element::RUNS`].
    pub runs: Runs,
    /// See [`Element::EXTENSIONS`].
    pub extensions: Extensions,
    /// Handlers of the class.
    pub handlers: fn() -> Vec<HandlerInfo>,
    /// The element type.
    pub kind: fn() -> TypeId,
    /// Parses a configuration; see [`Element::configure`].
    pub configure: fn(&mut Args) -> Box<dyn ErasedConfig>,
    pub(crate) build: fn(&AnyConfig, &Init) -> Box<dyn Node>,
    pub(crate) control: fn(&AnyConfig, usize, &str) -> Result<String, String>,
}

impl Class {
    /// The class of an element type.
    pub const fn of<E: Element>() -> Class {
        Class {
            name: E::CLASS,
            source: E::MANUAL,
            ports: E::PORTS,
            needs: E::NEEDS,
            gives: E::GIVES,
            spoils: E::SPOILS,
            drops: E::DROPS,
            copies: E::COPIES,
            reads_annotations: E::READS_ANNOTATIONS,
            runs: E::RUNS,
            extensions: E::EXTENSIONS,
            handlers: || E::HANDLERS.iter().map(Handler::info).collect(),
            kind: TypeId::of::<E>,
            configure: |args| Box::new(Fresh::<E>(E::configure(args))),
            build: |config, init| {
                let config = config_of::<E>(config);
                Box::new(Running {
                    element: E::new(&config, init),
                    config,
                })
            },
            control: |config, index, value| {
                E::HANDLERS[index].run_control(&config_of::<E>(config), value)
            },
        }
    }

    /// What the class's configuration may contain.
    pub fn arguments(&self) -> Vec<ArgInfo> {
        let mut map = lang::SourceMap::new();
        let file = map.add("", "");
        let (config, names) = (Config::empty(Span::new(file, 0..0)), Names::default());
        let (title, commons) = ((String::new(), config.span()), Commons::default());
        let mut args = Args::new(title, &config, &names, &commons, Vec::new());
        (self.configure)(&mut args);
        args.into_info()
    }

    /// An extension of the class, by its type.
    pub fn extension<T: 'static>(&self) -> Option<&'static T> {
        self.extensions.iter().find_map(|one| one.downcast_ref())
    }

    /// The manual page as text: the file's leading `//!` lines.
    pub fn manual(&self) -> String {
        let lines = self.source.lines().take_while(|l| l.starts_with("//!"));
        let mut text = String::new();
        for line in lines {
            let line = line.trim_start_matches("//!");
            text.push_str(line.strip_prefix(' ').unwrap_or(line));
            text.push('\n');
        }
        text
    }

    /// The first sentence of the manual page.
    pub fn summary(&self) -> String {
        let manual = self.manual();
        let first: Vec<&str> = manual.lines().take_while(|l| !l.is_empty()).collect();
        first.join(" ")
    }

    /// What an input needs.
    pub fn needs(&self, input: usize) -> Facts {
        self.needs
            .get(input)
            .or(self.needs.last())
            .copied()
            .unwrap_or(Facts::NONE)
    }

    /// What an output gives.
    pub fn gives(&self, output: usize) -> Facts {
        self.gives
            .get(output)
            .or(self.gives.last())
            .copied()
            .unwrap_or(Facts::NONE)
    }
}

impl std::fmt::Debug for Class {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// A configuration that was parsed and is not yet shared.
pub trait ErasedConfig {
    /// See [`Element::inherit`].
    fn inherit(&mut self, old: &AnyConfig);
    /// The configuration, shared by all copies.
    fn share(self: Box<Self>) -> AnyConfig;
}

struct Fresh<E: Element>(E::Config);

impl<E: Element> ErasedConfig for Fresh<E> {
    fn inherit(&mut self, old: &AnyConfig) {
        E::inherit(&mut self.0, &config_of::<E>(old));
    }

    fn share(self: Box<Self>) -> AnyConfig {
        Arc::new(self.0)
    }
}

/// An element as the graph sees it.
pub(crate) trait Node {
    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx);
    fn pull(&mut self, output: usize, max: usize, into: &mut Batch, cx: &mut Cx);
    fn task(&mut self, cx: &mut Cx) -> Did;
    fn start(&mut self, cx: &mut Cx);
    fn timer(&mut self, cx: &mut Cx);
    fn held(&self) -> usize;
    fn read(&self, handler: usize, argument: &str) -> Result<String, String>;
    fn job(&self, handler: usize, value: &str) -> Option<Job>;
    fn write(&mut self, handler: usize, value: &str, cx: &mut Cx) -> Result<(), String>;
    fn take(&mut self, old: Box<dyn Any>);
    /// The element itself, for who knows its type.
    fn element(&self) -> &dyn Any;
    /// As [`element`](Self::element), to change.
    fn element_mut(&mut self) -> &mut dyn Any;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

struct Running<E: Element> {
    element: E,
    config: Arc<E::Config>,
}

impl<E: Element> Node for Running<E> {
    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        self.element.process(input, batch, cx);
    }

    fn pull(&mut self, output: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        self.element.pull(output, max, into, cx);
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        self.element.task(cx)
    }

    fn start(&mut self, cx: &mut Cx) {
        self.element.start(cx);
    }

    fn timer(&mut self, cx: &mut Cx) {
        self.element.timer(cx);
    }

    fn held(&self) -> usize {
        self.element.held()
    }

    fn read(&self, handler: usize, argument: &str) -> Result<String, String> {
        E::HANDLERS[handler].run_read(&self.element, &self.config, argument)
    }

    fn job(&self, handler: usize, value: &str) -> Option<Job> {
        E::HANDLERS[handler].job(&self.element, value)
    }

    fn write(&mut self, handler: usize, value: &str, cx: &mut Cx) -> Result<(), String> {
        E::HANDLERS[handler].run_write(&mut self.element, value, cx)
    }

    fn take(&mut self, old: Box<dyn Any>) {
        if let Ok(old) = old.downcast::<Running<E>>() {
            self.element.take(old.element);
        }
    }

    fn element(&self) -> &dyn Any {
        &self.element
    }

    fn element_mut(&mut self) -> &mut dyn Any {
        &mut self.element
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
