//! Handlers of the router as a whole, as Click's driver has them.

use super::compile::{Compiled, Compiler, Text};
use engine::graph::call::JobCx;
use engine::graph::root::{self, Root};
use engine::handler::Use;
use engine::plan::Plan;
use std::sync::{Arc, MutexGuard};
use sync::Lock;

/// A handler: its name, and the functions that read and write it.
pub(crate) struct Global {
    pub(crate) name: &'static str,
    /// Description for the page that lists the handlers, which a test generates.
    #[cfg_attr(not(test), expect(dead_code))]
    pub(crate) about: &'static str,
    read: Option<Read>,
    write: Option<Write>,
}

type Read = fn(&Click, &mut JobCx) -> String;
type Write = fn(&Click, &str, &mut JobCx) -> Result<(), String>;

impl Global {
    /// Access in the notation of Click's `handlers`.
    pub(crate) fn access(&self) -> &'static str {
        match (self.read, self.write) {
            (Some(_), Some(_)) => "rw",
            (Some(_), None) => "r",
            _ => "w",
        }
    }
}

const fn read(name: &'static str, about: &'static str, read: Read) -> Global {
    let (read, write) = (Some(read), None);
    Global {
        name,
        about,
        read,
        write,
    }
}

const fn write(name: &'static str, about: &'static str, write: Write) -> Global {
    let (read, write) = (None, Some(write));
    Global {
        name,
        about,
        read,
        write,
    }
}

/// All handlers of the router.
pub(crate) const HANDLERS: &[Global] = &[
    read("version", "version of the program", |_, _| {
        env!("CARGO_PKG_VERSION").to_owned()
    }),
    read(
        "list",
        "the elements: their number, then one name a line",
        |_, o| root::list(o.plan()),
    ),
    read("classes", "the element classes, one a line", |click, _| {
        let classes = click.compiler.registry.classes();
        lines(classes.iter().map(|c| c.name.to_owned()))
    }),
    read("config", "the configuration as it was given", |click, _| {
        click.state().text.clone()
    }),
    read(
        "flatconfig",
        "the configuration with compound elements opened",
        |click, _| click.flattened(),
    ),
    read(
        "requirements",
        "requirements of the configuration: kind and name, one a line",
        |click, _| click.state().requirements.clone(),
    ),
    read(
        "packages",
        "packages that were loaded: none, all classes are built in",
        |_, _| String::new(),
    ),
    read("handlers", "these handlers", |click, _| {
        let all = HANDLERS.iter().filter(|h| click.is_available(h));
        lines(all.map(|h| format!("{}\t{}", h.name, h.access())))
    }),
    write("stop", "asks the router to stop", |_, _, cx| {
        cx.stop();
        Ok(())
    }),
    Global {
        name: "timewarp",
        about: "seconds of the router's clock in one of the machine's; 0 in simulated time",
        read: Some(|_, cx| cx.clock().speed().to_string()),
        write: Some(|_, value, cx| match value.trim().parse::<f64>() {
            Ok(speed) if speed > 0.0 => {
                cx.clock().set_speed(speed);
                Ok(())
            }
            _ => Err("expected a positive number".to_owned()),
        }),
    },
    write(
        HOTCONFIG,
        "a new configuration, applied at once (with -R)",
        |click, value, o| {
            let running = Arc::clone(o.plan());
            click.hotconfig(value, &running)?;
            o.interrupt();
            Ok(())
        },
    ),
];

const HOTCONFIG: &str = "hotconfig";

fn lines(all: impl Iterator<Item = String>) -> String {
    all.map(|line| line + "\n").collect()
}

/// State that the handlers use.
pub(super) struct Click {
    pub(super) compiler: Compiler,
    reconfigure: bool,
    state: Lock<State>,
}

#[derive(Default)]
struct State {
    text: String,
    router: lang::Router,
    requirements: String,
    next: Option<Arc<Plan>>,
}

impl Click {
    pub(super) fn new(compiler: Compiler, reconfigure: bool) -> Click {
        Click {
            compiler,
            reconfigure,
            state: Lock::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Stores the configuration that runs, or that is to run next.
    pub(super) fn remember(&self, compiled: Compiled, is_next: bool) {
        let mut state = self.state();
        state.text = compiled.text;
        state.router = compiled.router;
        state.requirements = compiled.requirements;
        state.next = is_next.then_some(compiled.plan);
    }

    /// Takes the configuration that is to run next; `None` if none waits.
    pub(super) fn take_next(&self) -> Option<Arc<Plan>> {
        self.state().next.take()
    }

    /// True if a new configuration waits to be used.
    pub(super) fn has_next(&self) -> bool {
        self.state().next.is_some()
    }

    /// The configuration that runs, flattened.
    pub(super) fn flattened(&self) -> String {
        lang::print(&self.state().router)
    }

    /// True if the handler exists in this run.
    fn is_available(&self, handler: &Global) -> bool {
        handler.name != HOTCONFIG || self.reconfigure
    }

    fn find(&self, name: &str) -> Option<&'static Global> {
        let known = HANDLERS.iter().find(|h| h.name == name);
        known.filter(|h| self.is_available(h))
    }

    fn hotconfig(&self, text: &str, running: &Plan) -> Result<(), String> {
        let source = Text {
            name: "hotconfig",
            text,
        };
        let compiled = self.compiler.compile(&source, Some(running))?;
        for line in compiled.messages.lines() {
            self.say(line);
        }
        self.remember(compiled, true);
        Ok(())
    }
}

impl Root for Click {
    fn has_handler(&self, name: &str, wanted: Use) -> bool {
        self.find(name).is_some_and(|h| match wanted {
            Use::Read => h.read.is_some(),
            Use::Write => h.write.is_some(),
        })
    }

    fn read(&self, name: &str, _: &str, cx: &mut JobCx) -> Result<String, String> {
        match self.find(name).and_then(|h| h.read) {
            Some(read) => Ok(read(self, cx)),
            None => Err(format!("no '{name}' handler")),
        }
    }

    fn reconfigure(&self, element: &str, text: &str, running: &Plan) -> Result<Arc<Plan>, String> {
        let mut state = self.state();
        let given = (element, text);
        let (plan, router) = self.compiler.reconfigure(&state.router, given, running)?;
        state.router = router;
        Ok(plan)
    }

    fn write(&self, name: &str, value: &str, cx: &mut JobCx) -> Result<String, String> {
        match self.find(name).and_then(|h| h.write) {
            Some(write) => write(self, value, cx).map(|()| String::new()),
            None => Err(format!("no '{name}' write handler")),
        }
    }
}
