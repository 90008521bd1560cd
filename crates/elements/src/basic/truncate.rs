//! Truncates packets to a maximum length.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Truncate(60) -> Discard;
//! ```
//!
//! Arguments:
//!
//! - `LENGTH`: maximum length in bytes.
//!
//! Keyword arguments:
//!
//! - `EXTRA_LENGTH`: true to add the number of removed bytes to the EXTRA_LENGTH annotation. Default true.

use crate::prelude::*;

#[derive(Clone, Copy)]
pub(super) struct Truncate {
    length: usize,
    extra_length: bool,
}

impl Element for Truncate {
    const CONTRACT: Contract =
        Contract::new("Truncate", manual!()).ports(Ports::new(&["in"], &["out"]));

    type Config = Truncate;

    fn configure(args: &mut Args) -> Truncate {
        Truncate {
            length: args.required("LENGTH", "greatest length"),
            extra_length: args.key(
                "EXTRA_LENGTH",
                true,
                "true to note the length that is cut off",
            ),
        }
    }

    fn new(config: &Arc<Truncate>, _: &Init) -> Truncate {
        **config
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let cut = packet.len().saturating_sub(self.length);
        if cut > 0 {
            packet.truncate(self.length);
            if self.extra_length {
                let extra = packet.cold().extra_length() + cut as u32;
                packet.cold_mut().set_extra_length(extra);
            }
        }
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn long_packets_lose_their_end() {
        let text = "t :: Truncate(3, EXTRA_LENGTH false) -> Pad -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("t", &[&b"abcd"[..], b"ab"]);
        assert_eq!(bench.take("out"), [&b"abc"[..], b"ab"]);
    }

    #[test]
    fn two_truncations_add_up_in_extra_length() {
        let text = "t :: Truncate(3) -> Truncate(1) -> Pad -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("t", &[b"abcd"]);
        assert_eq!(bench.take("out"), [b"a\0\0\0"]);
    }
}
