//! Lets packets of one paint pass.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Paint(2) -> CheckPaint(2) -> Discard;
//! ```
//!
//! Other packets leave by output 1, or are dropped (`other_paint`).
//!
//! Arguments:
//!
//! - `COLOR`: the paint, 0 to 255; see Paint.
//! - `ANNO`: the annotation to compare: PAINT or the number of a byte. Default PAINT.

use super::paint::Color;
use crate::prelude::*;

drops! {
    OTHER_PAINT = "other_paint",
}
const OTHERS: u8 = 1;

pub(super) struct CheckPaint(Color);

impl Element for CheckPaint {
    const CONTRACT: Contract = Contract::new("CheckPaint", manual!())
        .ports(Ports::new(&["in"], &["out", "others?"]))
        .drops(DROPS);

    type Config = Color;

    fn configure(args: &mut Args) -> Color {
        Color::argument(args, "the paint that passes")
    }

    fn new(color: &Arc<Color>, _: &Init) -> CheckPaint {
        CheckPaint(**color)
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        if self.0.is_of(packet) {
            Verdict::ON
        } else {
            Verdict::reject(OTHER_PAINT, OTHERS)
        }
    }

    const HANDLERS: &'static [Handler<CheckPaint>] = &[
        Handler::show("color", "the paint that passes", |e| &e.0.color),
        Handler::assign("color", "changes the paint", |e| &mut e.0.color),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn one_paint_passes() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "a :: Paint(1) -> c :: CheckPaint(1) -> out :: Collect; b :: Paint(2) -> c",
        );
        bench.push("a", &[b"a"]);
        bench.push("b", &[b"b"]);
        assert_eq!(bench.take("out"), [b"a"]);
        assert_eq!(bench.drops("c", "other_paint"), 1);
    }
}
