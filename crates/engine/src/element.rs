//! Elements: one trait for authors, one type-erased interface for the graph.
//!
//! An author writes [`Element`] for a type that is the state of one element *on one core*. Most elements write
//! [`step`](Element::step), which looks at one packet and names its output. Elements that gain from batches, make
//! packets or hold them write [`process`](Element::process) instead. Implementing one gives the other. An element knows
//! no threads, locks or queue numbers. Only two things cross cores: `Config` (shared, immutable or made of atomics and
//! published tables), and packets in a queue.

use crate::class::ErasedConfig;
pub use crate::class::{Annotates, Attached, Class, Silent};
pub use crate::contract::{AnyConfig, Contract, Copies, Extensions, Runs};
pub use crate::facts::Facts;
pub use crate::graph::Init;
use crate::graph::{Cx, Node, NodeMaker};
pub use crate::packet::Verdict;
use crate::packet::{Batch, Packet};
pub use crate::ports::{Flow, Ports};
pub use crate::run_result::Did;
use arguments::Args;
use extension::config_of;
use handler::{Handler, Job};
use std::any::{Any, TypeId};
use std::sync::Arc;

pub mod extension;
pub mod handler;

/// An element class: the state of one element on one core.
pub trait Element: Sized + 'static {
    /// Declarations of the class, on which the planner relies: ports, facts, drops and others.
    const CONTRACT: Contract;
    /// Handlers beside those that every element has.
    const HANDLERS: &'static [Handler<Self>] = &[];

    /// The parsed configuration, which all copies share. State that copies share and control changes is here, too, as
    /// atomics, published tables or rings. A setting of each copy may be in the copy, where
    /// [`Handler::set`](crate::handler::Handler::set) changes it.
    type Config: Send + Sync + 'static;

    /// Parses the configuration. It cannot fail: `args` records mistakes and returns a stand-in. It runs on the
    /// control thread, sometimes only to describe the class, so it must not open or change anything.
    fn configure(args: &mut Args) -> Self::Config;

    /// Makes the state for one core. It runs on the worker, so the state need not be `Send`.
    fn new(config: &Arc<Self::Config>, init: &Init) -> Self;

    /// Handles one packet and returns its output. Packets that return [`Verdict::ON`] leave together at the end; so
    /// packets that the element emits itself, and packets with other verdicts, may leave before them in another
    /// order.
    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let _ = (packet, cx);
        Verdict::ON
    }

    /// Handles a batch that arrived at `input`. Packets left in `batch` leave by output 0, after those that were
    /// emitted. The default calls [`step`](Self::step) for each packet.
    #[inline]
    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        let _ = input;
        cx.sort(batch, |packet, cx| self.step(packet, cx));
    }

    /// Appends up to `max` packets for pull output `output`. The default pulls from input 0 and processes those
    /// packets.
    #[inline]
    fn pull(&mut self, output: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        let _ = output;
        let mut batch = cx.spare();
        cx.pull(0, max, &mut batch);
        if !batch.is_empty() {
            self.process(0, &mut batch, cx);
        }
        into.append(&mut batch);
        cx.keep_spare(batch);
    }

    /// Does a bounded piece of work as a task.
    fn task(&mut self, cx: &mut Cx) -> Did {
        let _ = cx;
        Did::Sleep
    }

    /// Called once, before the first turn of the graph. Jobs that it defers run after every element has been called.
    fn start(&mut self, cx: &mut Cx) {
        let _ = cx;
    }

    /// Called when the timer set with [`Cx::set_timer`] is due.
    fn timer(&mut self, cx: &mut Cx) {
        let _ = cx;
    }

    /// Number of packets that this copy holds and may still send, for packet accounting and for a clean end.
    fn held(&self) -> usize {
        0
    }

    /// Takes over shared state of the old configuration (tables, rings) at a reload, on the control thread. It must
    /// not change that state, because the reload can still fail; [`take`](Self::take) may.
    fn inherit(config: &mut Self::Config, old: &Self::Config) {
        let _ = (config, old);
    }

    /// Takes over the state of the element with the same name and class at a hot swap, on the worker. Counters with a
    /// handler ([`counter!`](crate::counter)) have been taken over.
    fn take(&mut self, old: Self) {
        drop(old);
    }
}

impl Class {
    /// The class of an element type.
    pub const fn of<E: Element>() -> Class {
        Class {
            contract: E::CONTRACT,
            handlers: || E::HANDLERS.iter().map(Handler::info).collect(),
            kind: TypeId::of::<E>,
            path: std::any::type_name::<E>,
            configure: |args| Box::new(Fresh::<E>(E::configure(args))),
            maker: Running::<E>::MAKER,
            control: |config, index, value| {
                E::HANDLERS[index].run_control(&config_of::<E>(config), value)
            },
        }
    }
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

struct Running<E: Element> {
    element: E,
    config: Arc<E::Config>,
}

impl<E: Element> Running<E> {
    const MAKER: &'static NodeMaker = &NodeMaker(|config, init| {
        let config = config_of::<E>(config);
        Box::new(Running {
            element: E::new(&config, init),
            config,
        })
    });
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
            for handler in E::HANDLERS {
                handler.copy_counter(&mut self.element, &old.element);
            }
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

/// The manual page of a class: the leading `//!` lines of its file. Write `manual!("my_element.rs")` with the name of
/// the file that contains it.
#[macro_export]
macro_rules! manual {
    ($file:literal) => {
        include_str!($file)
    };
}
