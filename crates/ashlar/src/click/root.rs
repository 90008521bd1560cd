//! Handlers of the router as a whole, as Click's driver has them.

use super::compile::{Compiled, Compiler, Text};
use engine::call::Outside;
use engine::handler::Use;
use engine::plan::Plan;
use engine::root::{self, Root};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Names, whether they may be read and written, and what they are.
pub(crate) const HANDLERS: &[(&str, &str, &str)] = &[
    ("version", "r", "version of the program"),
    (
        "list",
        "r",
        "the elements: their number, then one name a line",
    ),
    ("classes", "r", "the element classes, one a line"),
    ("config", "r", "the configuration as it was given"),
    (
        "flatconfig",
        "r",
        "the configuration with compound elements opened",
    ),
    (
        "requirements",
        "r",
        "what the configuration requires, one a line",
    ),
    (
        "packages",
        "r",
        "packages that were loaded: none, all classes are built in",
    ),
    ("handlers", "r", "these handlers"),
    ("stop", "w", "asks the router to stop"),
    (
        "timewarp",
        "rw",
        "seconds of the router's clock in one of the machine's; 0 in simulated time",
    ),
    (
        "hotconfig",
        "w",
        "a new configuration, to be taken up at once (with -R)",
    ),
];

/// What the handlers know.
pub(super) struct Click {
    pub(super) compiler: Compiler,
    reconfigure: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    text: String,
    flat: String,
    requirements: String,
    next: Option<Arc<Plan>>,
}

impl Click {
    pub(super) fn new(compiler: Compiler, reconfigure: bool) -> Click {
        Click {
            compiler,
            reconfigure,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers the configuration that runs, or is to run next.
    pub(super) fn note(&self, compiled: Compiled, is_next: bool) {
        let mut state = self.state();
        state.text = compiled.text;
        state.flat = compiled.flat;
        state.requirements = compiled.requirements;
        state.next = is_next.then_some(compiled.plan);
    }

    /// A configuration that waits to be taken up.
    pub(super) fn take_next(&self) -> Option<Arc<Plan>> {
        self.state().next.take()
    }

    /// Whether a configuration waits to be taken up.
    pub(super) fn has_next(&self) -> bool {
        self.state().next.is_some()
    }

    /// The configuration that runs, flattened.
    pub(super) fn flat(&self) -> String {
        self.state().flat.clone()
    }

    fn hotconfig(&self, text: &str, running: &Plan) -> Result<(), String> {
        let source = Text {
            name: "hotconfig",
            text,
        };
        let compiled = self.compiler.compile(&source, Some(running))?;
        for line in compiled.said.lines() {
            self.say(line);
        }
        self.note(compiled, true);
        Ok(())
    }
}

impl Root for Click {
    fn has(&self, name: &str, wanted: Use) -> bool {
        let letter = match wanted {
            Use::Read => 'r',
            Use::Write => 'w',
        };
        let known = HANDLERS.iter().find(|h| h.0 == name);
        known.is_some_and(|h| h.1.contains(letter)) && (name != "hotconfig" || self.reconfigure)
    }

    fn read(&self, name: &str, _: &str, outside: &mut Outside) -> Result<String, String> {
        let lines = |names: &mut dyn Iterator<Item = String>| -> String {
            names.map(|n| n + "\n").collect()
        };
        Ok(match name {
            "version" => env!("CARGO_PKG_VERSION").to_owned(),
            "list" => root::list(outside.plan()),
            "classes" => {
                let classes = self.compiler.registry.classes();
                lines(&mut classes.iter().map(|c| c.name.to_owned()))
            }
            "config" => self.state().text.clone(),
            "flatconfig" => self.flat(),
            "requirements" => self.state().requirements.clone(),
            "packages" => String::new(),
            "handlers" => {
                let there = |h: &&(&str, &str, &str)| h.0 != "hotconfig" || self.reconfigure;
                let all = HANDLERS.iter().filter(there);
                lines(&mut all.map(|h| format!("{}\t{}", h.0, h.1)))
            }
            "timewarp" => outside.clock().speed().to_string(),
            _ => return Err(format!("no '{name}' handler")),
        })
    }

    fn write(&self, name: &str, value: &str, outside: &mut Outside) -> Result<String, String> {
        match name {
            "stop" => outside.stop(),
            "timewarp" => match value.trim().parse::<f64>() {
                Ok(speed) if speed > 0.0 => outside.clock().set_speed(speed),
                _ => return Err("expected a positive number".to_owned()),
            },
            "hotconfig" => {
                let running = Arc::clone(outside.plan());
                self.hotconfig(value, &running)?;
                outside.interrupt();
            }
            _ => return Err(format!("no '{name}' write handler")),
        }
        Ok(String::new())
    }
}
