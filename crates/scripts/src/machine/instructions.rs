//! Execution of each instruction of a script.

use super::{Context, Machine, complaints};
use crate::expand::{Style, Values, expand, expand_unquoted};
use crate::host::{Host, NO_PARAMETERS, Sink, Use};
use crate::number::boolean;
use crate::program::{Insn, Jump, PrintKind, Target, Text, first_word};
use lang::args::unquote;

/// Next step after an instruction that does not simply continue.
pub(super) enum Next {
    Jump(Jump),
    Return(String),
}

impl Machine {
    /// Executes an instruction. An error ends the script.
    pub(super) fn execute(&self, insn: &Insn, host: &mut dyn Host) -> Result<Option<Next>, String> {
        let done = match insn {
            Insn::Set { name, text } => {
                let value = self.text(text, host)?;
                self.set(name, value);
                Ok(())
            }
            Insn::Print { to, what, newline } => self.print(to.as_ref(), what, *newline, host),
            Insn::Read { text } => self.show(text, host),
            Insn::Write { text } => self.write(text, host),
            Insn::Save { handler, to } => self.save(handler, to, host),
            Insn::Goto { label, condition } => return self.decide(label, condition.as_ref(), host),
            Insn::End => return Ok(Some(Next::Jump(Jump::End))),
            Insn::Exit => return Ok(Some(Next::Jump(Jump::Exit))),
            Insn::Stop => return Ok(Some(Next::Jump(Jump::Stop))),
            Insn::Return(text) => return self.text(text, host).map(Next::Return).map(Some),
            Insn::Error(text) => return Err(self.text(text, host)?),
            Insn::Init { .. } | Insn::Label | Insn::Pause(_) | Insn::Wait(_) => Ok(()),
        };
        if let Err(wrong) = done {
            self.complain(&wrong, host);
        }
        Ok(None)
    }

    fn decide(
        &self,
        label: &str,
        condition: Option<&String>,
        host: &mut dyn Host,
    ) -> Result<Option<Next>, String> {
        if let Some(condition) = condition {
            let text = self.unquoted(condition, host)?;
            match boolean(text.trim()) {
                Some(true) => {}
                Some(false) => return Ok(None),
                None => {
                    self.complain(&format!("bad condition '{text}'"), host);
                    return Ok(None);
                }
            }
        }
        let jump = match label.contains('$') {
            false => self.program.jump(label),
            true => self.program.jump(self.unquoted(label, host)?.trim()),
        };
        match jump {
            Some(jump) => Ok(Some(Next::Jump(jump))),
            None => Err(format!("no such label '{label}'")),
        }
    }

    fn print(
        &self,
        to: Option<&Target>,
        what: &PrintKind,
        newline: bool,
        host: &mut dyn Host,
    ) -> Result<(), String> {
        let to = self.sink(to, host)?;
        let before = complaints();
        let mut text = match what {
            PrintKind::Text(text) => self.unquoted(text, host)?,
            PrintKind::Handler(call) => {
                let (handler, argument) = self.handler(call, host)?;
                self.read(&handler, &argument, host)?
            }
        };
        // A text that could not be expanded gets no line end, as in Click.
        if newline && !text.ends_with('\n') && complaints() == before {
            text.push('\n');
        }
        host.print(&to, &text)
    }

    fn save(&self, handler: &str, to: &Target, host: &mut dyn Host) -> Result<(), String> {
        let to = self.sink(Some(to), host)?;
        let (handler, argument) = split(&self.plain(handler, host)?);
        let text = self.read(&handler, &argument, host)?;
        let end = if text.ends_with('\n') { "" } else { "\n" };
        host.print(&to, &format!("{text}{end}"))
    }

    fn sink(&self, to: Option<&Target>, host: &mut dyn Host) -> Result<Sink, String> {
        let Some(to) = to else { return Ok(Sink::Out) };
        Ok(Sink::named(self.unquoted(&to.file, host)?, to.append))
    }

    fn show(&self, call: &Text, host: &mut dyn Host) -> Result<(), String> {
        let (handler, argument) = self.handler(call, host)?;
        let exists = self.has_handler(&handler, Use::Read) || host.has_handler(&handler, Use::Read);
        let context = exists.then(|| handler_context(&handler, &argument));
        match self.read(&handler, &argument, host) {
            Ok(value) => {
                drop(context);
                host.chatter(&format!("{handler}:\n{value}"));
            }
            Err(wrong) => {
                if wrong.ends_with(NO_PARAMETERS) {
                    // The handler was not called.
                    drop(context);
                }
                self.complain(&wrong, host);
            }
        }
        Ok(())
    }

    fn write(&self, call: &Text, host: &mut dyn Host) -> Result<(), String> {
        /// Click's answer of handlers that refuse: C's `EINVAL`.
        const REFUSED: i32 = -22;
        let (handler, value) = self.handler(call, host)?;
        let exists =
            self.has_handler(&handler, Use::Write) || host.has_handler(&handler, Use::Write);
        let context = exists.then(|| handler_context(&handler, &value));
        let written = match self.own_write(&handler, &value, host) {
            Some(written) => written,
            None => host.write(&handler, &value),
        };
        self.status.set(if written.is_ok() { 0 } else { REFUSED });
        if let Err(wrong) = written {
            self.complain(&wrong, host);
        }
        drop(context);
        Ok(())
    }

    /// A handler's name and argument, after substitution.
    fn handler(&self, call: &Text, host: &mut dyn Host) -> Result<(String, String), String> {
        if !call.unquote {
            return Ok(split(&self.plain(&call.raw, host)?));
        }
        let text = expand(&call.raw, Style::Quoted, &mut Scope(self, host))?;
        let (name, argument) = first_word(&text);
        Ok((unquote(name).into_owned(), unquote(argument).into_owned()))
    }

    /// Reads a handler of this script or of others.
    fn read(&self, handler: &str, argument: &str, host: &mut dyn Host) -> Result<String, String> {
        match self.own_read(handler, argument, host) {
            Some(value) => value,
            None => host.read(handler, argument),
        }
    }

    pub(super) fn text(&self, text: &Text, host: &mut dyn Host) -> Result<String, String> {
        match text.unquote {
            true => self.unquoted(&text.raw, host),
            false => self.plain(&text.raw, host),
        }
    }

    fn plain(&self, text: &str, host: &mut dyn Host) -> Result<String, String> {
        expand(text, Style::Plain, &mut Scope(self, host))
    }

    pub(super) fn unquoted(&self, text: &str, host: &mut dyn Host) -> Result<String, String> {
        expand_unquoted(text, &mut Scope(self, host))
    }
}

/// A script's variables and handlers, for substitution.
struct Scope<'a>(&'a Machine, &'a mut dyn Host);

impl Values for Scope<'_> {
    fn variable(&mut self, name: &str) -> Option<String> {
        match name {
            "$" => Some(self.1.process().to_string()),
            _ => self.0.get(name),
        }
    }

    fn call(&mut self, text: &str) -> Option<String> {
        // White space behind the argument is part of it, as in Click.
        let text = text.trim_start();
        let (handler, _) = split(text);
        let argument = text[handler.len()..].trim_start();
        let exists =
            self.0.has_handler(&handler, Use::Read) || self.1.has_handler(&handler, Use::Read);
        match self.0.read(&handler, argument, self.1) {
            Ok(value) => Some(value),
            Err(wrong) => {
                self.0.complain(&wrong, self.1);
                exists.then(String::new)
            }
        }
    }
}

/// Subject of messages while a handler runs.
fn handler_context(handler: &str, value: &str) -> Context {
    let call = format!("{handler} {value}");
    Context::enter(format!("While calling '{}':", call.trim_end()))
}

/// The first word of a text, and the rest.
pub(crate) fn split(text: &str) -> (String, String) {
    let text = text.trim();
    let (name, rest) = text
        .split_once(|c: char| c.is_ascii_whitespace())
        .unwrap_or((text, ""));
    (name.to_owned(), rest.trim_start().to_owned())
}
