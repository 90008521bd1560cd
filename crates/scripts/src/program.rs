//! A script's instructions, parsed once.

use lang::args::words;
use std::collections::HashMap;
use std::time::Duration;

/// An instruction. Texts are kept as written and substituted when it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Insn {
    Set {
        name: String,
        text: Text,
    },
    Init {
        name: String,
        text: Text,
    },
    Print {
        to: Option<Target>,
        what: PrintKind,
        newline: bool,
    },
    Read {
        text: Text,
    },
    Write {
        text: Text,
    },
    Save {
        handler: String,
        to: Target,
    },
    Pause(u32),
    Wait(Wait),
    Label,
    Goto {
        label: String,
        condition: Option<String>,
    },
    End,
    Exit,
    Stop,
    Return(Text),
    Error(Text),
}

/// A text, and a flag: true if a layer of quotes is removed after substitution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) raw: String,
    pub(crate) unquote: bool,
}

/// Kind of value that `print` prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PrintKind {
    /// The value of a handler.
    Handler(Text),
    /// A text, always unquoted.
    Text(String),
}

/// A file to print to, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) file: String,
    pub(crate) append: bool,
}

/// Length of a `wait`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    For(Duration),
    /// A time that substitution gives.
    Text(String),
}

/// A parsed script.
#[derive(Debug, Default)]
pub struct Program {
    pub(crate) code: Vec<Insn>,
    labels: HashMap<String, usize>,
    /// Variables that are readable as handlers.
    pub exports: Vec<String>,
}

/// Mistake in an instruction.
#[derive(Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Error text, in Click's words.
    pub message: String,
    /// Advice.
    pub help: String,
}

/// Target of `goto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Jump {
    To(usize),
    End,
    Exit,
    Stop,
    Error,
}

impl Program {
    /// Parses instructions. A mistake names the instruction it is in.
    pub fn parse<S: AsRef<str>>(
        instructions: impl IntoIterator<Item = S>,
    ) -> (Program, Vec<(usize, Mistake)>) {
        let (mut program, mut wrong) = (Program::default(), Vec::new());
        for (at, instruction) in instructions.into_iter().enumerate() {
            match program.instruction(instruction.as_ref()) {
                Ok(insn) => program.code.push(insn),
                Err(help) => {
                    let name = first_word(instruction.as_ref()).0;
                    let message = format!("syntax error at '{name}'");
                    wrong.push((at, Mistake { message, help }));
                    // Positions of instructions stay those of the arguments.
                    program.code.push(Insn::Label);
                }
            }
        }
        for (at, insn) in program.code.iter().enumerate() {
            if let Insn::Goto { label, .. } = insn
                && !label.contains('$')
                && program.jump(label).is_none()
            {
                let message = format!("no such label '{label}'");
                let help = "`label NAME` is where `goto NAME` leads".to_owned();
                wrong.push((at, Mistake { message, help }));
            }
        }
        (program, wrong)
    }

    /// Target of a label.
    pub(crate) fn jump(&self, label: &str) -> Option<Jump> {
        if let Some(at) = self.labels.get(label) {
            return Some(Jump::To(*at));
        }
        Some(match label {
            "loop" | "begin" => Jump::To(0),
            "end" => Jump::End,
            "exit" => Jump::Exit,
            "stop" => Jump::Stop,
            "error" => Jump::Error,
            _ => return None,
        })
    }

    /// Parses an instruction. The error says which arguments it needs.
    fn instruction(&mut self, text: &str) -> Result<Insn, String> {
        let (name, rest) = first_word(text);
        let needs = |what: &str| format!("'{name}' needs {what}");
        let text = |unquote| Text {
            raw: rest.to_owned(),
            unquote,
        };
        let nothing = |insn| match rest {
            "" => Ok(insn),
            _ => Err(format!("'{name}' takes no arguments")),
        };
        match name {
            "" => Ok(Insn::Label),
            "set" | "setq" | "init" | "initq" | "export" | "exportq" => self.assign(name, rest),
            "print" | "printq" | "printn" | "printnq" => Ok(print(name, rest)),
            "read" | "readq" | "write" | "writeq" if rest.is_empty() => Err(needs("a handler")),
            "read" => Ok(Insn::Read { text: text(false) }),
            "readq" => Ok(Insn::Read { text: text(true) }),
            "write" => Ok(Insn::Write { text: text(false) }),
            "writeq" => Ok(Insn::Write { text: text(true) }),
            "save" | "append" => save(name, rest),
            "wait" if rest.is_empty() => Ok(Insn::Pause(1)),
            "wait" | "wait_time" | "wait_for" => {
                Ok(Insn::Wait(wait(rest).ok_or_else(|| needs("a time"))?))
            }
            "pause" | "wait_pause" | "wait_step" | "wait_stop" => match rest {
                "" => Ok(Insn::Pause(1)),
                _ => rest
                    .parse()
                    .map(Insn::Pause)
                    .map_err(|_| needs("a number of steps")),
            },
            "label" => {
                if words(rest).len() != 1 {
                    return Err(needs("one name"));
                }
                let here = self.code.len();
                // The first of two equal labels counts, as in Click.
                self.labels.entry(rest.to_owned()).or_insert(here);
                Ok(Insn::Label)
            }
            "goto" if rest.is_empty() => Err(needs("a label")),
            "goto" => {
                let (label, condition) = first_word(rest);
                Ok(Insn::Goto {
                    label: label.to_owned(),
                    condition: (!condition.is_empty()).then(|| condition.to_owned()),
                })
            }
            "loop" => nothing(Insn::Goto {
                label: "loop".to_owned(),
                condition: None,
            }),
            "end" => nothing(Insn::End),
            "exit" => nothing(Insn::Exit),
            "stop" => nothing(Insn::Stop),
            "return" => Ok(Insn::Return(text(false))),
            "returnq" => Ok(Insn::Return(text(true))),
            "error" => Ok(Insn::Error(text(false))),
            "errorq" => Ok(Insn::Error(text(true))),
            _ => Err(format!("there is no instruction '{name}'")),
        }
    }

    fn assign(&mut self, insn: &str, rest: &str) -> Result<Insn, String> {
        let (name, value) = first_word(rest);
        // `set` needs a value, and takes names that nothing can refer to.
        if name.is_empty() || (insn == "set" && value.is_empty()) {
            return Err(format!("'{insn}' needs the name of a variable"));
        }
        let (bare, unquote) = match insn.strip_suffix('q') {
            Some(bare) => (bare, true),
            None => (insn, false),
        };
        let name = name.to_owned();
        let text = Text {
            raw: value.to_owned(),
            unquote,
        };
        if bare == "export" && !self.exports.contains(&name) {
            self.exports.push(name.clone());
        }
        Ok(match bare {
            "set" => Insn::Set { name, text },
            _ => Insn::Init { name, text },
        })
    }
}

/// Splits a text into its first word and the rest.
pub(crate) fn first_word(text: &str) -> (&str, &str) {
    let Some(first) = words(text).into_iter().next() else {
        return ("", "");
    };
    (&text[first.clone()], text[first.end..].trim())
}

fn target(rest: &str) -> Option<(Target, &str)> {
    let after = rest.strip_prefix('>')?;
    let (append, after) = match after.strip_prefix('>') {
        Some(after) => (true, after),
        None => (false, after),
    };
    let (file, rest) = first_word(after);
    let file = file.to_owned();
    Some((Target { file, append }, rest))
}

fn print(name: &str, rest: &str) -> Insn {
    let (to, rest) = match target(rest) {
        Some((to, rest)) => (Some(to), rest),
        None => (None, rest),
    };
    let names_handler = |c: char| c.is_ascii_alphabetic() || c == '@' || c == '_';
    let what = if rest.starts_with(names_handler) {
        PrintKind::Handler(Text {
            raw: rest.to_owned(),
            unquote: name.ends_with('q'),
        })
    } else {
        PrintKind::Text(rest.to_owned())
    };
    Insn::Print {
        to,
        what,
        newline: !name.starts_with("printn"),
    }
}

fn save(name: &str, rest: &str) -> Result<Insn, String> {
    let words = words(rest);
    let [.., file] = words.as_slice() else {
        return Err(format!("'{name}' needs a handler and a file"));
    };
    let handler = rest[..file.start].trim();
    if handler.is_empty() {
        return Err(format!("'{name}' needs a handler and a file"));
    }
    Ok(Insn::Save {
        handler: handler.to_owned(),
        to: Target {
            file: rest[file.clone()].to_owned(),
            append: name == "append",
        },
    })
}

fn wait(text: &str) -> Option<Wait> {
    if text.contains('$') {
        return Some(Wait::Text(text.to_owned()));
    }
    time(text).map(Wait::For)
}

/// Parses a time, in the syntax of arguments.
pub(crate) fn time(text: &str) -> Option<Duration> {
    arguments::units::parse::<Duration>(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(instructions: &[&str]) -> Vec<Insn> {
        let (program, wrong) = Program::parse(instructions);
        assert_eq!(wrong, []);
        program.code
    }

    fn wrong(instruction: &str) -> Mistake {
        let (_, mut wrong) = Program::parse([instruction]);
        wrong.remove(0).1
    }

    #[test]
    fn wait_is_a_pause_without_a_time() {
        assert_eq!(
            parse(&["wait", "pause", "wait_stop 3"]),
            [Insn::Pause(1), Insn::Pause(1), Insn::Pause(3)]
        );
        assert_eq!(
            parse(&["wait 0.1s", "wait_time 2", "wait $t"]),
            [
                Insn::Wait(Wait::For(Duration::from_millis(100))),
                Insn::Wait(Wait::For(Duration::from_secs(2))),
                Insn::Wait(Wait::Text("$t".into()))
            ]
        );
    }

    #[test]
    fn print_tells_handlers_from_texts_by_their_first_character() {
        let print = |text: &str| match parse(&[text]).remove(0) {
            Insn::Print { to, what, newline } => (to, what, newline),
            other => panic!("{other:?}"),
        };
        let handler = |raw: &str, unquote| {
            PrintKind::Handler(Text {
                raw: raw.into(),
                unquote,
            })
        };
        assert_eq!(
            print("print c.count"),
            (None, handler("c.count", false), true)
        );
        assert_eq!(
            print("printnq @x@y.z 1"),
            (None, handler("@x@y.z 1", true), false)
        );
        assert_eq!(
            print("printn 'a'"),
            (None, PrintKind::Text("'a'".into()), false)
        );
        let to = |file: &str, append| {
            Some(Target {
                file: file.into(),
                append,
            })
        };
        assert_eq!(
            print("print >>F $x"),
            (to("F", true), PrintKind::Text("$x".into()), true)
        );
        assert_eq!(
            print("print > F"),
            (to("F", false), PrintKind::Text(String::new()), true)
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (instruction, help) in [
            ("foo bar", "there is no instruction 'foo'"),
            ("wait soon", "'wait' needs a time"),
            ("pause -1", "'pause' needs a number of steps"),
            ("set", "'set' needs the name of a variable"),
            ("read", "'read' needs a handler"),
            ("save x", "'save' needs a handler and a file"),
            ("stop now", "'stop' takes no arguments"),
            ("goto", "'goto' needs a label"),
            ("label", "'label' needs one name"),
        ] {
            let word = instruction.split(' ').next().unwrap();
            let mistake = wrong(instruction);
            assert_eq!(mistake.message, format!("syntax error at '{word}'"));
            assert_eq!(mistake.help, help);
        }
        assert_eq!(wrong("goto x").message, "no such label 'x'");
        let (_, names) = Program::parse(["set a-b 1", "set $a 1", "set a"]);
        assert_eq!(names.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn the_first_of_two_equal_labels_counts_and_an_empty_instruction_does_nothing() {
        let (program, wrong) = Program::parse(["", "label a", "print 1", "label a"]);
        assert_eq!(wrong, []);
        assert_eq!(program.jump("a"), Some(Jump::To(1)));
    }

    #[test]
    fn a_label_hides_a_word_with_a_meaning() {
        let (program, _) = Program::parse(["print 1", "label end"]);
        assert_eq!(program.jump("end"), Some(Jump::To(1)));
        assert_eq!(program.jump("loop"), Some(Jump::To(0)));
    }
}
