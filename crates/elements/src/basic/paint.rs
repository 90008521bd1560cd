//! Sets the paint annotation of packets.
//!
//! Paint is a number that travels with a packet, read by CheckPaint and PaintSwitch. Routers paint
//! packets with the interface they came from.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Paint(2) -> Discard;
//! ```
//!
//! Arguments:
//!
//! - `COLOR`: 0 to 255.

use crate::prelude::*;

pub(crate) struct Paint {
    color: u8,
}

impl Element for Paint {
    const CLASS: &'static str = "Paint";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::new(&["in"], &["out"]);

    type Config = u8;

    fn configure(args: &mut Args) -> u8 {
        args.required("COLOR", "the paint")
    }

    fn new(color: &Arc<u8>, _: &Init) -> Paint {
        Paint { color: **color }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        packet.anno_mut().paint = self.color;
        Verdict::ON
    }

    const HANDLERS: &'static [Handler<Paint>] = &[
        Handler::text("color", "the paint", |e, _| Ok(e.color.to_string())),
        Handler::set("color", "changes the paint", |e, value, _| {
            e.color = engine::units::parse(value)?;
            Ok(())
        }),
    ];
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
    fn the_paint_must_be_a_byte() {
        let errors = testkit::errors(crate::CLASSES, "Idle -> Paint(300) -> Discard");
        assert!(
            errors.contains("COLOR must lie between 0 and 255, not be 300"),
            "{errors}"
        );
    }
}
