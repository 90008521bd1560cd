//! Element classes as the rest of the program sees them: their types are erased.

use crate::args::Args;
use crate::cx::Cx;
use crate::element::{Copies, Did, Element, Init, Ports, Runs};
use crate::facts::Facts;
use crate::graph::Fate;
use crate::handler::{Handler, HandlerInfo, Job, Use};
use crate::packet::Batch;
use crate::placement::Placement;
use crate::steer::{PortTable, Sorter, Steering, Table};
use std::any::{Any, TypeId};
use std::os::fd::RawFd;
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
    /// See [`Element::ANNOTATIONS`].
    pub annotations: bool,
    /// See [`Element::ANNOTATES`].
    pub annotates: bool,
    /// See [`Element::RUNS`].
    pub runs: Runs,
    /// See [`Element::NOTIFIES`].
    pub notifies: bool,
    /// See [`Element::COUNTS`].
    pub counts: bool,
    /// See [`Element::PULL_WIRES`].
    pub pull_wires: &'static [(usize, usize)],
    /// See [`Element::LISTENS`].
    pub listens: bool,
    /// See [`Element::NOTIFIES_ROOM`].
    pub notifies_room: bool,
    /// Handlers of the class.
    pub handlers: fn() -> Vec<HandlerInfo>,
    pub(crate) kind: fn() -> TypeId,
    pub(crate) configure: fn(&mut Args) -> Box<dyn ErasedConfig>,
    pub(crate) build: fn(&AnyConfig, &Init) -> Box<dyn Node>,
    pub(crate) initialize: fn(&AnyConfig) -> Result<(), String>,
    pub(crate) control: fn(&AnyConfig, usize, &str) -> Result<String, String>,
    pub(crate) offers: fn(&AnyConfig, &str, Use) -> bool,
    pub(crate) drives: fn(&AnyConfig) -> bool,
    pub(crate) steers: fn(&AnyConfig) -> Option<Arc<Table>>,
    pub(crate) port_table: fn(&AnyConfig) -> Option<Arc<dyn PortTable>>,
    pub(crate) sorts: fn(&AnyConfig) -> Option<Arc<dyn Sorter>>,
    pub(crate) splits: fn(&AnyConfig) -> bool,
    pub(crate) placement: fn(&AnyConfig) -> Placement,
    pub(crate) memory: fn(&AnyConfig) -> usize,
    pub(crate) memory_each: fn(&AnyConfig) -> usize,
    pub(crate) port_count: fn(&AnyConfig) -> (Option<usize>, Option<usize>),
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
            annotations: E::ANNOTATIONS,
            annotates: E::ANNOTATES,
            runs: E::RUNS,
            notifies: E::NOTIFIES,
            counts: E::COUNTS,
            pull_wires: E::PULL_WIRES,
            listens: E::LISTENS,
            notifies_room: E::NOTIFIES_ROOM,
            handlers: || E::HANDLERS.iter().map(Handler::info).collect(),
            kind: TypeId::of::<E>,
            configure: |args| Box::new(Fresh::<E>(E::configure(args))),
            build: |config, init| {
                let config = typed::<E>(config);
                Box::new(Running {
                    element: E::new(&config, init),
                    config,
                })
            },
            initialize: |config| E::initialize(&typed::<E>(config)),
            control: |config, index, value| {
                E::HANDLERS[index].run_control(&typed::<E>(config), value)
            },
            offers: |config, name, wanted| E::offers(&typed::<E>(config), name, wanted),
            sorts: |config| E::sorts(&typed::<E>(config)),
            splits: |config| E::splits(&typed::<E>(config)),
            steers: |config| E::steers(&typed::<E>(config)),
            port_table: |config| E::port_table(&typed::<E>(config)),
            drives: |config| E::drives(&typed::<E>(config)),
            placement: |config| E::placement(&typed::<E>(config)),
            memory: |config| E::memory(&typed::<E>(config)),
            memory_each: |config| E::memory_each(&typed::<E>(config)),
            port_count: |config| E::port_count(&typed::<E>(config)),
        }
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

fn typed<E: Element>(config: &AnyConfig) -> Arc<E::Config> {
    Arc::clone(config)
        .downcast::<E::Config>()
        .unwrap_or_else(|_| unreachable!("a class is given only configurations that it parsed"))
}

/// A configuration that was parsed and is not yet shared.
pub(crate) trait ErasedConfig {
    fn inherit(&mut self, old: &AnyConfig);
    fn share(self: Box<Self>) -> AnyConfig;
}

struct Fresh<E: Element>(E::Config);

impl<E: Element> ErasedConfig for Fresh<E> {
    fn inherit(&mut self, old: &AnyConfig) {
        E::inherit(&mut self.0, &typed::<E>(old));
    }

    fn share(self: Box<Self>) -> AnyConfig {
        Arc::new(self.0)
    }
}

/// An element as the graph sees it.
pub(crate) trait Node {
    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx);
    fn count(&mut self, packets: u64, bytes: u64, cx: &mut Cx);
    fn counts_later(&self) -> bool;
    fn pull(&mut self, output: usize, max: usize, into: &mut Batch, cx: &mut Cx);
    fn task(&mut self, cx: &mut Cx) -> Did;
    fn start(&mut self, cx: &mut Cx);
    fn timer(&mut self, cx: &mut Cx);
    fn overflowed(&mut self, fate: Fate, cx: &mut Cx);
    fn wait_fds(&self, fds: &mut Vec<RawFd>);
    fn must_poll(&self) -> bool;
    fn held(&self) -> usize;
    fn waiting(&self) -> usize;
    fn mark(&self) -> usize;
    fn is_past(&self, mark: usize) -> bool;
    fn steering(&mut self) -> Option<&mut dyn Steering>;
    fn give_bucket(&mut self, bucket: u16) -> Option<Box<dyn Any + Send>>;
    fn take_bucket(&mut self, bucket: u16, state: Box<dyn Any + Send>, cx: &mut Cx);
    fn read(&self, handler: usize, argument: &str) -> Result<String, String>;
    fn job(&self, handler: usize, value: &str) -> Option<Job>;
    fn offered(&self, name: &str, value: &str, wanted: Use) -> Job;
    fn signals(&self) -> Vec<i32>;
    fn signal(&mut self, number: i32, cx: &mut Cx);
    fn stop_asked(&mut self, cx: &mut Cx);
    fn write(&mut self, handler: usize, value: &str, cx: &mut Cx) -> Result<(), String>;
    fn take(&mut self, old: Box<dyn Any>);
    /// The element itself, for who knows its type.
    fn element(&mut self) -> &mut dyn Any;
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

    fn count(&mut self, packets: u64, bytes: u64, cx: &mut Cx) {
        self.element.count(packets, bytes, cx);
    }

    fn counts_later(&self) -> bool {
        self.element.counts_later()
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

    fn overflowed(&mut self, fate: Fate, cx: &mut Cx) {
        self.element.overflowed(fate, cx);
    }

    fn wait_fds(&self, fds: &mut Vec<RawFd>) {
        self.element.wait_fds(fds);
    }

    fn must_poll(&self) -> bool {
        self.element.must_poll()
    }

    fn held(&self) -> usize {
        self.element.held()
    }

    fn waiting(&self) -> usize {
        self.element.waiting()
    }

    fn mark(&self) -> usize {
        self.element.mark()
    }

    fn is_past(&self, mark: usize) -> bool {
        self.element.is_past(mark)
    }

    fn steering(&mut self) -> Option<&mut dyn Steering> {
        self.element.steering()
    }

    fn give_bucket(&mut self, bucket: u16) -> Option<Box<dyn Any + Send>> {
        self.element.give_bucket(bucket)
    }

    fn take_bucket(&mut self, bucket: u16, state: Box<dyn Any + Send>, cx: &mut Cx) {
        self.element.take_bucket(bucket, state, cx);
    }

    fn read(&self, handler: usize, argument: &str) -> Result<String, String> {
        E::HANDLERS[handler].run_read(&self.element, &self.config, argument)
    }

    fn job(&self, handler: usize, value: &str) -> Option<Job> {
        E::HANDLERS[handler].job(&self.element, value)
    }

    fn offered(&self, name: &str, value: &str, wanted: Use) -> Job {
        self.element.offered(name, value, wanted)
    }

    fn signals(&self) -> Vec<i32> {
        self.element.signals()
    }

    fn signal(&mut self, number: i32, cx: &mut Cx) {
        self.element.signal(number, cx);
    }

    fn stop_asked(&mut self, cx: &mut Cx) {
        self.element.stop_asked(cx);
    }

    fn write(&mut self, handler: usize, value: &str, cx: &mut Cx) -> Result<(), String> {
        E::HANDLERS[handler].run_write(&mut self.element, value, cx)
    }

    fn take(&mut self, old: Box<dyn Any>) {
        if let Ok(old) = old.downcast::<Running<E>>() {
            self.element.take(old.element);
        }
    }

    fn element(&mut self) -> &mut dyn Any {
        &mut self.element
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
