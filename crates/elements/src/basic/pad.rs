//! Lengthens packets that are too short.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Pad(60) -> Discard;
//! ```
//!
//! Without `LENGTH` a packet is lengthened by the number of bytes in its EXTRA_LENGTH annotation, which becomes
//! zero. A packet whose buffer is too small is dropped (`no_room`).
//!
//! Arguments:
//!
//! - `LENGTH`: minimum length in bytes.
//!
//! Keyword arguments:
//!
//! - `ZERO`: true if new bytes are set to zero. Otherwise they have whatever values the buffer held. Default
//!   true.

use crate::prelude::*;

drops! {
    NO_ROOM = "no_room",
}

#[derive(Clone, Copy)]
pub(super) struct Pad {
    length: Option<usize>,
    zero: bool,
}

impl Element for Pad {
    const CONTRACT: Contract = Contract::new("Pad", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .drops(DROPS);

    type Config = Pad;

    fn configure(args: &mut Args) -> Pad {
        Pad {
            length: args.maybe("LENGTH", "least length"),
            zero: args.key("ZERO", true, "true if new bytes are zero"),
        }
    }

    fn new(config: &Arc<Pad>, _: &Init) -> Pad {
        **config
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let extra = packet.cold().extra_length();
        if extra != 0 {
            packet.cold_mut().set_extra_length(0);
        }
        let missing = match self.length {
            Some(length) => length.saturating_sub(packet.len()),
            None => extra as usize,
        };
        match packet.put(missing) {
            Some(new) => {
                if self.zero {
                    new.fill(0);
                }
                Verdict::ON
            }
            None => Verdict::drop(NO_ROOM),
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn short_packets_are_filled_with_zeros() {
        let mut bench = Bench::new(crate::CLASSES, "p :: Pad(4) -> out :: Collect");
        bench.push("p", &[&b"ab"[..], b"abcde"]);
        assert_eq!(bench.take("out"), [&b"ab\0\0"[..], b"abcde"]);
    }

    #[test]
    fn extra_length_is_padded_once() {
        let text = "t :: Truncate(2) -> Pad -> Pad -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("t", &[b"abcd"]);
        assert_eq!(bench.take("out"), [b"ab\0\0"]);
    }

    #[test]
    fn a_packet_that_cannot_grow_is_dropped() {
        let mut bench = Bench::new(crate::CLASSES, "p :: Pad(60000) -> Discard");
        bench.push("p", &[b"ab"]);
        assert_eq!(bench.drops("p", "no_room"), 1);
    }
}
