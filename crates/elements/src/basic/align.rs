//! Moves packets so that their data begins at an aligned address.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Align(4, 0) -> Discard;
//! ```
//!
//! A packet that fills its buffer cannot be moved and is dropped (`no_room`).
//!
//! Arguments:
//!
//! - `MODULUS`: 2, 4 or 8.
//! - `OFFSET`: bytes from a multiple of `MODULUS` to the data.

use crate::prelude::*;

drops! {
    NO_ROOM = "no_room",
}

#[derive(Clone, Copy)]
pub(super) struct Align {
    modulus: usize,
    offset: usize,
}

impl Element for Align {
    const CONTRACT: Contract = Contract::new("Align", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .drops(DROPS);

    type Config = Align;

    fn configure(args: &mut Args) -> Align {
        let modulus: usize = args.required("MODULUS", "2, 4 or 8");
        let offset = args.required("OFFSET", "bytes from a multiple of it to the data");
        if !matches!(modulus, 2 | 4 | 8) || offset >= modulus {
            args.error_in_whole(
                "bad modulus or offset",
                "MODULUS is 2, 4 or 8, and OFFSET less than it",
            );
            return Align {
                modulus: 1,
                offset: 0,
            };
        }
        Align { modulus, offset }
    }

    fn new(config: &Arc<Align>, _: &Init) -> Align {
        **config
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let begins = packet.data().as_ptr().addr() % self.modulus;
        let forward = (self.offset + self.modulus - begins) % self.modulus;
        let moved = match packet.headroom() {
            _ if forward == 0 => true,
            room if forward <= packet.tailroom() => packet.realign(room + forward),
            room if room + forward >= self.modulus => packet.realign(room + forward - self.modulus),
            _ => false,
        };
        on_if(moved, NO_ROOM)
    }
}

#[cfg(test)]
mod tests {
    use engine::packet::Packet;
    use testkit::Bench;

    #[test]
    fn data_begins_where_it_is_told_to_and_stays_what_it_was() {
        for (modulus, offset) in [(2, 1), (4, 0), (4, 2), (8, 5)] {
            let text = format!("a :: Align({modulus}, {offset}) -> out :: Collect");
            let mut bench = Bench::new(crate::CLASSES, &text);
            for strip in 0..8 {
                let mut packet = Packet::from_bytes(b"12345678data").expect("it fits");
                assert!(packet.pull(strip));
                bench.push_packets("a", 0, [packet].into_iter().collect());
                let out = &bench.take_packets("out")[0];
                assert_eq!(out.bytes, b"12345678data"[strip..]);
                assert_eq!(out.headroom % modulus, offset);
            }
        }
    }

    #[test]
    fn other_moduli_are_refused() {
        for wrong in ["3, 0", "4, 4", "4"] {
            testkit::errors(
                crate::CLASSES,
                &format!("Idle -> Align({wrong}) -> Discard"),
            );
        }
    }
}
