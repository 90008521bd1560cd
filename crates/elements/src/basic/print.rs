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
//! - `CONTENTS`: how bytes are shown: `HEX`, `ASCII` or `NONE`. Default HEX.
//! - `ACTIVE`: if false, packets pass without a word. Default true.

use crate::prelude::*;
use std::fmt::Write as _;
use std::io::Write as _;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Contents {
    Hex,
    Ascii,
    None,
}

#[derive(Clone)]
pub(super) struct Print {
    label: String,
    length_max: usize,
    contents: Contents,
    active: bool,
    line: String,
}

impl Print {
    /// Writes the line about a packet.
    fn describe(&mut self, packet: &Packet) {
        self.line.clear();
        if !self.label.is_empty() {
            self.line.push_str(&self.label);
            self.line.push_str(": ");
        }
        // Writing to a String cannot fail.
        let _ = write!(self.line, "{:4}", packet.len());
        let shown = &packet.data()[..packet.len().min(self.length_max)];
        match self.contents {
            Contents::None => {}
            Contents::Hex => {
                self.line.push_str(" | ");
                for (i, byte) in shown.iter().enumerate() {
                    let gap = if i > 0 && i % 4 == 0 { " " } else { "" };
                    let _ = write!(self.line, "{gap}{byte:02x}");
                }
            }
            Contents::Ascii => {
                self.line.push_str(" | ");
                let printable = |&b: &u8| match b {
                    b' '..=b'~' => char::from(b),
                    _ => '.',
                };
                self.line.extend(shown.iter().map(printable));
            }
        }
        self.line.push('\n');
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
        let contents = args.key("CONTENTS", "HEX".to_owned(), "HEX, ASCII or NONE");
        let contents = match contents.to_ascii_uppercase().as_str() {
            "HEX" | "TRUE" => Contents::Hex,
            "ASCII" => Contents::Ascii,
            "NONE" | "FALSE" => Contents::None,
            _ => {
                args.error_in_whole(
                    format!("CONTENTS must be HEX, ASCII or NONE, not `{contents}`"),
                    "HEX shows bytes in groups of four",
                );
                Contents::Hex
            }
        };
        Print {
            label,
            length_max: usize::try_from(length).unwrap_or(usize::MAX),
            contents,
            active: args.key("ACTIVE", true, "if false, says nothing"),
            line: String::new(),
        }
    }

    fn new(config: &Arc<Print>, _: &Init) -> Print {
        Print::clone(config)
    }

    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        if self.active {
            self.describe(packet);
            // Nobody may be listening any more; the packet passes all the same.
            let _ = std::io::stderr().write_all(self.line.as_bytes());
        }
        Verdict::ON
    }

    const HANDLERS: &'static [Handler<Print>] = &[
        Handler::text("active", "whether it writes", |e, _| {
            Ok(e.active.to_string())
        }),
        Handler::set("set_active", "see ACTIVE", |e, value, _| {
            e.active = engine::units::parse(value)?;
            Ok(())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(label: &str, length_max: usize, contents: Contents) -> String {
        let mut print = Print {
            label: label.to_owned(),
            length_max,
            contents,
            active: true,
            line: "old".to_owned(),
        };
        print.describe(&Packet::from_bytes(b"\x02abcdef").expect("it fits"));
        print.line
    }

    #[test]
    fn the_line_is_as_click_writes_it() {
        assert_eq!(line("ok", 6, Contents::Hex), "ok:    7 | 02616263 6465\n");
        assert_eq!(line("", 99, Contents::Ascii), "   7 | .abcdef\n");
        assert_eq!(line("", 99, Contents::None), "   7\n");
    }

    #[test]
    fn packets_pass() {
        let mut bench = testkit::Bench::new(
            crate::CLASSES,
            "p :: Print(ok, 4, CONTENTS NONE, ACTIVE false) -> out :: Collect",
        );
        bench.push("p", &[b"a"]);
        assert_eq!(bench.take("out"), [b"a"]);
        let errors = testkit::errors(crate::CLASSES, "Idle -> Print(CONTENTS octal) -> Discard");
        assert!(errors.contains("not `octal`"), "{errors}");
    }
}
