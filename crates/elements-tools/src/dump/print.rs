//! Writes a line about each packet to the standard error stream.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Print(ok) -> Discard;
//! ```
//!
//! The line has the label, the length, and the first bytes in groups of four. Print is slow and meant for a few
//! packets. For traffic, see `ashlar capture` and `ashlar trace`.
//!
//! Arguments:
//!
//! - `LABEL`: beginning of the line.
//! - `MAXLENGTH`: bytes shown; negative = all. Default 24.
//!
//! Keyword arguments:
//!
//! - `CONTENTS`: format of bytes: `HEX`, `ASCII` or `NONE`. Default HEX.
//! - `TIMESTAMP`: true if the packet's timestamp is shown. Default false.
//! - `PRINTANNO`: true if the 48 bytes of Click's annotations are shown. Default false.
//! - `HEADROOM`: true if the numbers of free bytes before and after the data are shown. Default false.
//! - `ACTIVE`: if false, writes nothing. Default true.

use super::contents::Contents;
use super::printer::Style;
use crate::prelude::*;
use elements::anno::Anno;
use std::io::Write as _;

pub(super) struct Print {
    length_max: usize,
    contents: Contents,
    annotations: bool,
    headroom: bool,
}

impl Style for Print {
    const CLASS: &'static str = "Print";
    const MANUAL: &'static str = manual!();
    const TIMESTAMP: bool = false;
    const TO_FILE: bool = false;

    fn configure(args: &mut Args) -> Print {
        let length: i64 = args.optional("MAXLENGTH", 24, "bytes shown; negative = all");
        Print {
            length_max: usize::try_from(length).unwrap_or(usize::MAX),
            contents: args.key("CONTENTS", Contents::Hex, "format of bytes"),
            annotations: args.key("PRINTANNO", false, "true if annotations are shown"),
            headroom: args.key("HEADROOM", false, "true if free bytes are shown"),
        }
    }

    fn describe(&self, packet: &Packet, out: &mut Vec<u8>) {
        // Writing to a vector cannot fail.
        if self.headroom {
            let (head, tail) = (packet.headroom(), packet.tailroom());
            let _ = write!(out, "(h{head} t{tail}) ");
        }
        let _ = write!(out, "{:4}", packet.len());
        if self.annotations {
            out.extend(b" | ");
            for byte in Anno::ALL.get(packet) {
                let _ = write!(out, "{byte:02x}");
            }
        }
        let shown = &packet.data()[..packet.len().min(self.length_max)];
        if self.contents != Contents::None && !shown.is_empty() {
            out.extend(b" | ");
            self.contents
                .push(shown, self.contents == Contents::Ascii, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(length_max: usize, contents: Contents) -> Print {
        Print {
            length_max,
            contents,
            annotations: false,
            headroom: false,
        }
    }

    fn line(print: &Print, bytes: &[u8]) -> String {
        let mut packet = Packet::from_bytes(bytes).expect("it fits");
        packet.anno_mut().paint = 7;
        let mut line = Vec::new();
        print.describe(&packet, &mut line);
        String::from_utf8(line).expect("the line is ASCII")
    }

    #[test]
    fn the_line_is_as_click_writes_it() {
        let bytes = b"\x02abcdef";
        assert_eq!(
            line(&print(6, Contents::Hex), bytes),
            "   7 | 02616263 6465"
        );
        assert_eq!(
            line(&print(99, Contents::Ascii), b".a. is a .at,"),
            "  13 |  .a. is a  .at,"
        );
        assert_eq!(line(&print(99, Contents::None), bytes), "   7");
        assert_eq!(line(&print(99, Contents::Hex), b""), "   0");
    }

    #[test]
    fn more_is_shown_on_demand() {
        let all = Print {
            annotations: true,
            headroom: true,
            ..print(0, Contents::Hex)
        };
        let line = line(&all, b"ab");
        assert!(line.starts_with("(h128 t"), "{line}");
        assert!(line.contains(")    2 | 0000000000"), "{line}");
        assert!(line.contains("0000000007000000"), "{line}");
    }

    #[test]
    fn packets_pass() {
        let mut bench = testkit::Bench::new(
            crate::with_basics(),
            "p :: Print(ok, 4, CONTENTS none, ACTIVE false) -> out :: Collect",
        );
        bench.push("p", &[b"a"]);
        assert_eq!(bench.take("out"), [b"a"]);
        assert_eq!(bench.read("p.active"), "false");
        let errors = testkit::errors(
            crate::with_basics(),
            "Idle -> Print(CONTENTS octal) -> Discard",
        );
        assert!(errors.contains("not `octal`"), "{errors}");
    }
}
