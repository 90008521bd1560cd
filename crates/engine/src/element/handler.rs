//! Handlers: reads and writes of an element by control, one line each.
//!
//! Each core has its own copy of an element. A `sum` or a `counter!` is added over the copies; a `text` or `show` is
//! read from every copy. A `set` or `assign` reaches every copy through its worker's mailbox. A `control` handler runs
//! once, on the control side, on the state that the copies share. A name may be listed twice: once for reading and once
//! for writing.

use crate::element::Element;
use crate::graph::Cx;
pub use crate::graph::Job;
pub use crate::handler_info::{Access, AskError, HandlerInfo, REPLACED, Use, merge};
use arguments::units::Setting;
use std::fmt::Display;

type Set<E> = fn(&mut E, &str, &mut Cx) -> Result<(), String>;

enum Act<E: Element> {
    Sum(fn(&E) -> u64),
    Counter(fn(&E) -> u64, fn(&mut E) -> &mut u64),
    Text(fn(&E, &str) -> Result<String, String>),
    Show(fn(&E) -> &dyn Display),
    Set(Set<E>),
    Assign(fn(&mut E) -> &mut dyn Setting),
    Control(fn(&E::Config, &str) -> Result<String, String>),
    Job(fn(&E, &str) -> Job),
}

/// A handler of an element class.
pub struct Handler<E: Element> {
    info: HandlerInfo,
    act: Act<E>,
}

impl<E: Element> Handler<E> {
    const fn new(name: &'static str, doc: &'static str, access: Access, act: Act<E>) -> Handler<E> {
        Handler {
            info: HandlerInfo {
                name,
                doc,
                access,
                inner: false,
                argument: false,
            },
            act,
        }
    }

    /// Read handler for a count, added over cores.
    pub const fn sum(name: &'static str, doc: &'static str, get: fn(&E) -> u64) -> Handler<E> {
        Handler::new(name, doc, Access::Sum, Act::Sum(get))
    }

    /// Read handler for a counter of the element; write [`counter!`](crate::counter). It is added over cores, and
    /// survives a reload by itself.
    pub const fn counter(
        name: &'static str,
        doc: &'static str,
        get: fn(&E) -> u64,
        place: fn(&mut E) -> &mut u64,
    ) -> Handler<E> {
        Handler::new(name, doc, Access::Sum, Act::Counter(get, place))
    }

    /// Read handler that returns a text of each core. Its argument is the text after the name.
    pub const fn text(
        name: &'static str,
        doc: &'static str,
        get: fn(&E, &str) -> Result<String, String>,
    ) -> Handler<E> {
        Handler::new(name, doc, Access::Text, Act::Text(get))
    }

    /// Read handler that shows a value of each core.
    pub const fn show(
        name: &'static str,
        doc: &'static str,
        get: fn(&E) -> &dyn Display,
    ) -> Handler<E> {
        Handler::new(name, doc, Access::Text, Act::Show(get))
    }

    /// Write handler that parses a value and assigns it on every core, without other effects.
    pub const fn assign(
        name: &'static str,
        doc: &'static str,
        place: fn(&mut E) -> &mut dyn Setting,
    ) -> Handler<E> {
        Handler::new(name, doc, Access::Set, Act::Assign(place))
    }

    /// Write handler for a setting or an action on every core. It must refuse a bad value before it changes anything.
    pub const fn set(name: &'static str, doc: &'static str, set: Set<E>) -> Handler<E> {
        Handler::new(name, doc, Access::Set, Act::Set(set))
    }

    /// Read handler that uses other handlers: it returns a job.
    pub const fn ask(
        name: &'static str,
        doc: &'static str,
        job: fn(&E, &str) -> Job,
    ) -> Handler<E> {
        Handler::new(name, doc, Access::Text, Act::Job(job))
    }

    /// Write handler that uses other handlers: it returns a job.
    pub const fn run(
        name: &'static str,
        doc: &'static str,
        job: fn(&E, &str) -> Job,
    ) -> Handler<E> {
        Handler::new(name, doc, Access::Set, Act::Job(job))
    }

    /// Read handler of state that all copies share.
    pub const fn shared(
        name: &'static str,
        doc: &'static str,
        get: fn(&E::Config, &str) -> Result<String, String>,
    ) -> Handler<E> {
        Handler::new(
            name,
            doc,
            Access::Control {
                read: true,
                write: false,
            },
            Act::Control(get),
        )
    }

    /// Write handler of state that all copies share.
    pub const fn action(
        name: &'static str,
        doc: &'static str,
        run: fn(&E::Config, &str) -> Result<String, String>,
    ) -> Handler<E> {
        Handler::new(
            name,
            doc,
            Access::Control {
                read: false,
                write: true,
            },
            Act::Control(run),
        )
    }

    /// The same handler, restricted to callers within the router.
    pub const fn inner(mut self) -> Handler<E> {
        self.info.inner = true;
        self
    }

    /// The same handler; a write also changes the argument of its name in the configuration string, as in Click.
    pub const fn argument(mut self) -> Handler<E> {
        self.info.argument = true;
        self
    }

    pub(crate) fn info(&self) -> HandlerInfo {
        self.info
    }

    /// Result of a read handler, from one copy and the shared configuration.
    pub fn run_read(
        &self,
        element: &E,
        config: &E::Config,
        argument: &str,
    ) -> Result<String, String> {
        match self.act {
            Act::Sum(get) | Act::Counter(get, _) => Ok(get(element).to_string()),
            Act::Text(get) => get(element, argument),
            Act::Show(get) => Ok(get(element).to_string()),
            Act::Control(get) => get(config, argument),
            Act::Set(_) | Act::Assign(_) | Act::Job(_) => {
                Err(format!("`{}` cannot be read", self.info.name))
            }
        }
    }

    /// The job of a handler that needs the graph.
    pub(crate) fn job(&self, element: &E, value: &str) -> Option<Job> {
        match self.act {
            Act::Job(job) => Some(job(element, value)),
            _ => None,
        }
    }

    pub(crate) fn run_write(
        &self,
        element: &mut E,
        value: &str,
        cx: &mut Cx,
    ) -> Result<(), String> {
        match self.act {
            Act::Set(set) => set(element, value, cx),
            Act::Assign(place) => place(element).assign(value),
            _ => Err(format!("`{}` cannot be written", self.info.name)),
        }
    }

    /// Copies the value of a counter from the element's predecessor at a reload.
    pub(crate) fn copy_counter(&self, element: &mut E, old: &E) {
        if let Act::Counter(get, place) = self.act {
            *place(element) = get(old);
        }
    }

    pub(crate) fn run_control(&self, config: &E::Config, value: &str) -> Result<String, String> {
        match self.act {
            Act::Control(run) => run(config, value),
            _ => Err(format!("`{}` is answered by the workers", self.info.name)),
        }
    }
}

/// A read handler for a counter, which is a field of the element: `counter!("NAME", "DESCRIPTION", FIELD)`. It survives
/// a reload by itself.
#[macro_export]
macro_rules! counter {
    ($name:expr, $doc:expr, $($field:tt)+) => {
        $crate::handler::Handler::counter($name, $doc, |e| e.$($field)+, |e| &mut e.$($field)+)
    };
}
