//! Sends a copy of packets of one paint to a second output.
//!
//! After a route lookup it finds packets that leave by the interface by which they came, so that their source can be
//! sent a redirect.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Paint(2) -> t :: PaintTee(2) -> Discard;
//! t[1] -> Discard;
//! ```
//!
//! Every packet leaves by output 0. If there is no free packet buffer, a copy is not made (counter
//! `no_buffer`).
//!
//! Arguments:
//!
//! - `COLOR`: the paint of packets to copy, 0 to 255; see Paint.
//! - `ANNO`: the annotation to compare: PAINT or the number of a byte. Default PAINT.

use super::paint::Color;
use crate::prelude::*;
use crate::switch::hub::no_buffer;

pub(crate) struct PaintTee {
    color: Color,
    copies: u64,
    no_buffer: u64,
}

impl Element for PaintTee {
    const CONTRACT: Contract = Contract::new("PaintTee", manual!())
        .ports(Ports::new(&["in"], &["out", "copies"]))
        .carries_super_frames();

    type Config = Color;

    fn configure(args: &mut Args) -> Color {
        Color::argument(args, "paint of the packets that are copied")
    }

    fn new(color: &Arc<Color>, _: &Init) -> PaintTee {
        PaintTee {
            color: **color,
            copies: 0,
            no_buffer: 0,
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        fused::step(self, packet, cx)
    }

    fn take(&mut self, old: PaintTee) {
        self.no_buffer = old.no_buffer;
    }

    const HANDLERS: &'static [Handler<PaintTee>] = &[
        Handler::show("color", "paint of the packets that are copied", |e| {
            &e.color.color
        }),
        Handler::assign("color", "changes the paint", |e| &mut e.color.color),
        counter!("copies", "copies made", copies),
        no_buffer(|e| e.no_buffer),
    ];
}

impl Fuse for PaintTee {
    #[inline]
    fn fast(&self, _: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        let color = self.color;
        #[inline(always)]
        move |packet| (!color.is_of(packet)).then_some(Verdict::ON)
    }

    #[cold]
    fn slow(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        if self.color.is_of(packet) {
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
