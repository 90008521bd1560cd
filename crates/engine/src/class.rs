//! Element classes with their types erased, as used outside their own files.

use crate::facts::Facts;
use crate::handler_info::HandlerInfo;
use crate::ports::Ports;
use arguments::router_wide::RouterWide;
use arguments::{ArgInfo, Args, Names};
use lang::{Config, Span};
use std::any::{Any, TypeId};
use std::sync::Arc;

/// The extensions of a class, each found by its type; see `element::extension`.
pub type Extensions = &'static [&'static (dyn Any + Send + Sync)];

/// Values that passes of the planner attach to an element, each found by its type.
#[derive(Default)]
pub struct Attached(Vec<Box<dyn Any + Send + Sync>>);

impl Attached {
    /// Attaches a value; replaces an earlier one of the same type.
    pub fn set<T: Any + Send + Sync>(&mut self, value: T) {
        self.0.retain(|one| !one.is::<T>());
        self.0.push(Box::new(value));
    }

    /// The attached value of this type.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.iter().find_map(|one| one.downcast_ref())
    }
}

/// Extension for classes whose elements never send a packet (Idle). The needs of elements downstream are then met.
pub struct Silent;

/// Extension: packets without annotations may reach elements of the class although an element downstream reads
/// annotations. Where `Init::annotates` is true, such an element initialises annotations by `Packet::arrived`, unless
/// packets are watched. `Element::READS_ANNOTATIONS` must be false.
pub struct Annotates;

/// Number of copies of an element that may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// One copy of the element for each core that reaches it.
    PerCore,
    /// One copy in all: the element keeps an order or a state that cannot be split.
    One,
    /// One copy, on the worker that owns the element's state and the state of the elements that it names. The plan puts
    /// queues before the element's inputs, through which packets from other workers reach the owner. The inputs must be
    /// push.
    Owner,
}

/// True if an element starts work by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// The element runs only when packets arrive or a timer expires.
    OnPackets,
    /// Task that is always ready.
    AsTask,
    /// Task if its input is pull, otherwise on packets (ToDevice, Discard).
    AsTaskIfPull,
    /// Task if its output is push, otherwise on demand (InfiniteSource).
    AsTaskIfPush,
}

/// A configuration with its type erased.
pub type AnyConfig = Arc<dyn Any + Send + Sync>;

/// An element class with its type erased.
pub struct Class {
    /// The class name.
    pub name: &'static str,
    /// Source file of the class; see [`Class::manual`].
    pub source: &'static str,
    /// Ports.
    pub ports: Ports,
    /// See `Element::NEEDS`.
    pub needs: &'static [Facts],
    /// See `Element::GIVES`.
    pub gives: &'static [Facts],
    /// See `Element::SPOILS`.
    pub spoils: Facts,
    /// See `Element::DROPS`.
    pub drops: &'static [&'static str],
    /// See `Element::COPIES`.
    pub copies: Copies,
    /// See `Element::READS_ANNOTATIONS`.
    pub reads_annotations: bool,
    /// See `Element::carries_super_frames`.
    pub carries_super_frames: fn(&AnyConfig) -> bool,
    /// See `Element::RUNS`.
    pub runs: Runs,
    /// See `Element::EXTENSIONS`.
    pub extensions: Extensions,
    /// Handlers of the class.
    pub handlers: fn() -> Vec<HandlerInfo>,
    /// The element type.
    pub kind: fn() -> TypeId,
    /// Path of the element type; see [`Class::folder`].
    pub path: fn() -> &'static str,
    /// Parses a configuration; see `Element::configure`.
    pub configure: fn(&mut Args) -> Box<dyn ErasedConfig>,
    /// Makes elements, for the graph.
    pub(crate) maker: &'static (dyn Any + Send + Sync),
    pub(crate) control: fn(&AnyConfig, usize, &str) -> Result<String, String>,
}

impl Class {
    /// Arguments that the class's configuration may contain.
    pub fn arguments(&self) -> Vec<ArgInfo> {
        let mut map = lang::SourceMap::new();
        let file = map.add("", "");
        let (config, names) = (Config::empty(Span::new(file, 0..0)), Names::default());
        let (title, router_wide) = ((String::new(), config.span()), RouterWide::default());
        let mut args = Args::new(title, &config, &names, &router_wide, Vec::new());
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

    /// The folder of the class's source file, which is its topic, such as `ip4`. It is the crate's name if the file
    /// is in no folder.
    pub fn folder(&self) -> &'static str {
        let mut parts = (self.path)().split("::");
        let (first, second) = (parts.next().unwrap_or_default(), parts.next());
        match parts.next() {
            Some(_) => second.unwrap_or(first),
            None => first,
        }
    }

    /// The first sentence of the manual page.
    pub fn summary(&self) -> String {
        let manual = self.manual();
        let first: Vec<&str> = manual.lines().take_while(|l| !l.is_empty()).collect();
        first.join(" ")
    }

    /// Facts that an input requires.
    pub fn needs(&self, input: usize) -> Facts {
        self.needs
            .get(input)
            .or(self.needs.last())
            .copied()
            .unwrap_or(Facts::NONE)
    }

    /// Facts that an output establishes.
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

/// A parsed configuration before copies share it.
pub trait ErasedConfig {
    /// See `Element::inherit`.
    fn inherit(&mut self, old: &AnyConfig);
    /// The configuration, shared by all copies.
    fn share(self: Box<Self>) -> AnyConfig;
}
