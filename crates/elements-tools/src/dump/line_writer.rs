//! Lines about packets, on the standard error stream or in a file.

use super::file::Output;
use arguments::Args;
use arguments::show::reason;
use elements::stderr_messages::complain;
use engine::port::Slot;
use std::io::Write as _;

/// Destination of lines, as configured.
#[derive(Default)]
pub(super) struct Target {
    file: Option<String>,
    opened: Slot<Output>,
}

impl Target {
    /// Reads the keyword `OUTFILE`.
    pub(super) fn configure(args: &mut Args) -> Target {
        Target {
            file: args.key_maybe("OUTFILE", "file to write to, in place of standard error"),
            opened: Slot::default(),
        }
    }

    /// Makes the file. The error is a sentence.
    pub(super) fn initialize(&self) -> Result<(), String> {
        if let Some(name) = &self.file {
            self.opened.put_back(Output::create(name)?);
        }
        Ok(())
    }

    /// Writer of an element.
    pub(super) fn line_writer(&self) -> LineWriter {
        LineWriter {
            file: self.opened.take(),
            line: Vec::new(),
        }
    }
}

/// Destination of lines, and the line in progress.
pub(super) struct LineWriter {
    file: Option<Output>,
    pub(super) line: Vec<u8>,
}

impl LineWriter {
    /// Starts a line with a label.
    pub(super) fn start(&mut self, label: &str) {
        self.line.clear();
        if !label.is_empty() {
            self.line.extend(label.as_bytes());
            self.line.extend(b": ");
        }
    }

    /// Ends the line and writes it.
    pub(super) fn end_line(&mut self) {
        self.line.push(b'\n');
        match &mut self.file {
            Some(file) => {
                if let Err(e) = file.write(&self.line) {
                    complain(&reason(&e));
                }
            }
            // The reader may have closed its end; packets pass nevertheless.
            None => {
                let _ = std::io::stderr().write_all(&self.line);
            }
        }
    }

    /// Takes over the file of an element that wrote to the same one.
    pub(super) fn take(&mut self, old: LineWriter) {
        if self.file.is_none() {
            self.file = old.file;
        }
    }
}
