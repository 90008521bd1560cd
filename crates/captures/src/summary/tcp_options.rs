//! TCP options as text: `mss1400;wscale10;sackok;sack95-98;ts669063908:38382731`.

use super::options::{NOP, Opt, append, number, parse_plain, push_plain, word32};
use std::io::Write as _;
use wire::tcp::{
    OPT_MSS as MSS, OPT_SACK as SACK, OPT_SACK_PERMITTED as SACK_OK, OPT_TIMESTAMPS as TIMESTAMP,
    OPT_WINDOW_SCALE as WSCALE,
};

/// Options that a field shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShownOptions {
    All,
    /// All options but timestamps.
    NoTimestamp,
    Sack,
}

impl ShownOptions {
    fn shows(self, kind: u8) -> bool {
        match self {
            ShownOptions::All => true,
            ShownOptions::NoTimestamp => kind != TIMESTAMP,
            ShownOptions::Sack => matches!(kind, SACK | SACK_OK),
        }
    }
}

/// Writes the options of a TCP header.
pub(super) fn push(bytes: &[u8], which: ShownOptions, out: &mut Vec<u8>) {
    super::options::push(bytes, out, |option, out| {
        if which.shows(option.kind) {
            push_one(option, out).map(|()| true)
        } else {
            Some(false)
        }
    });
}

fn push_one(option: &Opt<'_>, out: &mut Vec<u8>) -> Option<()> {
    let data = option.data;
    // Writing to a vector cannot fail.
    let _ = match (option.kind, data.len()) {
        (MSS, 2) => write!(out, "mss{}", word32(data)),
        (WSCALE, 1) => write!(out, "wscale{}", data[0]),
        (SACK_OK, 0) => write!(out, "sackok"),
        (SACK, len) if len > 0 && len % 8 == 0 => {
            for (i, block) in data.chunks(8).enumerate() {
                let gap = if i > 0 { ";" } else { "" };
                let (start, end) = (word32(&block[..4]), word32(&block[4..]));
                let _ = write!(out, "{gap}sack{start}-{end}");
            }
            Ok(())
        }
        (TIMESTAMP, 8) => {
            write!(out, "ts{}:{}", word32(&data[..4]), word32(&data[4..]))
        }
        (MSS | WSCALE | SACK_OK | SACK | TIMESTAMP, _) => return None,
        _ => {
            push_plain(option, out);
            Ok(())
        }
    };
    Some(())
}

/// Copies the options that a field shows, for a binary record.
pub(super) fn push_binary(bytes: &[u8], which: ShownOptions, out: &mut Vec<u8>) {
    for option in super::options::walk(bytes).map_while(Result::ok) {
        if which.shows(option.kind) {
            // Data that was parsed with a length byte has room for one.
            let _ = append(out, option.kind, option.data);
        }
    }
}

/// Reads options into the bytes of a header.
pub(super) fn parse(text: &str) -> Option<Vec<u8>> {
    // Start of the last option, if it is a SACK: consecutive blocks share one option.
    let mut sack = None;
    super::options::parse(text, |word, bytes| {
        let before = sack.take();
        // Ends of a block may also be separated by a colon.
        if let Some(block) = word.strip_prefix("sack").filter(|b| b.contains(['-', ':'])) {
            let (start, end) = block.split_once(['-', ':'])?;
            let edges: [u32; 2] = [start.parse().ok()?, end.parse().ok()?];
            let data = edges.map(u32::to_be_bytes);
            match before {
                Some(at) => {
                    let len: &mut u8 = bytes.get_mut(at + 1)?;
                    *len = len.checked_add(8)?;
                    bytes.extend(data.as_flattened());
                    sack = Some(at);
                }
                None => {
                    sack = Some(bytes.len());
                    append(bytes, SACK, data.as_flattened())?;
                }
            }
            return Some(());
        }
        parse_one(word, bytes)
    })
}

fn parse_one(word: &str, bytes: &mut Vec<u8>) -> Option<()> {
    if word == "sackok" {
        append(bytes, SACK_OK, &[])
    } else if let Some(mss) = number::<u16>(word, "mss") {
        append(bytes, MSS, &mss.to_be_bytes())
    } else if let Some(shift) = number::<u8>(word, "wscale") {
        append(bytes, WSCALE, &[shift])
    } else if let Some((value, echo)) = word.strip_prefix("ts").and_then(|t| t.split_once(':')) {
        let times: [u32; 2] = [value.parse().ok()?, echo.parse().ok()?];
        // Timestamps as the first option are aligned as in RFC 7323, appendix A.
        if bytes.is_empty() {
            bytes.extend([NOP; 2]);
        }
        append(bytes, TIMESTAMP, times.map(u32::to_be_bytes).as_flattened())
    } else {
        parse_plain(word, bytes)
    }
}
