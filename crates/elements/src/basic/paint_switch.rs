//! Sends packets to the output that their paint names.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Paint(1) -> ps :: PaintSwitch -> Discard;
//! ps[1] -> Discard;
//! ```
//!
//! Paint 255 is sent to all outputs. A packet whose paint names no output is dropped (`no_output`);
//! when the pool has run dry a copy is not made (counter `no_buffer`).
//!
//! Arguments:
//!
//! - `ANNO`: the annotation that is looked at: PAINT or the number of a byte. Default PAINT.

use crate::anno::Anno;
use crate::prelude::*;

const NO_OUTPUT: u8 = 0;
const ALL: u8 = 255;

pub(super) struct PaintSwitch {
    anno: Anno<1>,
    outputs: usize,
    no_buffer: u64,
}

impl Element for PaintSwitch {
    const CLASS: &'static str = "PaintSwitch";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&["in"], &["out+"], "h/h");
    const DROPS: &'static [&'static str] = &["no_output"];

    type Config = Anno<1>;

    fn configure(args: &mut Args) -> Anno<1> {
        super::paint::anno(args)
    }

    fn new(anno: &Arc<Anno<1>>, init: &Init) -> PaintSwitch {
        PaintSwitch {
            anno: **anno,
            outputs: init.outputs.min(usize::from(ALL)),
            no_buffer: 0,
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let [paint] = self.anno.get(packet);
        match paint {
            ALL => {
                for output in 1..self.outputs {
                    match packet.copy() {
                        Some(twin) => cx.emit(output, twin),
                        None => self.no_buffer += 1,
                    }
                }
                Verdict::ON
            }
            paint if usize::from(paint) < self.outputs => Verdict::out(paint),
            _ => Verdict::drop(NO_OUTPUT),
        }
    }

    const HANDLERS: &'static [Handler<PaintSwitch>] = &[Handler::sum(
        "no_buffer",
        "copies not made because the pool had run dry",
        |e| e.no_buffer,
    )];
}

#[cfg(test)]
mod tests {
    use engine::packet::Packet;
    use testkit::Bench;

    #[test]
    fn the_paint_is_the_output() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "s :: PaintSwitch -> a :: Collect; s[1] -> b :: Collect",
        );
        let packet = |paint: u8| {
            let mut packet = Packet::from_bytes(&[paint]).expect("it fits");
            packet.anno_mut().paint = paint;
            packet
        };
        let batch = [0, 1, 2, 255, 0].map(packet);
        bench.push_packets("s", 0, batch.into_iter().collect());
        assert_eq!(bench.take("a"), [[0], [255], [0]]);
        assert_eq!(bench.take("b"), [[1], [255]]);
        assert_eq!(bench.drops("s", "no_output"), 1);
    }
}
