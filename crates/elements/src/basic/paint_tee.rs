//! Sends a copy of packets of one paint to a second output.
//!
//! Behind a route lookup it finds packets that leave by the interface they came from, so that
//! their source can be told of a shorter way.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Paint(2) -> t :: PaintTee(2) -> Discard;
//! t[1] -> Discard;
//! ```
//!
//! Every packet leaves by output 0. When the pool has run dry a copy is not made (counter
//! `no_buffer`).
//!
//! Arguments:
//!
//! - `COLOR`: the paint of which copies are made, 0 to 255; see Paint.

use crate::prelude::*;

pub(crate) struct PaintTee {
    color: u8,
    copies: u64,
    no_buffer: u64,
}

impl Element for PaintTee {
    const CLASS: &'static str = "PaintTee";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::new(&["in"], &["out", "copies"]);

    type Config = u8;

    fn configure(args: &mut Args) -> u8 {
        args.required("COLOR", "the paint of which copies are made")
    }

    fn new(color: &Arc<u8>, _: &Init) -> PaintTee {
        PaintTee {
            color: **color,
            copies: 0,
            no_buffer: 0,
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        if packet.anno().paint == self.color {
            match packet.copy() {
                Some(twin) => {
                    self.copies += 1;
                    cx.emit(1, twin);
                }
                None => self.no_buffer += 1,
            }
        }
        Verdict::ON
    }

    fn take(&mut self, old: PaintTee) {
        (self.copies, self.no_buffer) = (old.copies, old.no_buffer);
    }

    const HANDLERS: &'static [Handler<PaintTee>] = &[
        Handler::text("color", "the paint of which copies are made", |e, _| {
            Ok(e.color.to_string())
        }),
        Handler::sum("copies", "copies made", |e| e.copies),
        Handler::sum(
            "no_buffer",
            "copies not made because the pool had run dry",
            |e| e.no_buffer,
        ),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn only_packets_of_the_paint_are_copied() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "a :: Paint(1) -> t :: PaintTee(1) -> out :: Collect; t[1] -> copies :: Collect;
             b :: Paint(2) -> t",
        );
        bench.push("a", &[b"a"]);
        bench.push("b", &[b"b"]);
        assert_eq!(bench.take("out"), [b"a", b"b"]);
        assert_eq!(bench.take("copies"), [b"a"]);
        assert_eq!(bench.read("t.copies"), "1");
    }
}
