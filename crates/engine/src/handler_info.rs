//! Descriptions of handlers, and errors of calls.

/// Kind of a handler; it decides how the answers of several cores are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read: numbers, added over cores.
    Sum,
    /// Read: text; equal answers are shown once, different ones one per line.
    Text,
    /// Write: the same value is set on every core.
    Set,
    /// Runs once, on the control thread; reads or writes state that the cores share.
    Control {
        /// True if the handler may be read.
        read: bool,
        /// True if the handler may be written.
        write: bool,
    },
}

/// Intended use of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Reads the value.
    Read,
    /// Writes a value.
    Write,
}

impl Access {
    /// True if the handler may be used as `wanted`.
    pub fn allows(self, wanted: Use) -> bool {
        match wanted {
            Use::Read => self.readable(),
            Use::Write => self.writable(),
        }
    }

    /// True if the handler may be read, with `show`.
    pub fn readable(self) -> bool {
        !matches!(self, Access::Set | Access::Control { read: false, .. })
    }

    /// True if the handler may be written, with `set`.
    pub fn writable(self) -> bool {
        matches!(self, Access::Set | Access::Control { write: true, .. })
    }
}

/// Description of a handler, for reference pages and tools.
#[derive(Clone, Copy, Debug)]
pub struct HandlerInfo {
    /// The name.
    pub name: &'static str,
    /// Description in one sentence.
    pub doc: &'static str,
    /// Kind of handler.
    pub access: Access,
    /// True if only elements of the router may use it. It acts beyond the router, so clients from outside must not.
    pub inner: bool,
    /// True if the written value is also an argument of the configuration string, which `config` then shows.
    pub argument: bool,
}

/// Error text: numbers of elements and handlers are valid for one plan only.
pub const REPLACED: &str = "the configuration was replaced meanwhile: ask again";

/// Error of a handler call from control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskError {
    /// The element does not exist.
    NoElement(String),
    /// The element has no such handler.
    NoHandler(String),
    /// The handler refused, or has no such use.
    Refused(String),
    /// A worker did not answer in time, or has ended.
    NoAnswer(usize),
}

impl std::fmt::Display for AskError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AskError::NoElement(text) | AskError::NoHandler(text) | AskError::Refused(text) => {
                f.write_str(text)
            }
            AskError::NoAnswer(worker) => write!(f, "worker {worker} does not answer"),
        }
    }
}

impl std::error::Error for AskError {}

/// Merges the answers of several cores into one.
pub fn merge(access: Access, answers: Vec<String>) -> String {
    if access == Access::Sum {
        let numbers = answers.iter().filter_map(|a| a.parse::<u64>().ok());
        return numbers.sum::<u64>().to_string();
    }
    let mut different: Vec<String> = Vec::new();
    for answer in answers {
        if !different.contains(&answer) {
            different.push(answer);
        }
    }
    different.join("\n")
}
