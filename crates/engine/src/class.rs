//! Element classes with their types erased, as used outside their own files.

use crate::contract::{AnyConfig, Contract};
use crate::handler_info::HandlerInfo;
use arguments::router_wide::RouterWide;
use arguments::{ArgInfo, Args, Names};
use lang::{Config, Span};
use std::any::{Any, TypeId};
use std::ops::Deref;

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
/// packets are watched. The class must say [`Contract::ignores_annotations`].
pub struct Annotates;

/// An element class with its type erased. It dereferences to its contract.
pub struct Class {
    /// The class's contract.
    pub contract: Contract,
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

impl Deref for Class {
    type Target = Contract;

    fn deref(&self) -> &Contract {
        &self.contract
    }
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
