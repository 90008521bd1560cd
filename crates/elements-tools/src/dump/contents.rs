//! Output of a packet's bytes: in hexadecimal digits, as characters, or not at all.

use arguments::units::FromArg;
use arguments::{Args, Names};
use std::io::Write as _;

/// Form of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    None,
    Hex,
    Ascii,
}

impl FromArg for Contents {
    const KIND: &'static str = "HEX, ASCII or NONE";

    fn from_arg(raw: &str, _: &Names) -> Result<Contents, String> {
        match raw.to_ascii_uppercase().as_str() {
            "HEX" | "TRUE" => Ok(Contents::Hex),
            "ASCII" => Ok(Contents::Ascii),
            "NONE" | "FALSE" => Ok(Contents::None),
            _ => Err(format!("must be {}, not `{raw}`", Self::KIND)),
        }
    }

    fn stand_in() -> Contents {
        Contents::None
    }

    fn unparse(&self) -> String {
        match self {
            Contents::None => "NONE",
            Contents::Hex => "HEX",
            Contents::Ascii => "ASCII",
        }
        .to_owned()
    }
}

impl Contents {
    /// Bytes between two gaps.
    fn group(self) -> usize {
        if self == Contents::Ascii { 8 } else { 4 }
    }

    fn push_byte(self, byte: u8, out: &mut Vec<u8>) {
        match (self, byte) {
            (Contents::None, _) => {}
            (Contents::Hex, _) => {
                // Writing to a vector cannot fail.
                let _ = write!(out, "{byte:02x}");
            }
            (Contents::Ascii, b' '..=b'~') => out.push(byte),
            (Contents::Ascii, _) => out.push(b'.'),
        }
    }

    /// Shows bytes in groups, on one line; `gap` is true if there is one before the first group, too.
    pub(super) fn push(self, bytes: &[u8], gap: bool, out: &mut Vec<u8>) {
        for (i, byte) in bytes.iter().enumerate() {
            if i % self.group() == 0 && (gap || i > 0) {
                out.push(b' ');
            }
            self.push_byte(*byte, out);
        }
    }

    /// Shows bytes in groups, on lines of their own: 24 bytes a line, or 48 characters.
    pub(super) fn push_lines(self, bytes: &[u8], out: &mut Vec<u8>) {
        if self == Contents::None {
            return;
        }
        for line in bytes.chunks(self.group() * 6) {
            out.extend(b"\n  ");
            self.push(line, false, out);
        }
    }
}

/// A number of bytes to show: negative = all.
pub(super) fn max_length(args: &mut Args, length: i64) -> usize {
    let length: i64 = args.key("MAXLENGTH", length, "most bytes shown; negative = all");
    usize::try_from(length).unwrap_or(usize::MAX)
}
