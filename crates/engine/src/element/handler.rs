//! Handlers: how control reads and changes an element, one line each.
//!
//! Each core has its own copy of an element. A `sum` is added over the copies; a `text` or `show` is read from every
//! copy. A `set` or `assign` reaches every copy through its worker's mailbox. A `control` handler runs once, on the
//! control side, on the state that the copies share. A name may be listed twice: once for reading and once for writing.

use crate::element::Element;
use crate::graph::Cx;
pub use crate::graph::Job;
pub use crate::handler_info::{Access, AskError, HandlerInfo, REPLACED, Use, merge};
use arguments::units::Setting;
use std::fmt::Display;

type Set<E> = fn(&mut E, &str, &mut Cx) -> Result<(), String>;

enum Act<E: Element> {
    Sum(fn(&E) -> u64),
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

    /// A count, added over cores.
    pub const fn sum(name: &'static str, doc: &'static str, get: fn(&E) -> u64) -> Handler<E> {
        Handler::new(name, doc, Access::Sum, Act::Sum(get))
    }

    /// A text that every core gives; its argument is what follows the name.
    pub const fn text(
        name: &'static str,
        doc: &'static str,
        get: fn(&E, &str) -> Result<String, String>,
    ) -> Handler<E> {
        Handler::new(name, doc, Access::Text, Act::Text(get))
    }

    /// A value of each core, shown as it is.
    pub const fn show(
        name: &'static str,
        doc: &'static str,
        get: fn(&E) -> &dyn Display,
    ) -> Handler<E> {
        Handler::new(name, doc, Access::Text, Act::Show(get))
    }

    /// A value that every core changes, written as an argument would be. Nothing else follows from it.
    pub const fn assign(
        name: &'static str,
        doc: &'static str,
        place: fn(&mut E) -> &mut dyn Setting,
    ) -> Handler<E> {
        Handler::new(name, doc, Access::Set, Act::Assign(place))
    }

    /// A setting or action on every core. It must refuse a bad value before it changes anything.
    pub const fn set(name: &'static str, doc: &'static str, set: Set<E>) -> Handler<E> {
        Handler::new(name, doc, Access::Set, Act::Set(set))
    }

    /// A read that uses other handlers: it gives a job.
    pub const fn ask(
        name: &'static str,
        doc: &'static str,
        job: fn(&E, &str) -> Job,
    ) -> Handler<E> {
        Handler::new(name, doc, Access::Text, Act::Job(job))
    }

    /// A write that uses other handlers: it gives a job.
    pub const fn run(
        name: &'static str,
        doc: &'static str,
        job: fn(&E, &str) -> Job,
    ) -> Handler<E> {
        Handler::new(name, doc, Access::Set, Act::Job(job))
    }

    /// A read handler of state that all copies share.
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

    /// A write handler that changes state that all copies share.
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

    /// The same, for elements of the router only.
    pub const fn inner(mut self) -> Handler<E> {
        self.info.inner = true;
        self
    }

    /// A handler that also changes the argument of its name in the configuration string, as in Click.
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
            Act::Sum(get) => Ok(get(element).to_string()),
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

    pub(crate) fn run_control(&self, config: &E::Config, value: &str) -> Result<String, String> {
        match self.act {
            Act::Control(run) => run(config, value),
            _ => Err(format!("`{}` is answered by the workers", self.info.name)),
        }
    }
}
