//! The command line of Click's user-level driver: short options may be bundled (`-qo-`), long ones
//! shortened, and options, `NAME=value` and the file come in any order.

use arguments::service::Port;
use std::ffi::OsString;
use wire::proto;

type TcpPort = Port<{ proto::TCP }>;

/// Source of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// A file; `-` is standard input.
    File(String),
    /// Configuration text from the command line.
    Text(String),
}

/// A control socket to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Listen {
    /// A TCP port; a `+` after it also allows one of the next ports.
    Tcp(String),
    /// Path of a UNIX socket.
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
    /// Message about a mistake in the options.
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
    /// True if `--no-` may precede the option's name.
    negates: bool,
    help: &'static str,
}

impl Known {
    /// Main name of an option that is an alias.
    fn canonical_name(&self) -> &'static str {
        match self.long {
            "cpu" => "affinity",
            "simulation-time" => "simtime",
            long => long,
        }
    }
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

/// Long name of `-w`, the negation of the option `warnings`.
const NO_WARNINGS: &str = "no-warnings";

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
    known("cpu", None, Takes::Maybe, true, ""),
    known(
        "affinity",
        Some('a'),
        Takes::Maybe,
        true,
        "[=N]|pin to processors from N on (default 0)",
    ),
    known("socket", None, Takes::Value, false, ""),
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
        NO_WARNINGS,
        Some('w'),
        Takes::Nothing,
        false,
        "|print no warnings",
    ),
    known(
        "simtime",
        None,
        Takes::Maybe,
        false,
        "[=TIME]|run in simulated time, from TIME on (default 1000000000)",
    ),
    known("simulation-time", None, Takes::Maybe, false, ""),
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
            ..Options::default()
        },
        request: None,
    };
    reader.words.reverse();
    match reader.all() {
        Err(wrong) => Parsed::Wrong(wrong),
        Ok(()) => reader
            .request
            .unwrap_or(Parsed::Run(Box::new(reader.options))),
    }
}

struct Reader {
    /// The words that are left, the next one last.
    words: Vec<String>,
    options: Options,
    request: Option<Parsed>,
}

impl Reader {
    fn all(&mut self) -> Result<(), String> {
        // A request for help or the version is answered before the following words are read.
        while let Some(word) = self.words.pop().filter(|_| self.request.is_none()) {
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
                return Err(of_options(format!(
                    "'--{}' can't take an argument",
                    option.long
                )));
            }
            (Takes::Value, None) => Some(self.next_word(&format!("--{}", option.long))?),
            (_, value) => value,
        };
        self.set(option, &format!("--{}", option.long), value, on)
    }

    fn short(&mut self, letters: &str) -> Result<(), String> {
        let mut left = letters.chars();
        while let Some(letter) = left.next() {
            let option = KNOWN.iter().find(|k| k.short == Some(letter));
            let option =
                option.ok_or_else(|| of_options(format!("unrecognized option '-{letter}'")))?;
            let value = match (option.takes, left.as_str()) {
                (Takes::Nothing, _) => None,
                (Takes::Value, "") => Some(self.next_word(&format!("-{letter}"))?),
                // An optional value is a number.
                (Takes::Maybe, rest)
                    if !rest
                        .starts_with(['=', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) =>
                {
                    None
                }
                (_, value) => {
                    let value = value.strip_prefix('=').unwrap_or(value).to_owned();
                    left = "".chars();
                    Some(value)
                }
            };
            self.set(option, &format!("-{letter}"), value, true)?;
        }
        Ok(())
    }

    fn next_word(&mut self, option: &str) -> Result<String, String> {
        self.words
            .pop()
            .ok_or_else(|| of_options(format!("'{option}' requires an argument")))
    }

    /// Sets an option, which the command line calls `named`.
    fn set(
        &mut self,
        option: &Known,
        named: &str,
        value: Option<String>,
        on: bool,
    ) -> Result<(), String> {
        let options = &mut self.options;
        let number = |value: Option<String>| match value {
            None => Ok(0),
            Some(text) => arguments::units::parse::<i32>(&text)
                .map_err(|_| of_options(format!("'{named}' expects an integer, not '{text}'"))),
        };
        let text = value.clone().unwrap_or_default();
        match option.canonical_name() {
            "file" => return self.input(Input::File(text)),
            "expression" => return self.input(Input::Text(text)),
            // The number has no effect: there is one thread.
            "threads" => drop(number(value)?),
            "affinity" => options.affinity = usize::try_from(number(value)?).ok().filter(|_| on),
            "port" => {
                let from = text.strip_suffix('+');
                let port = match from {
                    Some(number) => arguments::units::parse::<u16>(number),
                    None => arguments::units::parse::<TcpPort>(&text).map(|port| port.0),
                };
                let lowest = u16::from(from.is_some());
                let Some(port) = port.ok().filter(|&port| port >= lowest) else {
                    return Err(of_options(format!(
                        "'{named}' expects a TCP port number, not '{text}'"
                    )));
                };
                let more = if from.is_some() { "+" } else { "" };
                options.sockets.push(Listen::Tcp(format!("{port}{more}")));
            }
            "socket" => {
                return Err(of_options(format!(
                    "'{named}': this program does not take over descriptors; use '--port' or '--unix-socket'"
                )));
            }
            "unix-socket" => options.sockets.push(Listen::Unix(text)),
            "allow-reconfigure" => options.reconfigure = on,
            "handler" => options.handlers.push(text),
            "exit-handler" => {
                if options.exit_handler.replace(text).is_some() {
                    return Err("--exit-handler specified twice".to_owned());
                }
            }
            "output" => {
                if options.output.replace(text).is_some() {
                    return Err("output file specified twice".to_owned());
                }
            }
            "quit" => options.quit = true,
            "time" => options.time = true,
            "warnings" => options.warnings = on,
            "no-warnings" => options.warnings = false,
            "simtime" => {
                let begin = value.map_or(Ok(1e9), |v| v.parse::<f64>().map_err(|_| v));
                let begin = begin.map_err(|text| {
                    of_options(format!("'{named}' expects a real number, not '{text}'"))
                })?;
                if !(0.0..1e10).contains(&begin) {
                    return Err(of_options(format!(
                        "'{named}' expects a time of at most 1e10 seconds"
                    )));
                }
                options.simtime = Some(begin);
            }
            "clickpath" => options.clickpath = Some(text),
            "help" => self.request = Some(Parsed::Help),
            _ => self.request = Some(Parsed::Version),
        }
        Ok(())
    }
}

/// Error text of the option parser, in Click's words.
fn of_options(wrong: String) -> String {
    format!("click: {wrong}")
}

/// A long option by its name or an unambiguous beginning; false if it is negated.
fn find_long(name: &str) -> Result<(&'static Known, bool), String> {
    let denied = name.strip_prefix("no-");
    let own = || KNOWN.iter().filter(|known| known.long != NO_WARNINGS);
    let fits = |known: &&Known| match denied {
        Some(rest) => known.negates && known.long.starts_with(rest),
        None => known.long.starts_with(name),
    };
    let mut found: Vec<&Known> = own().filter(fits).collect();
    let exact = found
        .iter()
        .find(|known| known.long == denied.unwrap_or(name));
    if let Some(&exact) = exact {
        found = vec![exact];
    }
    let same = |known: &&Known| known.canonical_name() == found[0].canonical_name();
    if !found.is_empty() && found.iter().all(same) {
        return Ok((found[0], denied.is_none()));
    }
    let no = if denied.is_some() { "no-" } else { "" };
    let names = found.iter().map(|known| format!("'--{no}{}'", known.long));
    let names: Vec<String> = names.collect();
    let possible = match names.as_slice() {
        [] => return Err(of_options(format!("unrecognized option '--{name}'"))),
        [one, other] => format!("{one} and {other}"),
        [first @ .., last] => format!("{}, and {last}", first.join(", ")),
    };
    Err(of_options(format!(
        "option '--{name}' is ambiguous\nclick: (Possibilities are {possible}.)"
    )))
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
        assert!(options.reconfigure);
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
        assert_eq!(run("--cpu=2 --sim").affinity, Some(2));
        assert!(run("-aq").quit);
        assert_eq!(run("-qe=Idle").input, Some(Input::Text("Idle".into())));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, wrong) in [
            ("-e Idle file", "specified twice"),
            ("--what", "unrecognized option '--what'"),
            ("-q -h", "'-h' requires an argument"),
            ("--quit=1", "can't take an argument"),
            ("-p what", "'-p' expects a TCP port number, not 'what'"),
            (
                "--a",
                "(Possibilities are '--affinity' and '--allow-reconfigure'.)",
            ),
            (
                "--s",
                "(Possibilities are '--socket', '--simtime', and '--simulation-time'.)",
            ),
            ("--no-quit", "unrecognized option '--no-quit'"),
            ("-j x", "'-j' expects an integer, not 'x'"),
            ("--socket=3", "does not take over descriptors"),
        ] {
            match parse(line.split(' ').map(OsString::from)) {
                Parsed::Wrong(said) => assert!(said.contains(wrong), "{line}: {said}"),
                other => panic!("{line}: {other:?}"),
            }
        }
    }
}
