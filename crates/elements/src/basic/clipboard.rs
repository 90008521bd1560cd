//! Copies bytes from some packets into others.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> c :: Clipboard(0/6, 12/2) -> Discard;
//! InfiniteSource(LIMIT 3) -> [1]c[1] -> Discard;
//! ```
//!
//! Packets of input 0 leave by output 0 unchanged, and the element keeps a copy of their bytes in the ranges. Packets
//! of input 1 leave by output 1 with these bytes written at the same offsets. Bytes beyond a packet's end are neither
//! read nor written; bytes that were never copied are zero. Either all ports push or all pull.
//!
//! Arguments, any number of:
//!
//! - `RANGE`: `OFFSET/LENGTH`, in bytes.

use crate::prelude::*;
use std::ops::Range;

pub(super) struct Clipboard {
    ranges: Arc<Vec<Range<usize>>>,
    /// Contents of all ranges, concatenated.
    bytes: Vec<u8>,
}

impl Clipboard {
    /// Calls `copy` for each range, with its part in a packet of `len` bytes and the clipboard's bytes for it.
    fn each(&mut self, len: usize, mut copy: impl FnMut(Range<usize>, &mut [u8])) {
        let mut bytes = self.bytes.as_mut_slice();
        for range in self.ranges.iter() {
            let (mine, rest) = bytes.split_at_mut(range.len());
            let (start, end) = (range.start.min(len), range.end.min(len));
            copy(start..end, &mut mine[..end - start]);
            bytes = rest;
        }
    }

    fn handle(&mut self, port: usize, packet: &mut Packet) {
        if port == 0 {
            self.each(packet.len(), |range, mine| {
                mine.copy_from_slice(&packet.data()[range])
            });
        } else {
            self.each(packet.len(), |range, mine| {
                packet.data_mut()[range].copy_from_slice(mine)
            });
        }
    }
}

fn range(text: &str) -> Option<Range<usize>> {
    let (offset, length) = text.split_once('/')?;
    let (offset, length): (usize, usize) =
        (offset.trim().parse().ok()?, length.trim().parse().ok()?);
    // Ranges beyond the maximum packet length are refused.
    (offset <= 65_536 && length <= 65_536).then(|| offset..offset + length)
}

impl Element for Clipboard {
    const CONTRACT: Contract = Contract::new("Clipboard", manual!()).ports(Ports::coded(
        &["copied", "pasted"],
        &["copied", "pasted"],
        "a/a",
    ));

    type Config = Vec<Range<usize>>;

    fn configure(args: &mut Args) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        let given = args.rest("RANGE", "OFFSET/LENGTH", "bytes to copy");
        if given.is_empty() {
            args.error_in_whole("no ranges given", "write Clipboard(0/6)");
        }
        for arg in given {
            match range(&arg.raw) {
                Some(range) => ranges.push(range),
                None => args.error(&arg, format!("`{}` is no range: OFFSET/LENGTH", arg.raw)),
            }
        }
        ranges
    }

    fn new(ranges: &Arc<Vec<Range<usize>>>, _: &Init) -> Clipboard {
        Clipboard {
            ranges: Arc::clone(ranges),
            bytes: vec![0; ranges.iter().map(Range::len).sum()],
        }
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        batch
            .iter_mut()
            .for_each(|packet| self.handle(input, packet));
        cx.emit_batch(input, batch);
    }

    fn pull(&mut self, output: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        let had = into.len();
        cx.pull(output, max, into);
        into.iter_mut()
            .skip(had)
            .for_each(|packet| self.handle(output, packet));
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn bytes_go_from_the_last_packet_into_those_that_follow() {
        let text =
            "c :: Clipboard(0/1, 2/2) -> a :: Collect; Idle -> c; Idle -> [1]c[1] -> b :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push_at("c", 1, &[b"....."]);
        bench.push_at("c", 0, &[b"ABCDE"]);
        bench.push_at("c", 1, &[&b"....."[..], b"...", b""]);
        bench.push_at("c", 0, &[b"abc"]);
        bench.push_at("c", 1, &[b"....."]);
        assert_eq!(bench.take("a"), [&b"ABCDE"[..], b"abc"]);
        assert_eq!(
            bench.take("b"),
            [&b"\0.\0\0."[..], b"A.CD.", b"A.C", b"", b"a.cD."]
        );
    }

    #[test]
    fn ranges_are_an_offset_and_a_length() {
        for wrong in ["", "1", "1/x", "-1/2", "0/1, 5"] {
            let text =
                format!("Idle -> c :: Clipboard({wrong}) -> Discard; Idle -> [1]c[1] -> Discard");
            testkit::errors(crate::CLASSES, &text);
        }
    }
}
