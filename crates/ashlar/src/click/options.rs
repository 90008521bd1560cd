//! The command line of Click's user-level driver: short options may be bundled (`-qo-`), long ones
//! shortened, and options, `NAME=value` and the file come in any order.

use std::ffi::OsString;

/// Source of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// A file; `-` is standard input.
    File(String),
    /// Text of the command line.
    Text(String),
}

/// A control socket to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Listen {
    /// A TCP port; a `+` after it also allows one of the next ports.
    Tcp(String),
    /// A file.
    Unix(String),
}

/// Options of the command line.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Options {
    pub(super) input: Option<Input>,
    pub(super) definitions: Vec<(String, String)>,
    pub(super) handlers: Vec<String>,
    pub(super) exit_handler: Option<String>,
    pub(super) output: Option<String>,
    pub(super) sockets: Vec<Listen>,
    pub(super) reconfigure: bool,
    pub(super) quit: bool,
    pub(super) time: bool,
    pub(super) warnings: bool,
    pub(super) clickpath: Option<String>,
    pub(super) threads: usize,
    /// The first processor to pin to.
    pub(super) affinity: Option<usize>,
    /// Start of simulated time, in seconds.
    pub(super) simtime: Option<f64>,
}

/// Meaning of the command line.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Parsed {
    Run(Box<Options>),
    Help,
    Version,
    /// A mistake.
    Wrong(String),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    /// The option has a value, after the option's name or as the next word.
    Value,
    /// The option has a value only after `=`.
    Maybe,
}

struct Known {
    long: &'static str,
    short: Option<char>,
    takes: Takes,
    /// True if `--no-` may stand before it.
    negates: bool,
    help: &'static str,
}

const fn known(
    long: &'static str,
    short: Option<char>,
    takes: Takes,
    negates: bool,
    help: &'static str,
) -> Known {
    Known {
        long,
        short,
        takes,
        negates,
        help,
    }
}

const KNOWN: &[Known] = &[
    known(
        "file",
        Some('f'),
        Takes::Value,
        false,
        "FILE|read the configuration from FILE",
    ),
    known(
        "expression",
        Some('e'),
        Takes::Value,
        false,
        "TEXT|the configuration is TEXT",
    ),
    known(
        "threads",
        Some('j'),
        Takes::Value,
        false,
        "N|threads that elements may name (default 1)",
    ),
    known(
        "affinity",
        Some('a'),
        Takes::Maybe,
        true,
        "[=N]|pin to processors from N on (default 0)",
    ),
    known(
        "port",
        Some('p'),
        Takes::Value,
        false,
        "PORT|listen for control on a TCP port; PORT+ takes one of the next",
    ),
    known(
        "unix-socket",
        Some('u'),
        Takes::Value,
        false,
        "FILE|listen for control on a Unix socket",
    ),
    known(
        "allow-reconfigure",
        Some('R'),
        Takes::Nothing,
        true,
        "|give the router a `hotconfig` handler",
    ),
    known(
        "handler",
        Some('h'),
        Takes::Value,
        false,
        "HANDLER|read HANDLER at the end and print the answer",
    ),
    known(
        "exit-handler",
        Some('x'),
        Takes::Value,
        false,
        "HANDLER|read HANDLER at the end for the exit status",
    ),
    known(
        "output",
        Some('o'),
        Takes::Value,
        false,
        "FILE|write the flat configuration to FILE",
    ),
    known("quit", Some('q'), Takes::Nothing, false, "|do not run"),
    known(
        "time",
        Some('t'),
        Takes::Nothing,
        false,
        "|print how long it ran",
    ),
    known("warnings", None, Takes::Nothing, true, ""),
    known(
        "no-warnings",
        Some('w'),
        Takes::Nothing,
        false,
        "|print no warnings",
    ),
    known("simulation-time", None, Takes::Maybe, false, ""),
    known(
        "simtime",
        None,
        Takes::Maybe,
        false,
        "[=TIME]|run in simulated time, from TIME on (default 1000000000)",
    ),
    known(
        "clickpath",
        Some('C'),
        Takes::Value,
        false,
        "PATH|look for libraries in PATH",
    ),
    known("help", None, Takes::Nothing, false, "|print this"),
    known(
        "version",
        Some('v'),
        Takes::Nothing,
        false,
        "|print the version",
    ),
];

/// The text of `--help`.
pub(super) fn help() -> String {
    let mut text = String::from(
        "Usage: click [OPTION]... [NAME=VALUE]... [FILE]\n\n\
         Runs a configuration in the Click language as Click's user-level driver does: one\n\
         thread, one packet at a time, depth first. `ashlar run` is for speed.\n\n",
    );
    for option in KNOWN.iter().filter(|k| !k.help.is_empty()) {
        let (value, sentence) = option.help.split_once('|').unwrap_or(("", option.help));
        let short = option
            .short
            .map_or_else(|| "    ".to_owned(), |c| format!("-{c}, "));
        let gap = if option.takes == Takes::Value {
            " "
        } else {
            ""
        };
        let left = format!("  {short}--{}{gap}{value}", option.long);
        text += &format!("{left:<32} {sentence}\n");
    }
    text
}

/// Reads the command line, without the program's name.
pub(super) fn parse(words: impl IntoIterator<Item = OsString>) -> Parsed {
    let mut reader = Reader {
        words: words
            .into_iter()
            .map(|w| w.to_string_lossy().into_owned())
            .collect(),
        options: Options {
            warnings: true,
            threads: 1,
            ..Options::default()
        },
        asked: None,
    };
    reader.words.reverse();
    match reader.all() {
        Err(wrong) => Parsed::Wrong(wrong),
        Ok(()) => reader
            .asked
            .unwrap_or(Parsed::Run(Box::new(reader.options))),
    }
}

struct Reader {
    /// The words that are left, the next one last.
    words: Vec<String>,
    options: Options,
    asked: Option<Parsed>,
}

impl Reader {
    fn all(&mut self) -> Result<(), String> {
        while let Some(word) = self.words.pop() {
            if word == "--" {
                while let Some(word) = self.words.pop() {
                    self.word(word)?;
                }
            } else if let Some(long) = word.strip_prefix("--") {
                self.long(long)?;
            } else if word.len() > 1 && word.starts_with('-') {
                self.short(&word[1..])?;
            } else {
                self.word(word)?;
            }
        }
        Ok(())
    }

    /// A definition or the file.
    fn word(&mut self, word: String) -> Result<(), String> {
        match control::source::definition(&word) {
            Some(definition) => {
                let defined = &mut self.options.definitions;
                // The first value of a variable counts.
                if !defined.iter().any(|(name, _)| *name == definition.0) {
                    defined.push(definition);
                }
                Ok(())
            }
            None => self.input(Input::File(word)),
        }
    }

    fn input(&mut self, input: Input) -> Result<(), String> {
        match self.options.input.replace(input) {
            None => Ok(()),
            Some(_) => Err("router configuration specified twice".to_owned()),
        }
    }

    fn long(&mut self, word: &str) -> Result<(), String> {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word, None),
        };
        let (option, on) = find_long(name)?;
        let value = match (option.takes, value) {
            (Takes::Nothing, Some(_)) => {
                return Err(format!("'--{}' can't take an argument", option.long));
            }
            (Takes::Value, None) => Some(self.next_word(&format!("--{}", option.long))?),
            (_, value) => value,
        };
        self.set(option, value, on)
    }

    fn short(&mut self, letters: &str) -> Result<(), String> {
        let mut left = letters.chars();
        while let Some(letter) = left.next() {
            let option = KNOWN.iter().find(|k| k.short == Some(letter));
            let option = option.ok_or_else(|| format!("unrecognized option '-{letter}'"))?;
            let value = match (option.takes, left.as_str()) {
                (Takes::Nothing, _) => None,
                (Takes::Value, "") => Some(self.next_word(&format!("-{letter}"))?),
                (Takes::Maybe, "") => None,
                (_, value) => {
                    let value = value.to_owned();
                    left = "".chars();
                    Some(value)
                }
            };
            self.set(option, value, true)?;
        }
        Ok(())
    }

    fn next_word(&mut self, option: &str) -> Result<String, String> {
        self.words
            .pop()
            .ok_or_else(|| format!("'{option}' requires an argument"))
    }

    fn set(&mut self, option: &Known, value: Option<String>, on: bool) -> Result<(), String> {
        let options = &mut self.options;
        let number = |value: Option<String>, default: usize| match value {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| {
                format!(
                    "'--{}' expects a nonnegative integer, not '{text}'",
                    option.long
                )
            }),
        };
        let text = value.clone().unwrap_or_default();
        match option.long {
            "file" => return self.input(Input::File(text)),
            "expression" => return self.input(Input::Text(text)),
            "threads" => options.threads = number(value, 1)?.max(1),
            "affinity" => options.affinity = if on { Some(number(value, 0)?) } else { None },
            "port" => {
                let port = text.strip_suffix('+').unwrap_or(&text);
                if port.parse::<u16>().is_err() {
                    return Err(format!("'--port' expects a TCP port number, not '{text}'"));
                }
                options.sockets.push(Listen::Tcp(text));
            }
            "unix-socket" => options.sockets.push(Listen::Unix(text)),
            "allow-reconfigure" => options.reconfigure = on,
            "handler" => options.handlers.push(text),
            "exit-handler" => {
                if options.exit_handler.replace(text).is_some() {
                    return Err("'--exit-handler' specified twice".to_owned());
                }
            }
            "output" => {
                if options.output.replace(text).is_some() {
                    return Err("'--output' specified twice".to_owned());
                }
            }
            "quit" => options.quit = true,
            "time" => options.time = true,
            "warnings" => options.warnings = on,
            "no-warnings" => options.warnings = false,
            "simtime" | "simulation-time" => {
                let begin = value.map_or(Ok(1e9), |v| v.parse::<f64>().map_err(|_| v));
                options.simtime = match begin {
                    Ok(begin) if (0.0..1e10).contains(&begin) => Some(begin),
                    _ => return Err("'--simtime' expects a time in seconds".to_owned()),
                };
            }
            "clickpath" => options.clickpath = Some(text),
            "help" => self.asked = Some(Parsed::Help),
            _ => self.asked = Some(Parsed::Version),
        }
        Ok(())
    }
}

/// A long option by its name or an unambiguous beginning; false if it is negated.
fn find_long(name: &str) -> Result<(&'static Known, bool), String> {
    if let Some(exact) = KNOWN.iter().find(|k| k.long == name) {
        return Ok((exact, true));
    }
    if let Some(denied) = name.strip_prefix("no-")
        && let Some(option) = KNOWN.iter().find(|k| k.negates && k.long == denied)
    {
        return Ok((option, false));
    }
    let mut fits = KNOWN.iter().filter(|k| k.long.starts_with(name));
    match (fits.next(), fits.next()) {
        (Some(option), None) => Ok((option, true)),
        (Some(_), Some(_)) => Err(format!("option '--{name}' is ambiguous")),
        _ => Err(format!("unrecognized option '--{name}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Options {
        match parse(line.split(' ').map(OsString::from)) {
            Parsed::Run(options) => *options,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn short_options_may_be_bundled_with_a_value_at_the_end() {
        let options = run("-qo- A.click");
        assert!(options.quit);
        assert_eq!(options.output.as_deref(), Some("-"));
        assert_eq!(options.input, Some(Input::File("A.click".into())));
    }

    #[test]
    fn options_definitions_and_the_file_come_in_any_order() {
        let options = run("--simtime A=1 file -h c.count --threads=2 -h list B=x=y -p 41900+ -R");
        assert_eq!(options.simtime, Some(1e9));
        assert_eq!(options.handlers, ["c.count", "list"]);
        assert_eq!(
            options.definitions,
            [("A".into(), "1".into()), ("B".into(), "x=y".into())]
        );
        assert_eq!((options.threads, options.reconfigure), (2, true));
        assert_eq!(options.sockets, [Listen::Tcp("41900+".into())]);
    }

    #[test]
    fn long_options_may_be_shortened_and_denied() {
        let options = run("--affinity=3 --qui --no-warnings --expr Idle");
        assert_eq!(
            (options.affinity, options.quit, options.warnings),
            (Some(3), true, false)
        );
        assert_eq!(options.input, Some(Input::Text("Idle".into())));
        assert_eq!(run("-a1 --no-affinity").affinity, None);
    }

    #[test]
    fn mistakes_are_named() {
        for (line, wrong) in [
            ("-e Idle file", "specified twice"),
            ("--what", "unrecognized option '--what'"),
            ("-q -h", "'-h' requires an argument"),
            ("--quit=1", "can't take an argument"),
            ("-p http", "expects a TCP port"),
            ("--a", "ambiguous"),
        ] {
            match parse(line.split(' ').map(OsString::from)) {
                Parsed::Wrong(said) => assert!(said.contains(wrong), "{line}: {said}"),
                other => panic!("{line}: {other:?}"),
            }
        }
    }
}
