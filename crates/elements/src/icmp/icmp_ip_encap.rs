//! Prepends ICMP and IPv4 headers to packets.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> ICMPIPEncap(192.0.2.1, 198.51.100.1, timestamp) -> Discard;
//! ```
//!
//! The network header and destination annotations are set. If the type has a sequence number, it counts up from
//! 1. A packet without room before its data is dropped (`no_room`).
//!
//! Arguments:
//!
//! - `SRC`: the source address.
//! - `DST`: the destination address.
//! - `TYPE`: the message's type, a number or a name.
//! - `CODE`: its code, a number or a name. Default 0.
//!
//! Keyword arguments:
//!
//! - `IDENTIFIER`: the identifier, if the type has one. Default 0.

use super::encap::Family;
use crate::prelude::*;
use arguments::icmp::kind_and_code;

pub(super) struct ICMPIPEncap;

impl Family for ICMPIPEncap {
    const CLASS: &'static str = "ICMPIPEncap";
    const MANUAL: &'static str = manual!();

    fn kind_and_code(args: &mut Args) -> (u8, u8) {
        kind_and_code(args, true)
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    fn messages(configuration: &str) -> Vec<Vec<u8>> {
        let text = format!(
            "e :: ICMPIPEncap(1.0.0.1, 2.0.0.2, {configuration})
                -> CheckIPHeader -> CheckICMPHeader -> Strip(20) -> out :: Collect"
        );
        let mut bench = Bench::new(crate::CLASSES, &text);
        bench.push("e", &[b"data", b"data"]);
        bench.take("out")
    }

    #[test]
    fn types_and_codes_have_names_and_numbers() {
        for (configuration, begins) in [
            ("TYPE 3, CODE 1", [3, 1]),
            ("unreachable, host", [3, 1]),
            ("redirect", [5, 0]),
            ("5, 3", [5, 3]),
            ("0x5, 03", [5, 3]),
            ("013", [11, 0]),
        ] {
            let out = messages(configuration);
            assert_eq!(out[1][..2], begins);
            assert_eq!(out[1][4..], *b"\0\0\0\0data");
        }
    }

    #[test]
    fn sequence_numbers_count_up_in_types_that_have_one() {
        let out = messages("echo, IDENTIFIER 0x1234");
        assert_eq!(out[0][4..8], [0x12, 0x34, 0, 1]);
        assert_eq!(out[1][4..8], [0x12, 0x34, 0, 2]);
        for wrong in ["noise", "unreachable, noise", "256"] {
            let text = format!("Idle -> ICMPIPEncap(1.0.0.1, 2.0.0.2, {wrong}) -> Discard");
            testkit::errors(crate::CLASSES, &text);
        }
    }
}
