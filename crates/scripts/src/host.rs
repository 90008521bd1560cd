//! Environment of a script: handlers, time, files, the driver.

use std::time::Duration;

/// End of the message of a read handler that was not called, because it was given a parameter.
pub const NO_PARAMETERS: &str = " does not take parameters";

/// Intended use of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The script reads it.
    Read,
    /// The script writes it.
    Write,
}

/// Destination of a script's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sink {
    /// The standard output.
    Out,
    /// A file, truncated first.
    File(String),
    /// The end of a file.
    Append(String),
}

impl Sink {
    /// A sink by its file name; `-` is the standard output.
    pub(crate) fn named(name: String, append: bool) -> Sink {
        match (name.as_str(), append) {
            ("-", _) => Sink::Out,
            (_, false) => Sink::File(name),
            (_, true) => Sink::Append(name),
        }
    }
}

/// The world around a script. Its calls may come back to the same script: no state of a script is
/// borrowed while one runs.
pub trait Host {
    /// Reads a handler of another element or a global one, by the name as the script wrote it.
    fn read(&mut self, handler: &str, argument: &str) -> Result<String, String>;

    /// Writes a handler of another element or a global one.
    fn write(&mut self, handler: &str, value: &str) -> Result<(), String>;

    /// True if the handler exists.
    fn has_handler(&mut self, handler: &str, how: Use) -> bool;

    /// The time since the epoch, as packets are stamped.
    fn now(&mut self) -> Duration;

    /// 32 random bits.
    fn random(&mut self) -> u32;

    /// Writes text.
    fn print(&mut self, to: &Sink, text: &str) -> Result<(), String>;

    /// Writes lines to the standard error output.
    fn chatter(&mut self, text: &str);

    /// Reads a file.
    fn load(&mut self, file: &str) -> Result<String, String>;

    /// Sends a signal to a process.
    fn kill(&mut self, signal: i32, process: i32) -> Result<(), String>;

    /// The driver's process.
    fn process(&mut self) -> u32;

    /// Sets the time of the next call, in place of an earlier one; `None`: no call.
    fn alarm(&mut self, after: Option<Duration>);

    /// Asks the driver to stop.
    fn stop(&mut self);

    /// Called when the script has ended; `again` is true if a signal may start the script again.
    fn ended(&mut self, again: bool);
}
