//! `ashlar shell`: lines are command lines of this program, for one running router.
//!
//! Each command runs as a process of its own, as from another shell: ending the command (Ctrl-C in `top`) does not end
//! the shell.

use super::{Done, complain, print};
use crate::cli::{Cli, Target, completion};
use clap::{Command, CommandFactory};
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::error::ReadlineError;
use rustyline::{Config, Context, Editor, Helper};
use std::path::PathBuf;

/// Commands of the shell itself.
const SHELL_COMMANDS: [(&str, &str); 4] = [
    ("tree", "Show the elements of the router as a tree"),
    ("use", "Go to another router of the process"),
    ("exit", "End the shell"),
    ("quit", "End the shell"),
];

struct Words {
    target: Target,
    command: Command,
    files: FilenameCompleter,
}

pub(crate) fn shell(target: &Target) -> Done {
    let socket = control::socket::find(target.socket.as_deref())?;
    let mut command = Cli::command();
    command.build();
    let words = Words {
        target: Target {
            socket: Some(socket.display().to_string()),
            router: target.router.clone(),
        },
        command,
        files: FilenameCompleter::new(),
    };
    // Ctrl-C goes to the running command.
    let noted = std::sync::Arc::default();
    signal_hook::flag::register(signal_hook::consts::SIGINT, noted).map_err(|e| e.to_string())?;
    let mut editor: Editor<Words, _> =
        Editor::with_config(Config::default()).map_err(|e| e.to_string())?;
    editor.set_helper(Some(words));
    let history = history();
    if let Some(file) = &history {
        // At the first start there is no history.
        let _ = editor.load_history(file);
    }
    let done = run_shell(&mut editor);
    if let Some(file) = &history {
        let folder = file.parent().map_or(Ok(()), std::fs::create_dir_all);
        let kept = folder.map_err(|e| e.to_string());
        let kept = kept.and_then(|()| editor.save_history(file).map_err(|e| e.to_string()));
        if let Err(wrong) = kept {
            complain(&format!(
                "the history is not kept in {}: {wrong}",
                file.display()
            ));
        }
    }
    done
}

/// History file; `None` without a home directory.
fn history() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let state =
        state.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")));
    state.map(|state| state.join("ashlar/history"))
}

fn run_shell(editor: &mut Editor<Words, rustyline::history::FileHistory>) -> Done {
    loop {
        let router = editor
            .helper()
            .and_then(|words| words.target.router.clone());
        let prompt = format!("{}> ", router.unwrap_or_else(|| "ashlar".to_owned()));
        let line = match editor.readline(&prompt) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(()),
            Err(wrong) => return Err(format!("cannot read a line: {wrong}")),
        };
        if is_kept(&line) {
            editor
                .add_history_entry(&*line)
                .map_err(|e| e.to_string())?;
        }
        let Some(words) = editor.helper_mut() else {
            return Ok(());
        };
        match words.line(line.trim()) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(text) => complain(&text),
        }
    }
}

impl Words {
    /// Runs a line; false ends the shell.
    fn line(&mut self, line: &str) -> Result<bool, String> {
        if let Some(before) = line.strip_suffix('?') {
            let known: Vec<_> = self.may_follow(before).collect();
            let width = known.iter().map(|(word, _)| word.len()).max().unwrap_or(0);
            let rows = known
                .iter()
                .map(|(word, doc)| format!("  {word:width$}  {doc}"));
            let text: String = rows.map(|row| format!("{}\n", row.trim_end())).collect();
            return print(&text).map(|()| true);
        }
        let words = shlex::split(line).ok_or("a quotation mark or a backslash has no end")?;
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => {}
            ["exit" | "quit"] => return Ok(false),
            ["tree"] => print(&tree(&completion::running(&self.target)))?,
            ["use", name] => self.target.router = Some(name.to_owned()),
            ["use"] => self.target.router = None,
            ["shell", ..] => return Err("this is the shell".to_owned()),
            _ => self.run(words)?,
        }
        Ok(true)
    }

    /// Runs a command of the program; a command that queries a router queries this one.
    fn run(&self, mut words: Vec<String>) -> Done {
        let command = self.command.find_subcommand(&words[0]);
        let has =
            |long| command.is_some_and(|c| c.get_arguments().any(|a| a.get_long() == Some(long)));
        let says = |long: &str, words: &[String]| {
            let (whole, begins) = (format!("--{long}"), format!("--{long}="));
            words
                .iter()
                .any(|word| *word == whole || word.starts_with(&begins))
        };
        for (long, value) in [
            ("router", &self.target.router),
            ("socket", &self.target.socket),
        ] {
            if let Some(value) = value
                && has(long)
                && !says(long, &words)
            {
                words.splice(1..1, [format!("--{long}"), value.clone()]);
            }
        }
        let program =
            std::env::current_exe().map_err(|e| format!("the program is not found: {e}"))?;
        let ended = machine::program(program).args(words).status();
        // The command has printed its own error.
        ended
            .map(|_| ())
            .map_err(|e| format!("the command does not start: {e}"))
    }

    /// Completion candidates for the end of a line, each with a description.
    fn may_follow(&self, line: &str) -> Box<dyn Iterator<Item = (String, String)>> {
        let (before, word) = line.split_at(last_word(line));
        let before = before.trim();
        let mut words = before.split_whitespace();
        let Some(first) = words.next() else {
            return Box::new(completions_of(self.commands(), word));
        };
        let Some(mut command) = self.command.find_subcommand(first) else {
            return Box::new(std::iter::empty());
        };
        let last = before.split_whitespace().next_back();
        for word in words {
            command = command.find_subcommand(word).unwrap_or(command);
        }
        if word.starts_with('-') {
            return Box::new(completions_of(options(command), word));
        }
        let name = if last == Some("--at") {
            "trace"
        } else {
            command.get_name()
        };
        let elements = || completion::running(&self.target);
        match name {
            "show" => {
                Box::new(completion::completions_of(word, &elements(), |h| h.read).into_iter())
            }
            "set" => {
                Box::new(completion::completions_of(word, &elements(), |h| h.write).into_iter())
            }
            "capture" | "trace" => {
                Box::new(completion::completions_of(word, &elements(), |_| false).into_iter())
            }
            _ => {
                let below = command.get_subcommands().map(named).collect();
                Box::new(completions_of(below, word))
            }
        }
    }

    fn commands(&self) -> Vec<(String, String)> {
        let shown = self.command.get_subcommands().filter(|c| !c.is_hide_set());
        let shown = shown.filter(|c| c.get_name() != "shell").map(named);
        let own = SHELL_COMMANDS.map(|(word, doc)| (word.to_owned(), doc.to_owned()));
        shown.chain(own).collect()
    }
}

/// Start of the last word, which may be empty.
fn last_word(line: &str) -> usize {
    line.trim_end_matches(|c: char| !c.is_whitespace()).len()
}

/// True if a line is added to the history: it contains no secret and, as in other shells, does not begin with a space.
fn is_kept(line: &str) -> bool {
    let secret = line.to_ascii_lowercase().contains("key");
    !secret && !line.starts_with(char::is_whitespace)
}

fn completions_of(
    words: Vec<(String, String)>,
    with: &str,
) -> impl Iterator<Item = (String, String)> + use<> {
    let with = with.to_owned();
    words
        .into_iter()
        .filter(move |(word, _)| word.starts_with(&with))
}

fn named(command: &Command) -> (String, String) {
    let about = command.get_about().map(ToString::to_string);
    (command.get_name().to_owned(), about.unwrap_or_default())
}

fn options(command: &Command) -> Vec<(String, String)> {
    let named = command.get_arguments().filter_map(|argument| {
        let help = argument.get_help().map(ToString::to_string);
        Some((
            format!("--{}", argument.get_long()?),
            help.unwrap_or_default(),
        ))
    });
    named.collect()
}

/// Tree of elements with their classes; those of a compound element are below its name.
fn tree(elements: &[control::view::Element]) -> String {
    let mut text = String::new();
    let mut names: Vec<(&str, &str)> = elements.iter().map(|e| (&*e.name, &*e.class)).collect();
    names.sort_by(|a, b| a.0.split('/').cmp(b.0.split('/')));
    let mut above: Vec<&str> = Vec::new();
    for (name, class) in names {
        let parts: Vec<&str> = name.split('/').collect();
        let (own, parents) = parts.split_last().unwrap_or((&"", &[]));
        let same = above
            .iter()
            .zip(parents)
            .take_while(|(a, b)| a == b)
            .count();
        for (depth, parent) in parents.iter().enumerate().skip(same) {
            text += &format!("{:1$}{parent}\n", "", 2 * depth);
        }
        above = parents.to_vec();
        text += &format!("{:1$}{own} :: {class}\n", "", 2 * parents.len());
    }
    text
}

impl Completer for Words {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        cx: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let line = line.get(..at).unwrap_or(line);
        let words: Vec<Pair> = self
            .may_follow(line)
            .map(|(word, _)| Pair {
                display: word.clone(),
                replacement: word,
            })
            .collect();
        if words.is_empty() && line.contains(char::is_whitespace) {
            return self.files.complete(line, at, cx);
        }
        Ok((last_word(line), words))
    }
}

impl rustyline::hint::Hinter for Words {
    type Hint = String;
}
impl rustyline::highlight::Highlighter for Words {}
impl rustyline::validate::Validator for Words {}
impl Helper for Words {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_at_spaces_of_any_width() {
        for (line, word) in [
            ("show rt", "rt"),
            ("show ", ""),
            ("show", "show"),
            ("", ""),
            // A space of several bytes, as pasted text may have.
            ("show\u{a0}rt", "rt"),
            ("show\u{3000}", ""),
        ] {
            assert_eq!(&line[last_word(line)..], word, "{line:?}");
        }
    }

    #[test]
    fn possible_secrets_are_not_kept_in_the_history() {
        let kept = ["show rt.table", "set fw.add \"allow tcp\""];
        assert!(kept.into_iter().all(is_kept));
        let secret = ["set t.add \"sa out 300 ENC_KEY 00ff\"", " set a.b c"];
        assert!(!secret.into_iter().any(is_kept));
    }
}
