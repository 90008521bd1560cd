//! Sets the paint annotation of packets.
//!
//! Paint is a number that travels with a packet, read by CheckPaint and PaintSwitch. Routers use it to remember
//! the interface by which a packet came.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Paint(2) -> Discard;
//! ```
//!
//! Arguments:
//!
//! - `COLOR`: 0 to 255.
//! - `ANNO`: the annotation that is set: PAINT or the number of a byte. Default PAINT.

use crate::anno::Anno;
use crate::prelude::*;

/// Paint colour, and the annotation that holds it.
#[derive(Clone, Copy)]
pub struct Color {
    /// Colour, 0 to 255.
    pub(super) color: u8,
    anno: Anno<1>,
}

impl Color {
    /// Parses COLOR and ANNO.
    pub(super) fn argument(args: &mut Args, doc: &'static str) -> Color {
        Color {
            color: args.required("COLOR", doc),
            anno: anno(args),
        }
    }

    /// True if a packet has this colour.
    #[inline]
    pub(super) fn is_of(self, packet: &Packet) -> bool {
        self.anno.byte(packet) == self.color
    }
}

/// Parses ANNO.
pub(super) fn anno(args: &mut Args) -> Anno<1> {
    args.optional("ANNO", Anno::PAINT, "the annotation that holds the paint")
}

/// Element of the class Paint.
pub struct Paint(Color);

impl Element for Paint {
    const CONTRACT: Contract = Contract::new("Paint", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .carries_super_frames();

    type Config = Color;

    fn configure(args: &mut Args) -> Color {
        Color::argument(args, "the paint")
    }

    fn new(color: &Arc<Color>, _: &Init) -> Paint {
        Paint(**color)
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        fused::step(self, packet, cx)
    }

    const HANDLERS: &'static [Handler<Paint>] = &[
        Handler::show("color", "the paint", |e| &e.0.color),
        Handler::assign("color", "changes the paint", |e| &mut e.0.color),
    ];
}

impl Fuse for Paint {
    #[inline]
    fn fast(&self, _: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        let paint = self.0;
        #[inline(always)]
        move |packet| {
            paint.anno.set_byte(packet, paint.color);
            Some(Verdict::ON)
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn packets_leave_painted() {
        let mut bench = Bench::new(crate::CLASSES, "p :: Paint(7) -> out :: Collect");
        bench.push("p", &[b"x"]);
        assert_eq!(bench.take_packets("out")[0].anno.paint, 7);
    }

    #[test]
    fn another_annotation_can_hold_the_paint() {
        let text = "p :: Paint(1, 17) -> q :: Paint(5, ANNO PAINT)
            -> c :: CheckPaint(1, 17) -> d :: CheckPaint(5) -> t :: PaintTee(1, ANNO 17)
            -> s :: PaintSwitch(ANNO 17) -> Discard; s[1] -> out :: Collect; t[1] -> twin :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("p", &[b"x"]);
        assert_eq!((bench.take("out").len(), bench.take("twin").len()), (1, 1));
    }

    #[test]
    fn the_paint_must_be_a_byte() {
        let errors = testkit::errors(crate::CLASSES, "Idle -> Paint(300) -> Discard");
        assert!(
            errors.contains("COLOR must lie between 0 and 255, not be 300"),
            "{errors}"
        );
    }
}
