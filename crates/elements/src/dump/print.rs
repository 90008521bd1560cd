//! Writes a line about each packet to the standard error stream.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Print(ok) -> Discard;
//! ```
//!
//! The line holds the label, the length, and the first bytes in groups of four. Print is for looking
//! at a few packets: it is slow. For traffic, see `ashlar capture` and `ashlar trace`.
//!
//! Arguments:
//!
//! - `LABEL`: what the line starts with.
//! - `MAXLENGTH`: bytes shown; negative = all. Default 24.
//!
//! Keyword arguments:
//!
//! - `CONTENTS`: how bytes are shown: `HEX`, `ASCII` or `NONE`. Default HEX.
//! - `TIMESTAMP`: whether the packet's timestamp is shown. Default false.
//! - `PRINTANNO`: whether the 48 bytes of Click's annotations are shown. Default false.
//! - `HEADROOM`: whether free bytes before and behind the data are shown. Default false.
//! - `ACTIVE`: if false, packets pass without a word. Default true.

use super::contents::Contents;
use super::summary::{Stamp, record};
use crate::prelude::*;
use std::io::Write as _;

#[derive(Clone)]
pub(super) struct Print {
    label: String,
    length_max: usize,
    contents: Contents,
    timestamp: bool,
    annotations: bool,
    headroom: bool,
    active: bool,
    line: Vec<u8>,
}

/// Click's user annotations; those that lie elsewhere in a packet are put in their places.
fn annotations(packet: &Packet) -> [u8; 48] {
    let mut bytes = packet.cold().user;
    let anno = packet.anno();
    bytes[..16].copy_from_slice(&anno.dst6());
    bytes[16] = anno.paint;
    bytes
}

impl Print {
    /// Formats the line about a packet.
    fn describe(&mut self, packet: &Packet) {
        let out = &mut self.line;
        out.clear();
        if !self.label.is_empty() {
            out.extend(self.label.as_bytes());
            out.extend(b": ");
        }
        if self.timestamp {
            record::push_time(packet.cold().timestamp as i64, Stamp::Micro, out);
            out.extend(b": ");
        }
        // Writing to a vector cannot fail, here and below.
        if self.headroom {
            let (head, tail) = (packet.headroom(), packet.tailroom());
            let _ = write!(out, "(h{head} t{tail}) ");
        }
        let _ = write!(out, "{:4}", packet.len());
        if self.annotations {
            out.extend(b" | ");
            Contents::Hex.push(&annotations(packet), false, out);
        }
        let shown = &packet.data()[..packet.len().min(self.length_max)];
        if self.contents != Contents::None && !shown.is_empty() {
            out.extend(b" | ");
            self.contents
                .push(shown, self.contents == Contents::Ascii, out);
        }
        out.push(b'\n');
    }
}

impl Element for Print {
    const CLASS: &'static str = "Print";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::new(&["in"], &["out"]);

    type Config = Print;

    fn configure(args: &mut Args) -> Print {
        let label = args.optional("LABEL", String::new(), "what the line starts with");
        let length: i64 = args.optional("MAXLENGTH", 24, "bytes shown; negative = all");
        Print {
            label,
            length_max: usize::try_from(length).unwrap_or(usize::MAX),
            contents: args.key("CONTENTS", Contents::Hex, "how bytes are shown"),
            timestamp: args.key("TIMESTAMP", false, "whether the timestamp is shown"),
            annotations: args.key("PRINTANNO", false, "whether annotations are shown"),
            headroom: args.key("HEADROOM", false, "whether free bytes are shown"),
            active: args.key("ACTIVE", true, "if false, says nothing"),
            line: Vec::new(),
        }
    }

    fn new(config: &Arc<Print>, _: &Init) -> Print {
        Print::clone(config)
    }

    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        if self.active {
            self.describe(packet);
            // Nobody may be listening any more; the packet passes all the same.
            let _ = std::io::stderr().write_all(&self.line);
        }
        Verdict::ON
    }

    const HANDLERS: &'static [Handler<Print>] = &[
        Handler::text("active", "whether it writes", |e, _| {
            Ok(e.active.to_string())
        }),
        Handler::set("active", "see ACTIVE", |e, value, _| {
            e.active = engine::units::parse(value)?;
            Ok(())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(label: &str, length_max: usize, contents: Contents) -> Print {
        Print {
            label: label.to_owned(),
            length_max,
            contents,
            timestamp: false,
            annotations: false,
            headroom: false,
            active: true,
            line: b"old".to_vec(),
        }
    }

    fn line(mut print: Print, bytes: &[u8]) -> String {
        let mut packet = Packet::from_bytes(bytes).expect("it fits");
        packet.cold_mut().timestamp = 1_500_000_000;
        packet.anno_mut().paint = 7;
        print.describe(&packet);
        String::from_utf8(print.line).expect("the line is ASCII")
    }

    #[test]
    fn the_line_is_as_click_writes_it() {
        let bytes = b"\x02abcdef";
        assert_eq!(
            line(print("ok", 6, Contents::Hex), bytes),
            "ok:    7 | 02616263 6465\n"
        );
        assert_eq!(
            line(print("", 99, Contents::Ascii), b".a. is a .at,"),
            "  13 |  .a. is a  .at,\n"
        );
        assert_eq!(line(print("", 99, Contents::None), bytes), "   7\n");
        assert_eq!(line(print("", 99, Contents::Hex), b""), "   0\n");
    }

    #[test]
    fn more_is_shown_on_demand() {
        let all = Print {
            timestamp: true,
            annotations: true,
            headroom: true,
            ..print("x", 0, Contents::Hex)
        };
        let line = line(all, b"ab");
        assert!(line.starts_with("x: 1.500000: (h128 t"), "{line}");
        assert!(line.contains(")    2 | 00000000 "), "{line}");
        assert!(line.contains(" 07000000 "), "{line}");
    }

    #[test]
    fn packets_pass() {
        let mut bench = testkit::Bench::new(
            crate::CLASSES,
            "p :: Print(ok, 4, CONTENTS none, ACTIVE false) -> out :: Collect",
        );
        bench.push("p", &[b"a"]);
        assert_eq!(bench.take("out"), [b"a"]);
        assert_eq!(bench.read("p.active"), "false");
        let errors = testkit::errors(crate::CLASSES, "Idle -> Print(CONTENTS octal) -> Discard");
        assert!(errors.contains("not `octal`"), "{errors}");
    }
}
