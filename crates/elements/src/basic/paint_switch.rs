//! Sends packets to the output whose number is their paint.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Paint(1) -> ps :: PaintSwitch -> Discard;
//! ps[1] -> Discard;
//! ```
//!
//! A packet with paint 255 is copied to all outputs; the original leaves by the last one. A packet whose paint is no
//! output's number is dropped (`no_output`). If there is no free packet buffer, a copy is not made (counter
//! `no_buffer`).
//!
//! Arguments:
//!
//! - `ANNO`: the annotation to use: PAINT or the number of a byte. Default PAINT.

use crate::anno::Anno;
use crate::prelude::*;
use crate::switch::hub::{copy_to, no_buffer};

drops! {
    NO_OUTPUT = "no_output",
}
const ALL: usize = 255;

pub(super) struct PaintSwitch {
    anno: Anno<1>,
    outputs: usize,
    no_buffer: u64,
}

impl Element for PaintSwitch {
    const CONTRACT: Contract = Contract::new("PaintSwitch", manual!())
        .ports(Ports::coded(&["in"], &["out+"], "h/h"))
        .drops(DROPS)
        .carries_super_frames();

    type Config = Anno<1>;

    fn configure(args: &mut Args) -> Anno<1> {
        super::paint::anno(args)
    }

    fn new(anno: &Arc<Anno<1>>, init: &Init) -> PaintSwitch {
        PaintSwitch {
            anno: **anno,
            outputs: init.outputs.min(ALL),
            no_buffer: 0,
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        for packet in batch.drain() {
            let [paint] = self.anno.get(&packet);
            match usize::from(paint) {
                ALL => self.no_buffer += copy_to(packet, 0..self.outputs, cx),
                output if output < self.outputs => cx.emit(output, packet),
                _ => cx.drop(packet, NO_OUTPUT),
            }
        }
    }

    const HANDLERS: &'static [Handler<PaintSwitch>] = &[no_buffer(|e| e.no_buffer)];
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

    #[test]
    fn outputs_get_their_copies_in_order() {
        let text = "p :: Paint(255) -> s :: PaintSwitch -> Paint(0) -> out :: Collect;
            s[1] -> Paint(1) -> out; s[2] -> Paint(2) -> out";
        let mut bench = Bench::strict(crate::CLASSES, text);
        bench.push("p", &[b"x"]);
        let order: Vec<u8> = bench
            .take_packets("out")
            .iter()
            .map(|packet| packet.anno.paint)
            .collect();
        assert_eq!(order, [0, 1, 2]);
    }

    #[test]
    fn copies_do_not_overtake_packets_of_their_output() {
        let text = "s :: PaintSwitch -> a :: Collect; s[1] -> b :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        let packet = |(n, paint): (u8, u8)| {
            let mut packet = Packet::from_bytes(&[n]).expect("it fits");
            packet.anno_mut().paint = paint;
            packet
        };
        let batch = [(1, 1), (2, 255), (3, 1), (4, 255)].map(packet);
        bench.push_packets("s", 0, batch.into_iter().collect());
        assert_eq!(bench.take("b"), [[1], [2], [3], [4]]);
    }
}
