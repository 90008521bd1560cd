//! A script's own handlers, for other elements and for its own texts.

use super::functions;
use super::host::{Host, Use};
use super::machine::{Call, Ended, Machine, split};
use super::number::timestamp;

/// Handlers that a script reads of itself, beside [`functions::PURE`].
pub const READS: &[&str] = &[
    "random", "readable", "writable", "now", "cat", "catq", "kill", "get", "shift", "run",
];

/// Handlers that can be written.
pub const WRITES: &[&str] = &["step", "goto", "run", "set", "shift"];

impl Machine {
    /// Reads one of the script's own handlers; `None` if it has no such one.
    pub fn own_read(
        &self,
        name: &str,
        argument: &str,
        host: &mut dyn Host,
    ) -> Option<Result<String, String>> {
        if let Some(result) = functions::pure(name, argument) {
            return Some(result);
        }
        if name == "run" {
            return Some(self.run_handler(name, argument, false, host));
        }
        let argument = argument.trim();
        Some(match name {
            "random" => functions::random(argument, &mut || host.random()),
            "readable" => Ok(self.all_offer(argument, Use::Read, host)),
            "writable" => Ok(self.all_offer(argument, Use::Write, host)),
            "now" => Ok(timestamp(host.now())),
            "cat" => host.load(&file(argument)),
            "catq" => host.load(&file(argument)).map(|t| functions::quoted(&t)),
            "kill" => kill(argument, host),
            "get" => self.named(argument),
            "shift" => {
                let name = if argument.is_empty() {
                    "args"
                } else {
                    argument
                };
                let (first, rest) = functions::shift(&self.get(name).unwrap_or_default());
                self.set(name, rest);
                Ok(first)
            }
            _ if self.exports(name) => Ok(self.get(name).unwrap_or_default()),
            _ => return None,
        })
    }

    /// The variable that a word names: none of the arguments by number, and no other special one.
    fn named(&self, argument: &str) -> Result<String, String> {
        match argument.split_whitespace().count() {
            0 => return Err("no variable".to_owned()),
            1 => {}
            _ => return Err("too many arguments".to_owned()),
        }
        let args = || self.get(argument).filter(|_| argument == "args");
        let value = self.variable(argument).or_else(args);
        value.ok_or_else(|| format!("undefined variable '{argument}'"))
    }

    /// Writes one of the script's own handlers; `None` if it has no such one.
    pub fn own_write(
        &self,
        name: &str,
        value: &str,
        host: &mut dyn Host,
    ) -> Option<Result<(), String>> {
        let value = value.trim();
        let ended = match name {
            "step" => match value {
                "" => self.step(1, host),
                _ => match value.parse() {
                    Ok(steps) => self.step(steps, host),
                    Err(_) => return Some(Err("expected number of steps".to_owned())),
                },
            },
            "goto" => self.goto(value, host),
            "run" => return Some(self.run_handler("run", value, true, host).map(|_| ())),
            "set" => {
                let (name, value) = split(value);
                return Some(match name.is_empty() {
                    true => Err("expected variable and value".to_owned()),
                    false => {
                        self.set(&name, value);
                        Ok(())
                    }
                });
            }
            "shift" => return self.own_read(name, value, host).map(|r| r.map(|_| ())),
            _ => return None,
        };
        Some(self.finish(ended, host).map(|_| ()))
    }

    /// Runs the script for one of its handlers.
    pub fn run_handler(
        &self,
        name: &str,
        args: &str,
        write: bool,
        host: &mut dyn Host,
    ) -> Result<String, String> {
        let call = Call {
            name: name.to_owned(),
            args: args.to_owned(),
            write,
            input: None,
        };
        let ended = self.run(call, host);
        self.finish(ended, host)
    }

    /// Applies the end of a run; returns its value.
    pub fn finish(
        &self,
        ended: Result<Ended, String>,
        host: &mut dyn Host,
    ) -> Result<String, String> {
        let (again, answer) = match ended {
            Ok(Ended::No) => return Ok(String::new()),
            Ok(Ended::Return(value)) => (true, Ok(value)),
            Ok(Ended::End) => (true, Ok(String::new())),
            Ok(Ended::Exit) => (false, Ok(String::new())),
            Ok(Ended::Stop) => {
                host.stop();
                (true, Ok(String::new()))
            }
            Err(wrong) => (false, Err(wrong)),
        };
        if !self.is_running() {
            host.ended(again);
        }
        answer
    }

    /// True if a name without a dot is a handler of this script.
    pub fn has_handler(&self, name: &str, how: Use) -> bool {
        match how {
            Use::Read => {
                functions::PURE.contains(&name) || READS.contains(&name) || self.exports(name)
            }
            Use::Write => WRITES.contains(&name),
        }
    }

    fn exports(&self, name: &str) -> bool {
        self.program.exports.iter().any(|e| e == name)
    }

    fn all_offer(&self, argument: &str, how: Use, host: &mut dyn Host) -> String {
        let names = lang::args::unquoted_words(argument);
        let all = names
            .iter()
            .all(|name| self.has_handler(name, how) || host.has_handler(name, how));
        all.to_string()
    }
}

fn file(argument: &str) -> String {
    lang::args::unquote(argument).into_owned()
}

fn kill(argument: &str, host: &mut dyn Host) -> Result<String, String> {
    let words = lang::args::unquoted_words(argument);
    let Some((signal, processes)) = words.split_first().filter(|(_, p)| !p.is_empty()) else {
        return Err("expected signal and processes".to_owned());
    };
    let signal = super::signal::number(signal).ok_or_else(|| format!("bad signal '{signal}'"))?;
    for process in processes {
        let process = process
            .parse()
            .map_err(|_| format!("bad process '{process}'"))?;
        host.kill(signal, process)?;
    }
    Ok(String::new())
}
