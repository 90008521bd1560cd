//! Runs a script: its position, its variables, and the effects of its instructions.
//!
//! A script's calls may re-enter it: another element's handler may read this script's handlers, or run it again. So
//! its state is in cells that are never borrowed across a call of the [`Host`].

mod instructions;

use super::host::Host;
use super::program::{Insn, Jump, Program, Wait, time};
use instructions::Next;
pub(crate) use instructions::split;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Jumps without blocking that mean a script loops.
const JUMPS_MAX: u32 = 1000;

/// Scripts that may run inside each other, on one thread.
const DEPTH_MAX: u32 = 50;
/// Runs that one run may cause: a script that runs itself twice would do so 2^50 times.
const RUNS_MAX: u32 = 10_000;

thread_local! {
    /// Nesting depth, and number of runs since the outermost one began.
    static DEPTH: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

thread_local! {
    /// Headings of messages, from the outside in, each with true if it has been printed.
    static CONTEXTS: RefCell<Vec<(String, bool)>> = const { RefCell::new(Vec::new()) };
    /// Messages so far.
    static COMPLAINTS: Cell<u64> = const { Cell::new(0) };
}

/// Heading of the messages printed until this value is dropped; it stands above the first of them.
pub struct Context;

impl Context {
    pub(super) fn enter(heading: String) -> Context {
        CONTEXTS.with_borrow_mut(|contexts| contexts.push((heading, false)));
        Context
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        CONTEXTS.with_borrow_mut(Vec::pop);
    }
}

/// Number of messages of this thread's scripts so far.
pub(super) fn complaints() -> u64 {
    COMPLAINTS.get()
}

/// A nesting level of scripts.
struct Depth;

impl Depth {
    fn enter() -> Option<Depth> {
        let (depth, runs) = DEPTH.get();
        let runs = if depth == 0 { 0 } else { runs };
        if depth >= DEPTH_MAX || runs >= RUNS_MAX {
            return None;
        }
        DEPTH.set((depth + 1, runs + 1));
        Some(Depth)
    }

    /// True if a script runs inside another one, whose messages these are.
    fn is_nested() -> bool {
        DEPTH.get().0 > 1
    }
}

impl Drop for Depth {
    fn drop(&mut self) {
        let (depth, runs) = DEPTH.get();
        DEPTH.set((depth - 1, runs));
    }
}

/// A call: the script's handler, its argument, and further values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// `$0`: the handler's name.
    pub name: String,
    /// `$args`.
    pub args: String,
    /// `$write`: true if the handler was written, not read.
    pub write: bool,
    /// `$input`: where a packet came in.
    pub input: Option<usize>,
}

/// Event for which a script waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitEvent {
    /// No event.
    No,
    /// This number of steps.
    Steps(u32),
    /// An alarm, or a step.
    Alarm,
}

/// A run of a script.
#[derive(Clone, Debug)]
struct Frame {
    at: usize,
    waits: WaitEvent,
    call: Call,
}

/// End of a run, or its wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The run waits.
    No,
    /// Ended by `end`, or after the last instruction.
    End,
    /// Ended by `exit`.
    Exit,
    /// Ended by `stop`.
    Stop,
    /// Ended with a value.
    Return(String),
}

/// A script and its state.
pub struct Machine {
    /// The element, as messages name it: `s :: Script`.
    title: String,
    pub(super) program: Arc<Program>,
    variables: RefCell<HashMap<String, String>>,
    frame: RefCell<Frame>,
    /// `$?`
    pub(super) status: Cell<i32>,
    /// True if the script has run, or runs for the first time.
    begun: Cell<bool>,
    /// True if the script runs: a call may come back to it.
    running: Cell<bool>,
    /// True if its messages have no heading: while the driver's script runs for the first time.
    pub bare: Cell<bool>,
}

impl Machine {
    /// A script that has not run; `title` names its element in messages.
    pub fn new(title: String, program: Arc<Program>) -> Machine {
        let frame = Frame {
            at: program.code.len(),
            waits: WaitEvent::No,
            call: Call::default(),
        };
        Machine {
            title,
            program,
            variables: RefCell::default(),
            frame: RefCell::new(frame),
            status: Cell::new(0),
            begun: Cell::new(false),
            running: Cell::new(false),
            bare: Cell::new(false),
        }
    }

    /// Initialises the variables: those of `init` and `export` have a value, those of `set` are empty.
    pub fn init(&self, host: &mut dyn Host) {
        let program = Arc::clone(&self.program);
        for insn in &program.code {
            if let Insn::Set { name, .. } = insn {
                let mut variables = self.variables.borrow_mut();
                variables.insert(name.clone(), String::new());
            }
        }
        for insn in &program.code {
            if let Insn::Init { name, text } = insn {
                match self.text(text, host) {
                    Ok(value) => self.set(name, value),
                    Err(wrong) => self.complain(&wrong, host),
                }
            }
        }
    }

    /// True if the script has not come to its end.
    pub(crate) fn is_waiting(&self) -> bool {
        self.frame.borrow().waits != WaitEvent::No
    }

    /// True if the script was called while it runs.
    pub(crate) fn is_running(&self) -> bool {
        self.running.get()
    }

    /// Runs the script from its start.
    pub fn run(&self, call: Call, host: &mut dyn Host) -> Result<Ended, String> {
        if self.is_waiting() {
            host.alarm(None);
        }
        let fresh = Frame {
            at: 0,
            waits: WaitEvent::No,
            call,
        };
        let inside = self.running.get();
        let outer = self.frame.replace(fresh);
        let mut result = self.advance(0, host);
        if inside {
            // A script that runs itself continues at its position.
            if self.is_waiting() {
                host.alarm(None);
                result = Err("a script cannot wait inside itself".to_owned());
            }
            self.frame.replace(outer);
        }
        result
    }

    /// Continues past the next `steps` instructions that block. A script that has not run begins, as in Click.
    pub fn step(&self, steps: u32, host: &mut dyn Host) -> Result<Ended, String> {
        if !self.begun.get() {
            self.frame.borrow_mut().at = 0;
        }
        if self.is_waiting() || !self.begun.get() {
            self.advance(steps, host)
        } else {
            Ok(Ended::No)
        }
    }

    /// The alarm has rung.
    pub fn alarm(&self, host: &mut dyn Host) -> Result<Ended, String> {
        let rang = self.frame.borrow().waits == WaitEvent::Alarm;
        if rang {
            self.advance(1, host)
        } else {
            Ok(Ended::No)
        }
    }

    /// Continues at a label.
    pub fn goto(&self, label: &str, host: &mut dyn Host) -> Result<Ended, String> {
        let jump = self.program.jump(label);
        let jump = jump.ok_or_else(|| format!("no such label '{label}'"))?;
        host.alarm(None);
        self.frame.borrow_mut().waits = WaitEvent::No;
        match self.apply_jump(jump) {
            Some(ended) => ended,
            None => self.advance(0, host),
        }
    }

    /// The value of a variable. One that the script sets hides an argument or another value of that name.
    pub fn get(&self, name: &str) -> Option<String> {
        self.variable(name).or_else(|| self.special(name))
    }

    /// The value of a variable that was set, or that the script sets.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        self.variables.borrow().get(name).cloned()
    }

    fn special(&self, name: &str) -> Option<String> {
        let frame = self.frame.borrow();
        let call = &frame.call;
        match name {
            "?" => Some(self.status.get().to_string()),
            "0" => Some(call.name.clone()),
            "#" => Some(lang::args::unquoted_words(&call.args).len().to_string()),
            "args" => Some(call.args.clone()),
            "write" => Some(call.write.to_string()),
            "input" => call.input.map(|port| port.to_string()),
            _ => {
                let nth = name.parse::<usize>().ok();
                nth.map(|n| {
                    let mut words = lang::args::unquoted_words(&call.args).into_iter();
                    n.checked_sub(1)
                        .and_then(|n| words.nth(n))
                        .unwrap_or_default()
                })
            }
        }
    }

    /// Sets a variable.
    pub fn set(&self, name: &str, value: String) {
        if name == "args" && self.variable(name).is_none() {
            self.frame.borrow_mut().call.args = value;
        } else {
            self.variables.borrow_mut().insert(name.to_owned(), value);
        }
    }

    /// Subject of the script's messages.
    pub fn context(&self) -> Context {
        Context::enter(self.heading())
    }

    fn heading(&self) -> String {
        format!("While executing '{}':", self.title)
    }

    /// Reports an error and its position, in Click's words.
    pub fn complain(&self, wrong: &str, host: &mut dyn Host) {
        COMPLAINTS.set(COMPLAINTS.get() + 1);
        let mut lines = Vec::new();
        let mut tell = |depth: usize, line: &str| lines.push("  ".repeat(depth) + line);
        let mut depth = CONTEXTS.with_borrow_mut(|contexts| {
            for (depth, (heading, told)) in contexts.iter_mut().enumerate() {
                if !std::mem::replace(told, true) {
                    tell(depth, heading);
                }
            }
            contexts.len()
        });
        if depth == 0 && !self.bare.get() && !Depth::is_nested() {
            tell(0, &self.heading());
            depth = 1;
        }
        for line in wrong.lines() {
            tell(depth, &lang::click_quotes(line));
        }
        host.chatter(&lines.join("\n"));
    }

    /// Ends the run, or continues elsewhere.
    fn apply_jump(&self, jump: Jump) -> Option<Result<Ended, String>> {
        let end = self.program.code.len();
        let (at, ended) = match jump {
            Jump::To(at) => (at, None),
            Jump::End => (end, Some(Ok(Ended::End))),
            Jump::Exit => (end, Some(Ok(Ended::Exit))),
            Jump::Stop => (end, Some(Ok(Ended::Stop))),
            Jump::Error => (end, Some(Err(String::new()))),
        };
        self.frame.borrow_mut().at = at;
        ended
    }

    fn advance(&self, steps: u32, host: &mut dyn Host) -> Result<Ended, String> {
        let Some(_depth) = Depth::enter() else {
            self.apply_jump(Jump::End);
            return Err("scripts call each other too deep or too often".to_owned());
        };
        self.begun.set(true);
        let inside = self.running.replace(true);
        let result = self.run_steps(steps, host);
        self.running.set(inside);
        if matches!(result, Err(_) | Ok(Ended::Stop)) {
            // A script that ended so keeps no arguments for `shift` and `get`, as in Click.
            self.frame.borrow_mut().call.args.clear();
        }
        result
    }

    fn run_steps(&self, mut steps: u32, host: &mut dyn Host) -> Result<Ended, String> {
        let program = Arc::clone(&self.program);
        let mut jumps = 0;
        loop {
            let (at, waits) = {
                let frame = self.frame.borrow();
                (frame.at, frame.waits)
            };
            let Some(insn) = program.code.get(at) else {
                self.frame.borrow_mut().waits = WaitEvent::No;
                return Ok(Ended::End);
            };
            match self.block(insn, waits, &mut steps, host) {
                Ok(true) => return Ok(Ended::No),
                Ok(false) => {}
                Err(wrong) => self.complain(&wrong, host),
            }
            self.frame.borrow_mut().at = at + 1;
            let jump = match self.execute(insn, host) {
                Ok(None) => continue,
                Ok(Some(Next::Jump(jump))) => jump,
                Ok(Some(Next::Return(value))) => {
                    self.apply_jump(Jump::End);
                    return Ok(Ended::Return(value));
                }
                Err(wrong) => {
                    self.apply_jump(Jump::End);
                    return Err(wrong);
                }
            };
            if let Some(ended) = self.apply_jump(jump) {
                return ended;
            }
            jumps += 1;
            if jumps >= JUMPS_MAX {
                self.apply_jump(Jump::End);
                host.chatter(&format!("{}: too many jumps, giving up", self.title));
                return Err(String::new());
            }
        }
    }

    /// True if an instruction keeps the script waiting. Takes the steps that it needs.
    fn block(
        &self,
        insn: &Insn,
        waits: WaitEvent,
        steps: &mut u32,
        host: &mut dyn Host,
    ) -> Result<bool, String> {
        let needs = match (insn, waits) {
            (Insn::Pause(_), WaitEvent::Steps(left)) => left,
            (Insn::Pause(count), _) => *count,
            (Insn::Wait(_), _) => 1,
            _ => return Ok(false),
        };
        let take = needs.min(*steps);
        *steps -= take;
        let left = needs - take;
        let now = match insn {
            _ if left == 0 => WaitEvent::No,
            Insn::Pause(_) => WaitEvent::Steps(left),
            _ => WaitEvent::Alarm,
        };
        if let Insn::Wait(wait) = insn {
            if now == WaitEvent::No && waits == WaitEvent::Alarm {
                host.alarm(None);
            } else if now == WaitEvent::Alarm && waits != WaitEvent::Alarm {
                let after = self.duration(wait, host)?;
                host.alarm(Some(after));
            }
        }
        self.frame.borrow_mut().waits = now;
        Ok(left > 0)
    }

    fn duration(&self, wait: &Wait, host: &mut dyn Host) -> Result<Duration, String> {
        match wait {
            Wait::For(duration) => Ok(*duration),
            Wait::Text(text) => {
                let text = self.unquoted(text, host)?;
                time(text.trim()).ok_or_else(|| format!("'{text}' is no time"))
            }
        }
    }
}
