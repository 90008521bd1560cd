//! Adds or removes bytes at both ends of packets.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Resize(14, -4) -> Discard;
//! ```
//!
//! New bytes have whatever values the buffer held; at the head these are the bytes that were removed there,
//! unless something has overwritten them since. A packet with fewer bytes than are to be removed becomes empty.
//! A packet whose buffer has no room for the new bytes is dropped (`no_room`).
//!
//! Arguments:
//!
//! - `HEAD`: bytes to add at the front; negative = to remove. Default 0.
//! - `TAIL`: bytes to add at the end; negative = to remove. Default 0.

use crate::prelude::*;

const NO_ROOM: u8 = 0;

#[derive(Clone, Copy)]
pub(super) struct Resize {
    head: i32,
    tail: i32,
}

impl Element for Resize {
    const CLASS: &'static str = "Resize";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::new(&["in"], &["out"]);
    // As with Strip, only the author knows where headers are now.
    const SPOILS: Facts = Facts::ETHER
        .and(Facts::AT_NETWORK)
        .and(Facts::IP4)
        .and(Facts::IP6);
    const DROPS: &'static [&'static str] = &["no_room"];

    type Config = Resize;

    fn configure(args: &mut Args) -> Resize {
        Resize {
            head: args.optional("HEAD", 0, "bytes to add at the front; negative = to remove"),
            tail: args.optional("TAIL", 0, "bytes to add at the end; negative = to remove"),
        }
    }

    fn new(config: &Arc<Resize>, _: &Init) -> Resize {
        **config
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let (head, tail) = (
            self.head.unsigned_abs() as usize,
            self.tail.unsigned_abs() as usize,
        );
        let fits = if self.head < 0 {
            packet.pull(head.min(packet.len()))
        } else {
            packet.push(head).is_some()
        };
        let fits = fits
            && if self.tail < 0 {
                packet.take(tail.min(packet.len()))
            } else {
                packet.put(tail).is_some()
            };
        on_if(fits, NO_ROOM)
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn both_ends_move_and_the_front_comes_back() {
        let text = "r :: Resize(HEAD -2) -> a :: Resize(+2, -1) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("r", &[&b"ABCD"[..], b"AB"]);
        assert_eq!(bench.take("out"), [&b"ABC"[..], b"A"]);
    }

    #[test]
    fn more_than_there_is_leaves_nothing_and_more_than_fits_is_dropped() {
        let text = "r :: Resize(-8, 1) -> out :: Collect; s :: Resize(TAIL 70000) -> Discard";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("r", &[b"ABCD"]);
        assert_eq!(bench.take("out")[0].len(), 1);
        bench.push("s", &[b"ABCD"]);
        assert_eq!(bench.drops("s", "no_room"), 1);
    }
}
