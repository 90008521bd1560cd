//! A host without elements for scripts: for tests on any bytes.

use super::host::{Host, Sink, Use};
use super::machine::{Call, Machine};
use super::program::Program;
use std::sync::Arc;
use std::time::Duration;

/// Parses a configuration string as a script's instructions and, if they are valid, runs them for a few steps, without
/// any effect. Returns the output, or the mistakes.
pub fn dry_run(text: &str) -> String {
    let instructions = lang::args::split(text).into_iter().map(|r| &text[r]);
    let (program, wrong) = Program::parse(instructions);
    if !wrong.is_empty() {
        return wrong.into_iter().map(|(_, w)| w.message + "\n").collect();
    }
    let script = Machine::new("s :: Script".to_owned(), Arc::new(program));
    let mut world = DryHost::default();
    script.init(&mut world);
    let ended = script.run(Call::default(), &mut world);
    let _ = script.finish(ended, &mut world);
    for _ in 0..STEPS {
        let ended = match world.alarm.take() {
            Some(_) => script.alarm(&mut world),
            None => script.step(1, &mut world),
        };
        let _ = script.finish(ended, &mut world);
    }
    world.said
}

/// Steps of a run.
const STEPS: usize = 10;
/// Maximum number of kept bytes of output.
const SAID_MAX: usize = 1 << 16;

/// A host without files, and with one handler, which records its argument.
#[derive(Default)]
struct DryHost {
    said: String,
    alarm: Option<Duration>,
    random: u32,
}

impl DryHost {
    fn say(&mut self, text: &str) {
        if self.said.len() + text.len() < SAID_MAX {
            self.said.push_str(text);
        }
    }
}

impl Host for DryHost {
    fn read(&mut self, handler: &str, argument: &str) -> Result<String, String> {
        match handler {
            "x.echo" => Ok(argument.to_owned()),
            _ => Err(format!("no '{handler}' handler")),
        }
    }

    fn write(&mut self, handler: &str, value: &str) -> Result<(), String> {
        self.read(handler, value).map(|_| ())
    }

    fn has_handler(&mut self, handler: &str, _: Use) -> bool {
        handler == "x.echo"
    }

    fn now(&mut self) -> Duration {
        Duration::from_secs(1)
    }

    fn random(&mut self) -> u32 {
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1);
        self.random
    }

    fn print(&mut self, _: &Sink, text: &str) -> Result<(), String> {
        self.say(text);
        Ok(())
    }

    fn chatter(&mut self, text: &str) {
        self.say(text);
    }

    fn load(&mut self, file: &str) -> Result<String, String> {
        Err(format!("{file}: No such file or directory"))
    }

    fn kill(&mut self, _: i32, _: i32) -> Result<(), String> {
        Ok(())
    }

    fn process(&mut self) -> u32 {
        1
    }

    fn alarm(&mut self, after: Option<Duration>) {
        self.alarm = after;
    }

    fn stop(&mut self) {}

    fn ended(&mut self, _: bool) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_runs_without_effect() {
        let text = "set x $(x.echo 3), wait 1s, print >/no/where $x, stop";
        assert_eq!(dry_run(text), "3\n");
        assert_eq!(dry_run("what"), "syntax error at 'what'\n");
    }
}
