//! Common part of Script and DriverManager: a script as an element of a router.

use crate::prelude::*;
use arguments::show::reason;
use arguments::text_file;
use engine::graph::call::{ResolvedHandler, not_found};
use engine::handler::Access;
use scripts::{Call, Ended, Host, Machine, NO_PARAMETERS, Program, Sink};
use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// Event that starts a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Active,
    Passive,
    Packet,
    Proxy,
    Driver,
    Signal(Vec<i32>),
}

/// A script's configuration.
pub(crate) struct Config {
    program: Arc<Program>,
    /// Type of the script; `None`: chosen by the element's ports.
    kind: Option<Type>,
}

impl Config {
    /// Parses instructions and `TYPE`.
    pub(crate) fn parse(args: &mut Args, default: Option<Type>) -> Config {
        let kind: Option<String> = args.key_maybe("TYPE", "event that starts the script");
        let kind = kind.map(|text| {
            parse_type(&text).unwrap_or_else(|wrong| {
                args.error_in_whole(
                    format!("TYPE {wrong}"),
                    "write ACTIVE, PASSIVE, PACKET, PROXY, DRIVER, or SIGNAL and signals",
                );
                Type::Passive
            })
        });
        let instructions = args.rest(
            "INSTRUCTION",
            "an instruction",
            "instructions of the script",
        );
        let kind = kind.or(default);
        let (program, wrong) = match instructions.is_empty() && kind == Some(Type::Driver) {
            // Without instructions the driver runs as it does without a script.
            true => Program::parse([&"wait_stop".to_owned()]),
            false => Program::parse(instructions.iter().map(|a| &a.raw)),
        };
        for (at, mistake) in wrong {
            args.error_with_help(&instructions[at], mistake.message, mistake.help);
        }
        Config {
            program: Arc::new(program),
            kind,
        }
    }

    /// True if the script manages the driver.
    pub(crate) fn manages(&self) -> bool {
        self.kind == Some(Type::Driver)
    }

    /// True if the script has a handler of this name beside those of every script.
    pub(crate) fn has_handler(&self, name: &str, wanted: Use) -> bool {
        self.kind == Some(Type::Proxy)
            || wanted == Use::Read && self.program.exports.iter().any(|e| e == name)
    }
}

fn parse_type(text: &str) -> Result<Type, String> {
    let words = lang::args::unquoted_words(text);
    let (name, signals) = words.split_first().ok_or("is empty")?;
    let kind = match name.to_ascii_uppercase().as_str() {
        "ACTIVE" => Type::Active,
        "PASSIVE" => Type::Passive,
        "PACKET" | "PUSH" => Type::Packet,
        "PROXY" => Type::Proxy,
        "DRIVER" => Type::Driver,
        "SIGNAL" if signals.is_empty() => return Err("SIGNAL names no signal".to_owned()),
        "SIGNAL" => {
            let number = |s: &String| scripts::signal(s).ok_or(format!("names no signal: '{s}'"));
            return signals
                .iter()
                .map(number)
                .collect::<Result<_, _>>()
                .map(Type::Signal);
        }
        _ => return Err(format!("is none of the types: '{name}'")),
    };
    match signals {
        [] => Ok(kind),
        _ => Err(format!("{name} takes no signals")),
    }
}

/// A script that runs in a router.
#[derive(Clone)]
pub(crate) struct Runner {
    machine: Rc<Machine>,
    kind: Rc<Type>,
    /// True if a signal may start the script.
    armed: Rc<Cell<bool>>,
    /// True if the script starts when its alarm rings.
    starts: Rc<Cell<bool>>,
    outputs: usize,
}

impl Runner {
    pub(crate) fn new(config: &Config, class: &str, init: &Init) -> Runner {
        let title = format!("{} :: {class}", init.name);
        let by_ports = match init.inputs + init.outputs {
            0 => Type::Active,
            _ => Type::Packet,
        };
        let kind = config.kind.clone().unwrap_or(by_ports);
        Runner {
            machine: Rc::new(Machine::new(title, Arc::clone(&config.program))),
            // Armed from the start: other scripts may send signals when they start.
            armed: Rc::new(Cell::new(matches!(kind, Type::Signal(_)))),
            starts: Rc::default(),
            kind: Rc::new(kind),
            outputs: init.outputs,
        }
    }

    /// Leaves the script's start for when the graph has begun.
    pub(crate) fn start(&self, cx: &mut Cx) {
        let script = self.clone();
        cx.defer(move |cx| {
            let mut host = script.host(cx);
            script.machine.init(&mut host);
            match &*script.kind {
                Type::Driver => {
                    script.machine.bare.set(true);
                    let ended = script.machine.run(Call::default(), &mut host);
                    script.finish(ended, &mut host);
                    script.machine.bare.set(false);
                }
                // Tasks and the driver's script come first, as in Click.
                Type::Active => {
                    script.starts.set(true);
                    let now = cx.now();
                    cx.set_timer(now);
                }
                Type::Passive | Type::Packet | Type::Proxy | Type::Signal(_) => {}
            }
        });
    }

    /// The script's alarm has rung.
    pub(crate) fn timer(&self, cx: &mut Cx) {
        let script = self.clone();
        cx.defer(move |cx| {
            let _context = script.machine.context();
            let mut host = script.host(cx);
            let ended = if script.starts.take() {
                script.machine.run(Call::default(), &mut host)
            } else {
                script.machine.alarm(&mut host)
            };
            script.finish(ended, &mut host);
        });
    }

    fn finish(&self, ended: Result<Ended, String>, host: &mut dyn Host) {
        match self.machine.finish(ended, host) {
            Err(wrong) if !wrong.is_empty() => self.machine.complain(&wrong, host),
            _ => {}
        }
    }

    fn host<'a, 'b>(&'a self, cx: &'a mut JobCx<'b>) -> RouterHost<'a, 'b> {
        let script = self;
        RouterHost { cx, script }
    }

    /// Reads one of the handlers that every script has.
    pub(crate) fn read(&self, name: &'static str, argument: &str) -> Job {
        let (script, argument) = (self.clone(), argument.to_owned());
        Box::new(move |cx| {
            let mut host = script.host(cx);
            let value = script.machine.own_read(name, &argument, &mut host);
            value.unwrap_or_else(|| Err(format!("no '{name}' handler")))
        })
    }

    /// Writes one of the handlers that every script has.
    pub(crate) fn write(&self, name: &'static str, value: &str) -> Job {
        let (script, value) = (self.clone(), value.to_owned());
        Box::new(move |cx| {
            let mut host = script.host(cx);
            let done = script.machine.own_write(name, &value, &mut host);
            done.unwrap_or_else(|| Err(format!("no '{name}' handler")))
                .map(|()| String::new())
        })
    }

    /// Uses a handler that the configuration offers.
    pub(crate) fn handler_job(&self, name: &str, argument: &str, wanted: Use) -> Job {
        let (script, name, argument) = (self.clone(), name.to_owned(), argument.to_owned());
        let write = wanted == Use::Write;
        Box::new(move |cx| {
            let mut host = script.host(cx);
            match script.machine.own_read(&name, &argument, &mut host) {
                Some(value) if !write => value,
                _ => {
                    let machine = &script.machine;
                    machine.run_handler(&name, &argument, write, &mut host)
                }
            }
        })
    }

    /// Signals that start the script now.
    pub(crate) fn signals(&self) -> Vec<i32> {
        match &*self.kind {
            Type::Signal(signals) if self.armed.get() => signals.clone(),
            _ => Vec::new(),
        }
    }

    /// Starts the script for a signal; until it has ended no other one does.
    pub(crate) fn signal(&self, cx: &mut Cx) {
        self.armed.set(false);
        let script = self.clone();
        cx.defer(move |cx| {
            let _context = script.machine.context();
            let mut host = script.host(cx);
            let ended = script.machine.run(Call::default(), &mut host);
            script.finish(ended, &mut host);
        });
    }

    /// Handles a request to stop the driver.
    pub(crate) fn stop_asked(&self, cx: &mut Cx) {
        let script = self.clone();
        cx.defer(move |cx| {
            let _context = script.machine.context();
            let mut host = script.host(cx);
            let ended = script.machine.step(1, &mut host);
            script.finish(ended, &mut host);
        });
    }

    /// Outputs of the element.
    pub(crate) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Runs the script for a packet: the output that it leaves by, if any.
    pub(crate) fn packet(&self, input: usize, cx: &mut JobCx) -> Option<usize> {
        if *self.kind != Type::Packet {
            return Some(0);
        }
        let _context = self.machine.context();
        let mut host = self.host(cx);
        let call = Call {
            input: Some(input),
            ..Call::default()
        };
        let ended = self.machine.run(call, &mut host);
        let port = match &ended {
            Ok(Ended::End | Ended::Stop) => Some(0),
            Ok(Ended::Return(value)) => value.trim().parse().ok(),
            Ok(Ended::Exit | Ended::No) | Err(_) => None,
        };
        self.finish(ended, &mut host);
        port
    }
}

/// The view of a router for a script.
struct RouterHost<'a, 'b> {
    cx: &'a mut JobCx<'b>,
    script: &'a Runner,
}

impl RouterHost<'_, '_> {
    fn check_handler(&self, handler: &str, wanted: Use) -> Result<(), String> {
        let found = self.cx.find(handler, wanted).map(|_| ());
        let cx = &self.cx;
        found.map_err(|wrong| not_found(cx.plan(), cx.name(), handler, wanted, wrong))
    }
}

impl Host for RouterHost<'_, '_> {
    fn read(&mut self, handler: &str, argument: &str) -> Result<String, String> {
        self.check_handler(handler, Use::Read)?;
        let takes_none = match self.cx.find(handler, Use::Read) {
            Ok(ResolvedHandler::Own(_, _, info)) => info.access == Access::Sum,
            Ok(ResolvedHandler::Standard(..)) => true,
            _ => false,
        };
        if takes_none && !argument.is_empty() {
            return Err(format!("read handler `{handler}`{NO_PARAMETERS}"));
        }
        let answer = self.cx.read(handler, argument);
        answer.map_err(|e| e.to_string())
    }

    fn write(&mut self, handler: &str, value: &str) -> Result<(), String> {
        self.check_handler(handler, Use::Write)?;
        let answer = self.cx.write(handler, value);
        answer.map(|_| ()).map_err(|e| e.to_string())
    }

    fn has_handler(&mut self, handler: &str, how: scripts::Use) -> bool {
        let how = match how {
            scripts::Use::Read => Use::Read,
            scripts::Use::Write => Use::Write,
        };
        self.cx.find(handler, how).is_ok()
    }

    fn now(&mut self) -> Duration {
        Duration::from_nanos(self.cx.wall_ns())
    }

    fn random(&mut self) -> u32 {
        self.cx.random()
    }

    fn print(&mut self, to: &Sink, text: &str) -> Result<(), String> {
        let (file, name) = match to {
            Sink::Out => {
                self.cx.print(text);
                return Ok(());
            }
            Sink::File(name) => (File::create(name), name),
            Sink::Append(name) => (
                OpenOptions::new().append(true).create(true).open(name),
                name,
            ),
        };
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|e| io_error(name, &e))
    }

    fn chatter(&mut self, text: &str) {
        self.cx.say(text);
    }

    fn load(&mut self, file: &str) -> Result<String, String> {
        let bytes = text_file::typed(Path::new(file)).map_err(|e| io_error(file, &e))?;
        Ok(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })
    }

    fn kill(&mut self, signal: i32, process: i32) -> Result<(), String> {
        use rustix::process::{Pid, Signal, kill_process, test_kill_process};
        let to = Pid::from_raw(process).filter(|_| process > 0);
        let to = to.ok_or_else(|| format!("bad process '{process}'"))?;
        let sent = match Signal::from_named_raw(signal) {
            Some(signal) => kill_process(to, signal),
            None if signal == 0 => test_kill_process(to),
            None => return Err(format!("bad signal '{signal}'")),
        };
        sent.map_err(|e| format!("kill {process}: {}", reason(&e.into())))
    }

    fn process(&mut self) -> u32 {
        std::process::id()
    }

    fn alarm(&mut self, after: Option<Duration>) {
        self.cx.cancel_timer();
        if let Some(after) = after {
            // Every wait advances the time, so that a script cannot stop it.
            let at = self.cx.now() + after.max(Duration::from_nanos(1));
            self.cx.set_timer(at);
        }
    }

    fn stop(&mut self) {
        match *self.script.kind {
            Type::Driver => self.cx.end(),
            _ => self.cx.stop(),
        }
    }

    fn ended(&mut self, again: bool) {
        self.script.armed.set(again);
        if *self.script.kind == Type::Driver {
            self.cx.end();
        }
    }
}

fn io_error(file: &str, error: &std::io::Error) -> String {
    format!("{file}: {}", reason(error))
}

/// An element that is a script.
pub(crate) trait Scripted: Element {
    /// The script.
    fn runner(&self) -> &Runner;
}

macro_rules! table {
    (
        $(read $read:literal $read_doc:literal;)*
        $(inner $inner:literal $inner_doc:literal;)*
        $(write $write:literal $write_doc:literal;)*
    ) => {
        /// The handlers of every script.
        pub(crate) const fn handlers<E: Scripted>() -> [Handler<E>; COUNT] {
            [
                $(Handler::ask($read, $read_doc, |e, a| e.runner().read($read, a)),)*
                $(Handler::ask($inner, $inner_doc, |e: &E, a| e.runner().read($inner, a)).inner(),)*
                $(Handler::run($write, $write_doc, |e, a| e.runner().write($write, a)),)*
            ]
        }

        /// Number of handlers.
        pub(crate) const COUNT: usize = [$($read,)* $($inner,)* $($write,)*].len();

        #[cfg(test)]
        pub(crate) const NAMES: (&[&str], &[&str]) = (&[$($read,)* $($inner,)*], &[$($write),*]);
    };
}

table! {
    read "run" "runs the script: the value that it returns";
    read "get" "the value of a variable";
    read "shift" "takes the first word off a variable (`args`) and gives it";
    read "now" "the time in seconds since 1970";
    read "random" "a random number: below `N`, or from `N1` to `N2`";
    read "readable" "true if all these handlers can be read";
    read "writable" "true if all these handlers can be written";
    read "add" "the sum of numbers";
    read "sub" "the first number less the others";
    read "mul" "the product of numbers";
    read "div" "the first number divided by the others";
    read "idiv" "as `div`, without the fraction";
    read "mod" "the remainder of two integers";
    read "rem" "the remainder of two numbers";
    read "min" "the least of numbers";
    read "max" "the greatest of numbers";
    read "neg" "a number with the other sign";
    read "abs" "a number without its sign";
    read "eq" "true if two numbers or texts are equal";
    read "ne" "true if two numbers or texts differ";
    read "lt" "true if the first is less than the second";
    read "gt" "true if the first is greater than the second";
    read "le" "true if the first is not greater than the second";
    read "ge" "true if the first is not less than the second";
    read "not" "the opposite of a truth value";
    read "and" "true if all are true";
    read "or" "true if one is true";
    read "nand" "true if not all are true";
    read "nor" "true if none is true";
    read "if" "the second word if the first is true, else the third";
    read "in" "true if the first word is among the others";
    read "sprintf" "words formatted as by C's printf";
    read "first" "the first word, with its quotes";
    read "length" "length of the text in bytes";
    read "unquote" "the text without a layer of quotes";
    read "htons" "16 bits from the host's byte order to the network's";
    read "htonl" "32 bits from the host's byte order to the network's";
    read "ntohs" "16 bits from the network's byte order to the host's";
    read "ntohl" "32 bits from the network's byte order to the host's";
    inner "cat" "the text of a file; not from outside the router";
    inner "catq" "the text of a file, in quotes; not from outside the router";
    inner "kill" "sends a signal to processes; not from outside the router";
    write "run" "runs the script";
    write "step" "continues the script over this number of instructions that wait (default 1)";
    write "goto" "continues at a label";
    write "set" "sets a variable to a value";
    write "shift" "takes the first word off a variable";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_a_handler() {
        let (reads, writes) = NAMES;
        let all = scripts::PURE.iter().chain(scripts::READS);
        let mut expected: Vec<&str> = all.copied().collect();
        let mut listed = reads.to_vec();
        expected.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, expected);
        let mut listed = writes.to_vec();
        listed.sort_unstable();
        let mut expected = scripts::WRITES.to_vec();
        expected.sort_unstable();
        assert_eq!(listed, expected);
    }

    #[test]
    fn types_are_words_and_signals() {
        assert_eq!(parse_type("passive"), Ok(Type::Passive));
        assert_eq!(parse_type("SIGNAL INT 10"), Ok(Type::Signal(vec![2, 10])));
        for wrong in ["", "SIGNAL", "SIGNAL X", "WHATEVER", "ACTIVE 1"] {
            assert!(parse_type(wrong).is_err(), "{wrong}");
        }
    }
}
