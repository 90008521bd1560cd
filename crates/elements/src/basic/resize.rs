//! Adds or removes bytes at both ends of packets.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Resize(14, -4) -> Discard;
//! ```
//!
//! New bytes at the end are zero. At the head, removed bytes are restored, unless they have been overwritten since;
//! all others are zero. So no bytes of earlier packets in the buffer become visible. A packet with fewer bytes than
//! are to be removed becomes empty. A packet whose buffer has no room for the new bytes is dropped (`no_room`).
//!
//! Arguments:
//!
//! - `HEAD`: bytes to add at the front; negative = to remove. Default 0.
//! - `TAIL`: bytes to add at the end; negative = to remove. Default 0.

use crate::prelude::*;
use engine::packet::HEADROOM;

drops! {
    NO_ROOM = "no_room",
}

#[derive(Clone, Copy)]
pub(super) struct Resize {
    head: i32,
    tail: i32,
}

/// Adds bytes at the front. The headroom may contain data of former packets.
fn front(packet: &mut Packet, bytes: usize) -> Option<()> {
    packet.push(bytes)?;
    let first = match usize::from(packet.anno().mac) {
        0 => HEADROOM,
        mac => mac,
    };
    let foreign = first.saturating_sub(packet.headroom()).min(bytes);
    packet.data_mut()[..foreign].fill(0);
    Some(())
}

impl Element for Resize {
    const CONTRACT: Contract = Contract::new("Resize", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        // Header positions are unknown afterwards, as after Strip.
        .spoils(
            Facts::ETHER
                .and(Facts::AT_NETWORK)
                .and(Facts::IP4)
                .and(Facts::IP6),
        )
        .drops(DROPS);

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
            front(packet, head).is_some()
        };
        let fits = fits
            && if self.tail < 0 {
                packet.take(tail.min(packet.len()))
            } else {
                packet.put(tail).map(|new| new.fill(0)).is_some()
            };
        on_if(fits, NO_ROOM)
    }
}

#[cfg(test)]
mod tests {
    use engine::packet::Packet;
    use testkit::Bench;

    #[test]
    fn nothing_is_seen_of_earlier_packets() {
        // Buffers are used again, the last one first.
        let used = || {
            let mut packet = Packet::from_bytes(&[0xaa; 2000]).expect("it fits");
            assert!(packet.push(100).map(|front| front.fill(0xaa)).is_some());
        };
        let text = "r :: Resize(100, 100) -> out :: Collect; s :: Resize(HEAD -2) -> Resize(100, 9) -> Resize(4) -> \
            out";
        let mut bench = Bench::new(crate::CLASSES, text);
        let expected =
            |zeros: usize, behind: usize| [&vec![0; zeros][..], b"abcd", &vec![0; behind]].concat();
        for (element, has_mac, out) in [
            ("r", false, expected(100, 100)),
            ("s", false, expected(102, 9)),
            ("s", true, expected(102, 9)),
        ] {
            used();
            let mut packet = Packet::from_bytes(b"abcd").expect("it fits");
            if has_mac {
                packet.set_mac_here();
            }
            bench.push_packets(element, 0, [packet].into_iter().collect());
            assert_eq!(bench.take("out"), [out], "{element}");
        }
        // The same for a packet that was moved in its buffer.
        used();
        let mut packet = Packet::new().expect("there are buffers");
        assert!(packet.realign(600));
        packet
            .put(4)
            .expect("there is room")
            .copy_from_slice(b"abcd");
        let batch = [packet.copy().expect("there are buffers"), packet];
        bench.push_packets("r", 0, batch.into_iter().collect());
        assert_eq!(bench.take("out"), [expected(100, 100), expected(100, 100)]);
    }

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
