//! Common part of elements that write packets to a file, and then pass them on or drop them.

use super::file::Output;
use crate::prelude::*;
use arguments::show::reason;
use elements::stderr_messages::complain;
use engine::port::Slot;

/// A file that packets are written to.
pub(super) struct Sink {
    name: String,
    /// `None` after the first error, which is logged.
    output: Option<Output>,
    pulls: bool,
    has_output: bool,
}

impl Sink {
    /// Creates a sink that writes the file which was opened before the start.
    pub(super) fn new(name: &str, opened: &Slot<Output>, init: &Init) -> Sink {
        Sink {
            name: name.to_owned(),
            output: opened.take(),
            pulls: init.input_pull && !init.output_used,
            has_output: init.output_used,
        }
    }

    /// Writes formatted text, and empties `bytes`; with `through`, past the buffer.
    pub(super) fn write(&mut self, bytes: &mut Vec<u8>, through: bool) {
        if let Some(output) = &mut self.output {
            let written = output.write(bytes);
            let written = written.and_then(|()| if through { output.flush() } else { Ok(()) });
            if let Err(e) = written {
                complain(&format!("{}: {}", self.name, reason(&e)));
                self.output = None;
            }
        }
        bytes.clear();
    }

    /// True if there is a file to write to.
    pub(super) fn is_open(&self) -> bool {
        self.output.is_some()
    }

    /// Hot swap: the file of an element that wrote to the same one.
    pub(super) fn take(&mut self, old: Sink) {
        self.output = old.output;
    }
}

/// A class that writes packets to a file.
pub(super) trait DumpWriter: Element {
    fn sink(&mut self) -> &mut Sink;

    /// Writes packets.
    fn write(&mut self, batch: &Batch, cx: &mut Cx);
}

/// Handles packets that came.
pub(super) fn process(e: &mut impl DumpWriter, batch: &mut Batch, cx: &mut Cx) {
    e.write(batch, cx);
    if !e.sink().has_output {
        batch.clear();
    }
}

/// Task that pulls packets, if the element pulls.
pub(super) fn task(e: &mut impl DumpWriter, cx: &mut Cx) -> Did {
    if !e.sink().pulls {
        return Did::Sleep;
    }
    let mut batch = cx.spare();
    let n = cx.pull(0, cx.burst(), &mut batch);
    process(e, &mut batch, cx);
    cx.keep_spare(batch);
    if n > 0 { Did::Work } else { cx.idle_result(0) }
}

/// Handler that passes buffered data to the system.
pub(super) const fn flush<E: DumpWriter>() -> Handler<E> {
    Handler::set(
        "flush",
        "writes buffered data to the file",
        |e, _, _| match e.sink().output.as_mut().map(Output::flush) {
            Some(Err(e)) => Err(reason(&e)),
            _ => Ok(()),
        },
    )
}
