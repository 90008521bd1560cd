//! Common element of the classes that write lines about packets.

use super::line_writer::{LineWriter, Target};
use crate::prelude::*;
use captures::summary::{Stamp, record};

/// A class that prints lines about packets, with its configuration of the lines.
pub(super) trait Style: Sized + Send + Sync + 'static {
    const CLASS: &'static str;
    const MANUAL: &'static str;
    /// Default of `TIMESTAMP`: true if timestamps are shown.
    const TIMESTAMP: bool;
    /// True if the class takes `OUTFILE`.
    const TO_FILE: bool;

    /// Reads the arguments behind the label, and the keywords that only this class has.
    fn configure(args: &mut Args) -> Self;

    /// Writes about a packet, behind label and timestamp.
    fn describe(&self, packet: &Packet, line: &mut Vec<u8>);
}

pub(super) struct Config<S> {
    label: String,
    timestamp: bool,
    active: bool,
    target: Target,
    style: S,
}

/// An element that writes a line about each packet.
pub(super) struct Printer<S> {
    config: Arc<Config<S>>,
    active: bool,
    talk: LineWriter,
}

impl<S: Style> Element for Printer<S> {
    const CONTRACT: Contract = Contract::new(S::CLASS, S::MANUAL)
        .ports(Ports::new(&["in"], &["out"]))
        .extensions(&[&resources::of::<Self>()]);

    type Config = Config<S>;

    fn configure(args: &mut Args) -> Config<S> {
        Config {
            label: args.optional("LABEL", String::new(), "beginning of the line"),
            style: S::configure(args),
            timestamp: args.key("TIMESTAMP", S::TIMESTAMP, "true if the timestamp is shown"),
            active: args.key("ACTIVE", true, "if false, says nothing"),
            target: match S::TO_FILE {
                true => Target::configure(args),
                false => Target::default(),
            },
        }
    }

    fn new(config: &Arc<Config<S>>, _: &Init) -> Printer<S> {
        Printer {
            active: config.active,
            talk: config.target.line_writer(),
            config: Arc::clone(config),
        }
    }

    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        if self.active {
            self.talk.start(&self.config.label);
            if self.config.timestamp {
                let timestamp = packet.cold().timestamp as i64;
                record::push_time(timestamp, Stamp::Exact, &mut self.talk.line);
                self.talk.line.extend(b": ");
            }
            self.config.style.describe(packet, &mut self.talk.line);
            self.talk.end_line();
        }
        Verdict::ON
    }

    fn take(&mut self, old: Printer<S>) {
        if Arc::ptr_eq(&self.config, &old.config) {
            self.talk.take(old.talk);
        }
    }

    const HANDLERS: &'static [Handler<Printer<S>>] = &[
        Handler::show("active", "true if it writes", |e| &e.active),
        Handler::assign("active", "see ACTIVE", |e| &mut e.active),
    ];
}

impl<S: Style> Resources for Printer<S> {
    fn initialize(config: &Config<S>) -> Result<(), String> {
        config.target.initialize()
    }
}
